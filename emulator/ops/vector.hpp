// Kernels over rows of floats: matrix products, functions, sums, conversions of halves.
// Owns: their calling form and the choice by instruction set. Must never: know tensors; only
// addresses, steps and counts.
//
// Note [Equal bits]: a kernel does the same operations on each element, fused multiply-adds only
// where it says so, and sums in sixteen strands that are joined in one order. So all instruction
// sets give the same bits, except in the payload of NaN.
#pragma once

#include <array>
#include <cstdint>

#include "ops/tile.hpp"

namespace ascendrt::ops {

// y[r][c] = sum over k of x[r][k] * w[k][c], k upward from a zero, then + bias[c]. The columns of
// one call are 16 or 32, w is [k][columns].
struct MatrixArgs {
  const float* x;
  int64_t x_step;  // floats between rows
  int64_t depth;
  const float* weights;
  const float* bias;  // null: none
  float* y;
  int64_t y_step;
  // Where the rows end up, asked for in advance: y itself, or where the caller moves them.
  const float* target;
  int64_t target_step;
  // Weights of a later call, fetched into the cache meanwhile: ahead_step bytes for every step of
  // the depth. The addresses need not exist.
  const char* ahead;
  int64_t ahead_step;
};

// Functions of one value; `a` is their parameter. Errors in units of the last place, measured by
// the tests against float64 over all magnitudes: exp 1, erf 2, tanh 2, sigmoid 3.
enum class Map : uint8_t {
  kExp,
  kErf,
  kTanh,
  kSigmoid,
  kGelu,      // 0.5 x (1 + erf(x / sqrt 2))
  kGeluTanh,  // the same with tanh
  kSwish,     // x sigmoid(a x)
  kSqrt,
  kRelu,
  kMuls,
  kAdds
};

enum class Pair : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin };  // NaN of either side stays

struct VectorKernels {
  static constexpr int kMaxRows = 14;
  using Matrix = void (*)(const MatrixArgs&);

  Isa isa;
  int max_blocks;  // blocks of 16 columns of one call: 1 or 2
  int max_rows;
  std::array<std::array<Matrix, kMaxRows + 1>, 2> matrix;  // [blocks - 1][rows]
  void (*map)(Map op, float a, const float* x, float* y, int64_t count);
  // Steps are 0 or 1.
  void (*combine)(Pair op, const float* a, int64_t step_a, const float* b, int64_t step_b, float* y,
                  int64_t count);
  double (*sum)(const float* x, int64_t count);
  // y = exp(x - top) / sum; kLog: x - top - log(sum). x and y may be the same.
  void (*softmax)(bool log, const float* x, float* y, int64_t count);
  // y = (x - mean) / sqrt(variance + epsilon) * gain + offset, each step rounded; offset may be
  // null. Returns nothing else: statistics are of whole rows.
  void (*normalize)(const float* x, const float* gain, const float* offset, float epsilon, float* y,
                    int64_t count);
  void (*from_half)(const uint16_t* x, float* y, int64_t count);
  void (*to_half)(const float* x, uint16_t* y, int64_t count);
  void (*from_brain)(const uint16_t* x, float* y, int64_t count);
  void (*to_brain)(const float* x, uint16_t* y, int64_t count);
};

const VectorKernels& vector_kernels(Isa isa);  // isa must be available
const VectorKernels& vector_kernels();         // the best this CPU has

// `rows` rows of one column tile, split evenly. ahead: the tile that comes next, or null. Behind
// each call, done(first row, rows) tells where the next one stores.
template <class Done>
void matrix_rows(const VectorKernels& kernels, int blocks, MatrixArgs args, int64_t rows,
                 const float* ahead, const Done& done) {
  constexpr int64_t kBlockBytes = kLanes * static_cast<int64_t>(sizeof(float));
  const auto& table = kernels.matrix[static_cast<size_t>(blocks - 1)];
  // Even pieces: 128 rows become 13, 13, .., 12 instead of 14, 14, .., 2.
  int64_t calls = (rows + kernels.max_rows - 1) / kernels.max_rows;
  args.ahead = reinterpret_cast<const char*>(ahead == nullptr ? args.weights : ahead);
  args.ahead_step = ahead == nullptr ? 0 : (blocks * kBlockBytes + calls - 1) / calls;
  for (int64_t row = 0; calls > 0; --calls) {
    const int64_t count = (rows - row + calls - 1) / calls;
    table[static_cast<size_t>(count)](args);
    args.y = done(row, count);
    args.x += count * args.x_step;
    args.target += count * args.target_step;
    args.ahead += args.depth * args.ahead_step;
    row += count;
  }
}

}  // namespace ascendrt::ops
