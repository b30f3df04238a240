// Owns: functions of two and three operands with broadcasting. Must never: trap on integers.
#include "ops/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "ops/broadcast.hpp"

namespace ascendrt::ops {
namespace {

// Calls f with a value of the element type.
template <class F>
void for_number(std::string_view op, aclDataType dtype, F&& f) {
  switch (dtype) {
    case ACL_FLOAT:
      return f(float{});
    case ACL_DOUBLE:
      return f(double{});
    case ACL_INT32:
      return f(int32_t{});
    case ACL_INT64:
      return f(int64_t{});
    default:
      fail(op, std::string("no ") + dtype_name(dtype) + " form");
  }
}

// Integer arithmetic wraps: it is done on the unsigned twin.
template <class T>
struct Wrap {
  using U =
      std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  static T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  static T mul(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
};

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (b == -1) return Wrap<T>::sub(0, a);
  }
  return a / b;
}

template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T quotient = divide(a, b);
    const bool inexact = b != 0 && b != -1 && a % b != 0;
    return inexact && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
  } else {
    return std::floor(a / b);
  }
}

// The result has the sign of the divisor.
template <class T>
T modulo(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    const T rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  } else {
    const T rest = std::fmod(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  }
}

template <class T>
T power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? 1 : (a == -1 ? (b % 2 == 0 ? 1 : -1) : 0);
    T result = 1;
    for (; b != 0; b >>= 1, a = Wrap<T>::mul(a, a)) {
      if ((b & 1) != 0) result = Wrap<T>::mul(result, a);
    }
    return result;
  } else {
    return std::pow(a, b);
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
    case Binary::kFloorDiv:
      return go([](T p, T q) { return floor_divide<T>(p, q); });
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

bool binary_takes(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_DOUBLE || dtype == ACL_INT32 || dtype == ACL_INT64;
}

void binary(Binary op, const TensorView& a, const TensorView& b, const TensorView& y,
            const Exec& exec) {
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
  switch (dtype_size(y.dtype)) {
    case 1:
      return select_as<uint8_t>(condition, a, b, y, exec);
    case 2:
      return select_as<uint16_t>(condition, a, b, y, exec);
    case 4:
      return select_as<uint32_t>(condition, a, b, y, exec);
    case 8:
      return select_as<uint64_t>(condition, a, b, y, exec);
    default:
      fail("select", std::string("no ") + dtype_name(y.dtype) + " form");
  }
}

}  // namespace ascendrt::ops
