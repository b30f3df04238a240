// Entries: element sizes and half precision conversion. Pure functions of their arguments.
#include <bit>
#include <cmath>

#include "abi/model_objects.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

constexpr uint32_t kLargestHalf = 0x7BFF;  // 65504

// Rounds to nearest even. Saturates: infinity, NaN and what rounds above 65504 give the largest
// half.
uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  constexpr uint32_t kMinNormal = 0x38800000;  // 2^-14 as float bits
  uint32_t half = 0;
  if (magnitude >= kMinNormal) {
    // Rebias the exponent (127 -> 15) and drop 13 bits of the mantissa; the carry of the rounding
    // may step into the exponent, which is right.
    const uint32_t rebased = magnitude - (112U << 23);
    half = (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13;
    if (half > kLargestHalf) half = kLargestHalf;
  } else {
    // Subnormal: a multiple of 2^-24. The scaled value is exact in double; nearbyint rounds to
    // even.
    const double scaled = static_cast<double>(std::bit_cast<float>(magnitude)) * 0x1p24;
    half = static_cast<uint32_t>(std::nearbyint(scaled));
  }
  return static_cast<uint16_t>(sign | half);
}

// Exponent 31 is an ordinary exponent: no infinity and no NaN comes out.
float float_from_half(uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int mantissa = half & 0x3FF;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

size_t acl_type_size(aclDataType dtype) {
  switch (dtype) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
      return 0;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_COMPLEX128:
      return 16;
    default:  // the 64 bit types, and whatever the acl layer does not know
      return 8;
  }
}

}  // namespace ascendrt::abi

using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

size_t art_emu_aclDataTypeSize(aclDataType dataType) { return acl_type_size(dataType); }

aclFloat16 art_emu_aclFloatToFloat16(float value) { return half_from_float(value); }

float art_emu_aclFloat16ToFloat(aclFloat16 value) { return float_from_half(value); }

}  // extern "C"
