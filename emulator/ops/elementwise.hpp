// Element by element functions: one operand, two operands with broadcasting, selection, casts.
// Owns: their meaning and the broadcasting rule. Must never: allocate results; y is given.
#pragma once

#include <cstdint>
#include <span>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

enum class Unary : uint8_t {
  kRelu,
  kRelu6,
  kLeakyRelu,    // a = slope
  kElu,          // a = alpha
  kSelu,         // a = alpha, b = gamma
  kCelu,         // a = alpha
  kHardSigmoid,  // max(0, min(1, a * x + b))
  kHardSwish,
  kSigmoid,
  kTanh,
  kSoftplus,
  kSoftsign,
  kGelu,  // exact, by erf
  kMish,
  kSwish,  // a = scale
  kAbs,
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kFloor,
  kCeil,
  kRound,  // half to even
  kErf,
  kSign,
  kSin,
  kCos,
  kSquare,
  kAdds,  // x + a
  kMuls,  // x * a
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kGeluTanh,         // the approximation by tanh
  kThresholdedRelu,  // a = threshold
  kShrink,           // a = lambda, b = bias
  kInvert,           // all bits of an integer
};

struct UnaryParams {
  float a = 0.0F;
  float b = 0.0F;
};

// float32 and float64. kAbs, kNeg, kSign and kRelu also take integers, kInvert only those.
bool unary_takes(Unary op, aclDataType dtype);
void unary(Unary op, UnaryParams params, const TensorView& x, const TensorView& y,
           const Exec& exec);

// y is bool, x float32 or float64.
enum class Test : uint8_t { kNan, kInfinite, kPositiveInfinite, kNegativeInfinite, kNever };
void test(Test kind, const TensorView& x, const TensorView& y, const Exec& exec);

enum class Binary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPow,
  kMod,   // with the sign of the divisor
  kFmod,  // with the sign of the dividend
  kFloorDiv,
  kBitAnd,  // the rest: integers only
  kBitOr,
  kBitXor,
  kLeftShift,
  kRightShift,
};
enum class Compare : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
enum class Logical : uint8_t { kAnd, kOr, kXor };

// The numpy rule; fails when the shapes do not fit.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

// All numbers that C++ computes with. Integer division rounds to zero and gives 0 for a divisor of
// 0.
bool binary_takes(Binary op, aclDataType dtype);
bool is_plain_number(aclDataType dtype);  // float32, float64, integers of 8 bits and more
void binary(Binary op, const TensorView& a, const TensorView& b, const TensorView& y,
            const Exec& exec);
void compare(Compare op, const TensorView& a, const TensorView& b, const TensorView& y,
             const Exec& exec);  // y is bool
void logical(Logical op, const TensorView& a, const TensorView& b, const TensorView& y,
             const Exec& exec);  // all bool
void logical_not(const TensorView& x, const TensorView& y, const Exec& exec);

// x below 0 is multiplied by the slope, which is broadcast to x. float32.
void prelu(const TensorView& x, const TensorView& slope, const TensorView& y, const Exec& exec);

// max(x, low), then min(.., high); NaN stays. low and high hold one element of x's type.
void clip(const TensorView& x, const TensorView& low, const TensorView& high, const TensorView& y,
          const Exec& exec);

// y = condition ? a : b, all broadcast to y. Any sized type.
void select(const TensorView& condition, const TensorView& a, const TensorView& b,
            const TensorView& y, const Exec& exec);

// Between all numbers and bool. Floats go to integers by truncation, saturating; NaN becomes 0.
bool cast_takes(aclDataType dtype);
// To types of 8 bits and less: what becomes of numbers out of range, and E8M0's rounding.
enum class Overflow : uint8_t { kSaturate, kSpecial };
enum class CastRounding : uint8_t { kUp, kDown, kNearest };
struct CastParams {
  Overflow overflow = Overflow::kSaturate;
  CastRounding rounding = CastRounding::kUp;
};
void cast(const TensorView& x, const TensorView& y, const Exec& exec,
          const CastParams& params = {});

float half_to_float(uint16_t half);
uint16_t float_to_half(float value);  // nearest even, overflow to infinity, subnormals kept

}  // namespace ascendrt::ops
