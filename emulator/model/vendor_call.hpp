// One op of a compiled graph while it is made plain: its operands in logical form, and the rules.
// Owns: VendorCall and the tables of rules. Must never: see more than one op.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/vendor.hpp"
#include "model/vendor_layout.hpp"

namespace ascendrt::model {

struct VendorCall {
  const Op& op;
  const Model& model;
  const VendorOptions& options;
  GraphBuilder& graph;
  Layouts& layouts;
  std::vector<std::optional<GraphValue>> inputs;  // data inputs, by the descriptors' origin
  std::vector<std::string>& inferred;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  const GraphValue& in(size_t i) const;  // fails when it is not connected
  const TensorDesc& in_desc(size_t i) const;
  const TensorDesc& out_desc() const;
  [[noreturn]] void fail(const std::string& what) const;
  // Something that the file does not say; refused in strict mode.
  void infer(const std::string& what) const;

  // Operand i, or the result, with axes in the order N, C, H, W.
  GraphValue nchw(size_t i) const;
  GraphValue from_nchw(const GraphValue& y) const;
  // A list attribute of four numbers in the order of `data_format`, as N, C, H, W.
  Dims four(std::string_view attr) const;
  // One value per channel of operand 0, ready to be broadcast to it.
  GraphValue per_channel(size_t i) const;
  // Operand i for an op whose result has another float type than its operands: as that type.
  GraphValue as_result(const GraphValue& x) const;
  GraphValue cast(const GraphValue& x, int32_t dtype, const std::string& suffix) const;
  GraphValue make(const std::string& type, GraphBuilder::Inputs operands, AttrMap attrs = {}) const;
};

struct VendorRule {
  std::string_view type;
  std::vector<GraphValue> (*make)(const VendorCall& call);
};

// Null when the op is taken as it is.
const VendorRule* find_vendor_rule(std::string_view type);
std::span<const VendorRule> vendor_window_rules();
std::span<const VendorRule> vendor_list_rules();

// An op that the compiler merged out of several: its kernel is named te_fused_op_*.
bool is_merged(const Op& op);
std::vector<GraphValue> make_merged(const VendorCall& call);

// A convolution with what is known of it; makes it plain. `x` and `filter` are numbers of operands.
GraphValue make_convolution(const VendorCall& call, size_t x, size_t filter,
                            std::optional<size_t> bias);
GraphValue make_transposed(const VendorCall& call, size_t x, size_t filter,
                           std::optional<size_t> bias);

}  // namespace ascendrt::model
