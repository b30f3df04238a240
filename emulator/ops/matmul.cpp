// Owns: packing and the loops of matrix products. Rows are the "pixels" of the tile kernels.
// Must never: sum in another order than Note [Order of sums] in tile.hpp says.
#include "ops/matmul.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ascendrt::ops {
namespace {

constexpr int64_t kRowGrain = 64;
constexpr int64_t kMaxWidth = 2 * kLanes;

}  // namespace

PackedMatrix::PackedMatrix(const float* b, int64_t depth, int64_t columns, Transposed transposed,
                           const TileKernels& kernels)
    : kernels_(kernels),
      depth_(depth),
      columns_(columns),
      blocks_((columns + kLanes - 1) / kLanes),
      tiles_((blocks_ + kernels.max_blocks - 1) / kernels.max_blocks),
      data_(static_cast<size_t>(blocks_ * kLanes * depth), 0.0F) {
  const int64_t row_step = transposed == Transposed::kYes ? 1 : columns;
  const int64_t column_step = transposed == Transposed::kYes ? depth : 1;
  float* to = data_.data();
  for (int64_t tile = 0; tile < tiles_; ++tile) {
    const int64_t block = tile * kernels.max_blocks;
    const int64_t width = std::min<int64_t>(kernels.max_blocks, blocks_ - block) * kLanes;
    const int64_t used = std::min(width, columns - block * kLanes);
    const float* from = b + block * kLanes * column_step;
    for (int64_t k = 0; k < depth; ++k, to += width) {
      for (int64_t n = 0; n < used; ++n) to[n] = from[k * row_step + n * column_step];
    }
  }
}

void PackedMatrix::multiply(const float* a, int64_t rows, const float* bias, float* y,
                            const Exec& exec) const {
  const int64_t pieces = (rows + kRowGrain - 1) / kRowGrain;
  parallel_for(exec, pieces * tiles_, [&](int64_t i) {
    const int64_t first = i / tiles_ * kRowGrain;
    multiply_tile(a + first * depth_, std::min(kRowGrain, rows - first), bias, y + first * columns_,
                  i % tiles_);
  });
}

void PackedMatrix::multiply_tile(const float* a, int64_t rows, const float* bias, float* y,
                                 int64_t tile) const {
  const int64_t block = tile * kernels_.max_blocks;
  const int64_t blocks = std::min<int64_t>(kernels_.max_blocks, blocks_ - block);
  const int64_t width = blocks * kLanes;
  const int64_t used = std::min(width, columns_ - block * kLanes);
  std::array<float, kMaxWidth> start{};
  if (bias != nullptr) std::copy_n(bias + block * kLanes, used, start.begin());
  // A last tile that is not full is computed beside the result and copied.
  std::array<float, kRowGrain * kMaxWidth> side;  // NOLINT: filled by the kernel
  const Tap all{0, depth_};
  TileArgs args{};
  args.x = a;
  args.x_step = depth_;
  args.taps = &all;
  args.tap_count = 1;
  args.weights = data_.data() + block * kLanes * depth_;
  args.bias = start.data();
  args.y = used == width ? y + block * kLanes : side.data();
  args.y_step = used == width ? columns_ : width;
  args.y_block = kLanes;
  run_row(kernels_, static_cast<int>(blocks), args, rows);
  if (used == width) return;
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(side.data() + r * width, used, y + r * columns_ + block * kLanes);
  }
}

void transpose_matrix(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

}  // namespace ascendrt::ops
