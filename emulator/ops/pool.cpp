// Owns: max and average pooling. Must never: read outside the input.
#include "ops/pool.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "ops/tensor.hpp"

namespace ascendrt::ops {
namespace {

int64_t out_size(const PoolShape& s, int64_t in, int64_t before, int64_t after, int64_t kernel,
                 int64_t dilation, int64_t stride) {
  const int64_t reach = dilation * (kernel - 1) + 1;
  const bool ceil = s.rounding != Rounding::kFloor;  // a last window may hang over the end
  const int64_t room = in + before + after - reach + (ceil ? stride - 1 : 0);
  if (room < 0) {
    fail("pooling", "a window of " + std::to_string(reach) + " does not fit an input of " +
                        std::to_string(in) + " with its pads");
  }
  int64_t out = room / stride + 1;
  // A window that would start behind the input and its leading pad is left out.
  if (ceil && (out - 1) * stride >= in + before) --out;
  return out;
}

PoolSpan window(int64_t out, int64_t stride, int64_t before, int64_t after, int64_t kernel,
                int64_t dilation, int64_t in) {
  const int64_t origin = out * stride - before;
  const int64_t first = origin < 0 ? (-origin + dilation - 1) / dilation : 0;
  const int64_t last = origin >= in ? 0 : std::min(kernel, (in - origin + dilation - 1) / dilation);
  const int64_t padded = (in + after - origin + dilation - 1) / dilation;
  return {origin + first * dilation, std::max<int64_t>(0, last - first), std::min(kernel, padded)};
}

// Calls f(first element, row span, column span) for every output of a plane.
template <class F>
void for_windows(const PoolShape& s, const float* x, float* y, const Exec& exec, F&& f) {
  const PoolWindows windows(s);
  parallel_for(exec, s.planes, [&](int64_t plane) {
    const float* from = x + plane * s.in_h * s.in_w;
    float* to = y + plane * s.out_h * s.out_w;
    for (const PoolSpan& rows : windows.rows) {
      const float* row = from + rows.start * s.in_w;
      for (const PoolSpan& columns : windows.columns) *to++ = f(row + columns.start, rows, columns);
    }
  });
}

}  // namespace

PoolWindows::PoolWindows(const PoolShape& s) {
  for (int64_t h = 0; h < s.out_h; ++h) {
    rows.push_back(
        window(h, s.stride_h, s.pad_top, s.pad_bottom, s.kernel_h, s.dilation_h, s.in_h));
  }
  for (int64_t w = 0; w < s.out_w; ++w) {
    columns.push_back(
        window(w, s.stride_w, s.pad_left, s.pad_right, s.kernel_w, s.dilation_w, s.in_w));
  }
}

void PoolShape::resolve() {
  constexpr int64_t kLimit = 1 << 24;
  for (const int64_t v :
       {planes, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w}) {
    if (v < 1 || v > kLimit) fail("pooling", "a size of " + std::to_string(v) + " is not usable");
  }
  for (const int64_t pad : {pad_top, pad_bottom, pad_left, pad_right}) {
    if (pad < 0 || pad > kLimit)
      fail("pooling", "a pad of " + std::to_string(pad) + " is not usable");
  }
  out_h = out_size(*this, in_h, pad_top, pad_bottom, kernel_h, dilation_h, stride_h);
  out_w = out_size(*this, in_w, pad_left, pad_right, kernel_w, dilation_w, stride_w);
}

void max_pool(const PoolShape& s, const float* x, float* y, const Exec& exec) {
  for_windows(s, x, y, exec, [&](const float* from, const PoolSpan& rows, const PoolSpan& columns) {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < rows.count; ++i, from += s.dilation_h * s.in_w) {
      for (int64_t j = 0; j < columns.count; ++j) {
        const float v = from[j * s.dilation_w];
        best = v > best || v != v ? v : best;
      }
    }
    return best;
  });
}

void average_pool(const PoolShape& s, PadsCount pads_count, const float* x, float* y,
                  const Exec& exec) {
  for_windows(s, x, y, exec, [&](const float* from, const PoolSpan& rows, const PoolSpan& columns) {
    float sum = 0.0F;
    for (int64_t i = 0; i < rows.count; ++i, from += s.dilation_h * s.in_w) {
      for (int64_t j = 0; j < columns.count; ++j) sum += from[j * s.dilation_w];
    }
    const int64_t count = pads_count == PadsCount::kYes ? rows.with_pads * columns.with_pads
                                                        : rows.count * columns.count;
    return count > 0 ? sum / static_cast<float>(count) : 0.0F;
  });
}

}  // namespace ascendrt::ops
