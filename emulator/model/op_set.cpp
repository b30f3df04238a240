// Owns: look-up in the operator table and the checked accessors of OpView.
// Must never: compute anything.
#include "model/op_set.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

const std::unordered_map<std::string_view, const OpType*>& table() {
  static const auto* map = [] {
    auto* built = new std::unordered_map<std::string_view, const OpType*>;
    for (const auto part :
         {compute_op_types(), matmul_op_types(), fused_op_types(), reduce_op_types(),
          elementwise_op_types(), movement_op_types(), index_op_types(), window_op_types(),
          quantize_op_types(), quantized_op_types(), sequence_op_types(), image_op_types(),
          misc_op_types(), control_op_types(), aipp_op_types(), random_op_types(),
          gemm_op_types()}) {
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
    ops::fail_open(op.type,
                   "input " + std::to_string(i) + " must be a constant: its values decide shapes");
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

ops::TensorView OpView::constant_view(size_t i) const {
  const Operand& operand = input(i);
  if (!operand.is_constant) {
    ops::fail_open(op.type, "input " + std::to_string(i) + " is not known before the model runs");
  }
  return {const_cast<uint8_t*>(operand.constant.data()), operand.type.dtype, operand.type.shape};
}

int64_t OpView::constant_int(size_t i) const {
  const auto values = constant_ints(i);
  if (values.size() != 1) fail("input " + std::to_string(i) + " must be one number");
  return values[0];
}

float OpView::constant_float(size_t i) const {
  const auto values = constant_floats(i);
  if (values.size() != 1) fail("input " + std::to_string(i) + " must be one number");
  return values[0];
}

std::vector<float> OpView::constant_floats(size_t i) const {
  const ops::TensorView x = constant_view(i);
  std::vector<float> out(static_cast<size_t>(x.elements()));
  ops::cast(x, {out.data(), ACL_FLOAT, x.shape}, {});
  return out;
}

bool OpView::flag(std::string_view attr, bool fallback) const {
  return op.attrs.int_or(attr, fallback ? 1 : 0) != 0;
}

std::vector<int64_t> OpView::ints(std::string_view attr) const {
  if (op.attrs.find(attr) == nullptr) {
    fail("attribute " + std::string(attr) +
         " is missing (in files of models compilers drop it from operators they merge)");
  }
  return op.attrs.ints_or(attr, {});
}

// Which matrix of an operand belongs to matrix `index` of the result.
int64_t batch_index(const ops::Shape& operand, const ops::Shape& batch, int64_t index) {
  int64_t at = 0;
  int64_t step = 1;
  for (size_t i = 0; i < batch.rank(); ++i) {
    const int64_t dim = batch[batch.rank() - 1 - i];
    const int64_t own = i < operand.rank() ? operand[operand.rank() - 1 - i] : 1;
    if (own != 1) at += index % dim * step;
    step *= own;
    index /= dim;
  }
  return at;
}

ops::Shape to_shape(std::span<const int64_t> dims) { return ops::Shape(dims); }

ops::Shape open_shape() { return {-2}; }

Dims to_dims(const ops::Shape& shape) { return {shape.begin(), shape.end()}; }

TensorType tensor_type(const TensorDesc& desc) {
  return {static_cast<aclDataType>(desc.dtype), to_shape(desc.dims)};
}

}  // namespace ascendrt::model
