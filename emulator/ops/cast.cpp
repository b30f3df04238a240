// Owns: conversions between element types. Must never: be undefined for a value out of range.
#include "ops/element.hpp"
#include "ops/vector.hpp"

namespace ascendrt::ops {
namespace {

constexpr int64_t kGrain = 16384;

template <class T>
constexpr bool kIsTiny = false;
template <int kE, int kM>
constexpr bool kIsTiny<Tiny<kE, kM>> = true;

template <int kE, int kM>
float to_float(Tiny<kE, kM> v) {
  return tiny_to_float<kE, kM>(v.bits);
}

template <int kE, int kM>
void set(Tiny<kE, kM>& to, float v, Overflow overflow) {
  to.bits = float_to_tiny<kE, kM>(v, overflow);
}

uint8_t float_to_power(float v, CastRounding rounding, Overflow overflow) {
  if (std::isnan(v) || v < 0.0F) return 255;
  if (std::isinf(v)) return overflow == Overflow::kSaturate ? 254 : 255;
  if (v == 0.0F) return 0;
  int exponent = std::ilogb(v);
  const float fraction = std::ldexp(v, -exponent);  // in [1, 2)
  const bool up = rounding == CastRounding::kUp
                      ? fraction > 1.0F
                      : rounding == CastRounding::kNearest && fraction >= 1.5F;
  exponent += up ? 1 : 0;
  if (exponent > 127) return overflow == Overflow::kSaturate ? 254 : 255;
  return static_cast<uint8_t>(std::max(exponent + 127, 0));
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
  } else if constexpr (std::is_same_v<T, Int4>) {
    return ((v.bits & 15) ^ 8) - 8;  // the upper half of the byte does not count
  } else if constexpr (std::is_same_v<T, Fp8E8m0>) {
    return v.bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, v.bits - 127);
  } else if constexpr (kIsTiny<T>) {
    return to_float(v);
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
To write(From v, const CastParams& params) {
  if constexpr (std::is_same_v<To, Half>) {
    return {float_to_half(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {float_to_brain(static_cast<float>(v))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(v != 0)};
  } else if constexpr (std::is_same_v<To, Int4>) {
    const auto low = static_cast<int8_t>(to_integer<int64_t>(v) & 15);
    return {static_cast<int8_t>(low > 7 ? low - 16 : low)};
  } else if constexpr (std::is_same_v<To, Fp8E8m0>) {
    return {float_to_power(static_cast<float>(v), params.rounding, params.overflow)};
  } else if constexpr (kIsTiny<To>) {
    To to;
    set(to, static_cast<float>(v), params.overflow);
    return to;
  } else if constexpr (std::is_integral_v<To>) {
    return to_integer<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class F>
bool for_type(aclDataType dtype, F&& f) {
  if (for_plain_number(dtype, f)) return true;
  switch (dtype) {
    case ACL_FLOAT16:
      return f(Half{}), true;
    case ACL_BF16:
      return f(Brain{}), true;
    case ACL_BOOL:
      return f(Bool{}), true;
    case ACL_INT4:
      return f(Int4{}), true;
    case ACL_FLOAT8_E4M3FN:
      return f(Fp8E4m3{}), true;
    case ACL_FLOAT8_E5M2:
      return f(Fp8E5m2{}), true;
    case ACL_FLOAT8_E8M0:
      return f(Fp8E8m0{}), true;
    case ACL_FLOAT4_E2M1:
      return f(Fp4E2m1{}), true;
    default:
      return false;
  }
}

// Between floats and halves there are kernels. False: other types.
bool cast_halves(const TensorView& x, const TensorView& y, const Exec& exec) {
  const VectorKernels& kernels = vector_kernels();
  const bool widens = y.dtype == ACL_FLOAT;
  const aclDataType half = widens ? x.dtype : y.dtype;
  if ((half != ACL_FLOAT16 && half != ACL_BF16) || (!widens && x.dtype != ACL_FLOAT)) return false;
  const bool brain = half == ACL_BF16;
  parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
    if (widens) {
      const auto convert = brain ? kernels.from_brain : kernels.from_half;
      convert(x.as<const uint16_t>() + begin, y.as<float>() + begin, end - begin);
    } else {
      const auto convert = brain ? kernels.to_brain : kernels.to_half;
      convert(x.as<const float>() + begin, y.as<uint16_t>() + begin, end - begin);
    }
  });
  return true;
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
  if (magnitude > 0x7F800000U) {
    return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13U) & 0x3FFU));
  }
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

void cast(const TensorView& x, const TensorView& y, const Exec& exec, const CastParams& params) {
  if (cast_halves(x, y, exec)) return;
  const bool known = for_type(x.dtype, [&](auto from_type) {
    using From = decltype(from_type);
    if (!for_type(y.dtype, [&](auto to_type) {
          using To = decltype(to_type);
          const From* from = x.as<const From>();
          To* to = y.as<To>();
          parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = write<To>(read(from[i]), params);
          });
        })) {
      fail("cast", std::string("cannot make ") + dtype_name(y.dtype));
    }
  });
  if (!known) fail("cast", std::string("cannot read ") + dtype_name(x.dtype));
}

}  // namespace ascendrt::ops
