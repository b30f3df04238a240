// Element types as C++ types and the choice of code by type. Owns: reading and writing of elements
// that C++ has no type for. Private to ops.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/elementwise.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};
struct Int4 {
  int8_t bits;
};
// Floats of 8 and 4 bits: sign, kExponent bits, kMantissa bits.
template <int kExponent, int kMantissa>
struct Tiny {
  uint8_t bits;
};
using Fp8E4m3 = Tiny<4, 3>;  // no infinity, one NaN
using Fp8E5m2 = Tiny<5, 2>;
using Fp4E2m1 = Tiny<2, 1>;  // neither infinity nor NaN
struct Fp8E8m0 {             // a power of two
  uint8_t bits;
};

template <int kExponent, int kMantissa>
struct TinyTraits {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kLeast = 1 - kBias;  // exponent of the smallest normal number
  static constexpr bool kIeee = kExponent == 5;
  static constexpr uint8_t kSign = 1U << (kExponent + kMantissa);
  static constexpr uint8_t kNan = kSign - 1;       // E4M3: all ones
  static constexpr uint8_t kInfinity = 31U << 2U;  // E5M2 only
  static constexpr uint8_t kLargest = kIeee ? kInfinity - 1 : (kExponent == 4 ? kNan - 1 : kNan);
};

template <int kE, int kM>
float tiny_to_float(uint8_t bits) {
  using T = TinyTraits<kE, kM>;
  const int magnitude = bits & (T::kSign - 1);
  const float sign = (bits & T::kSign) != 0 ? -1.0F : 1.0F;
  if (T::kIeee && magnitude >= T::kInfinity) {
    return magnitude == T::kInfinity ? sign * std::numeric_limits<float>::infinity()
                                     : std::numeric_limits<float>::quiet_NaN();
  }
  if (kE == 4 && magnitude == T::kNan) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = magnitude >> kM;
  const int mantissa = magnitude & ((1 << kM) - 1);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), T::kLeast - kM);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << kM)), exponent - T::kBias - kM);
}

// Nearest, ties to even.
template <int kE, int kM>
uint8_t float_to_tiny(float value, Overflow overflow) {
  using T = TinyTraits<kE, kM>;
  const uint8_t sign = std::signbit(value) ? T::kSign : 0;
  // Without a NaN of its own the type gets the one pattern that is no result of rounding.
  if (std::isnan(value)) return kE == 2 ? T::kSign : static_cast<uint8_t>(sign | T::kNan);
  const bool saturate = overflow == Overflow::kSaturate || kE == 2;
  const uint8_t top = saturate ? T::kLargest : (T::kIeee ? T::kInfinity : T::kNan);
  const float magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | top;
  if (magnitude == 0.0F) return sign;
  const int exponent = std::max(std::ilogb(magnitude), T::kLeast);
  const float steps = std::nearbyint(std::ldexp(magnitude, kM - exponent));
  const auto bits =
      static_cast<int64_t>(steps) + (static_cast<int64_t>(exponent - T::kLeast) << kM);
  return bits > T::kLargest ? sign | top : static_cast<uint8_t>(sign | bits);
}

inline float brain_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

inline uint16_t float_to_brain(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

// Calls f with a value of the element type. Types that C++ computes with.
template <class F>
bool for_plain_number(aclDataType dtype, F&& f) {
  switch (dtype) {
    case ACL_FLOAT:
      return f(float{}), true;
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
    default:
      return false;
  }
}

template <class F>
void for_number(std::string_view op, aclDataType dtype, F&& f) {
  if (!for_plain_number(dtype, f)) fail(op, std::string("no form for ") + dtype_name(dtype));
}

// The element type only decides how many bytes are moved.
template <class F>
void for_size(std::string_view op, aclDataType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      fail(op, std::string("no form for ") + dtype_name(dtype));
  }
}

// Elements of any number type as float, and back.
inline std::vector<float> to_floats(const TensorView& x, const Exec& exec) {
  std::vector<float> out(static_cast<size_t>(x.elements()));
  cast(x, {out.data(), ACL_FLOAT, x.shape}, exec);
  return out;
}

inline std::vector<int64_t> to_ints(const TensorView& x, const Exec& exec) {
  std::vector<int64_t> out(static_cast<size_t>(x.elements()));
  cast(x, {out.data(), ACL_INT64, x.shape}, exec);
  return out;
}

inline void from_floats(const std::vector<float>& values, const TensorView& y, const Exec& exec) {
  cast({const_cast<float*>(values.data()), ACL_FLOAT, y.shape}, y, exec);
}

}  // namespace ascendrt::ops
