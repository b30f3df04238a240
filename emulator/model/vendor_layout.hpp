// Layouts of tensors in compiled graphs: blocked ones of the matrix unit, and orders of axes.
// Owns: how elements move between the layout a descriptor names and its logical view, the order of
// its origin format. Must never: compute, or accept dims that contradict each other.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "model/convert_graph.hpp"

namespace ascendrt::model {

class Layouts {
 public:
  explicit Layouts(GraphBuilder& graph) : graph_(graph) {}

  // From the layout in memory to the logical view, and back.
  GraphValue unpack(const GraphValue& physical, const TensorDesc& desc);
  GraphValue pack(const GraphValue& logical, const TensorDesc& desc);
  // Axes from one order to another. Formats without names of axes, and tensors of another rank than
  // their format, stay as they are.
  GraphValue reorder(const GraphValue& x, int32_t from, int32_t to);
  GraphValue reshape(const GraphValue& x, const Dims& dims);

 private:
  GraphValue transpose(const GraphValue& x, const Dims& perm);
  GraphValue cut(const GraphValue& x, const Dims& dims);
  GraphValue fill(const GraphValue& x, const Dims& dims);

  GraphBuilder& graph_;
  // Reordered values by "ref>format", both ways: a turn and its return cost nothing.
  std::unordered_map<std::string, GraphValue> turned_;
};

}  // namespace ascendrt::model
