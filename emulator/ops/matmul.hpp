// Matrix products of float tensors. Owns: the packed form of the right-hand side and the order of
// the work. Must never: use a BLAS library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ops/packed.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"
#include "ops/vector.hpp"

namespace ascendrt::ops {

enum class Transposed : uint8_t { kNo, kYes };

// A matrix somewhere in memory: element (i, j) at data[i * row_step + j * column_step].
struct MatrixSource {
  const float* data;
  int64_t row_step;
  int64_t column_step;
};

// The right-hand matrix [depth][columns] in tiles of 16 or 32 columns, each [depth][columns of the
// tile], filled up with zeros.
struct PackedShape {
  int64_t depth = 0;
  int64_t columns = 0;
  int64_t floats() const { return (columns + kLanes - 1) / kLanes * kLanes * depth; }
};
void pack_matrix(const VectorKernels& kernels, PackedShape shape, const MatrixSource& from,
                 float* to);

// Of a tile that is finished before it is stored.
inline constexpr int64_t kTileRows = 64;
inline constexpr int64_t kTileColumns = 2 * kLanes;
inline constexpr int64_t kTileFloats = kTileRows * kTileColumns;

// Some rows and columns of a result, made whole by whoever asked for the product. `tile` is
// [rows][columns] without gaps.
struct ResultTile {
  float* tile;
  int64_t first_row, rows;
  int64_t first_column, columns;
};
using FinishTile = std::function<void(const ResultTile&)>;

// The left matrix, row after row: floats, or halves that are widened into `room`, which has a float
// for each of them, before they are read.
struct MatrixOperand {
  const float* floats = nullptr;
  const uint16_t* halves = nullptr;
  void (*widen)(const uint16_t*, float*, int64_t) = nullptr;
  float* room = nullptr;

  MatrixOperand() = default;
  MatrixOperand(const float* data) : floats(data) {}  // NOLINT: an operand as it is
  MatrixOperand(const TensorView& tensor, float* room);
  MatrixOperand at(int64_t element) const;
};

// Where a result goes: floats, or halves that finished tiles are narrowed to.
struct MatrixTarget {
  float* floats = nullptr;
  uint16_t* halves = nullptr;
  void (*narrow)(const float*, uint16_t*, int64_t) = nullptr;

  MatrixTarget() = default;
  MatrixTarget(float* data) : floats(data) {}       // NOLINT: a target as it is
  explicit MatrixTarget(const TensorView& tensor);  // float, float16 or bfloat16
  MatrixTarget at(int64_t element) const;
  void put(const float* values, int64_t at, int64_t count) const;
};

// y[r][c] = (sum of a[r][k] * b[k][c]) + bias[c]. Rows of a and y are a_step and y_step apart.
struct Product {
  const VectorKernels& kernels;
  PackedShape shape;
  const float* packed;
  const float* bias = nullptr;  // `columns` values
  MatrixOperand a = {};
  int64_t a_step = 0;  // of halves: the depth
  MatrixTarget y = {};
  int64_t y_step = 0;
  int64_t rows = 0;
  const FinishTile* finish = nullptr;  // runs on every tile before it is stored

  void run(const Exec& exec) const;

 private:
  void run_tile(int64_t tile, int64_t next, const float* left, int64_t first_row,
                int64_t count) const;
  const float* widened(int64_t first_row, int64_t count, float* room) const;
  void store(const ResultTile& tile, int64_t width) const;
};

// A right-hand side that owns its packed form. Immutable.
class PackedMatrix {
 public:
  // kYes: b is stored as [columns][depth].
  PackedMatrix(const float* b, int64_t depth, int64_t columns, Transposed transposed,
               const VectorKernels& kernels = vector_kernels());

  // y[rows][columns] = a[rows][depth] * b + bias. bias: `columns` values or null.
  void multiply(const MatrixOperand& a, int64_t rows, const float* bias, const MatrixTarget& y,
                const Exec& exec, const FinishTile* finish = nullptr) const;

 private:
  const VectorKernels& kernels_;
  PackedShape shape_;
  PackedFloats data_;
};

// y[rows][columns] = a * b + bias of doubles, summed in double with the depth upward.
void multiply_doubles(const double* a, int64_t rows, int64_t depth, const double* b,
                      int64_t columns, Transposed transposed, const double* bias, double* y,
                      const Exec& exec);

// to[columns][rows] = from[rows][columns] transposed.
template <class T>
void transpose_matrix(const T* from, int64_t rows, int64_t columns, T* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
}

}  // namespace ascendrt::ops
