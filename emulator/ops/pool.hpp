// Pooling over NCHW float planes. Owns: PoolShape and the window rules.
// Must never: read outside the input; pads are not elements.
#pragma once

#include <cstdint>
#include <vector>

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

// Positions of a window along one axis that lie inside the input.
struct PoolSpan {
  int64_t start;      // input index of the first one
  int64_t count;      // how many
  int64_t with_pads;  // positions inside input and pads
};

// The windows along both axes; they are the same for every plane.
struct PoolWindows {
  explicit PoolWindows(const PoolShape& shape);
  std::vector<PoolSpan> rows, columns;
};

void max_pool(const PoolShape& shape, const float* x, float* y, const Exec& exec);
void average_pool(const PoolShape& shape, PadsCount pads_count, const float* x, float* y,
                  const Exec& exec);

}  // namespace ascendrt::ops
