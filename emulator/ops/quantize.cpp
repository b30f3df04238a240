// Owns: the arithmetic of quantisation. Must never: wrap.
#include "ops/quantize.hpp"

#include <algorithm>
#include <utility>

#include "ops/byte_tile.hpp"
#include "ops/element.hpp"

namespace ascendrt::ops {
namespace {

// One scale for all, float32 to bytes: the form of quantised networks, with vectors.
bool quantize_bytes(const TensorView& x, const TensorView& scale, const TensorView* zero,
                    const TensorView& y, const Exec& exec) {
  const bool is_signed = y.dtype == ACL_INT8;
  if (x.dtype != ACL_FLOAT || scale.dtype != ACL_FLOAT || scale.elements() != 1 ||
      (!is_signed && y.dtype != ACL_UINT8) || (zero != nullptr && zero->dtype != y.dtype)) {
    return false;
  }
  const float step = *scale.as<const float>();
  if (!(step > 0.0F)) return false;
  int32_t shift = 0;
  if (zero != nullptr) {
    shift = is_signed ? int32_t{*zero->as<const int8_t>()} : int32_t{*zero->as<const uint8_t>()};
  }
  const auto low = static_cast<float>((is_signed ? -128 : 0) - shift);
  const auto* from = x.as<const float>();
  auto* to = y.as<uint8_t>();
  parallel_ranges(exec, x.elements(), 8192, [&](int64_t begin, int64_t end) {
    byte_kernels().quantize(from + begin, step, low, low + 255.0F, shift, to + begin, end - begin);
  });
  return true;
}

struct Limits {
  float low, high;
};

// Integers saturate here; small floats in the cast.
Limits limits_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT4:
      return {-8, 7};
    case ACL_INT8:
      return {-128, 127};
    case ACL_UINT8:
      return {0, 255};
    case ACL_INT16:
      return {-32768, 32767};
    case ACL_UINT16:
      return {0, 65535};
    default:
      return {0, 0};
  }
}

std::vector<float> zeros_of(const TensorView* zero, const Exec& exec) {
  return zero == nullptr ? std::vector<float>{} : to_floats(*zero, exec);
}

float zero_at(const std::vector<float>& zeros, int64_t i) {
  if (zeros.empty()) return 0.0F;
  return zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(i)];
}

// Lanes of their own, so that the compiler uses vectors.
std::pair<float, float> range_with_zero(const float* x, int64_t count) {
  constexpr int64_t kWide = 16;
  float low[kWide] = {};
  float high[kWide] = {};
  for (int64_t i = 0; i < count; i += kWide) {
    const int64_t lanes = std::min(kWide, count - i);
    for (int64_t k = 0; k < (lanes == kWide ? kWide : lanes); ++k) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  }
  return {*std::min_element(low, low + kWide), *std::max_element(high, high + kWide)};
}

}  // namespace

void quantize(const TensorView& x, const TensorView& scale, const TensorView* zero,
              const ScaleMap& map, const CastParams& params, const TensorView& y,
              const Exec& exec) {
  if (quantize_bytes(x, scale, zero, y, exec)) return;
  std::vector<float> values = to_floats(x, exec);
  const auto scales = to_floats(scale, exec);
  const auto zeros = zeros_of(zero, exec);
  const Limits limits = limits_of(y.dtype);
  const bool integer = limits.high > 0;
  parallel_ranges(exec, x.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t which = map.index(i);
      const float shift = zero_at(zeros, which);
      float& v = values[static_cast<size_t>(i)];
      v = v / scales[static_cast<size_t>(which)];
      v = integer ? std::clamp(std::nearbyint(v) + shift, limits.low, limits.high) : v + shift;
    }
  });
  cast({values.data(), ACL_FLOAT, x.shape}, y, exec, params);
}

void dequantize(const TensorView& x, const TensorView& scale, const TensorView* zero,
                const ScaleMap& map, const TensorView& y, const Exec& exec) {
  std::vector<float> values = to_floats(x, exec);
  const auto scales = to_floats(scale, exec);
  const auto zeros = zeros_of(zero, exec);
  parallel_ranges(exec, x.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t which = map.index(i);
      float& v = values[static_cast<size_t>(i)];
      v = (v - zero_at(zeros, which)) * scales[static_cast<size_t>(which)];
    }
  });
  from_floats(values, y, exec);
}

void quantize_dynamically(const TensorView& x, const TensorView& y, const TensorView& scale,
                          const TensorView& zero, const Exec& exec) {
  const auto [low, high] = range_with_zero(x.as<const float>(), x.elements());
  const float step = high > low ? (high - low) / 255.0F : 1.0F;
  *scale.as<float>() = step;
  *zero.as<uint8_t>() = static_cast<uint8_t>(std::clamp(std::nearbyint(-low / step), 0.0F, 255.0F));
  quantize(x, scale, &zero, {1, 1, std::max<int64_t>(x.elements(), 1), false}, {}, y, exec);
}

}  // namespace ascendrt::ops
