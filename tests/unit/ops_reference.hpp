// Straightforward versions of kernels and helpers for the tests of emulator/ops.
// Must never: share code with the kernels under test.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/conv.hpp"
#include "ops/tensor.hpp"
#include "ops/tile.hpp"

namespace ascendrt::test {

// A small generator of our own, so that a seed gives the same values everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  float value() { return static_cast<float>(between(-1000, 1000)) / 500.0F; }
  std::vector<float> values(int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = value();
    return out;
  }

 private:
  uint64_t state_;
};

inline ops::TensorView view(std::vector<float>& data, ops::Shape shape) {
  return {data.data(), ACL_FLOAT, shape};
}

// Also of NaN and of signed zeros.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The instruction sets that this processor has.
inline std::vector<ops::Isa> isas() {
  std::vector<ops::Isa> out;
  for (const ops::Isa isa : ops::kAllIsas) {
    if (ops::isa_available(isa)) out.push_back(isa);
  }
  return out;
}

// max |a - b| / max |b|; infinite when the sizes differ.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0.0;
  double top = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    top = std::fmax(top, std::fabs(b[i]));
  }
  return worst / top;
}

inline std::vector<float> reference_conv(const ops::ConvShape& s, const std::vector<float>& x,
                                         const std::vector<float>& w, const float* bias) {
  const int64_t in_group = s.in_channels / s.groups;
  const int64_t out_group = s.out_channels / s.groups;
  std::vector<float> y;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t h = 0; h < s.out_h; ++h) {
        for (int64_t v = 0; v < s.out_w; ++v) {
          double sum = bias != nullptr ? bias[o] : 0.0;
          for (int64_t c = 0; c < in_group; ++c) {
            const int64_t channel = o / out_group * in_group + c;
            for (int64_t i = 0; i < s.kernel_h; ++i) {
              const int64_t row = h * s.stride_h - s.pad_top + i * s.dilation_h;
              if (row < 0 || row >= s.in_h) continue;
              for (int64_t j = 0; j < s.kernel_w; ++j) {
                const int64_t column = v * s.stride_w - s.pad_left + j * s.dilation_w;
                if (column < 0 || column >= s.in_w) continue;
                sum += static_cast<double>(
                           x[((n * s.in_channels + channel) * s.in_h + row) * s.in_w + column]) *
                       w[((o * in_group + c) * s.kernel_h + i) * s.kernel_w + j];
              }
            }
          }
          y.push_back(static_cast<float>(sum));
        }
      }
    }
  }
  return y;
}

}  // namespace ascendrt::test
