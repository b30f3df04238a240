// Matrix products of float tensors. Owns: PackedMatrix (the right-hand side ready for the kernels).
// Must never: use a BLAS library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tile.hpp"

namespace ascendrt::ops {

enum class Transposed : uint8_t { kNo, kYes };

// The right-hand matrix [depth][columns] in tiles of 16 or 32 columns. Immutable.
class PackedMatrix {
 public:
  // kYes: b is stored as [columns][depth].
  PackedMatrix(const float* b, int64_t depth, int64_t columns, Transposed transposed,
               const TileKernels& kernels = tile_kernels());

  // y[rows][columns] = a[rows][depth] * b + bias. bias: `columns` values or null.
  void multiply(const float* a, int64_t rows, const float* bias, float* y, const Exec& exec) const;

 private:
  void multiply_tile(const float* a, int64_t rows, const float* bias, float* y, int64_t tile) const;

  const TileKernels& kernels_;
  int64_t depth_;
  int64_t columns_;
  int64_t blocks_;
  int64_t tiles_;
  std::vector<float> data_;
};

// to[columns][rows] = from[rows][columns] transposed.
void transpose_matrix(const float* from, int64_t rows, int64_t columns, float* to);

}  // namespace ascendrt::ops
