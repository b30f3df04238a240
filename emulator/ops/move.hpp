// Operations that move elements without computing: any type with a whole-byte size.
// Owns: transpose, concat, pad, slice, gather, tile, fill. Must never: look at values but indices.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// perm[i] = the axis of x that becomes axis i of y. Fails when perm is no permutation.
Shape transpose_shape(const Shape& x, std::span<const int64_t> perm);
void transpose(const TensorView& x, std::span<const int64_t> perm, const TensorView& y,
               const Exec& exec);

// Operands agree in all dims but `axis`.
void concat(std::span<const TensorView> xs, size_t axis, const TensorView& y, const Exec& exec);

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };
// before[i] elements are put in front of axis i (negative cuts); y's shape tells the rest.
// value: one element of x's type.
void pad(PadMode mode, const TensorView& x, std::span<const int64_t> before, const void* value,
         const TensorView& y, const Exec& exec);

// One axis of a slice after all defaults and negative indices are resolved.
struct SliceAxis {
  int64_t start;
  int64_t step;   // not 0
  int64_t count;  // elements taken
};
// The ONNX rule: negative indices count from the end, out-of-range ones are clamped.
SliceAxis resolve_slice(int64_t dim, int64_t start, int64_t end, int64_t step);
void slice(const TensorView& x, std::span<const SliceAxis> axes, const TensorView& y,
           const Exec& exec);  // axes: one per axis of x

// y = x with axis replaced by the shape of the indices (int32 or int64). Fails on an index outside
// [-dim, dim).
void gather(const TensorView& x, const TensorView& indices, size_t axis, const TensorView& y,
            const Exec& exec);

// x broadcast to y (also the "expand" of one value); tile repeats x along every axis.
void expand(const TensorView& x, const TensorView& y, const Exec& exec);
void tile(const TensorView& x, const TensorView& y, const Exec& exec);

}  // namespace ascendrt::ops
