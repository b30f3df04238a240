// Owns: gather, scatter, order and sums along an axis. Must never: trust an index.
#include "ops/index.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/element.hpp"

namespace ascendrt::ops {
namespace {

// A tensor as [outer][length][inner] around one axis.
struct Lines {
  int64_t outer, length, inner;
  Lines(const Shape& shape, size_t axis)
      : outer(shape.elements(0, axis)),
        length(shape[axis]),
        inner(shape.elements(axis + 1, shape.rank())) {}
  // Element 0 of line i of outer * inner.
  int64_t start(int64_t i) const { return i / inner * length * inner + i % inner; }
};

int64_t checked(std::string_view op, int64_t index, int64_t dim) {
  if (index < -dim || index >= dim) {
    fail(op, "index " + std::to_string(index) + " is outside a dim of " + std::to_string(dim));
  }
  return index < 0 ? index + dim : index;
}

std::array<int64_t, Shape::kMaxRank> steps_of(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> steps{};
  int64_t step = 1;
  for (size_t i = shape.rank(); i-- > 0; step *= shape[i]) steps[i] = step;
  return steps;
}

// Calls f(position among the indices, element of x) for all indices along an axis.
template <class F>
void for_elements(std::string_view op, const Shape& x, const TensorView& indices, size_t axis,
                  F&& f) {
  const auto list = to_ints(indices, {});
  const auto step = steps_of(x);
  const Shape& shape = indices.shape;
  if (shape.rank() != x.rank()) fail(op, "indices need the rank of the input");
  for (int64_t i = 0; i < static_cast<int64_t>(list.size()); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t k = shape.rank(); k-- > 0;) {
      const int64_t own = rest % shape[k];
      rest /= shape[k];
      const int64_t place =
          k == axis ? checked(op, list[static_cast<size_t>(i)], x[k]) : checked(op, own, x[k]);
      at += place * step[k];
    }
    f(i, at);
  }
}

// Calls f(row of the indices, first element of the slice of x) for index tuples.
template <class F>
int64_t for_tuples(std::string_view op, const Shape& x, const TensorView& indices,
                   size_t batch_dims, F&& f) {
  const size_t rank = indices.shape.rank();
  if (rank == 0) fail(op, "indices need a dim");
  const auto depth = static_cast<size_t>(indices.shape[rank - 1]);
  if (batch_dims + depth > x.rank() || batch_dims >= rank) fail(op, "index tuples are too long");
  const auto list = to_ints(indices, {});
  const auto step = steps_of(x);
  const int64_t rows = indices.shape.elements(0, rank - 1);
  const int64_t batches = indices.shape.elements(0, batch_dims);
  const int64_t per_batch = batches == 0 ? 1 : std::max<int64_t>(rows / batches, 1);
  const int64_t batch_step = x.elements(batch_dims, x.rank());
  for (int64_t i = 0; i < rows; ++i) {
    int64_t at = i / per_batch * batch_step;
    for (size_t k = 0; k < depth; ++k) {
      const int64_t index = list[static_cast<size_t>(i) * depth + k];
      at += checked(op, index, x[batch_dims + k]) * step[batch_dims + k];
    }
    f(i, at);
  }
  return x.elements(batch_dims + depth, x.rank());
}

template <class T>
T combined(Scatter how, T old, T update) {
  switch (how) {
    case Scatter::kAdd:
      return static_cast<T>(old + update);
    case Scatter::kMul:
      return static_cast<T>(old * update);
    case Scatter::kMax:
      return std::max(old, update);
    case Scatter::kMin:
      return std::min(old, update);
    default:
      return update;
  }
}

template <class F>
void for_scatter(Scatter how, aclDataType dtype, F&& f) {
  if (how == Scatter::kSet) return for_size("scatter", dtype, f);
  for_number("scatter", dtype, f);
}

void copy_all(const TensorView& x, const TensorView& y) {
  if (x.size_bytes() > 0 && x.data != y.data) std::memcpy(y.data, x.data, x.size_bytes());
}

}  // namespace

void gather_elements(const TensorView& x, const TensorView& indices, size_t axis,
                     const TensorView& y, const Exec&) {
  for_size("gather_elements", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_elements("gather_elements", x.shape, indices, axis,
                 [&](int64_t i, int64_t at) { y.as<T>()[i] = x.as<const T>()[at]; });
  });
}

void gather_nd(const TensorView& x, const TensorView& indices, size_t batch_dims,
               const TensorView& y, const Exec&) {
  const auto depth = static_cast<size_t>(indices.shape[indices.shape.rank() - 1]);
  const size_t width = dtype_size(x.dtype);
  const auto bytes =
      static_cast<size_t>(x.shape.elements(batch_dims + depth, x.shape.rank())) * width;
  for_tuples("gather_nd", x.shape, indices, batch_dims, [&](int64_t i, int64_t at) {
    std::memcpy(y.as<char>() + static_cast<size_t>(i) * bytes,
                x.as<const char>() + static_cast<size_t>(at) * width, bytes);
  });
}

void scatter_elements(Scatter how, const TensorView& x, const TensorView& indices,
                      const TensorView& updates, size_t axis, const TensorView& y, const Exec&) {
  copy_all(x, y);
  for_scatter(how, x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_elements("scatter_elements", x.shape, indices, axis, [&](int64_t i, int64_t at) {
      T& to = y.as<T>()[at];
      to = combined(how, to, updates.as<const T>()[i]);
    });
  });
}

void scatter_nd(Scatter how, const TensorView& x, const TensorView& indices,
                const TensorView& updates, const TensorView& y, const Exec&) {
  copy_all(x, y);
  const auto depth = static_cast<size_t>(indices.shape[indices.shape.rank() - 1]);
  const int64_t slice = x.shape.elements(std::min(depth, x.shape.rank()), x.shape.rank());
  for_scatter(how, x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_tuples("scatter_nd", x.shape, indices, 0, [&](int64_t i, int64_t at) {
      const T* from = updates.as<const T>() + i * slice;
      T* to = y.as<T>() + at;
      for (int64_t k = 0; k < slice; ++k) to[k] = combined(how, to[k], from[k]);
    });
  });
}

void one_hot(const TensorView& indices, const TensorView& on, const TensorView& off, size_t axis,
             const TensorView& y, const Exec& exec) {
  const auto list = to_ints(indices, exec);
  const Lines lines(y.shape, axis);
  for_size("one_hot", y.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = y.as<T>();
    std::fill_n(to, y.elements(), *off.as<const T>());
    for (int64_t i = 0; i < static_cast<int64_t>(list.size()); ++i) {
      int64_t index = list[static_cast<size_t>(i)];
      if (index < -lines.length || index >= lines.length) continue;
      if (index < 0) index += lines.length;
      to[lines.start(i) + index * lines.inner] = *on.as<const T>();
    }
  });
}

void top_k(Order order, const TensorView& x, size_t axis, const TensorView& y,
           const TensorView& indices, const Exec& exec) {
  const Lines lines(x.shape, axis);
  const Lines results(y.shape, axis);
  for_number("top_k", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(exec, lines.outer * lines.inner, [&](int64_t i) {
      const T* from = x.as<const T>() + lines.start(i);
      std::vector<int64_t> rank(static_cast<size_t>(lines.length));
      std::iota(rank.begin(), rank.end(), int64_t{0});
      const auto before = [&](int64_t a, int64_t b) {
        const T va = from[a * lines.inner];
        const T vb = from[b * lines.inner];
        if (va != vb) return order == Order::kLargest ? va > vb : va < vb;
        return a < b;
      };
      std::partial_sort(rank.begin(), rank.begin() + results.length, rank.end(), before);
      for (int64_t k = 0; k < results.length; ++k) {
        const int64_t at = results.start(i) + k * results.inner;
        const int64_t source = rank[static_cast<size_t>(k)];
        y.as<T>()[at] = from[source * lines.inner];
        if (indices.dtype == ACL_INT64) indices.as<int64_t>()[at] = source;
        if (indices.dtype == ACL_INT32) indices.as<int32_t>()[at] = static_cast<int32_t>(source);
      }
    });
  });
}

void cumulate(const CumulateParams& p, const TensorView& x, size_t axis, const TensorView& y,
              const Exec& exec) {
  const Lines lines(x.shape, axis);
  for_number("cumulate", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(exec, lines.outer * lines.inner, [&](int64_t i) {
      const T* from = x.as<const T>() + lines.start(i);
      T* to = y.as<T>() + lines.start(i);
      T total = p.kind == Cumulate::kSum ? T{0} : T{1};
      for (int64_t k = 0; k < lines.length; ++k) {
        const int64_t at = (p.reverse ? lines.length - 1 - k : k) * lines.inner;
        const T before = total;
        total = static_cast<T>(p.kind == Cumulate::kSum ? total + from[at] : total * from[at]);
        to[at] = p.exclusive ? before : total;
      }
    });
  });
}

void reverse_sequence(const TensorView& x, const TensorView& lengths, size_t time_axis,
                      size_t batch_axis, const TensorView& y, const Exec& exec) {
  const auto counts = to_ints(lengths, exec);
  const auto step = steps_of(x.shape);
  const int64_t times = x.shape[time_axis];
  for (const int64_t count : counts) {
    if (count < 0 || count > times) {
      fail("reverse_sequence", "a length of " + std::to_string(count) + ", the time axis has " +
                                   std::to_string(times) + " elements");
    }
  }
  for_size("reverse_sequence", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(exec, x.elements(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t time = i / step[time_axis] % times;
        const int64_t batch = i / step[batch_axis] % x.shape[batch_axis];
        const int64_t count = counts[static_cast<size_t>(batch)];
        const int64_t source = time < count ? count - 1 - time : time;
        y.as<T>()[i] = x.as<const T>()[i + (source - time) * step[time_axis]];
      }
    });
  });
}

void triangle(Triangle part, int64_t diagonal, const TensorView& x, const TensorView& y,
              const Exec& exec) {
  const size_t rank = x.shape.rank();
  const int64_t rows = x.shape[rank - 2];
  const int64_t columns = x.shape[rank - 1];
  for_size("triangle", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(exec, x.shape.elements(0, rank - 1), [&](int64_t i) {
      const int64_t row = i % rows;
      const T* from = x.as<const T>() + i * columns;
      T* to = y.as<T>() + i * columns;
      for (int64_t k = 0; k < columns; ++k) {
        const bool kept = part == Triangle::kUpper ? k - row >= diagonal : k - row <= diagonal;
        to[k] = kept ? from[k] : T{0};
      }
    });
  });
}

void eye(int64_t diagonal, const TensorView& y, const Exec& exec) {
  std::vector<float> values(static_cast<size_t>(y.elements()), 0.0F);
  for (int64_t i = 0; i < y.shape[0]; ++i) {
    const int64_t k = i + diagonal;
    if (k >= 0 && k < y.shape[1]) values[static_cast<size_t>(i * y.shape[1] + k)] = 1.0F;
  }
  from_floats(values, y, exec);
}

int64_t range_count(const TensorView& start, const TensorView& limit, const TensorView& step) {
  int64_t count = 0;
  for_number("range", start.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto first = static_cast<double>(*start.as<const T>());
    const auto last = static_cast<double>(*limit.as<const T>());
    const auto delta = static_cast<double>(*step.as<const T>());
    const double steps = std::ceil((last - first) / delta);
    if (delta == 0.0 || !(steps < 1e15)) {
      fail("range", std::to_string(first) + " to " + std::to_string(last) + " in steps of " +
                        std::to_string(delta) + " is no range that ends");
    }
    count = steps > 0.0 ? static_cast<int64_t>(steps) : 0;
  });
  return count;
}

void range(const TensorView& start, const TensorView& step, const TensorView& y, const Exec&) {
  for_number("range", y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T first = *start.as<const T>();
    const T delta = *step.as<const T>();
    for (int64_t i = 0; i < y.elements(); ++i) {
      if constexpr (std::is_integral_v<T>) {  // what is past the limit may wrap
        const auto step = static_cast<uint64_t>(delta) * static_cast<uint64_t>(i);
        y.as<T>()[i] = static_cast<T>(static_cast<uint64_t>(first) + step);
      } else {
        y.as<T>()[i] = static_cast<T>(first + static_cast<T>(i) * delta);
      }
    }
  });
}

void hardmax(const TensorView& x, size_t first, size_t last, const TensorView& y,
             const Exec& exec) {
  const int64_t inner = x.shape.elements(last, x.shape.rank());
  const int64_t length = x.shape.elements(first, last);
  parallel_for(exec, x.shape.elements(0, first) * inner, [&](int64_t i) {
    const int64_t start = i / inner * length * inner + i % inner;
    const float* from = x.as<const float>() + start;
    float* to = y.as<float>() + start;
    int64_t best = 0;
    for (int64_t k = 1; k < length; ++k) best = from[k * inner] > from[best * inner] ? k : best;
    for (int64_t k = 0; k < length; ++k) to[k * inner] = k == best ? 1.0F : 0.0F;
  });
}

std::vector<int64_t> nonzero(const TensorView& x) {
  std::vector<int64_t> at;
  const auto visit = [&](auto zero) {
    const auto* values = x.as<const decltype(zero)>();
    for (int64_t i = 0; i < x.elements(); ++i) {
      if (values[i] != 0) at.push_back(i);
    }
  };
  if (x.dtype == ACL_BOOL) {
    visit(uint8_t{});
  } else {
    for_number("nonzero", x.dtype, visit);
  }
  const auto step = steps_of(x.shape);
  const size_t rank = std::max<size_t>(x.shape.rank(), 1);
  std::vector<int64_t> out;
  for (size_t k = 0; k < rank; ++k) {
    for (const int64_t i : at) {
      out.push_back(x.shape.rank() == 0 ? 0 : i / step[k] % x.shape[k]);
    }
  }
  return out;
}

namespace {

// -1, 0, 1 as slice a sorts before, with or behind slice b.
template <class T>
int compare_slices(const T* x, int64_t outer, int64_t count, int64_t inner, int64_t a, int64_t b) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < inner; ++k) {
      const T va = x[(o * count + a) * inner + k];
      const T vb = x[(o * count + b) * inner + k];
      if (va != vb) return va < vb ? -1 : 1;
    }
  }
  return 0;
}

// The groups in the order of their first slices.
Groups by_appearance(const Groups& groups) {
  const auto at = [](const std::vector<int64_t>& list, int64_t i) {
    return list[static_cast<size_t>(i)];
  };
  std::vector<int64_t> rank(groups.first.size());
  std::iota(rank.begin(), rank.end(), int64_t{0});
  std::sort(rank.begin(), rank.end(),
            [&](int64_t a, int64_t b) { return at(groups.first, a) < at(groups.first, b); });
  Groups out;
  std::vector<int64_t> place(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) {
    place[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
    out.first.push_back(at(groups.first, rank[i]));
    out.members.push_back(at(groups.members, rank[i]));
  }
  for (const int64_t group : groups.of) out.of.push_back(at(place, group));
  return out;
}

}  // namespace

Groups group_equal(const TensorView& x, int64_t outer, int64_t count, int64_t inner,
                   GroupOrder order) {
  Groups groups;
  for_number("unique", x.dtype, [&](auto zero) {
    const auto* values = x.as<const decltype(zero)>();
    const auto compare = [&](int64_t a, int64_t b) {
      return compare_slices(values, outer, count, inner, a, b);
    };
    std::vector<int64_t> sorted(static_cast<size_t>(count));
    std::iota(sorted.begin(), sorted.end(), int64_t{0});
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    groups.of.resize(sorted.size());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i == 0 || compare(sorted[i - 1], sorted[i]) != 0) {
        groups.first.push_back(sorted[i]);
        groups.members.push_back(0);
      }
      groups.of[static_cast<size_t>(sorted[i])] = static_cast<int64_t>(groups.first.size()) - 1;
      ++groups.members.back();
    }
  });
  return order == GroupOrder::kSorted ? groups : by_appearance(groups);
}

}  // namespace ascendrt::ops
