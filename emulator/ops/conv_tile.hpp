// The inner kernels of convolution on blocked tensors. Owns: their calling form and the choice of
// the instruction set. Must never: know tensors; only addresses and steps.
//
// Sums follow Note [Order of sums] in tile.hpp, so every instruction set, tile size, chunk and
// number of threads gives the same bits. What follows a sum happens in registers: an addend is
// added, the result is clamped and stored, rounded once when it is stored as half.
#pragma once

#include <array>
#include <cstdint>

#include "ops/pool.hpp"
#include "ops/tile.hpp"

namespace ascendrt::ops {

// Rounded: values of halves that lie as floats, for a reader that would widen them first.
enum class Stored : uint8_t { kFloat, kHalf, kRounded };

constexpr int64_t stored_bytes(Stored stored) { return stored == Stored::kHalf ? 2 : 4; }
// How operands lie that belong to a result: rounded is what a step leaves, never what it is given.
constexpr Stored operands_of(Stored result) {
  return result == Stored::kFloat ? Stored::kFloat : Stored::kHalf;
}

// How results are finished. Steps count elements; neighbouring pixels lie 16 elements apart.
struct Finish {
  void* y;
  int64_t y_block;    // between blocks of 16 outputs
  const void* add;    // null: none; stored as operands_of(stored)
  int64_t add_block;  //
  float low, high;    // clamp; a NaN stays
  Stored stored;
};

// Where the input lies that is needed after this one, for Prefetch::kInput. Several tiles read the
// same input, so each asks for one part of it: every `period`-th tap, the first one after `wait`.
struct InputAhead {
  int64_t distance = 0;  // floats
  int64_t period = 1;
  int64_t wait = 0;
};

struct ConvTile {
  const float* x;  // first pixel
  int64_t x_step;  // floats between neighbouring output pixels in the input
  const Tap* taps;
  int64_t tap_count;
  const float* weights;  // [taps][channels][blocks * 16], read straight through
  const float* bias;     // blocks * 16 values
  // Sums of earlier and for later chunks of taps, [pixels][blocks][16]; null: there are none.
  const float* partial_in;
  float* partial_out;
  const float* ahead;  // Prefetch::kWeights: where the weights that are needed next begin
  InputAhead next;
  Finish finish;
};

// One block of 16 channels, each with its own filter.
struct DepthTile {
  const void* x;  // stored as operands_of(finish.stored)
  int64_t x_step;
  const int64_t* offsets;  // one per tap
  int64_t tap_count;
  const float* weights;  // [taps][16]
  const float* bias;     // 16 values
  int64_t pixels;
  Finish finish;
};

// One row of results of one block of 16 channels.
struct PoolTile {
  const void* x;  // first pixel of the first row of the window
  int64_t row_step;
  int64_t rows;
  const PoolSpan* columns;  // one per result
  int64_t column_step;      // dilation * 16
  int64_t pixels;
  int64_t row_divisor;  // average: rows that count; negative: the maximum is wanted
  bool pads_count;
  void* y;
  Stored stored;
};

enum class Prefetch : uint8_t { kNo, kInput, kWeights };

struct ConvKernels {
  static constexpr int kMaxPixels = 14;
  // Floats between pixels: blocked input with stride 1 and 2, planar input with stride 1 and 2,
  // any.
  enum Step : uint8_t {
    kStep16,
    kStep32,
    kStep1,
    kStep2,
    kStepAny,
    kStep16Input,  // and input is asked for
    kStep32Input,
    kStep16Weights,  // and weights are
    kStep32Weights,
    kSteps
  };
  using Fn = void (*)(const ConvTile&);
  using Table = std::array<Fn, kMaxPixels + 1>;  // index = pixels of the tile; 0 unused

  Isa isa;
  int max_blocks;  // blocks of 16 outputs per tile: 1 or 2
  int max_pixels;
  int max_pixels_any_step;
  std::array<std::array<Table, kSteps>, 2> tile;  // by [blocks - 1][step]
  void (*depthwise)(const DepthTile&);
  void (*pool)(const PoolTile&);
  void (*widen)(const void* half, float* to, int64_t count);  // count: a multiple of 16
};

// Computes `count` pixels in a row, split evenly into tiles, and returns how many tiles those were.
// While they run, input or weights that are needed later are asked for: one line of 16 floats for
// each channel of the taps.
int64_t run_conv_row(const ConvKernels& kernels, int blocks, Prefetch prefetch, ConvTile tile,
                     int64_t count);

const ConvKernels& conv_kernels(Isa isa);  // isa must be available
const ConvKernels& conv_kernels();         // the best this CPU has

extern const ConvKernels kPortableConvKernels;
#if defined(__x86_64__)
extern const ConvKernels kAvx2ConvKernels;
extern const ConvKernels kAvx512ConvKernels;
#elif defined(__aarch64__)
extern const ConvKernels kNeonConvKernels;
#endif

}  // namespace ascendrt::ops
