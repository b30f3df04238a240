// Pooling over NCHW float planes. Owns: PoolShape and the window rules.
// Must never: read outside the input; pads are not elements.
#pragma once

#include <cstdint>

#include "ops/parallel.hpp"

namespace ascendrt::ops {

enum class Rounding : uint8_t { kFloor, kCeil };
// Whether pads count in the divisor of an average.
enum class PadsCount : uint8_t { kNo, kYes };

struct PoolShape {
  int64_t planes = 1;  // batch * channels
  int64_t in_h = 0, in_w = 0;
  int64_t out_h = 0, out_w = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  Rounding rounding = Rounding::kFloor;

  void resolve();  // fills out_h and out_w; fails on numbers that make no pooling
};

void max_pool(const PoolShape& shape, const float* x, float* y, const Exec& exec);
void average_pool(const PoolShape& shape, PadsCount pads_count, const float* x, float* y,
                  const Exec& exec);

}  // namespace ascendrt::ops
