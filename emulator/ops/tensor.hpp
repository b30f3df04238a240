// Views of dense tensors. Owns: Shape, TensorView, element types and their sizes.
// Must never: own memory, know devices or streams. All tensors are row-major without gaps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "gen/abi.h"

namespace ascendrt::ops {

// Raises the error of this layer: a graph that cannot be computed (500002).
[[noreturn]] void fail(std::string_view op, std::string_view what);

// Dimensions of a tensor, at most kMaxRank. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);  // fails on a rank above kMaxRank

  size_t rank() const { return rank_; }
  int64_t operator[](size_t i) const { return dims_[i]; }
  int64_t& operator[](size_t i) { return dims_[i]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {begin(), rank_}; }
  void push_back(int64_t dim);

  // Products of dims; an open (negative) dim or an overflow fails, they are never wrapped.
  int64_t elements() const { return elements(0, rank_); }
  int64_t elements(size_t from, size_t to) const;
  bool is_open() const;  // some dim is not known yet
  bool operator==(const Shape& other) const;
  std::string text() const;  // "1x3x48x192", "scalar"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

size_t dtype_size(aclDataType dtype);  // bytes; 4-bit types take one; 0 = not held
const char* dtype_name(aclDataType dtype);

// Negative axes count from the end; fails when out of [-rank, rank).
size_t resolve_axis(std::string_view op, int64_t axis, size_t rank);

// Raised instead when a shape or a value is only known while the model runs.
[[noreturn]] void fail_open(std::string_view op, std::string_view what);
struct NotKnown : base::Error {};

// A tensor somewhere in host-accessible memory. Inputs are not written through it.
struct TensorView {
  void* data = nullptr;
  aclDataType dtype = ACL_FLOAT;
  Shape shape;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const { return shape.elements(); }
  size_t size_bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
};

}  // namespace ascendrt::ops
