// Products of 8-bit integers less their zero points with int32 results: matrices and convolutions.
// Owns: how their tensors become rows of pixels, and how work is shared. Must never: round.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/byte_sums.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"
#include "ops/window.hpp"

namespace ascendrt::ops {

// A matrix [depth][columns] of int8 or uint8 as the right operand; zeros: null, one, or one per
// column.
class IntegerMatrix {
 public:
  IntegerMatrix(const TensorView& values, int64_t first, int64_t depth, int64_t columns,
                const TensorView* zeros);
  // y [rows][columns]. a: `rows` rows of int8 or uint8 from element `first` on; zeros: null, one,
  // or one per row.
  void multiply(const TensorView& a, int64_t first, int64_t rows, const TensorView* zeros,
                int32_t* y, const Exec& exec) const;

 private:
  int64_t depth_, columns_;
  ByteSums sums_;
};

// Batches of such products are paired by offsets.
struct IntegerMatmul {
  int64_t rows, depth, columns;
  std::vector<int64_t> a_start, b_start;  // first element of each batch
};
// a_zero: 1 value or one per row; b_zero: 1 value or one per column; both may be null. b is packed
// anew for each batch that has another one, unless `packed` is given, which is all there is.
void multiply_integers(const IntegerMatmul& shape, const TensorView& a, const TensorView* a_zero,
                       const TensorView& b, const TensorView* b_zero, int32_t* y, const Exec& exec,
                       const IntegerMatrix* packed = nullptr);

// A 2-D convolution (convolve_integers in window.hpp takes the others) with filters
// [outputs][channels / groups][taps] of int8 or uint8; zeros: null, one, or one per output.
class IntegerConvolution {
 public:
  // What pays: groups of one channel or one output waste most of a tile.
  static bool takes(const WindowShape& shape, int64_t outputs);
  IntegerConvolution(const WindowShape& shape, int64_t outputs, const TensorView& filter,
                     const TensorView* zeros);
  // x [batch][channels][in] of int8 or uint8, zero: null or one value.
  void run(const TensorView& x, const TensorView* zero, int32_t* y, const Exec& exec) const;

 private:
  int64_t group_channels() const { return shape_.channels / shape_.groups; }
  int64_t group_outputs() const { return outputs_ / shape_.groups; }
  int64_t pixel_bytes() const { return shape_.groups * padded_channels(group_channels()); }
  int64_t padded(size_t dim) const {
    return shape_.in[dim] + shape_.pad_before[dim] + shape_.pad_after[dim];
  }
  void stage(const TensorView& x, uint8_t zero, uint8_t* to, const Exec& exec) const;

  WindowShape shape_;
  int64_t outputs_;
  std::vector<ByteSums> groups_;
};

}  // namespace ascendrt::ops
