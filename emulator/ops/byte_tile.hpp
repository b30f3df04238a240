// The inner kernels of convolution on unsigned bytes. Owns: their calling form, the arithmetic of
// results, the choice of the instruction set. Must never: know tensors; only addresses and steps.
//
// Note [Bytes]: activations are unsigned; signed ones are kept with their top bit turned, which
// adds 128 to value and zero point alike. Weights are signed. Sums are exact in 32 bits (they wrap
// as int32 does), so their order is free. A result follows from its sum in float32, every operation
// rounded: v = sum * scale, clamped, rounded half to even, plus the zero point. With an addend the
// rounded v is a value on a scale of its own: w = v * sum_scale + (addend - add_zero) * add_scale,
// clamped, rounded, plus the zero point. Bounds are less the zero point, so they saturate as well.
// Every instruction set, tile size and number of threads gives the same bits.
#pragma once

#include <array>
#include <cstdint>

#include "ops/tile.hpp"

namespace ascendrt::ops {

inline constexpr int64_t kDotBytes = 4;  // input channels of one step

// Steps count bytes.
struct ByteFinish {
  uint8_t* y;
  int64_t y_pixel, y_block;  // between pixels, between blocks of 16 outputs
  const float* scale;        // one per output
  float low, high;
  int32_t zero;
  const uint8_t* add;  // null: none
  int64_t add_pixel, add_block;
  float add_zero, add_scale;
  float sum_low, sum_high, sum_scale;  // only with an addend
  int32_t* sums;  // not null: the sums go there, 16 outputs behind each other, and nothing else
  int64_t sums_pixel;  // in elements
};

struct ByteTile {
  const uint8_t* x;  // first pixel
  int64_t x_step;    // between neighbouring output pixels in the input
  const Tap* taps;   // offsets in bytes; channels in steps of four
  int64_t tap_count;
  const int8_t* weights;  // [taps][steps][blocks * 16][4], read straight through
  const int32_t* bias;    // blocks * 16 values
  ByteFinish finish;
};

// One block of 16 channels, each with its own filter.
struct ByteDepthTile {
  const uint8_t* x;
  int64_t x_step;
  const int64_t* offsets;  // one per tap
  int64_t tap_count;
  const int32_t* weights;  // [taps][16], small enough for 16 bits
  const int32_t* bias;
  int64_t pixels;
  ByteFinish finish;
};

struct ByteKernels {
  static constexpr int kMaxPixels = 14;
  // Bytes between pixels: blocked input with stride 1 and 2, four channels with stride 2, any.
  enum Step : uint8_t { kStep16, kStep32, kStep8, kStepAny, kSteps };
  using Fn = void (*)(const ByteTile&);
  using Table = std::array<Fn, kMaxPixels + 1>;  // index = pixels of the tile; 0 unused

  const char* name;
  int max_pixels;
  int max_pixels_any_step;
  std::array<std::array<Table, kSteps>, 2> tile;  // by [blocks - 1][step]
  void (*depthwise)(const ByteDepthTile&);
  // y = round(x / scale) between low and high, plus zero: unsigned bytes.
  void (*quantize)(const float* x, float scale, float low, float high, int32_t zero, uint8_t* y,
                   int64_t count);
};

// Computes `count` pixels in a row, split evenly into tiles.
void run_byte_row(const ByteKernels& kernels, int blocks, ByteTile tile, int64_t count);

const ByteKernels& byte_kernels();  // the best this CPU has
// All that this CPU can run, for tests.
std::array<const ByteKernels*, 3> available_byte_kernels();  // null: cannot run

extern const ByteKernels kPortableByteKernels;
#if defined(__x86_64__)
extern const ByteKernels kAvx2ByteKernels;
extern const ByteKernels kVnniByteKernels;
#endif

}  // namespace ascendrt::ops
