// Owns: look-up in the operator table and the checked accessors of OpView.
// Must never: compute anything.
#include "model/op_set.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace ascendrt::model {
namespace {

const std::unordered_map<std::string_view, const OpType*>& table() {
  static const auto* map = [] {
    auto* built = new std::unordered_map<std::string_view, const OpType*>;
    for (const auto part :
         {compute_op_types(), reduce_op_types(), elementwise_op_types(), movement_op_types()}) {
      for (const OpType& type : part) built->emplace(type.name, &type);
    }
    return built;
  }();
  return *map;
}

}  // namespace

const OpType* find_op_type(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string_view> op_type_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, type] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void OpView::fail(std::string_view what) const { ops::fail(op.type, what); }

const Operand& OpView::input(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs[i];
}

void OpView::want_float(size_t i) const {
  if (dtype(i) != ACL_FLOAT) {
    fail("input " + std::to_string(i) + " is " + ops::dtype_name(dtype(i)) +
         ", only float32 is computed");
  }
}

void OpView::want_rank(size_t i, size_t rank) const {
  if (shape(i).rank() != rank) {
    fail("input " + std::to_string(i) + " has shape " + shape(i).text() + ", rank " +
         std::to_string(rank) + " is needed");
  }
}

void OpView::want_count(size_t least, size_t most) const {
  if (inputs.size() > most) fail("has " + std::to_string(inputs.size()) + " inputs, too many");
  for (size_t i = 0; i < least; ++i) static_cast<void>(input(i));
}

std::vector<int64_t> OpView::constant_ints(size_t i) const {
  const Operand& operand = input(i);
  if (!operand.is_constant) {
    fail("input " + std::to_string(i) + " must be a constant: its values decide shapes");
  }
  if (operand.type.shape.rank() > 1) fail("input " + std::to_string(i) + " must be a list");
  std::vector<int64_t> out(static_cast<size_t>(operand.type.shape.elements()));
  if (operand.type.dtype == ACL_INT64) {
    if (!out.empty()) std::memcpy(out.data(), operand.constant.data(), out.size() * 8);
    return out;
  }
  if (operand.type.dtype != ACL_INT32) {
    fail("input " + std::to_string(i) + " must hold int32 or int64");
  }
  for (size_t k = 0; k < out.size(); ++k) {
    int32_t value = 0;
    std::memcpy(&value, operand.constant.data() + k * 4, 4);
    out[k] = value;
  }
  return out;
}

std::vector<int64_t> OpView::ints(std::string_view attr) const {
  const auto* values = op.attrs.get_ints(attr);
  if (values == nullptr) {
    fail("attribute " + std::string(attr) +
         " is not in the file (compilers drop it from operators they merge)");
  }
  return *values;
}

ops::Shape to_shape(std::span<const int64_t> dims) { return ops::Shape(dims); }

Dims to_dims(const ops::Shape& shape) { return {shape.begin(), shape.end()}; }

TensorType tensor_type(const TensorDesc& desc) {
  return {static_cast<aclDataType>(desc.dtype), to_shape(desc.dims)};
}

}  // namespace ascendrt::model
