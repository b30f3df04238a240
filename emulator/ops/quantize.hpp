// Conversions between real numbers and integers (or small floats) with scale and zero point. Owns:
// rounding (half to even) and saturation. Must never: wrap.
#pragma once

#include <cstdint>

#include "ops/elementwise.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// Which scale belongs to an element: the tensor is [outer][dim][inner], `block` neighbours along
// dim share one. One scale for all: dim 1, block 1, inner everything.
struct ScaleMap {
  int64_t dim = 1, block = 1, inner = 1;
  bool per_element_of_inner = false;  // blocked: the scales differ along inner as well
  int64_t index(int64_t i) const {
    const int64_t place = i / inner % dim / block;
    if (!per_element_of_inner) return dim == 1 ? 0 : place;
    const int64_t blocks = (dim + block - 1) / block;
    return (i / (inner * dim) * blocks + place) * inner + i % inner;
  }
};

// y = saturate(round(x / scale) + zero); to small floats without rounding in between.
// zero may be null.
void quantize(const TensorView& x, const TensorView& scale, const TensorView* zero,
              const ScaleMap& map, const CastParams& params, const TensorView& y, const Exec& exec);
// y = (x - zero) * scale.
void dequantize(const TensorView& x, const TensorView& scale, const TensorView* zero,
                const ScaleMap& map, const TensorView& y, const Exec& exec);
// To uint8 with a scale and zero point that cover x and 0.
void quantize_dynamically(const TensorView& x, const TensorView& y, const TensorView& scale,
                          const TensorView& zero, const Exec& exec);

}  // namespace ascendrt::ops
