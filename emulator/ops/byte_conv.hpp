// Quantised 2-D convolution of bytes in blocks, and what else is computed on such bytes: pools,
// sums. Owns: the packed weights and the order of the work of one layer. Must never: keep pointers
// to the tensors it is given.
//
// Bytes are unsigned: Note [Bytes] in byte_tile.hpp. So are all zero points here.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/byte_tile.hpp"
#include "ops/conv_blocked.hpp"
#include "ops/parallel.hpp"

namespace ascendrt::ops {

// A linear scale: real = (byte - zero) * scale.
struct ByteScale {
  float scale = 1.0F;
  int32_t zero = 0;
};

struct ByteConvSpec {
  // `stored` and the bounds are not used. A planar input is of at most four channels.
  BlockedConvSpec geometry;
  ByteScale x;
  std::vector<float> weight_scales;  // one per output channel
  ByteScale sum;                     // of the sums; the result's own, unless there is an addend
  int32_t sum_low = 0, sum_high = 255;
  ByteScale addend;  // these two only with geometry.add
  ByteScale y;
  int32_t low = 0, high = 255;
  bool turns = false;  // a planar input is signed
};

class ByteConvolution {
 public:
  // weights: [out_channels][in_channels / groups][kernel_h][kernel_w], less their zero points;
  // bias: null or one value per output channel, in units of the scales of x and weights.
  ByteConvolution(const ByteConvSpec& spec, const int8_t* weights, const int32_t* bias,
                  const ByteKernels& kernels = byte_kernels());

  static int64_t scratch_bytes(const ByteConvSpec& spec);
  // exec.scratch holds scratch_bytes(). y may be `add`.
  void run(const uint8_t* x, const uint8_t* add, uint8_t* y, const Exec& exec) const;

 private:
  struct Steps {  // bytes between neighbours, and where the first pixel is
    int64_t image, block, row, pixel, origin;
    int64_t at(int64_t n, int64_t b, int64_t h, int64_t w) const {
      return n * image + b * block + h * row + w * pixel + origin;
    }
  };
  struct Four {  // the first of four input channels and the place in the kernel they meet
    int64_t channel, row, column;
  };
  struct Segment {  // pixels of one work item
    int64_t row, rows, column, columns;
  };
  struct Tensors {
    const uint8_t* x;
    const uint8_t* add;
    uint8_t* y;
  };
  void lay_out();
  void list_taps();
  void list_segments();
  void pack_dense(const int8_t* weights);
  void pack_depthwise(const int8_t* weights);
  void set_bias(const int8_t* weights, const int32_t* bias);
  void set_finish();
  void stage(const uint8_t* x, uint8_t* to, const Exec& exec) const;
  void run_dense(const Tensors& t, const Exec& exec) const;
  void run_tile(const Tensors& t, int64_t image, int64_t tile, const Segment& segment) const;
  void run_depthwise(const Tensors& t, const Exec& exec) const;
  ByteFinish finish(const Tensors& t, int64_t image, int64_t block, int64_t row,
                    int64_t column) const;
  void clear_border(const Tensors& t, int64_t image, int64_t block, const Segment& s) const;

  const ByteKernels& kernels_;
  ByteConvSpec spec_;
  bool planar_;
  bool depthwise_;
  bool pixels_outside_ = false;
  int64_t in_group_;   // channels per group
  int64_t out_group_;  //
  int64_t tiles_ = 0;  // per group
  Steps in_{}, out_{}, add_{};
  std::vector<Tap> taps_;
  std::vector<Four> fours_;  // all steps of all taps
  std::vector<int64_t> offsets_;
  std::vector<Segment> segments_;
  PackedFloats weights_;  // bytes of any kind; of depthwise layers int32
  std::vector<int32_t> bias_;
  std::vector<float> scales_;
  ByteFinish finish_{};
};

// The largest byte of each window.
void max_pool_bytes(const PoolShape& window, const uint8_t* x, const BlockedShape& from, uint8_t* y,
                    const BlockedShape& to, const Exec& exec);
// The mean of each plane: y is [batch][blocks][1][1][16].
void average_planes(const uint8_t* x, const BlockedShape& from, ByteScale in, uint8_t* y,
                    ByteScale out, const Exec& exec);
// Elements of both scaled and added. y may be one of the operands.
void add_bytes(const uint8_t* a, ByteScale a_scale, const uint8_t* b, ByteScale b_scale, uint8_t* y,
               ByteScale y_scale, int32_t low, int32_t high, int64_t count, const Exec& exec);
// Signed bytes become unsigned ones and back. y may be x.
void turn_bytes(const void* x, void* y, int64_t count, const Exec& exec);
// Between NCHW bytes, signed ones turned, and blocks.
void bytes_to_blocked(const TensorView& x, const BlockedShape& shape, void* y, const Exec& exec);
void bytes_from_blocked(const void* x, const BlockedShape& shape, const TensorView& y,
                        const Exec& exec);

}  // namespace ascendrt::ops
