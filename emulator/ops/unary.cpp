// Owns: functions of one operand. Must never: broadcast.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/element.hpp"
#include "ops/vector.hpp"

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
template <class T>
T clamp01(T v) {
  return v < 0 ? T{0} : (v > 1 ? T{1} : v);
}

template <class T>
T softplus(T v) {
  return std::log1p(std::exp(-std::fabs(v))) + (v > 0 ? v : T{0});
}

template <class T>
T sigmoid(T v) {
  if (v >= 0) return 1 / (1 + std::exp(-v));
  const T e = std::exp(v);
  return e / (1 + e);
}

template <class T>
T shrink(T v, T lambda, T bias) {
  if (v < -lambda) return v + bias;
  return v > lambda ? v - bias : T{0};
}

template <class T>
T gelu_tanh(T v) {
  return T(0.5) * v * (1 + std::tanh(T(0.7978845608028654) * (v + T(0.044715) * v * v * v)));
}

// Each line is a loop of its own, so that the compiler sees what it does.
#define ART_UNARY(kind, expression) \
  case Unary::kind:                 \
    return map<T>(x, y, exec, [=]([[maybe_unused]] T v) -> T { return expression; })

template <class T>
void activation(Unary op, UnaryParams p, const TensorView& x, const TensorView& y,
                const Exec& exec) {
  const T a = p.a;
  const T b = p.b;
  switch (op) {
    ART_UNARY(kRelu, v < 0 ? T{0} : v);
    ART_UNARY(kRelu6, v < 0 ? T{0} : (v > 6 ? T{6} : v));
    ART_UNARY(kLeakyRelu, v < 0 ? a * v : v);
    ART_UNARY(kElu, v < 0 ? a * std::expm1(v) : v);
    ART_UNARY(kSelu, b * (v <= 0 ? a * std::expm1(v) : v));
    ART_UNARY(kCelu, v < 0 ? a * std::expm1(v / a) : v);
    ART_UNARY(kHardSigmoid, clamp01<T>(a * v + b));
    ART_UNARY(kHardSwish, v * clamp01<T>(v / 6 + T(0.5)));
    ART_UNARY(kSigmoid, sigmoid<T>(v));
    ART_UNARY(kTanh, std::tanh(v));
    ART_UNARY(kSoftplus, softplus<T>(v));
    ART_UNARY(kSoftsign, v / (1 + std::fabs(v)));
    ART_UNARY(kGelu, T(0.5) * v * (1 + std::erf(v * T(0.7071067811865476))));
    ART_UNARY(kGeluTanh, gelu_tanh<T>(v));
    ART_UNARY(kMish, v * std::tanh(softplus<T>(v)));
    ART_UNARY(kThresholdedRelu, v > a ? v : T{0});
    ART_UNARY(kShrink, shrink<T>(v, a, b));
    default:  // kSwish
      return map<T>(x, y, exec, [a](T v) { return v * sigmoid<T>(a * v); });
  }
}

template <class T>
void arithmetic(Unary op, UnaryParams p, const TensorView& x, const TensorView& y,
                const Exec& exec) {
  const T a = p.a;
  switch (op) {
    ART_UNARY(kAbs, std::fabs(v));
    ART_UNARY(kNeg, -v);
    ART_UNARY(kExp, std::exp(v));
    ART_UNARY(kLog, std::log(v));
    ART_UNARY(kSqrt, std::sqrt(v));
    ART_UNARY(kRsqrt, 1 / std::sqrt(v));
    ART_UNARY(kReciprocal, 1 / v);
    ART_UNARY(kFloor, std::floor(v));
    ART_UNARY(kCeil, std::ceil(v));
    ART_UNARY(kRound, std::nearbyint(v));
    ART_UNARY(kErf, std::erf(v));
    ART_UNARY(kSign, v > 0 ? T{1} : (v < 0 ? T{-1} : v));
    ART_UNARY(kSin, std::sin(v));
    ART_UNARY(kCos, std::cos(v));
    ART_UNARY(kTan, std::tan(v));
    ART_UNARY(kAsin, std::asin(v));
    ART_UNARY(kAcos, std::acos(v));
    ART_UNARY(kAtan, std::atan(v));
    ART_UNARY(kSinh, std::sinh(v));
    ART_UNARY(kCosh, std::cosh(v));
    ART_UNARY(kAsinh, std::asinh(v));
    ART_UNARY(kAcosh, std::acosh(v));
    ART_UNARY(kAtanh, std::atanh(v));
    ART_UNARY(kSquare, v * v);
    ART_UNARY(kAdds, v + a);
    default:  // kMuls
      return map<T>(x, y, exec, [a](T v) { return v * a; });
  }
}
#undef ART_UNARY

bool is_activation(Unary op) {
  return op <= Unary::kSwish || op == Unary::kGeluTanh || op == Unary::kThresholdedRelu ||
         op == Unary::kShrink;
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
    case Unary::kInvert:
      return map<T>(x, y, exec, [](T v) { return static_cast<T>(~v); });
    default:
      return map<T>(x, y, exec, [](T v) { return v < 0 ? T{0} : v; });
  }
}

// The vector kernel that computes a function of floats, if there is one.
bool find_map(Unary op, Map& map) {
  constexpr std::pair<Unary, Map> kMaps[] = {
      {Unary::kExp, Map::kExp},     {Unary::kErf, Map::kErf},
      {Unary::kTanh, Map::kTanh},   {Unary::kSigmoid, Map::kSigmoid},
      {Unary::kGelu, Map::kGelu},   {Unary::kGeluTanh, Map::kGeluTanh},
      {Unary::kSwish, Map::kSwish}, {Unary::kSqrt, Map::kSqrt},
      {Unary::kRelu, Map::kRelu},   {Unary::kMuls, Map::kMuls},
      {Unary::kAdds, Map::kAdds}};
  for (const auto& [from, to] : kMaps) {
    if (from == op) return map = to, true;
  }
  return false;
}

void run_map(Map op, float a, const TensorView& x, const TensorView& y, const Exec& exec) {
  const VectorKernels& kernels = vector_kernels();
  const auto* from = x.as<const float>();
  auto* to = y.as<float>();
  parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
    kernels.map(op, a, from + begin, to + begin, end - begin);
  });
}

bool in_test(Test kind, double v) {
  switch (kind) {
    case Test::kNan:
      return std::isnan(v);
    case Test::kInfinite:
      return std::isinf(v);
    case Test::kPositiveInfinite:
      return std::isinf(v) && v > 0;
    case Test::kNegativeInfinite:
      return std::isinf(v) && v < 0;
    default:
      return false;
  }
}

}  // namespace

bool unary_takes(Unary op, aclDataType dtype) {
  if (dtype == ACL_FLOAT || dtype == ACL_DOUBLE) return op != Unary::kInvert;
  const bool both = op == Unary::kAbs || op == Unary::kNeg || op == Unary::kSign ||
                    op == Unary::kRelu || op == Unary::kInvert;
  return both && is_plain_number(dtype);
}

void unary(Unary op, UnaryParams params, const TensorView& x, const TensorView& y,
           const Exec& exec) {
  if (!unary_takes(op, x.dtype)) fail("unary", std::string("no ") + dtype_name(x.dtype) + " form");
  Map map = Map::kExp;
  if (x.dtype == ACL_FLOAT && find_map(op, map)) return run_map(map, params.a, x, y, exec);
  for_number("unary", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      integer<T>(op, x, y, exec);
    } else if (is_activation(op)) {
      activation<T>(op, params, x, y, exec);
    } else {
      arithmetic<T>(op, params, x, y, exec);
    }
  });
}

void test(Test kind, const TensorView& x, const TensorView& y, const Exec& exec) {
  auto* to = y.as<uint8_t>();
  for_number("test", x.dtype, [&](auto zero) {
    const auto* from = x.as<const decltype(zero)>();
    parallel_ranges(exec, x.elements(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = in_test(kind, static_cast<double>(from[i])) ? 1 : 0;
      }
    });
  });
}

}  // namespace ascendrt::ops
