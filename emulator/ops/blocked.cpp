// Owns: moving between layouts and the loops of pooling. Must never: read a border as data.
#include "ops/blocked.hpp"

#include <algorithm>
#include <cstring>

#include "ops/element.hpp"

#if defined(__SSE2__)  // what every x86-64 has
#include <emmintrin.h>
#endif

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

// Four rows of four elements become columns; rows are x_step and y_step elements apart.
constexpr int64_t kTurned = 4;

template <class T>
void turn(const T* x, int64_t x_step, T* y, int64_t y_step) {
  for (int64_t i = 0; i < kTurned; ++i) {
    for (int64_t k = 0; k < kTurned; ++k) y[k * y_step + i] = x[i * x_step + k];
  }
}

#if defined(__SSE2__)
void turn(const uint32_t* x, int64_t x_step, uint32_t* y, int64_t y_step) {
  const auto row = [&](int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i * x_step));
  };
  const auto put = [&](int64_t i, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i * y_step), v);
  };
  const __m128i low_first = _mm_unpacklo_epi32(row(0), row(1));
  const __m128i low_last = _mm_unpacklo_epi32(row(2), row(3));
  const __m128i high_first = _mm_unpackhi_epi32(row(0), row(1));
  const __m128i high_last = _mm_unpackhi_epi32(row(2), row(3));
  put(0, _mm_unpacklo_epi64(low_first, low_last));
  put(1, _mm_unpackhi_epi64(low_first, low_last));
  put(2, _mm_unpacklo_epi64(high_first, high_last));
  put(3, _mm_unpackhi_epi64(high_first, high_last));
}

void turn(const uint16_t* x, int64_t x_step, uint16_t* y, int64_t y_step) {
  const auto row = [&](int64_t i) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + i * x_step));
  };
  const auto put = [&](int64_t i, __m128i v) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y + i * y_step), v);
  };
  const __m128i first = _mm_unpacklo_epi16(row(0), row(1));
  const __m128i last = _mm_unpacklo_epi16(row(2), row(3));
  const __m128i low = _mm_unpacklo_epi32(first, last);
  const __m128i high = _mm_unpackhi_epi32(first, last);
  put(0, low);
  put(1, _mm_unpackhi_epi64(low, low));
  put(2, high);
  put(3, _mm_unpackhi_epi64(high, high));
}
#endif

// Turns `rows` rows of `columns` elements into columns.
template <class T>
void turn_all(const T* x, int64_t x_step, int64_t rows, int64_t columns, T* y, int64_t y_step) {
  const int64_t whole_rows = rows - rows % kTurned;
  const int64_t whole_columns = columns - columns % kTurned;
  for (int64_t k = 0; k < whole_columns; k += kTurned) {
    for (int64_t i = 0; i < whole_rows; i += kTurned) {
      turn(x + i * x_step + k, x_step, y + k * y_step + i, y_step);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = i < whole_rows ? whole_columns : 0; k < columns; ++k) {
      y[k * y_step + i] = x[i * x_step + k];
    }
  }
}

template <class T>
void block_rows(const T* x, int64_t area, int64_t channels, const BlockedShape& s, T* plane) {
  for (int64_t h = 0; h < s.h; ++h) {
    T* to = plane + s.origin() + h * s.row_step();
    if (channels < kLanes) std::memset(to, 0, static_cast<size_t>(s.w * kLanes) * sizeof(T));
    turn_all(x + h * s.w, area, channels, s.w, to, kLanes);
  }
}

template <class T>
void plain_rows(const T* plane, int64_t area, int64_t channels, const BlockedShape& s, T* y) {
  for (int64_t h = 0; h < s.h; ++h) {
    const T* from = plane + s.origin() + h * s.row_step();
    turn_all(from, kLanes, s.w, channels, y + h * s.w, area);
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
