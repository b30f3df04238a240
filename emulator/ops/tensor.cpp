// Owns: shapes and element types. Must never: allocate.
#include "ops/tensor.hpp"

#include <algorithm>

namespace ascendrt::ops {

void fail(std::string_view op, std::string_view what) {
  base::fail(ACL_ERROR_GE_FAILURE, std::string(op) + ": " + std::string(what));
}

void fail_open(std::string_view op, std::string_view what) {
  throw NotKnown{
      {ACL_ERROR_GE_FAILURE, base::Layer::kRuntime, std::string(op) + ": " + std::string(what)}};
}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    fail("shape", "a tensor of rank " + std::to_string(dims.size()) + " is above the limit of 8");
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = dims.size();
}

void Shape::push_back(int64_t dim) {
  if (rank_ == kMaxRank) fail("shape", "rank above the limit of 8");
  dims_[rank_++] = dim;
}

int64_t Shape::elements(size_t from, size_t to) const {
  int64_t product = 1;
  for (size_t i = from; i < to; ++i) {
    if (dims_[i] < 0) fail_open("shape", "dimension " + std::to_string(i) + " is not known");
    if (__builtin_mul_overflow(product, dims_[i], &product) || product > (int64_t{1} << 48)) {
      fail("shape", "more elements than any memory holds: " + text());
    }
  }
  return product;
}

bool Shape::is_open() const {
  return std::any_of(begin(), end(), [](int64_t dim) { return dim < 0; });
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Shape::text() const {
  if (rank_ == 0) return "scalar";
  std::string out;
  for (size_t i = 0; i < rank_; ++i) {
    if (i > 0) out += 'x';
    out += std::to_string(dims_[i]);
  }
  return out;
}

size_t dtype_size(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_FLOAT4_E2M1:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

const char* dtype_name(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return "float32";
    case ACL_FLOAT16:
      return "float16";
    case ACL_BF16:
      return "bfloat16";
    case ACL_DOUBLE:
      return "float64";
    case ACL_INT8:
      return "int8";
    case ACL_INT16:
      return "int16";
    case ACL_INT32:
      return "int32";
    case ACL_INT64:
      return "int64";
    case ACL_UINT8:
      return "uint8";
    case ACL_UINT16:
      return "uint16";
    case ACL_UINT32:
      return "uint32";
    case ACL_UINT64:
      return "uint64";
    case ACL_BOOL:
      return "bool";
    default:
      return "unknown type";
  }
}

size_t resolve_axis(std::string_view op, int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    fail(op,
         "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

}  // namespace ascendrt::ops
