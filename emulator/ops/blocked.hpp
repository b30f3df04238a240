// Tensors in blocks of 16 channels, [batch][channels / 16][rows][columns][16], with a border
// (zeros, or the zero point of bytes) where a consumer reads beyond the edge. Owns: BlockedShape,
// the way in and out of the layout, pooling. Must never: own memory.
//
// Lanes past the last channel hold anything; no kernel lets them reach a result.
#pragma once

#include <cstdint>

#include "ops/conv_tile.hpp"
#include "ops/parallel.hpp"
#include "ops/pool.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// Pixels around every plane.
struct Border {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  uint8_t fill = 0;  // each byte of them
  bool operator==(const Border&) const = default;
  bool holds(const Border& other) const {
    return top >= other.top && bottom >= other.bottom && left >= other.left &&
           right >= other.right && (fill == other.fill || other.empty());
  }
  Border joined(const Border& other) const;  // of the same fill
  bool empty() const { return top + bottom + left + right == 0; }
};

struct BlockedShape {
  int64_t batch = 1, channels = 0, h = 0, w = 0;
  Border border;

  int64_t blocks() const { return (channels + kLanes - 1) / kLanes; }
  // Steps in elements.
  int64_t row_step() const { return (w + border.left + border.right) * kLanes; }
  int64_t block_step() const { return (h + border.top + border.bottom) * row_step(); }
  int64_t image_step() const { return blocks() * block_step(); }
  int64_t elements() const { return batch * image_step(); }
  int64_t origin() const { return border.top * row_step() + border.left * kLanes; }
  Shape physical() const;  // of the whole buffer; fails when it is too large
  Shape logical() const { return {batch, channels, h, w}; }
  bool operator==(const BlockedShape&) const = default;
};

// Elements of any size are moved as they are. x is NCHW in these two.
void to_blocked(const TensorView& x, const BlockedShape& shape, void* y, const Exec& exec);
void from_blocked(const void* x, const BlockedShape& shape, const TensorView& y, const Exec& exec);
// The same tensor with another border.
void change_border(const void* x, const BlockedShape& from, void* y, const BlockedShape& to,
                   int64_t element_bytes, const Exec& exec);

// Fills around rows [row, row + rows) of the plane at `plane` (its first byte, border included).
void fill_border(const BlockedShape& shape, char* plane, int64_t row, int64_t rows,
                 int64_t element_bytes);

enum class PoolKind : uint8_t { kMax, kAverage, kAverageWithPads };

// `window.planes` is not used. Windows never read the border.
void pool_blocked(PoolKind kind, const PoolShape& window, const void* x, const BlockedShape& from,
                  void* y, const BlockedShape& to, Stored stored, const Exec& exec,
                  const ConvKernels& kernels = conv_kernels());

}  // namespace ascendrt::ops
