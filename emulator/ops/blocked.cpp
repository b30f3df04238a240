// Owns: moving between layouts and the loops of pooling. Must never: read a border as data.
#include "ops/blocked.hpp"

#include <algorithm>
#include <cstring>

#include "ops/element.hpp"

namespace ascendrt::ops {

Border Border::joined(const Border& other) const {
  return {std::max(top, other.top), std::max(bottom, other.bottom), std::max(left, other.left),
          std::max(right, other.right), empty() ? other.fill : fill};
}

Shape BlockedShape::physical() const {
  const Shape shape{batch, blocks(), h + border.top + border.bottom, w + border.left + border.right,
                    kLanes};
  static_cast<void>(shape.elements());
  return shape;
}

void fill_border(const BlockedShape& s, char* plane, int64_t row, int64_t rows,
                 int64_t element_bytes) {
  const auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(elements * element_bytes);
  };
  const int64_t step = s.row_step();
  if (row == 0) std::memset(plane, s.border.fill, bytes(s.border.top * step));
  if (row + rows == s.h) {
    std::memset(plane + bytes((s.border.top + s.h) * step), s.border.fill,
                bytes(s.border.bottom * step));
  }
  if (s.border.left + s.border.right == 0) return;
  for (int64_t h = row; h < row + rows; ++h) {
    char* start = plane + bytes((s.border.top + h) * step);
    std::memset(start, s.border.fill, bytes(s.border.left * kLanes));
    std::memset(start + bytes((s.border.left + s.w) * kLanes), s.border.fill,
                bytes(s.border.right * kLanes));
  }
}

namespace {

template <class T>
void block_rows(const T* x, int64_t area, int64_t channels, const BlockedShape& s, T* plane) {
  for (int64_t h = 0; h < s.h; ++h) {
    const T* from = x + h * s.w;
    T* to = plane + s.origin() + h * s.row_step();
    if (channels < kLanes) std::memset(to, 0, static_cast<size_t>(s.w * kLanes) * sizeof(T));
    for (int64_t w = 0; w < s.w; ++w, to += kLanes) {
      for (int64_t c = 0; c < channels; ++c) to[c] = from[c * area + w];
    }
  }
}

template <class T>
void plain_rows(const T* plane, int64_t area, int64_t channels, const BlockedShape& s, T* y) {
  for (int64_t c = 0; c < channels; ++c) {
    T* to = y + c * area;
    for (int64_t h = 0; h < s.h; ++h) {
      const T* from = plane + s.origin() + h * s.row_step() + c;
      for (int64_t w = 0; w < s.w; ++w) *to++ = from[w * kLanes];
    }
  }
}

// Calls f(plane number, first channel of the plane in all images, channels in it).
template <class F>
void for_planes(const BlockedShape& s, const Exec& exec, F&& f) {
  parallel_for(exec, s.batch * s.blocks(), [&](int64_t i) {
    const int64_t first = i % s.blocks() * kLanes;
    f(i, i / s.blocks() * s.channels + first, std::min(kLanes, s.channels - first));
  });
}

}  // namespace

void to_blocked(const TensorView& x, const BlockedShape& s, void* y, const Exec& exec) {
  const int64_t area = s.h * s.w;
  for_size("layout", x.dtype, [&](auto element) {
    using T = decltype(element);
    for_planes(s, exec, [&](int64_t i, int64_t channel, int64_t channels) {
      T* plane = static_cast<T*>(y) + i * s.block_step();
      fill_border(s, reinterpret_cast<char*>(plane), 0, s.h, sizeof(T));
      block_rows(static_cast<const T*>(x.data) + channel * area, area, channels, s, plane);
    });
  });
}

void from_blocked(const void* x, const BlockedShape& s, const TensorView& y, const Exec& exec) {
  const int64_t area = s.h * s.w;
  for_size("layout", y.dtype, [&](auto element) {
    using T = decltype(element);
    for_planes(s, exec, [&](int64_t i, int64_t channel, int64_t channels) {
      plain_rows(static_cast<const T*>(x) + i * s.block_step(), area, channels, s,
                 static_cast<T*>(y.data) + channel * area);
    });
  });
}

void change_border(const void* x, const BlockedShape& from, void* y, const BlockedShape& to,
                   int64_t bytes, const Exec& exec) {
  parallel_for(exec, from.batch * from.blocks(), [&](int64_t i) {
    const char* source = static_cast<const char*>(x) + i * from.block_step() * bytes;
    char* plane = static_cast<char*>(y) + i * to.block_step() * bytes;
    fill_border(to, plane, 0, to.h, bytes);
    for (int64_t h = 0; h < from.h; ++h) {
      std::memcpy(plane + (to.origin() + h * to.row_step()) * bytes,
                  source + (from.origin() + h * from.row_step()) * bytes,
                  static_cast<size_t>(from.w * kLanes * bytes));
    }
  });
}

void pool_blocked(PoolKind kind, const PoolShape& window, const void* x, const BlockedShape& from,
                  void* y, const BlockedShape& to, Stored stored, const Exec& exec,
                  const ConvKernels& kernels) {
  const PoolWindows windows(window);
  const int64_t bytes = stored_bytes(stored);
  const auto column_step = window.dilation_w * kLanes;
  parallel_for(exec, to.batch * to.blocks() * to.h, [&](int64_t i) {
    const int64_t h = i % to.h;
    const int64_t plane = i / to.h;
    const PoolSpan& rows = windows.rows[static_cast<size_t>(h)];
    const int64_t first = plane * from.block_step() + from.origin() + rows.start * from.row_step();
    char* target = static_cast<char*>(y) + plane * to.block_step() * bytes;
    fill_border(to, target, h, 1, bytes);
    const int64_t divisor = kind == PoolKind::kAverageWithPads ? rows.with_pads : rows.count;
    kernels.pool({static_cast<const char*>(x) + first * bytes, from.row_step() * window.dilation_h,
                  rows.count, windows.columns.data(), column_step, to.w,
                  kind == PoolKind::kMax ? -1 : divisor, kind == PoolKind::kAverageWithPads,
                  target + (to.origin() + h * to.row_step()) * bytes, stored});
  });
}

}  // namespace ascendrt::ops
