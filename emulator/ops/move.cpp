// Owns: data movement. Must never: read outside x or write outside y.
#include "ops/move.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ops/broadcast.hpp"
#include "ops/element.hpp"

namespace ascendrt::ops {
namespace {

std::array<int64_t, Shape::kMaxRank> steps_of(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> steps{};
  int64_t step = 1;
  for (size_t i = shape.rank(); i-- > 0;) {
    steps[i] = step;
    step *= shape[i];
  }
  return steps;
}

// Fills y row by row: row(index of the row in y, coordinates of its first element, to).
template <class T, class Row>
void for_rows(const TensorView& y, const Exec& exec, Row&& row) {
  const Shape& shape = y.shape;
  const int64_t length = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const int64_t rows = shape.rank() == 0 ? 1 : shape.elements(0, shape.rank() - 1);
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, length));
  parallel_ranges(exec, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::array<int64_t, Shape::kMaxRank> at{};
      int64_t rest = r;
      for (size_t i = shape.rank(); i-- > 1;) {
        at[i - 1] = rest % shape[i - 1];
        rest /= shape[i - 1];
      }
      row(at, y.as<T>() + r * length, length);
    }
  });
}

}  // namespace

Shape transpose_shape(const Shape& x, std::span<const int64_t> perm) {
  Shape y;
  uint32_t seen = 0;
  for (const int64_t axis : perm) {
    const size_t from = resolve_axis("Transpose", axis, x.rank());
    seen |= 1U << from;
    y.push_back(x[from]);
  }
  if (perm.size() != x.rank() || seen != (1U << x.rank()) - 1U) {
    fail("Transpose", "perm is no permutation of the axes of " + x.text());
  }
  return y;
}

void transpose(const TensorView& x, std::span<const int64_t> perm, const TensorView& y,
               const Exec& exec) {
  const auto from = steps_of(x.shape);
  std::array<int64_t, Shape::kMaxRank> step{};
  for (size_t i = 0; i < perm.size(); ++i) {
    step[i] = from[resolve_axis("Transpose", perm[i], x.shape.rank())];
  }
  const size_t rank = y.shape.rank();
  for_size("Transpose", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T>(y, exec, [&](const auto& at, T* to, int64_t length) {
      const T* p = x.as<const T>();
      for (size_t i = 0; i + 1 < rank; ++i) p += at[i] * step[i];
      const int64_t inner = rank == 0 ? 0 : step[rank - 1];
      for (int64_t i = 0; i < length; ++i) to[i] = p[i * inner];
    });
  });
}

void concat(std::span<const TensorView> xs, size_t axis, const TensorView& y, const Exec& exec) {
  const size_t width = dtype_size(y.dtype);
  const auto row = static_cast<int64_t>(width) * y.shape.elements(axis, y.shape.rank());
  const int64_t outer = y.shape.elements(0, axis);
  int64_t at = 0;
  for (const TensorView& x : xs) {
    const auto part = static_cast<int64_t>(width) * x.shape.elements(axis, x.shape.rank());
    if (part == 0) continue;
    parallel_for(exec, outer, [&](int64_t i) {
      std::memcpy(y.as<char>() + i * row + at, x.as<const char>() + i * part,
                  static_cast<size_t>(part));
    });
    at += part;
  }
}

namespace {

// The source index of position `i` on an axis of `dim` elements, or -1 for the pad value.
int64_t pad_source(PadMode mode, int64_t i, int64_t dim) {
  if (i >= 0 && i < dim) return i;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge) return i < 0 ? 0 : dim - 1;
  if (mode == PadMode::kWrap) return ((i % dim) + dim) % dim;
  if (dim == 1) return 0;
  const int64_t period = 2 * (dim - 1);
  const int64_t phase = ((i % period) + period) % period;
  return phase < dim ? phase : period - phase;
}

}  // namespace

void pad(PadMode mode, const TensorView& x, std::span<const int64_t> before, const void* value,
         const TensorView& y, const Exec& exec) {
  const size_t rank = x.shape.rank();
  const auto step = steps_of(x.shape);
  if (mode != PadMode::kConstant && x.elements() == 0)
    fail("Pad", "nothing to repeat in an empty tensor");
  for_size("Pad", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    T fill{};
    if (value != nullptr) std::memcpy(&fill, value, sizeof(T));
    for_rows<T>(y, exec, [&](const auto& at, T* to, int64_t length) {
      const T* p = x.as<const T>();
      bool outside = false;
      for (size_t i = 0; i + 1 < rank; ++i) {
        const int64_t source = pad_source(mode, at[i] - before[i], x.shape[i]);
        outside = outside || source < 0;
        p += outside ? 0 : source * step[i];
      }
      for (int64_t i = 0; i < length; ++i) {
        const int64_t source =
            rank == 0 ? 0 : pad_source(mode, i - before[rank - 1], x.shape[rank - 1]);
        to[i] = outside || source < 0 ? fill : p[source];
      }
    });
  });
}

SliceAxis resolve_slice(int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (step == 0) fail("Slice", "a step of 0");
  // Limits far outside stand for "to the end"; clamping first keeps the sums below in range.
  const auto resolve = [dim](int64_t v) {
    v = std::clamp<int64_t>(v, -dim - 1, dim);
    return v < 0 ? v + dim : v;
  };
  SliceAxis out{resolve(start), step, 0};
  const int64_t stop = resolve(end);
  if (step > 0) {
    out.start = std::max<int64_t>(out.start, 0);
    if (stop > out.start) out.count = (stop - out.start - 1) / step + 1;
    return out;
  }
  out.start = std::min(std::max<int64_t>(out.start, 0), dim - 1);
  const int64_t last = std::max<int64_t>(stop, -1);
  const int64_t stride = step == INT64_MIN ? INT64_MAX : -step;
  if (out.start > last) out.count = (out.start - last - 1) / stride + 1;
  return out;
}

void slice(const TensorView& x, std::span<const SliceAxis> axes, const TensorView& y,
           const Exec& exec) {
  const size_t rank = x.shape.rank();
  const auto step = steps_of(x.shape);
  for_size("Slice", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T>(y, exec, [&](const auto& at, T* to, int64_t length) {
      const T* p = x.as<const T>();
      for (size_t i = 0; i + 1 < rank; ++i) {
        p += (axes[i].start + at[i] * axes[i].step) * step[i];
      }
      if (rank == 0) {
        *to = *p;
        return;
      }
      const SliceAxis& inner = axes[rank - 1];
      for (int64_t i = 0; i < length; ++i) to[i] = p[inner.start + i * inner.step];
    });
  });
}

void gather(const TensorView& x, const TensorView& indices, size_t axis, const TensorView& y,
            const Exec& exec) {
  const int64_t dim = x.shape[axis];
  const int64_t count = indices.elements();
  std::vector<int64_t> resolved(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index =
        indices.dtype == ACL_INT64 ? indices.as<int64_t>()[i] : indices.as<int32_t>()[i];
    if (index < -dim || index >= dim) {
      fail("Gather", "index " + std::to_string(index) + " is outside an axis of " +
                         std::to_string(dim) + " elements");
    }
    resolved[static_cast<size_t>(i)] = index < 0 ? index + dim : index;
  }
  const int64_t inner =
      static_cast<int64_t>(dtype_size(x.dtype)) * x.shape.elements(axis + 1, x.shape.rank());
  parallel_for(exec, x.shape.elements(0, axis), [&](int64_t outer) {
    const char* from = x.as<const char>() + outer * dim * inner;
    char* to = y.as<char>() + outer * count * inner;
    for (const int64_t index : resolved) {
      std::memcpy(to, from + index * inner, static_cast<size_t>(inner));
      to += inner;
    }
  });
}

void expand(const TensorView& x, const TensorView& y, const Exec& exec) {
  const auto plan = plan_broadcast<1>(y.shape, {&x.shape});
  for_size("Expand", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    walk_broadcast(plan, exec, [&](int64_t out, const auto& from, const auto& step, int64_t n) {
      const T* p = x.as<const T>() + from[0];
      for (int64_t i = 0; i < n; ++i) y.as<T>()[out + i] = p[i * step[0]];
    });
  });
}

void tile(const TensorView& x, const TensorView& y, const Exec& exec) {
  const size_t rank = x.shape.rank();
  const auto step = steps_of(x.shape);
  for_size("Tile", x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T>(y, exec, [&](const auto& at, T* to, int64_t length) {
      const T* p = x.as<const T>();
      for (size_t i = 0; i + 1 < rank; ++i) p += at[i] % x.shape[i] * step[i];
      const int64_t inner = rank == 0 ? 1 : x.shape[rank - 1];
      for (int64_t i = 0; i < length; ++i) to[i] = p[i % inner];
    });
  });
}

}  // namespace ascendrt::ops
