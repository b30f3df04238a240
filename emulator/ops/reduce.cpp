// Owns: reductions, arg-max, softmax. Must never: depend on the number of threads.
#include "ops/reduce.hpp"

#include <algorithm>
#include <array>

#include "ops/element.hpp"
#include "ops/vector.hpp"

namespace ascendrt::ops {
namespace {

// The kept and the reduced dims of a tensor with their element steps.
struct Split {
  std::array<int64_t, Shape::kMaxRank> kept{}, kept_step{}, gone{}, gone_step{};
  size_t kept_rank = 0, gone_rank = 0;
  int64_t outputs = 1, inputs = 1;  // results; elements behind one result
};

Split split_axes(const Shape& shape, std::span<const size_t> axes) {
  Split split;
  int64_t step = shape.elements();
  for (size_t i = 0; i < shape.rank(); ++i) {
    step = shape[i] == 0 ? 0 : step / shape[i];
    if (axes.empty() || std::find(axes.begin(), axes.end(), i) != axes.end()) {
      split.gone[split.gone_rank] = shape[i];
      split.gone_step[split.gone_rank++] = step;
      split.inputs *= shape[i];
    } else {
      split.kept[split.kept_rank] = shape[i];
      split.kept_step[split.kept_rank++] = step;
      split.outputs *= shape[i];
    }
  }
  return split;
}

int64_t offset_of(int64_t index, const std::array<int64_t, Shape::kMaxRank>& dims,
                  const std::array<int64_t, Shape::kMaxRank>& steps, size_t rank) {
  int64_t offset = 0;
  for (size_t i = rank; i-- > 0;) {
    offset += index % dims[i] * steps[i];
    index /= dims[i];
  }
  return offset;
}

// Calls f(value) for the elements behind one result, in memory order of the reduced dims.
template <class T, class F>
void visit(const Split& s, const T* x, F&& f) {
  const size_t inner = s.gone_rank;
  if (inner == 0) return f(*x);
  const int64_t run = s.gone[inner - 1];
  const int64_t step = s.gone_step[inner - 1];
  for (int64_t i = 0; i < s.inputs; i += run) {
    const T* p = x + offset_of(i / run, s.gone, s.gone_step, inner - 1);
    for (int64_t j = 0; j < run; ++j) f(p[j * step]);
  }
}

// From the sum of the elements (or of what the operation makes of them) to the result.
template <class T, class Sum>
T finish(Reduce op, Sum sum, int64_t count) {
  if (op == Reduce::kL2) return static_cast<T>(std::sqrt(static_cast<double>(sum)));
  if (op == Reduce::kLogSum) return static_cast<T>(std::log(static_cast<double>(sum)));
  if (op != Reduce::kMean) return static_cast<T>(sum);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(sum / static_cast<double>(count));
  } else {
    return count == 0 ? T{0} : static_cast<T>(static_cast<int64_t>(sum) / count);
  }
}

// Of nothing: the value that changes no other, which for floats is an infinity.
template <class T>
T extreme_of(Reduce op, const Split& s, const T* x) {
  using Limits = std::numeric_limits<T>;
  constexpr T kLow = Limits::has_infinity ? -Limits::infinity() : Limits::min();
  constexpr T kHigh = Limits::has_infinity ? Limits::infinity() : Limits::max();
  T best = op == Reduce::kMax ? kLow : kHigh;
  if (op == Reduce::kMax) {
    visit(s, x, [&](T v) { best = v > best || v != v ? v : best; });
  } else {
    visit(s, x, [&](T v) { best = v < best || v != v ? v : best; });
  }
  return best;
}

// Shifted by the largest element, so that nothing overflows.
template <class T>
T log_sum_exp(const Split& s, const T* x) {
  const auto top = static_cast<double>(extreme_of(Reduce::kMax, s, x));
  const double shift = std::isfinite(top) ? top : 0.0;
  double sum = 0.0;
  visit(s, x, [&](T v) { sum += std::exp(static_cast<double>(v) - shift); });
  return static_cast<T>(std::log(sum) + shift);
}

// Sums of floats that lie side by side have a kernel.
bool sums_a_row(Reduce op, const Split& s) {
  return (op == Reduce::kSum || op == Reduce::kMean) && s.gone_rank == 1 && s.gone_step[0] == 1;
}

template <class T>
T reduce_one(Reduce op, const Split& s, const T* x) {
  if constexpr (std::is_same_v<T, float>) {
    if (sums_a_row(op, s)) return finish<T>(op, vector_kernels().sum(x, s.inputs), s.inputs);
  }
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  Sum sum = op == Reduce::kProd ? 1 : 0;
  switch (op) {
    case Reduce::kMax:
    case Reduce::kMin:
      return extreme_of(op, s, x);
    case Reduce::kLogSumExp:
      return log_sum_exp(s, x);
    case Reduce::kSum:
    case Reduce::kMean:
    case Reduce::kLogSum:
      visit(s, x, [&](T v) { sum += static_cast<Sum>(v); });
      break;
    case Reduce::kProd:
      visit(s, x, [&](T v) { sum *= static_cast<Sum>(v); });
      break;
    case Reduce::kL1:
      visit(s, x, [&](T v) { sum += v < 0 ? Sum{0} - static_cast<Sum>(v) : static_cast<Sum>(v); });
      break;
    case Reduce::kSumSquare:
    case Reduce::kL2:
      visit(s, x, [&](T v) { sum += static_cast<Sum>(v) * static_cast<Sum>(v); });
      break;
  }
  return finish<T>(op, sum, s.inputs);
}

template <class T>
void reduce_as(Reduce op, const Split& s, const TensorView& x, const TensorView& y,
               const Exec& exec) {
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, s.inputs));
  parallel_ranges(exec, s.outputs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = reduce_one(op, s, from + offset_of(i, s.kept, s.kept_step, s.kept_rank));
    }
  });
}

}  // namespace

bool reduce_takes(Reduce op, aclDataType dtype) {
  const bool extreme = op == Reduce::kMax || op == Reduce::kMin;
  return is_plain_number(dtype) || (extreme && dtype == ACL_BOOL);
}

void reduce(Reduce op, const TensorView& x, std::span<const size_t> axes, const TensorView& y,
            const Exec& exec) {
  const Split split = split_axes(x.shape, axes);
  if (x.dtype == ACL_BOOL) {  // 0 and 1; of nothing: true for the smallest, false for the largest
    reduce_as<uint8_t>(op, split, x, y, exec);
    auto* flags = y.as<uint8_t>();
    for (int64_t i = 0; i < y.elements(); ++i) flags[i] = flags[i] != 0 ? 1 : 0;
    return;
  }
  for_number("reduce", x.dtype,
             [&](auto zero) { reduce_as<decltype(zero)>(op, split, x, y, exec); });
}

void reduce_nothing(Reduce op, const TensorView& x, const TensorView& y, const Exec& exec) {
  const int64_t count = x.shape.elements();
  constexpr size_t kLast[] = {1};
  reduce(op, {x.data, x.dtype, {count, 1}}, kLast, {y.data, y.dtype, {count}}, exec);
}

void arg_extreme(Extreme op, Pick pick, const TensorView& x, size_t axis, const TensorView& y,
                 const Exec& exec) {
  const size_t one[] = {axis};
  const Split s = split_axes(x.shape, one);
  for_number("arg_extreme", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.as<const T>();
    parallel_for(exec, s.outputs, [&](int64_t i) {
      const T* p = from + offset_of(i, s.kept, s.kept_step, s.kept_rank);
      int64_t best = 0;
      for (int64_t j = 1; j < s.inputs; ++j) {
        const T v = p[j * s.gone_step[0]];
        const T b = p[best * s.gone_step[0]];
        const bool better = op == Extreme::kMax ? v > b : v < b;
        if (better || (pick == Pick::kLast && v == b)) best = j;
      }
      if (y.dtype == ACL_INT64) {
        y.as<int64_t>()[i] = best;
      } else {
        y.as<int32_t>()[i] = static_cast<int32_t>(best);
      }
    });
  });
}

namespace {

void softmax_doubles(SoftmaxForm form, const TensorView& x, int64_t inner, int64_t length,
                     const TensorView& y, const Exec& exec) {
  parallel_for(exec, x.elements() / std::max<int64_t>(1, length), [&](int64_t i) {
    const int64_t start = i / inner * length * inner + i % inner;
    const double* from = x.as<const double>() + start;
    double* to = y.as<double>() + start;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < length; ++j) top = std::max(top, from[j * inner]);
    double sum = 0.0;
    for (int64_t j = 0; j < length; ++j) sum += std::exp(from[j * inner] - top);
    for (int64_t j = 0; j < length; ++j) {
      const double shifted = from[j * inner] - top;
      to[j * inner] = form == SoftmaxForm::kLog ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
}

}  // namespace

void softmax(SoftmaxForm form, const TensorView& x, size_t first, size_t last, const TensorView& y,
             const Exec& exec) {
  const VectorKernels& kernels = vector_kernels();
  const bool log = form == SoftmaxForm::kLog;
  const int64_t inner = x.shape.elements(last, x.shape.rank());
  const int64_t length = x.shape.elements(first, last);
  if (x.dtype == ACL_DOUBLE) return softmax_doubles(form, x, inner, length, y, exec);
  const int64_t rows = x.shape.elements(0, first) * inner;
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, length));
  parallel_ranges(exec, rows, grain, [&](int64_t begin, int64_t end) {
    // A row that does not lie side by side is gathered first.
    std::vector<float> row(static_cast<size_t>(inner == 1 ? 0 : length));
    for (int64_t i = begin; i < end; ++i) {
      const float* from = x.as<const float>() + i / inner * length * inner + i % inner;
      float* to = y.as<float>() + (from - x.as<const float>());
      if (inner == 1) {
        kernels.softmax(log, from, to, length);
        continue;
      }
      for (int64_t j = 0; j < length; ++j) row[static_cast<size_t>(j)] = from[j * inner];
      kernels.softmax(log, row.data(), row.data(), length);
      for (int64_t j = 0; j < length; ++j) to[j * inner] = row[static_cast<size_t>(j)];
    }
  });
}

}  // namespace ascendrt::ops
