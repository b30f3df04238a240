// Exact sums of products of 8-bit integers less zero points, for products with matrices and
// convolutions whose zero points only a run tells. Owns: weights packed for the kernels of
// byte_tile.hpp and what zero points add. Must never: round; sums wrap as int32 does.
//
// Note [Zero points]: activations are unsigned bytes x (signed ones with their top bit turned),
// weights signed bytes w (unsigned ones less 128). With zero points z of x and u of w, the sum of
// (x - z)(w - u) over n products is: sum xw - z sum w - u sum x + n z u. The second and the last
// are one number per output, where the kernels begin; sum x is taken only when some u is not 0.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/byte_tile.hpp"
#include "ops/packed.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// A tap of n channels ends at a multiple of four; what lies between is 0.
inline int64_t padded_channels(int64_t channels) {
  return (channels + kDotBytes - 1) / kDotBytes * kDotBytes;
}

class ByteSums {
 public:
  // Weights of int8 or uint8: the one of tap t, channel c and output o is element
  // first + t * tap_step + c * channel_step + o * output_step. zeros: null, one, or one per output
  // from zeros[first_zero] on.
  struct Source {
    const TensorView& values;
    const TensorView* zeros;
    int64_t first, tap_step, channel_step, output_step;
    int64_t first_zero;
    int64_t taps, channels, outputs;
  };
  explicit ByteSums(const Source& source, const ByteKernels& kernels = byte_kernels());

  int64_t tiles() const { return tiles_; }  // of up to 32 outputs
  // Where the kernels begin for each output; x_zero is one of unsigned bytes.
  std::vector<int32_t> begin(int32_t x_zero) const;

  // Pixels in a row: tap t of pixel p is at x + p * x_step + taps[t].
  struct Row {
    const uint8_t* x;
    int64_t x_step;
    const int64_t* taps;
    int64_t pixels;
    int32_t* y;  // of pixel p and output o: y[p * y_pixel + o * y_output]
    int64_t y_pixel, y_output;
  };
  void run(const Row& row, const std::vector<int32_t>& begin, int64_t tile) const;

 private:
  static constexpr int64_t kTileOutputs = 2 * kLanes;
  static constexpr int64_t kRowPixels = 56;  // of one pass
  void pack(const Source& source);
  void add_zeros(const Row& row, int64_t first_output, int64_t outputs, int32_t* sums) const;

  const ByteKernels& kernels_;
  int64_t taps_, channels_, outputs_, tiles_;
  PackedFloats weights_;  // bytes: [tile][taps][steps of four channels][outputs of the tile][4]
  std::vector<int32_t> weight_sums_, zeros_;  // by output, what is missing in the last tile is 0
  bool has_zeros_ = false;
};

}  // namespace ascendrt::ops
