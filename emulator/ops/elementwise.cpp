// Owns: functions of two and three operands with broadcasting. Must never: trap on integers.
#include "ops/elementwise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "ops/broadcast.hpp"
#include "ops/element.hpp"
#include "ops/vector.hpp"

namespace ascendrt::ops {
namespace {

// Integer arithmetic wraps: it is done on the unsigned twin.
template <class T>
struct Wrap {
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                        std::type_identity<T>>::type;
  static T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  static T mul(T a, T b) {
    // Not narrower than unsigned: small types would be promoted to int, which may overflow.
    using W = std::conditional_t<(sizeof(U) < sizeof(unsigned)), unsigned, U>;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Wrap<T>::sub(0, a);
  }
  return static_cast<T>(a / b);
}

template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T quotient = divide(a, b);
    const bool inexact = b != 0 && b != static_cast<T>(-1) && a % b != 0;
    return inexact && ((a < 0) != (b < 0)) ? static_cast<T>(quotient - 1) : quotient;
  } else {
    return std::floor(a / b);
  }
}

// The result has the sign of the dividend.
template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    return static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
}

// The result has the sign of the divisor.
template <class T>
T modulo(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T rest = remainder_of(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? static_cast<T>(rest + b) : rest;
  } else {
    const T rest = remainder_of(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  }
}

template <class T>
T power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (std::is_signed_v<T> && b < 0) {
      if (a == static_cast<T>(-1)) return b % 2 == 0 ? T{1} : static_cast<T>(-1);
      return a == 1 ? T{1} : T{0};
    }
    T result = 1;
    for (; b != 0; b = static_cast<T>(b >> 1), a = Wrap<T>::mul(a, a)) {
      if ((b & 1) != 0) result = Wrap<T>::mul(result, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

// Shifts by the width of the type or more give 0.
template <class T>
void bits_as(Binary op, const TensorView& a, const TensorView& b, const TensorView& y,
             const Exec& exec) {
  const auto go = [&](auto f) { map_two<T, T>(a, b, y, exec, f); };
  constexpr auto kBits = static_cast<uint64_t>(sizeof(T) * 8);
  const auto wide = [](T v) { return uint64_t{static_cast<std::make_unsigned_t<T>>(v)}; };
  switch (op) {
    case Binary::kBitAnd:
      return go([](T p, T q) { return static_cast<T>(p & q); });
    case Binary::kBitOr:
      return go([](T p, T q) { return static_cast<T>(p | q); });
    case Binary::kBitXor:
      return go([](T p, T q) { return static_cast<T>(p ^ q); });
    case Binary::kLeftShift:
      return go(
          [wide](T p, T q) { return wide(q) < kBits ? static_cast<T>(wide(p) << wide(q)) : T{0}; });
    default:
      return go([wide](T p, T q) {
        return wide(q) < kBits ? static_cast<T>(p >> wide(q)) : static_cast<T>(p < 0 ? -1 : 0);
      });
  }
}

template <class T>
void binary_as(Binary op, const TensorView& a, const TensorView& b, const TensorView& y,
               const Exec& exec) {
  // Lambdas, not function pointers: the loop must see what it does to be vectorised.
  const auto go = [&](auto f) { map_two<T, T>(a, b, y, exec, f); };
  switch (op) {
    case Binary::kAdd:
      return go([](T p, T q) { return Wrap<T>::add(p, q); });
    case Binary::kSub:
      return go([](T p, T q) { return Wrap<T>::sub(p, q); });
    case Binary::kMul:
      return go([](T p, T q) { return Wrap<T>::mul(p, q); });
    case Binary::kDiv:
      return go([](T p, T q) { return divide<T>(p, q); });
    case Binary::kMax:  // NaN of either side stays
      return go([](T p, T q) { return p > q || p != p ? p : q; });
    case Binary::kMin:
      return go([](T p, T q) { return p < q || p != p ? p : q; });
    case Binary::kPow:
      return go([](T p, T q) { return power<T>(p, q); });
    case Binary::kMod:
      return go([](T p, T q) { return modulo<T>(p, q); });
    case Binary::kFmod:
      return go([](T p, T q) { return remainder_of<T>(p, q); });
    case Binary::kFloorDiv:
      return go([](T p, T q) { return floor_divide<T>(p, q); });
    default:
      if constexpr (std::is_integral_v<T>) bits_as<T>(op, a, b, y, exec);
  }
}

template <class T>
void compare_as(Compare op, const TensorView& a, const TensorView& b, const TensorView& y,
                const Exec& exec) {
  const auto go = [&](auto f) { map_two<T, uint8_t>(a, b, y, exec, f); };
  switch (op) {
    case Compare::kEqual:
      return go([](T p, T q) { return static_cast<uint8_t>(p == q); });
    case Compare::kNotEqual:
      return go([](T p, T q) { return static_cast<uint8_t>(p != q); });
    case Compare::kLess:
      return go([](T p, T q) { return static_cast<uint8_t>(p < q); });
    case Compare::kLessEqual:
      return go([](T p, T q) { return static_cast<uint8_t>(p <= q); });
    case Compare::kGreater:
      return go([](T p, T q) { return static_cast<uint8_t>(p > q); });
    case Compare::kGreaterEqual:
      return go([](T p, T q) { return static_cast<uint8_t>(p >= q); });
  }
}

// The vector kernel that computes an operation on floats, if there is one.
bool find_pair(Binary op, Pair& pair) {
  constexpr Pair kPairs[] = {Pair::kAdd, Pair::kSub, Pair::kMul,
                             Pair::kDiv, Pair::kMax, Pair::kMin};
  static_assert(static_cast<int>(Binary::kMin) == static_cast<int>(Pair::kMin));
  if (op > Binary::kMin) return false;
  pair = kPairs[static_cast<size_t>(op)];
  return true;
}

// The row is written out some times, so that the kernel has long runs. `phase`: where in it the run
// begins.
void run_repeated(Pair op, const float* a, const float* b, const Repeat& repeat, int64_t phase,
                  float* y, int64_t count) {
  std::array<float, 8 * Repeat::kMaxPeriod> rows;  // NOLINT: written before it is read
  const int64_t whole = static_cast<int64_t>(rows.size()) / repeat.period * repeat.period;
  const int64_t used = std::min(whole, count);
  const float* const row = repeat.operand == 0 ? a : b;
  for (int64_t i = 0; i < used; ++i) {
    rows[static_cast<size_t>(i)] = row[phase];
    if (++phase == repeat.period) phase = 0;
  }
  for (int64_t i = 0; i < count; i += whole) {
    const int64_t n = std::min(whole, count - i);
    const bool first = repeat.operand == 0;
    vector_kernels().combine(op, first ? rows.data() : a + i, 1, first ? b + i : rows.data(), 1,
                             y + i, n);
  }
}

void run_pair(Pair op, const TensorView& a, const TensorView& b, const TensorView& y,
              const Exec& exec) {
  const VectorKernels& kernels = vector_kernels();
  constexpr int64_t kFew = 4096;  // a tile in the cache: planning would cost more than the work
  const int64_t count = y.elements();
  const bool one_a = a.elements() == 1;
  const bool one_b = b.elements() == 1;
  if (count <= kFew && (one_a || a.shape == y.shape) && (one_b || b.shape == y.shape)) {
    return kernels.combine(op, a.as<const float>(), one_a ? 0 : 1, b.as<const float>(),
                           one_b ? 0 : 1, y.as<float>(), count);
  }
  auto plan = plan_broadcast<2>(y.shape, {&a.shape, &b.shape});
  const Repeat repeat = merge_repeats(plan);
  walk_broadcast(plan, exec, [&](int64_t out, const auto& offsets, const auto& steps, int64_t n) {
    const float* const pa = a.as<const float>() + offsets[0];
    const float* const pb = b.as<const float>() + offsets[1];
    float* const py = y.as<float>() + out;
    if (repeat.period == 0) return kernels.combine(op, pa, steps[0], pb, steps[1], py, n);
    run_repeated(op, pa, pb, repeat, out % repeat.period, py, n);
  });
}

bool is_square(Binary op, const TensorView& b) {
  return op == Binary::kPow && b.elements() == 1 && *b.as<const float>() == 2.0F;
}

}  // namespace

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.rank(), b.rank());
  Shape out;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i + a.rank() < rank ? 1 : a[i + a.rank() - rank];
    const int64_t db = i + b.rank() < rank ? 1 : b[i + b.rank() - rank];
    if (da != db && da != 1 && db != 1) {
      fail(op, "shapes " + a.text() + " and " + b.text() + " do not broadcast");
    }
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

bool is_plain_number(aclDataType dtype) {
  return for_plain_number(dtype, [](auto) {});
}

bool binary_takes(Binary op, aclDataType dtype) {
  const bool floats = dtype == ACL_FLOAT || dtype == ACL_DOUBLE;
  return is_plain_number(dtype) && !(floats && op >= Binary::kBitAnd);
}

void binary(Binary op, const TensorView& a, const TensorView& b, const TensorView& y,
            const Exec& exec) {
  if (a.dtype == ACL_FLOAT) {
    Pair pair = Pair::kAdd;
    if (find_pair(op, pair)) return run_pair(pair, a, b, y, exec);
    if (is_square(op, b)) return run_pair(Pair::kMul, a, a, y, exec);
  }
  for_number("binary", a.dtype, [&](auto zero) { binary_as<decltype(zero)>(op, a, b, y, exec); });
}

void compare(Compare op, const TensorView& a, const TensorView& b, const TensorView& y,
             const Exec& exec) {
  if (a.dtype == ACL_BOOL) return compare_as<uint8_t>(op, a, b, y, exec);
  for_number("compare", a.dtype, [&](auto zero) { compare_as<decltype(zero)>(op, a, b, y, exec); });
}

void logical(Logical op, const TensorView& a, const TensorView& b, const TensorView& y,
             const Exec& exec) {
  map_two<uint8_t, uint8_t>(a, b, y, exec, [op](uint8_t p, uint8_t q) {
    const bool left = p != 0;
    const bool right = q != 0;
    const bool both = op == Logical::kAnd ? left && right : left || right;
    return static_cast<uint8_t>(op == Logical::kXor ? left != right : both);
  });
}

void logical_not(const TensorView& x, const TensorView& y, const Exec& exec) {
  map_two<uint8_t, uint8_t>(x, x, y, exec,
                            [](uint8_t p, uint8_t) { return static_cast<uint8_t>(p == 0); });
}

void prelu(const TensorView& x, const TensorView& slope, const TensorView& y, const Exec& exec) {
  map_two<float, float>(x, slope, y, exec, [](float v, float s) { return v < 0.0F ? s * v : v; });
}

void clip(const TensorView& x, const TensorView& low, const TensorView& high, const TensorView& y,
          const Exec& exec) {
  for_number("clip", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T floor = *low.as<const T>();
    const T ceiling = *high.as<const T>();
    map_two<T, T>(x, x, y, exec, [=](T v, T) {
      const T raised = v < floor ? floor : v;
      return raised > ceiling ? ceiling : raised;
    });
  });
}

namespace {

template <class T>
void select_as(const TensorView& condition, const TensorView& a, const TensorView& b,
               const TensorView& y, const Exec& exec) {
  const auto plan = plan_broadcast<3>(y.shape, {&condition.shape, &a.shape, &b.shape});
  walk_broadcast(plan, exec, [&](int64_t out, const auto& from, const auto& step, int64_t n) {
    const auto* pc = condition.as<const uint8_t>() + from[0];
    const T* pa = a.as<const T>() + from[1];
    const T* pb = b.as<const T>() + from[2];
    T* py = y.as<T>() + out;
    for (int64_t i = 0; i < n; ++i) {
      py[i] = pc[i * step[0]] != 0 ? pa[i * step[1]] : pb[i * step[2]];
    }
  });
}

}  // namespace

void select(const TensorView& condition, const TensorView& a, const TensorView& b,
            const TensorView& y, const Exec& exec) {
  for_size("select", y.dtype,
           [&](auto zero) { select_as<decltype(zero)>(condition, a, b, y, exec); });
}

}  // namespace ascendrt::ops
