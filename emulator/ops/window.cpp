// Owns: windows of any number of dims. Must never: read outside the input.
#include "ops/window.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/element.hpp"
#include "ops/matmul.hpp"

namespace ascendrt::ops {
namespace {

// Splits a flat position into indices of dims.
void unflatten(int64_t index, const WindowShape::Dims& dims, size_t count, WindowShape::Dims& out) {
  for (size_t i = count; i-- > 0;) {
    out[i] = index % dims[i];
    index /= dims[i];
  }
}

// Calls f(tap, flat input position, or -1 in the pads) for the taps of one window. `beyond` tells
// taps that lie even behind the pads.
template <class F>
void for_taps(const WindowShape& s, const WindowShape::Dims& out, F&& f) {
  const int64_t taps = s.taps();
  for (int64_t tap = 0; tap < taps; ++tap) {
    WindowShape::Dims k;
    unflatten(tap, s.kernel, s.dims, k);
    int64_t flat = 0;
    bool inside = true;
    bool beyond = false;
    for (size_t i = 0; i < s.dims; ++i) {
      const int64_t at = s.at(i, out[i], k[i]);
      inside = inside && at >= 0 && at < s.in[i];
      beyond = beyond || at >= s.in[i] + s.pad_after[i];
      flat = flat * s.in[i] + at;
    }
    f(tap, inside ? flat : -1, beyond);
  }
}

int64_t column_major(const WindowShape& s, int64_t flat) {
  WindowShape::Dims at;
  unflatten(flat, s.in, s.dims, at);
  int64_t index = 0;
  for (size_t i = s.dims; i-- > 0;) index = index * s.in[i] + at[i];
  return index;
}

struct Pooled {
  float value;
  int64_t at;  // of the largest element, in its plane
};

Pooled pool_one(const WindowShape& s, const PoolParams& p, const float* plane,
                const WindowShape::Dims& out) {
  float best = -std::numeric_limits<float>::infinity();
  int64_t where = -1;
  double sum = 0.0;
  int64_t count = 0;
  for_taps(s, out, [&](int64_t, int64_t at, bool beyond) {
    if (at < 0) {
      count += p.count_pads && !beyond ? 1 : 0;
      return;
    }
    const float v = plane[at];
    if (where < 0 || v > best) {
      best = v;
      where = at;
    }
    ++count;
    sum += p.kind == PoolKind::kLp ? std::pow(std::fabs(static_cast<double>(v)), p.p) : v;
  });
  if (p.kind == PoolKind::kMax) return {best, where};
  if (p.kind == PoolKind::kAverage) {
    return {static_cast<float>(sum / static_cast<double>(std::max<int64_t>(count, 1))), 0};
  }
  return {static_cast<float>(std::pow(sum, 1.0 / static_cast<double>(p.p))), 0};
}

// The elements under the taps of all windows of one group: [channels * taps][out].
void to_columns(const WindowShape& s, const float* x, int64_t channels, float* columns,
                const Exec& exec) {
  const int64_t taps = s.taps();
  const int64_t outs = s.out_size();
  parallel_for(exec, channels, [&](int64_t c) {
    const float* plane = x + c * s.in_size();
    for (int64_t o = 0; o < outs; ++o) {
      WindowShape::Dims out;
      unflatten(o, s.out, s.dims, out);
      for_taps(s, out, [&](int64_t tap, int64_t at, bool) {
        columns[(c * taps + tap) * outs + o] = at < 0 ? 0.0F : plane[at];
      });
    }
  });
}

// Taps downward and windows upward: every element is given its addends in the order of the windows.
void add_columns(const WindowShape& s, const float* columns, int64_t channels, float* y,
                 const Exec& exec) {
  const int64_t taps = s.taps();
  const int64_t outs = s.out_size();
  const size_t last = s.dims - 1;
  const int64_t width = s.out[last];
  if (outs == 0) return;
  const auto add_row = [&](const WindowShape::Dims& k, int64_t row, const float* from,
                           float* plane) {
    WindowShape::Dims out;
    unflatten(row, s.out, last, out);
    int64_t base = 0;
    for (size_t i = 0; i < last; ++i) {
      const int64_t at = s.at(i, out[i], k[i]);
      if (at < 0 || at >= s.in[i]) return;
      base = base * s.in[i] + at;
    }
    plane += base * s.in[last];
    const int64_t start = s.at(last, 0, k[last]);
    const int64_t step = s.stride[last];
    int64_t o = start < 0 ? (step - 1 - start) / step : 0;
    for (; o < width && start + o * step < s.in[last]; ++o) plane[start + o * step] += from[o];
  };
  parallel_for(exec, channels, [&](int64_t c) {
    for (int64_t tap = taps - 1; tap >= 0; --tap) {
      WindowShape::Dims k;
      unflatten(tap, s.kernel, s.dims, k);
      const float* from = columns + (c * taps + tap) * outs;
      for (int64_t row = 0; row < outs / width; ++row) {
        add_row(k, row, from + row * width, y + c * s.in_size());
      }
    }
  });
}

// y[outputs][out] of one group from its columns.
void multiply_columns(const WindowShape& s, int64_t depth, const std::vector<float>& columns,
                      const float* w, const float* bias, int64_t outputs, float* y,
                      const Exec& exec) {
  const int64_t outs = s.out_size();
  const PackedMatrix right(columns.data(), depth, outs, Transposed::kNo);
  right.multiply(w, outputs, nullptr, y, exec);
  if (bias == nullptr) return;
  for (int64_t i = 0; i < outputs * outs; ++i) y[i] += bias[i / outs];
}

}  // namespace

int64_t WindowShape::product(const Dims& values) const {
  int64_t total = 1;
  for (size_t i = 0; i < dims; ++i) total *= values[i];
  return total;
}

void WindowShape::resolve(bool ceil) {
  if (dims == 0 || dims > kMaxDims) fail("window", "a tensor without spatial dims");
  for (size_t i = 0; i < dims; ++i) {
    constexpr int64_t kLimit = int64_t{1} << 24;
    const auto sane = [](int64_t v, int64_t least) { return v >= least && v <= kLimit; };
    if (!sane(in[i], 1) || !sane(kernel[i], 1) || !sane(stride[i], 1) || !sane(dilation[i], 1) ||
        !sane(pad_before[i], 0) || !sane(pad_after[i], 0)) {
      fail("window", "a size, stride, dilation or pad out of range");
    }
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    const int64_t over = ceil ? stride[i] - 1 : 0;  // a last window may hang over the end
    const int64_t room = in[i] + pad_before[i] + pad_after[i] - reach + over;
    if (room < 0) fail("window", "a kernel larger than the padded input");
    out[i] = room / stride[i] + 1;
    if (ceil && (out[i] - 1) * stride[i] >= in[i] + pad_before[i]) --out[i];
  }
}

void pool_windows(const WindowShape& s, const PoolParams& p, const TensorView& x,
                  const TensorView& y, int64_t* indices, const Exec& exec) {
  const std::vector<float> from = to_floats(x, exec);
  std::vector<float> to(static_cast<size_t>(y.elements()));
  const int64_t outs = s.out_size();
  parallel_for(exec, s.batch * s.channels, [&](int64_t plane) {
    for (int64_t o = 0; o < outs; ++o) {
      WindowShape::Dims out;
      unflatten(o, s.out, s.dims, out);
      const Pooled pooled = pool_one(s, p, from.data() + plane * s.in_size(), out);
      to[static_cast<size_t>(plane * outs + o)] = pooled.value;
      if (indices == nullptr) continue;
      const int64_t at = p.column_major ? column_major(s, pooled.at) : pooled.at;
      indices[plane * outs + o] = plane * s.in_size() + at;
    }
  });
  from_floats(to, y, exec);
}

void convolve_windows(const WindowShape& s, int64_t outputs, const float* x, const float* w,
                      const float* bias, float* y, const Exec& exec) {
  const int64_t channels = s.channels / s.groups;
  const int64_t share = outputs / s.groups;
  const int64_t depth = channels * s.taps();
  std::vector<float> columns(static_cast<size_t>(depth * s.out_size()));
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const int64_t group = i % s.groups;
    to_columns(s, x + i * channels * s.in_size(), channels, columns.data(), exec);
    multiply_columns(s, depth, columns, w + group * share * depth,
                     bias == nullptr ? nullptr : bias + group * share, share,
                     y + i * share * s.out_size(), exec);
  }
}

void convolve_transposed(const WindowShape& s, int64_t outputs, const float* x, const float* w,
                         const float* bias, float* y, const Exec& exec) {
  const int64_t channels = s.channels / s.groups;
  const int64_t share = outputs / s.groups;
  const int64_t rows = share * s.taps();
  const int64_t positions = s.out_size();
  const int64_t size = s.in_size();
  std::vector<float> turned(static_cast<size_t>(rows * channels));
  std::vector<float> columns(static_cast<size_t>(rows * positions));
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const int64_t group = i % s.groups;
    transpose_matrix(w + group * channels * rows, channels, rows, turned.data());
    const PackedMatrix right(x + i * channels * positions, channels, positions, Transposed::kNo);
    right.multiply(turned.data(), rows, nullptr, columns.data(), exec);
    float* to = y + i * share * size;
    for (int64_t k = 0; k < share; ++k) {
      std::fill_n(to + k * size, size, bias == nullptr ? 0.0F : bias[group * share + k]);
    }
    add_columns(s, columns.data(), share, to, exec);
  }
}

namespace {

// Bilinear; positions outside count as 0.
float sample(const float* plane, int64_t height, int64_t width, float y, float x) {
  if (!(y > -1.0F && x > -1.0F && y < static_cast<float>(height) && x < static_cast<float>(width)))
    return 0.0F;
  const auto top = static_cast<int64_t>(std::floor(y));
  const auto left = static_cast<int64_t>(std::floor(x));
  const float dy = y - static_cast<float>(top);
  const float dx = x - static_cast<float>(left);
  const auto at = [&](int64_t row, int64_t column) {
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? plane[row * width + column] : 0.0F;
  };
  return (1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
         dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1));
}

}  // namespace

void convolve_deformed(const WindowShape& s, int64_t outputs, int64_t offset_groups, const float* x,
                       const float* w, const float* offset, const float* mask, const float* bias,
                       float* y, const Exec& exec) {
  const int64_t channels = s.channels / s.groups;
  const int64_t share = outputs / s.groups;
  const int64_t taps = s.taps();
  const int64_t outs = s.out_size();
  const int64_t depth = channels * taps;
  const int64_t per_offset = s.channels / offset_groups;
  std::vector<float> columns(static_cast<size_t>(depth * outs));
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    const int64_t group = i % s.groups;
    const int64_t image = i / s.groups;
    parallel_for(exec, channels, [&](int64_t c) {
      const float* plane = x + (i * channels + c) * s.in_size();
      const int64_t owner = image * offset_groups + (group * channels + c) / per_offset;
      for (int64_t k = 0; k < taps * outs; ++k) {
        const int64_t tap = k / outs;
        const int64_t o = k % outs;
        const float dy = offset[((owner * taps + tap) * 2) * outs + o];
        const float dx = offset[((owner * taps + tap) * 2 + 1) * outs + o];
        const auto row = static_cast<float>(s.at(0, o / s.out[1], tap / s.kernel[1]));
        const auto column = static_cast<float>(s.at(1, o % s.out[1], tap % s.kernel[1]));
        const float weight = mask == nullptr ? 1.0F : mask[(owner * taps + tap) * outs + o];
        columns[static_cast<size_t>(c * taps * outs + k)] =
            weight * sample(plane, s.in[0], s.in[1], row + dy, column + dx);
      }
    });
    multiply_columns(s, depth, columns, w + group * share * depth,
                     bias == nullptr ? nullptr : bias + group * share, share, y + i * share * outs,
                     exec);
  }
}

void convolve_integers(const WindowShape& s, int64_t outputs, const TensorView& x,
                       const TensorView& w, const TensorView* x_zero, const TensorView* w_zero,
                       int32_t* y, const Exec& exec) {
  const auto from = to_ints(x, exec);
  const auto weights = to_ints(w, exec);
  const auto shift = x_zero == nullptr ? std::vector<int64_t>{0} : to_ints(*x_zero, exec);
  const auto zeros = w_zero == nullptr ? std::vector<int64_t>{0} : to_ints(*w_zero, exec);
  const int64_t channels = s.channels / s.groups;
  const int64_t share = outputs / s.groups;
  const int64_t taps = s.taps();
  const int64_t outs = s.out_size();
  parallel_for(exec, s.batch * outputs, [&](int64_t i) {
    const int64_t output = i % outputs;
    const int64_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(output)];
    const int64_t first = (i / outputs * s.channels + output / share * channels) * s.in_size();
    for (int64_t o = 0; o < outs; ++o) {
      WindowShape::Dims out;
      unflatten(o, s.out, s.dims, out);
      int64_t sum = 0;
      for_taps(s, out, [&](int64_t tap, int64_t at, bool) {
        for (int64_t c = 0; at >= 0 && c < channels; ++c) {
          const int64_t v = from[static_cast<size_t>(first + c * s.in_size() + at)] - shift[0];
          sum += v * (weights[static_cast<size_t>((output * channels + c) * taps + tap)] - zero);
        }
      });
      y[i * outs + o] = static_cast<int32_t>(sum);
    }
  });
}

void columns_to_image(const WindowShape& s, const float* columns, float* y, const Exec& exec) {
  std::fill_n(y, s.batch * s.channels * s.in_size(), 0.0F);
  for (int64_t i = 0; i < s.batch; ++i) {
    add_columns(s, columns + i * s.channels * s.taps() * s.out_size(), s.channels,
                y + i * s.channels * s.in_size(), exec);
  }
}

}  // namespace ascendrt::ops
