// The inner kernels of convolution and matrix product. Owns: their calling form and the choice of
// the instruction set. Must never: know tensors; only addresses and steps.
//
// Note [Order of sums]: every output starts from its bias and adds products one by one with a fused
// multiply-add, tap after tap, channels upward in a tap. No instruction set, tile size, chunk or
// number of threads changes that order, so all of them give the same bits.
//
// Note [Blocked layout]: activations are [channels / 16][rows][columns][16] with a zero border
// where the consumer pads; weights are [output tile][tap][channel][outputs of the tile]. A tile is
// some output pixels side by side times one or two blocks of 16 outputs, held in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ascendrt::ops {

inline constexpr int64_t kLanes = 16;  // outputs per block

// Input channels that lie side by side, `offset` floats from a pixel's first address.
struct Tap {
  int64_t offset;
  int64_t channels;
};

struct TileArgs {
  const float* x;  // address of the first pixel
  int64_t x_step;  // floats between neighbouring output pixels in the input
  const Tap* taps;
  int64_t tap_count;
  const float* weights;  // [taps][channels][blocks * 16], read straight through
  const float* bias;     // blocks * 16 values; null: y holds partial sums to continue
  float* y;
  int64_t y_step;   // floats between neighbouring pixels in the output
  int64_t y_block;  // floats between blocks of 16 outputs
};

// One block of 16 channels, each with its own filter: y[p][l] = bias[l] + sum x[p, tap][l] * w[l].
struct DepthwiseArgs {
  const float* x;
  int64_t x_step;
  const int64_t* offsets;  // one per tap
  int64_t tap_count;
  const float* weights;  // [taps][16]
  const float* bias;     // 16 values
  float* y;              // pixels 16 floats apart
  int64_t pixels;
};

enum class Isa : uint8_t { kPortable, kNeon, kAvx2, kAvx512 };
inline constexpr std::array kAllIsas = {Isa::kPortable, Isa::kNeon, Isa::kAvx2, Isa::kAvx512};

struct TileKernels {
  static constexpr int kMaxPixels = 14;
  using Fn = void (*)(const TileArgs&);
  using Table = std::array<Fn, kMaxPixels + 1>;  // index = pixels of the tile; 0 unused

  Isa isa;
  int max_blocks;  // blocks of 16 outputs per tile: 1 or 2
  int max_pixels;
  int max_pixels_any_step;
  // By [blocks - 1][step kind: 16 floats, 32 floats, any].
  std::array<std::array<Table, 3>, 2> tile;
  void (*depthwise)(const DepthwiseArgs&);

  const Table& table(int blocks, int64_t x_step) const {
    return tile[static_cast<size_t>(blocks - 1)][x_step == 16 ? 0U : (x_step == 32 ? 1U : 2U)];
  }
  int pixels(int64_t x_step) const {
    return x_step == 16 || x_step == 32 ? max_pixels : max_pixels_any_step;
  }
};

// Computes `count` pixels in a row, split evenly into tiles.
void run_row(const TileKernels& kernels, int blocks, TileArgs args, int64_t count);

bool isa_available(Isa isa);
Isa best_isa();                            // of this CPU
const TileKernels& tile_kernels(Isa isa);  // isa must be available
const TileKernels& tile_kernels();         // the best this CPU has

}  // namespace ascendrt::ops
