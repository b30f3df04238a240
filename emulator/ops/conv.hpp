// 2-D convolution of NCHW float tensors. Owns: ConvShape, the packed weights and the plan of one
// layer. Must never: keep pointers to the tensors it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tile.hpp"

namespace ascendrt::ops {

struct ConvShape {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 0, in_h = 0, in_w = 0;
  int64_t out_channels = 0, out_h = 0, out_w = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;

  // Fills out_h and out_w and fails on numbers that make no convolution.
  void resolve();
  bool is_depthwise() const { return groups == in_channels && groups == out_channels; }
};

// A layer ready to run: weights packed for the kernels, taps listed. Immutable, so one object may
// run on several threads at once, each with its own scratch.
class Convolution {
 public:
  // weights: [out_channels][in_channels / groups][kernel_h][kernel_w], copied.
  Convolution(const ConvShape& shape, const float* weights,
              const TileKernels& kernels = tile_kernels());

  static size_t scratch_bytes(const ConvShape& shape);  // the same on every CPU
  // bias: out_channels values or null. exec.scratch holds scratch_bytes().
  void run(const float* x, const float* bias, float* y, const Exec& exec) const;

 private:
  // Sizes of the blocked buffers of one image. Note [Blocked layout] in tile.hpp.
  struct Plan {
    ConvShape shape;     // a 1x1 layer without borders is one long row
    int64_t groups;      // a depthwise layer is one group
    int64_t in_group;    // channels of a group
    int64_t out_group;   //
    int64_t in_blocks;   // per group
    int64_t out_blocks;  // per group
    int64_t padded_h;    //
    int64_t padded_w;    //
    int64_t in_floats() const { return groups * in_blocks * padded_h * padded_w * kLanes; }
    int64_t out_floats() const { return groups * out_blocks * shape.out_h * shape.out_w * kLanes; }
    int64_t bias_floats() const { return groups * out_blocks * kLanes; }
  };
  struct Chunk {
    size_t first_tap;
    size_t taps;
    int64_t channels_before;  // sum over the taps of earlier chunks
  };
  struct Segment {  // pixels of one work item
    int64_t row, rows, column, columns;
  };
  static Plan make_plan(ConvShape shape);
  void list_taps();
  void pack_dense(const float* weights);
  void pack_depthwise(const float* weights);
  std::vector<Segment> segments() const;

  void load_image(const float* x, float* blocked, const Exec& exec) const;
  void load_block(const float* x, float* blocked, int64_t channels) const;
  void load_bias(const float* bias, float* padded) const;
  void run_dense(const float* in, const float* bias, float* out, const Exec& exec) const;
  void run_tile(const float* in, const float* bias, float* out, int64_t tile,
                const Segment& segment) const;
  void run_depthwise(const float* in, const float* bias, float* out, const Exec& exec) const;
  void store_image(const float* blocked, float* y, const Exec& exec) const;

  const TileKernels& kernels_;
  Plan plan_;
  bool depthwise_;
  int64_t tiles_ = 0;  // per group
  std::vector<Tap> taps_;
  int64_t tap_channels_ = 0;  // sum over taps_
  std::vector<Chunk> chunks_;
  std::vector<Segment> segments_;
  std::vector<int64_t> offsets_;  // depthwise
  std::vector<float> weights_;
};

}  // namespace ascendrt::ops
