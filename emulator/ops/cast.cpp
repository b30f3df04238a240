// Owns: conversions between element types. Must never: be undefined for a value out of range.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "ops/elementwise.hpp"

namespace ascendrt::ops {
namespace {

constexpr int64_t kGrain = 16384;

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};

float brain_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

uint16_t float_to_brain(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

// The value of an element as a plain number.
template <class T>
auto read(T v) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_to_float(v.bits);
  } else if constexpr (std::is_same_v<T, Brain>) {
    return brain_to_float(v.bits);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<int32_t>(v.bits != 0);
  } else {
    return v;
  }
}

template <class To, class From>
To to_integer(From v) {
  if constexpr (std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    if (v != v) return 0;
    // The upper limit of wide types is not a float; >= on the next power of two is exact.
    if (v >= std::ldexp(From{1}, Limits::digits)) return Limits::max();
    if (v <= static_cast<From>(Limits::min())) return Limits::min();
  }
  return static_cast<To>(v);  // between integers: the low bits
}

template <class To, class From>
To write(From v) {
  if constexpr (std::is_same_v<To, Half>) {
    return {float_to_half(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {float_to_brain(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(v != 0)};
  } else if constexpr (std::is_integral_v<To>) {
    return to_integer<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class F>
bool for_type(aclDataType dtype, F&& f) {
  switch (dtype) {
    case ACL_FLOAT:
      return f(float{}), true;
    case ACL_FLOAT16:
      return f(Half{}), true;
    case ACL_BF16:
      return f(Brain{}), true;
    case ACL_DOUBLE:
      return f(double{}), true;
    case ACL_INT8:
      return f(int8_t{}), true;
    case ACL_INT16:
      return f(int16_t{}), true;
    case ACL_INT32:
      return f(int32_t{}), true;
    case ACL_INT64:
      return f(int64_t{}), true;
    case ACL_UINT8:
      return f(uint8_t{}), true;
    case ACL_UINT16:
      return f(uint16_t{}), true;
    case ACL_UINT32:
      return f(uint32_t{}), true;
    case ACL_UINT64:
      return f(uint64_t{}), true;
    case ACL_BOOL:
      return f(Bool{}), true;
    default:
      return false;
  }
}

}  // namespace

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 puts the result in the low bits, rounded
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13U));
}

bool cast_takes(aclDataType dtype) {
  return for_type(dtype, [](auto) {});
}

void cast(const TensorView& x, const TensorView& y, const Exec& exec) {
  const bool known = for_type(x.dtype, [&](auto from_type) {
    using From = decltype(from_type);
    if (!for_type(y.dtype, [&](auto to_type) {
          using To = decltype(to_type);
          const From* from = x.as<const From>();
          To* to = y.as<To>();
          parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = write<To>(read(from[i]));
          });
        })) {
      fail("cast", std::string("cannot make ") + dtype_name(y.dtype));
    }
  });
  if (!known) fail("cast", std::string("cannot read ") + dtype_name(x.dtype));
}

}  // namespace ascendrt::ops
