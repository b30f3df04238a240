// The network of an ONNX file kept in a model as it was imported, for shapes that only a run tells.
// Owns: how nodes, bodies and tensors become ops and graphs, and the way back.
// Must never: interpret an operator, trust a graph of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "model/model.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model {

// What is known of the root graph's tensors, by name; dims that are not known are -1.
using TensorDescs = std::map<std::string, TensorDesc, std::less<>>;

// Ops of such a graph bear the types and attributes of their nodes; what the graph form cannot say
// (names of tensors, domains, bodies) is in attributes that begin with _onnx.
bool is_imported(const Model& model);

// Makes the graphs of `model` those of the network. `known` fills in descriptors.
void keep_imported(const onnx::File& file, const TensorDescs& known, Model& model);

// The network again. `weights`: the constants of the model, wherever they lie now. Raises 145000
// for a graph that keep_imported cannot have made.
onnx::File imported_file(const Model& model, std::span<const uint8_t> weights);

}  // namespace ascendrt::model
