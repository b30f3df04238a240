// Pools, sums and turning of bytes. Owns: their loops, which compilers make vectors of.
// Must never: read a border as data.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/byte_conv.hpp"

namespace ascendrt::ops {
namespace {

// Of numbers below 2^22: adding this leaves no room for fractions, ties go to even.
constexpr float kRound = 12582912.0F;

uint8_t to_byte(float v, float low, float high, int32_t zero) {
  const float bounded = std::min(std::max(v, low), high);
  return static_cast<uint8_t>(static_cast<int32_t>((bounded + kRound) - kRound) + zero);
}

}  // namespace

void max_pool_bytes(const PoolShape& window, const uint8_t* x, const BlockedShape& from, uint8_t* y,
                    const BlockedShape& to, const Exec& exec) {
  const PoolWindows windows(window);
  parallel_for(exec, to.batch * to.blocks() * to.h, [&](int64_t i) {
    const int64_t h = i % to.h;
    const int64_t plane = i / to.h;
    const PoolSpan& rows = windows.rows[static_cast<size_t>(h)];
    uint8_t* target = y + plane * to.block_step();
    fill_border(to, reinterpret_cast<char*>(target), h, 1, 1);
    target += to.origin() + h * to.row_step();
    const uint8_t* source =
        x + plane * from.block_step() + from.origin() + rows.start * from.row_step();
    for (int64_t w = 0; w < to.w; ++w, target += kLanes) {
      const PoolSpan& columns = windows.columns[static_cast<size_t>(w)];
      std::array<uint8_t, kLanes> best{};
      for (int64_t r = 0; r < rows.count; ++r) {
        const uint8_t* at =
            source + r * window.dilation_h * from.row_step() + columns.start * kLanes;
        for (int64_t c = 0; c < columns.count; ++c, at += window.dilation_w * kLanes) {
          for (size_t l = 0; l < kLanes; ++l) best[l] = std::max(best[l], at[l]);
        }
      }
      std::memcpy(target, best.data(), kLanes);
    }
  });
}

void average_planes(const uint8_t* x, const BlockedShape& from, ByteScale in, uint8_t* y,
                    ByteScale out, const Exec& exec) {
  const auto count = static_cast<int32_t>(from.h * from.w);
  const float scale = in.scale / (out.scale * static_cast<float>(count));
  const auto low = static_cast<float>(-out.zero);
  const float high = low + 255.0F;
  parallel_for(exec, from.batch * from.blocks(), [&](int64_t i) {
    std::array<int32_t, kLanes> sums{};
    for (int64_t h = 0; h < from.h; ++h) {
      const uint8_t* at = x + i * from.block_step() + from.origin() + h * from.row_step();
      for (int64_t w = 0; w < from.w; ++w, at += kLanes) {
        for (size_t l = 0; l < kLanes; ++l) sums[l] += at[l];
      }
    }
    for (size_t l = 0; l < kLanes; ++l) {
      const auto sum = static_cast<float>(sums[l] - count * in.zero);
      y[i * kLanes + static_cast<int64_t>(l)] = to_byte(sum * scale, low, high, out.zero);
    }
  });
}

void add_bytes(const uint8_t* a, ByteScale a_scale, const uint8_t* b, ByteScale b_scale, uint8_t* y,
               ByteScale y_scale, int32_t low, int32_t high, int64_t count, const Exec& exec) {
  const float of_a = a_scale.scale / y_scale.scale;
  const float of_b = b_scale.scale / y_scale.scale;
  const auto least = static_cast<float>(low - y_scale.zero);
  const auto most = static_cast<float>(high - y_scale.zero);
  parallel_ranges(exec, count, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float sum = static_cast<float>(a[i] - a_scale.zero) * of_a +
                        static_cast<float>(b[i] - b_scale.zero) * of_b;
      y[i] = to_byte(sum, least, most, y_scale.zero);
    }
  });
}

void turn_bytes(const void* x, void* y, int64_t count, const Exec& exec) {
  const auto* from = static_cast<const uint8_t*>(x);
  auto* to = static_cast<uint8_t*>(y);
  parallel_ranges(exec, count, 65536, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<uint8_t>(from[i] ^ 0x80);
  });
}

void bytes_to_blocked(const TensorView& x, const BlockedShape& shape, void* y, const Exec& exec) {
  if (x.dtype != ACL_INT8) return to_blocked(x, shape, y, exec);
  BlockedShape before = shape;
  before.border.fill ^= 0x80;
  to_blocked(x, before, y, exec);
  turn_bytes(y, y, shape.elements(), exec);
}

void bytes_from_blocked(const void* x, const BlockedShape& shape, const TensorView& y,
                        const Exec& exec) {
  from_blocked(x, shape, y, exec);
  if (y.dtype == ACL_INT8) turn_bytes(y.data, y.data, y.elements(), exec);
}

}  // namespace ascendrt::ops
