// 2-D convolution of blocked tensors with what follows it: bias, addition, clamp.
// Owns: the packed weights and the order of the work of one layer. Must never: keep pointers to the
// tensors it is given.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "ops/blocked.hpp"
#include "ops/conv.hpp"
#include "ops/conv_tile.hpp"
#include "ops/packed.hpp"

namespace ascendrt::ops {

// How the input lies in memory: in blocks, or, for the few channels of a picture, as NCHW.
enum class InputLayout : uint8_t { kBlocked, kPlanar };

struct BlockedConvSpec {
  ConvShape shape;  // resolved; pads may be less than the border of `in`
  InputLayout layout = InputLayout::kBlocked;
  BlockedShape in;  // planar: border not used
  BlockedShape out;
  std::optional<BlockedShape> add;  // a tensor of the shape of the result, added to the sums
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  Stored stored = Stored::kFloat;     // of the result; the addend as operands_of() says
  Stored in_stored = Stored::kFloat;  // rounded: the same as float

  Border reach() const;  // the border that a blocked input must have
  // Groups are computed when blocks do not straddle them, or when each is one channel.
  static bool takes(const ConvShape& shape);
};

// A 1x1 layer without borders is one long row.
BlockedConvSpec flattened(BlockedConvSpec spec);

// Immutable, so one object may run on several threads at once, each with its own scratch.
class BlockedConvolution {
 public:
  // weights: [out_channels][in_channels / groups][kernel_h][kernel_w]; bias: null or one value per
  // output channel. Both are copied.
  BlockedConvolution(const BlockedConvSpec& spec, const float* weights, const float* bias,
                     const ConvKernels& kernels = conv_kernels());

  static int64_t scratch_bytes(const BlockedConvSpec& spec);  // the same on every CPU
  // exec.scratch holds scratch_bytes(). y may be `add`.
  void run(const void* x, const void* add, void* y, const Exec& exec) const;

 private:
  struct Chunk {
    size_t first_tap;
    size_t taps;
    int64_t channels_before;  // sum over the taps of earlier chunks
    int64_t channels;         // sum over its own taps
  };
  struct Segment {  // pixels of one work item
    int64_t row, rows, column, columns;
  };
  struct Images {  // a part of the batch
    const char* x;
    const char* add;  // may be null
    char* y;
    int64_t count;
  };
  struct Place {  // of a tile: one image, one or two blocks of outputs
    int64_t image, block;
    int blocks;
    const float* x;  // where the first window begins
    int64_t row_step;
    float* partial;   // room for the sums of a segment
    InputAhead next;  // the input of the work that follows
  };
  struct Work {  // an item: a tile of outputs, and which one of its group, for pixels of an image
    int64_t tile, turn, turns, image;
    size_t segment;
  };
  void list_taps();
  void list_chunks();
  void list_segments();
  void pack_dense(const float* weights);
  void pack_depthwise(const float* weights);
  float weight_at(const float* weights, int64_t output, size_t tap, int64_t channel) const;
  void stage(const char* x, int64_t images, float* to, const Exec& exec) const;
  void stage_row(const char* x, int64_t plane, int64_t h, float* to) const;
  void run_dense(const Images& images, const Exec& exec) const;
  Work work_at(int64_t item, int64_t images) const;
  InputAhead ahead_of(const Work& work, int64_t images) const;
  void run_tile(const Images& images, const Work& work) const;
  void run_chunk(const Images& images, const Place& place, const Chunk& chunk,
                 const Segment& segment) const;
  void run_depthwise(const Images& images, const Exec& exec) const;
  Finish finish(const Images& images, int64_t image, int64_t block, int64_t row,
                int64_t column) const;
  void clear_border(const Images& images, int64_t image, int64_t block, const Segment& s) const;

  const ConvKernels& kernels_;
  BlockedConvSpec spec_;
  bool depthwise_;
  bool staged_;              // the kernels read a copy of the input
  int64_t in_group_;         // channels per group
  int64_t out_group_;        //
  int64_t tiles_ = 0;        // per group
  int64_t in_bytes_;         // of an element
  int64_t add_bytes_;        //
  int64_t out_bytes_;        //
  int64_t group_tiles_ = 1;  // order of work: groups of tiles outside, then pixels, then tiles
  bool large_input_ = false;
  std::vector<Tap> taps_;
  int64_t tap_channels_ = 0;  // sum over taps_
  std::vector<Chunk> chunks_;
  std::vector<Segment> segments_;
  std::vector<int64_t> offsets_;  // depthwise
  PackedFloats weights_;
  std::vector<float> bias_;
};

}  // namespace ascendrt::ops
