// Operators merged into fewer, faster ones when a model is converted: decomposed layer norms,
// attention, and what follows a matrix product. Owns: the patterns and the names of merged types.
// Must never: change a result. In float32 a merged graph gives the bits of the graph before. In
// half precision a bias, a layer norm, attention and element-wise operators behind each other are
// one operator, which rounds once, at its end; what follows a product is rounded step by step.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/model.hpp"

namespace ascendrt::model {

// FusedMatMul(a, b, bias, tensors beside the product ...): the steps behind the product, in order.
// Operands are numbers of earlier steps, kChainProduct, or kFirstChainBeside - i for tensor i
// beside the product.
inline constexpr std::string_view kFusedMatMul = "FusedMatMul";
// FusedElementwise(x, tensors beside it ...): the same steps with x in the product's place. What is
// beside x has its shape or one value.
inline constexpr std::string_view kFusedElementwise = "FusedElementwise";
inline constexpr std::string_view kChainTypes = "chain_types";        // element-wise op types
inline constexpr std::string_view kChainOperands = "chain_operands";  // two per step
inline constexpr std::string_view kChainParams = "chain_params";      // two per step
inline constexpr int64_t kChainProduct = -1;
inline constexpr int64_t kFirstChainBeside = -2;

// The vendor's fused attention, with additive masks as pse_shift.
inline constexpr std::string_view kFusedAttention = "PromptFlashAttention";
inline constexpr std::string_view kScaleDivides = "scale_divides";  // bool: divided by scale_value

// Where an op was made of several, their names: what profiles and dumps refer to.
inline constexpr std::string_view kOriginalNames = "_datadump_original_op_names";

// For a graph whose ops have descriptors and whose constants are in their attributes (before
// complete()). Ops of unknown shape stay as they are.
void fuse(Graph& graph);

// Quantised networks: operators between DequantizeLinear and QuantizeLinear become one that works
// on the integers, if `merges`. Results are at most one quantum of their scale away from those of
// the graph before, since sums are exact here. Takes the marks of dequantised constants away.
void fuse_quantized(Graph& graph, bool merges);

}  // namespace ascendrt::model
