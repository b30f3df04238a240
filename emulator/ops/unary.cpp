// Owns: functions of one operand. Must never: broadcast.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/elementwise.hpp"

namespace ascendrt::ops {
namespace {

constexpr int64_t kGrain = 16384;

template <class T, class F>
void map(const TensorView& x, const TensorView& y, const Exec& exec, F&& f) {
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
}

// Comparisons are written so that NaN falls through to the value itself.
float clamp01(float v) { return v < 0.0F ? 0.0F : (v > 1.0F ? 1.0F : v); }

float softplus(float v) { return std::log1p(std::exp(-std::fabs(v))) + (v > 0.0F ? v : 0.0F); }

float sigmoid(float v) {
  if (v >= 0.0F) return 1.0F / (1.0F + std::exp(-v));
  const float e = std::exp(v);
  return e / (1.0F + e);
}

void activation(Unary op, UnaryParams p, const TensorView& x, const TensorView& y,
                const Exec& exec) {
  const auto go = [&](auto f) { map<float>(x, y, exec, f); };
  switch (op) {
    case Unary::kRelu:
      return go([](float v) { return v < 0.0F ? 0.0F : v; });
    case Unary::kRelu6:
      return go([](float v) { return v < 0.0F ? 0.0F : (v > 6.0F ? 6.0F : v); });
    case Unary::kLeakyRelu:
      return go([p](float v) { return v < 0.0F ? p.a * v : v; });
    case Unary::kElu:
      return go([p](float v) { return v < 0.0F ? p.a * std::expm1(v) : v; });
    case Unary::kSelu:
      return go([p](float v) { return p.b * (v <= 0.0F ? p.a * std::expm1(v) : v); });
    case Unary::kCelu:
      return go([p](float v) { return v < 0.0F ? p.a * std::expm1(v / p.a) : v; });
    case Unary::kHardSigmoid:
      return go([p](float v) { return clamp01(p.a * v + p.b); });
    case Unary::kHardSwish:
      return go([](float v) { return v * clamp01(v / 6.0F + 0.5F); });
    case Unary::kSigmoid:
      return go([](float v) { return sigmoid(v); });
    case Unary::kTanh:
      return go([](float v) { return std::tanh(v); });
    case Unary::kSoftplus:
      return go(softplus);
    case Unary::kSoftsign:
      return go([](float v) { return v / (1.0F + std::fabs(v)); });
    case Unary::kGelu:
      return go([](float v) { return 0.5F * v * (1.0F + std::erf(v * 0.70710678F)); });
    case Unary::kMish:
      return go([](float v) { return v * std::tanh(softplus(v)); });
    default:
      return go([p](float v) { return v * sigmoid(p.a * v); });
  }
}

void arithmetic(Unary op, UnaryParams p, const TensorView& x, const TensorView& y,
                const Exec& exec) {
  const auto go = [&](auto f) { map<float>(x, y, exec, f); };
  switch (op) {
    case Unary::kAbs:
      return go([](float v) { return std::fabs(v); });
    case Unary::kNeg:
      return go([](float v) { return -v; });
    case Unary::kExp:
      return go([](float v) { return std::exp(v); });
    case Unary::kLog:
      return go([](float v) { return std::log(v); });
    case Unary::kSqrt:
      return go([](float v) { return std::sqrt(v); });
    case Unary::kRsqrt:
      return go([](float v) { return 1.0F / std::sqrt(v); });
    case Unary::kReciprocal:
      return go([](float v) { return 1.0F / v; });
    case Unary::kFloor:
      return go([](float v) { return std::floor(v); });
    case Unary::kCeil:
      return go([](float v) { return std::ceil(v); });
    case Unary::kRound:
      return go([](float v) { return std::nearbyint(v); });
    case Unary::kErf:
      return go([](float v) { return std::erf(v); });
    case Unary::kSign:
      return go([](float v) { return v > 0.0F ? 1.0F : (v < 0.0F ? -1.0F : v); });
    case Unary::kSin:
      return go([](float v) { return std::sin(v); });
    case Unary::kCos:
      return go([](float v) { return std::cos(v); });
    case Unary::kSquare:
      return go([](float v) { return v * v; });
    case Unary::kAdds:
      return go([p](float v) { return v + p.a; });
    default:
      return go([p](float v) { return v * p.a; });
  }
}

// Arithmetic on the unsigned twin, so that the smallest value wraps instead of being undefined.
template <class T>
void integer(Unary op, const TensorView& x, const TensorView& y, const Exec& exec) {
  using U = std::make_unsigned_t<T>;
  const auto negate = [](T v) { return static_cast<T>(U{0} - static_cast<U>(v)); };
  switch (op) {
    case Unary::kAbs:
      return map<T>(x, y, exec, [&](T v) { return v < 0 ? negate(v) : v; });
    case Unary::kNeg:
      return map<T>(x, y, exec, [&](T v) { return negate(v); });
    case Unary::kSign:
      return map<T>(x, y, exec, [](T v) { return static_cast<T>((v > 0) - (v < 0)); });
    default:
      return map<T>(x, y, exec, [](T v) { return v < 0 ? T{0} : v; });
  }
}

}  // namespace

bool unary_takes(Unary op, aclDataType dtype) {
  if (dtype == ACL_FLOAT) return true;
  const bool both =
      op == Unary::kAbs || op == Unary::kNeg || op == Unary::kSign || op == Unary::kRelu;
  return both && (dtype == ACL_INT32 || dtype == ACL_INT64);
}

void unary(Unary op, UnaryParams params, const TensorView& x, const TensorView& y,
           const Exec& exec) {
  if (!unary_takes(op, x.dtype)) fail("unary", std::string("no ") + dtype_name(x.dtype) + " form");
  if (x.dtype == ACL_INT32) return integer<int32_t>(op, x, y, exec);
  if (x.dtype == ACL_INT64) return integer<int64_t>(op, x, y, exec);
  if (op <= Unary::kSwish) return activation(op, params, x, y, exec);
  arithmetic(op, params, x, y, exec);
}

}  // namespace ascendrt::ops
