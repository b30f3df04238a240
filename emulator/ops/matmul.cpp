// Owns: packing and the loops of matrix products. Must never: let the split of rows and columns
// change a sum; every output is one chain of fused multiply-adds, depth upward (vector.hpp).
#include "ops/matmul.hpp"

#include <algorithm>
#include <array>

namespace ascendrt::ops {
namespace {

// Rows of a that stay in the second level cache while the column tiles pass by.
int64_t rows_per_item(const Product& p, int64_t tiles, int threads) {
  constexpr int64_t kCacheFloats = 192 * 1024;
  constexpr int64_t kMostRows = 140;
  const int64_t unit = p.kernels.max_rows;
  int64_t rows =
      std::clamp(kCacheFloats / std::max<int64_t>(p.shape.depth, 1), 4 * unit, kMostRows);
  rows = std::max(unit, rows / unit * unit);
  // Few columns: shorter pieces, so that every thread gets some.
  while (threads > 1 && rows > unit && (p.rows + rows - 1) / rows * tiles < 4 * threads) {
    rows = std::max(unit, rows / 2 / unit * unit);
  }
  return rows;
}

}  // namespace

MatrixOperand::MatrixOperand(const TensorView& tensor, float* room) {
  if (tensor.dtype == ACL_FLOAT) {
    floats = tensor.as<const float>();
    return;
  }
  halves = tensor.as<const uint16_t>();
  widen = tensor.dtype == ACL_FLOAT16 ? vector_kernels().from_half : vector_kernels().from_brain;
  this->room = room;
}

MatrixOperand MatrixOperand::at(int64_t element) const {
  MatrixOperand moved = *this;
  if (floats != nullptr) moved.floats += element;
  if (halves != nullptr) moved.halves += element;
  if (room != nullptr) moved.room += element;
  return moved;
}

MatrixTarget::MatrixTarget(const TensorView& tensor) {
  if (tensor.dtype == ACL_FLOAT) {
    floats = tensor.as<float>();
    return;
  }
  halves = tensor.as<uint16_t>();
  narrow = tensor.dtype == ACL_FLOAT16 ? vector_kernels().to_half : vector_kernels().to_brain;
}

MatrixTarget MatrixTarget::at(int64_t element) const {
  MatrixTarget moved = *this;
  if (floats != nullptr) moved.floats += element;
  if (halves != nullptr) moved.halves += element;
  return moved;
}

void MatrixTarget::put(const float* values, int64_t at, int64_t count) const {
  if (floats != nullptr) {
    std::copy_n(values, count, floats + at);
  } else {
    narrow(values, halves + at, count);
  }
}

void pack_matrix(const VectorKernels& kernels, PackedShape shape, const MatrixSource& from,
                 float* to) {
  const int64_t most = kernels.max_blocks * kLanes;
  for (int64_t column = 0; column < shape.columns; column += most) {
    const int64_t used = std::min(most, shape.columns - column);
    const int64_t width = (used + kLanes - 1) / kLanes * kLanes;
    const float* source = from.data + column * from.column_step;
    if (from.row_step == 1) {  // read along the source
      for (int64_t n = 0; n < width; ++n) {
        for (int64_t k = 0; k < shape.depth; ++k) {
          to[k * width + n] = n < used ? source[n * from.column_step + k] : 0.0F;
        }
      }
    } else {
      for (int64_t k = 0; k < shape.depth; ++k) {
        const float* row = source + k * from.row_step;
        if (from.column_step == 1) {
          std::copy_n(row, used, to + k * width);
        } else {
          for (int64_t n = 0; n < used; ++n) to[k * width + n] = row[n * from.column_step];
        }
        std::fill(to + k * width + used, to + (k + 1) * width, 0.0F);
      }
    }
    to += shape.depth * width;
  }
}

void Product::run(const Exec& exec) const {
  const int64_t most = kernels.max_blocks * kLanes;
  const int64_t tiles = (shape.columns + most - 1) / most;
  const int64_t grain = rows_per_item(*this, tiles, exec.workers.threads());
  const int64_t pieces = (rows + grain - 1) / grain;
  // Tiles in a row, so that the weights of the next one are known and fetched ahead.
  const int threads = exec.workers.threads();
  const int64_t run = threads == 1 ? tiles : std::max<int64_t>(1, tiles * pieces / (8 * threads));
  const int64_t runs = (tiles + run - 1) / run;
  const bool halves = a.halves != nullptr;
  const bool at_once = halves && runs > 1;  // pieces are read by several items
  if (at_once) {
    parallel_for(exec, pieces, [&](int64_t i) {
      widened(i * grain, std::min(grain, rows - i * grain), a.room + i * grain * shape.depth);
    });
  }
  parallel_for(exec, pieces * runs, [&](int64_t i) {
    const int64_t first = i / runs * grain;
    const int64_t count = std::min(grain, rows - first);
    const int64_t end = std::min(tiles, (i % runs + 1) * run);
    const float* left = halves ? a.room + first * shape.depth : a.floats + first * a_step;
    // One piece of the room is enough for one thread, and stays in the cache.
    if (halves && !at_once) {
      left = widened(first, count, a.room + (threads == 1 ? 0 : first * shape.depth));
    }
    for (int64_t tile = i % runs * run; tile < end; ++tile) {
      // Behind a run the threads in between take theirs.
      const int64_t next = tile + 1 < end ? tile + 1 : (tile + 1 + (threads - 1) * run) % tiles;
      run_tile(tile, next, left, first, count);
    }
  });
}

const float* Product::widened(int64_t first_row, int64_t count, float* room) const {
  a.widen(a.halves + first_row * shape.depth, room, count * shape.depth);
  return room;
}

void Product::run_tile(int64_t tile, int64_t next, const float* left, int64_t first_row,
                       int64_t count) const {
  const int64_t most = kernels.max_blocks * kLanes;
  const int64_t column = tile * most;
  const int64_t used = std::min(most, shape.columns - column);
  const auto blocks = static_cast<int>((used + kLanes - 1) / kLanes);
  const int64_t width = blocks * kLanes;
  std::array<float, kTileColumns> start{};
  MatrixArgs args{};
  if (bias != nullptr) {
    std::copy_n(bias + column, used, start.begin());
    args.bias = start.data();
  }
  args.x_step = a.halves != nullptr ? shape.depth : a_step;
  args.depth = shape.depth;
  args.weights = packed + column * shape.depth;
  const float* ahead = packed + next * most * shape.depth;
  args.x = left;
  const MatrixTarget target = y.at(first_row * y_step + column);
  float* const result = target.floats;
  // Only fetched ahead by it.
  args.target = result != nullptr ? result : reinterpret_cast<const float*>(target.halves);
  args.target_step = result != nullptr ? y_step : y_step / 2;
  if (used == width && finish == nullptr && result != nullptr) {
    args.y = result;
    args.y_step = y_step;
    matrix_rows(kernels, blocks, args, count, ahead,
                [&](int64_t row, int64_t n) { return result + (row + n) * y_step; });
    return;
  }
  // Computed beside the result, in the first level cache, and copied.
  std::array<float, kTileFloats> side;  // NOLINT: filled by the kernel
  args.y = side.data();
  args.y_step = width;
  matrix_rows(kernels, blocks, args, count, ahead, [&](int64_t row, int64_t n) {
    store({side.data(), first_row + row, n, column, used}, width);
    return side.data();
  });
}

// Finishes a tile whose rows are `width` apart and copies it into the result.
void Product::store(const ResultTile& tile, int64_t width) const {
  for (int64_t r = 1; r < tile.rows && tile.columns != width; ++r) {
    std::copy_n(tile.tile + r * width, tile.columns, tile.tile + r * tile.columns);
  }
  if (finish != nullptr) (*finish)(tile);
  for (int64_t r = 0; r < tile.rows; ++r) {
    y.put(tile.tile + r * tile.columns, (tile.first_row + r) * y_step + tile.first_column,
          tile.columns);
  }
}

PackedMatrix::PackedMatrix(const float* b, int64_t depth, int64_t columns, Transposed transposed,
                           const VectorKernels& kernels)
    : kernels_(kernels),
      shape_{depth, columns},
      data_(shape_.floats(), PackedFloats::Contents::kAny) {
  const bool turned = transposed == Transposed::kYes;
  pack_matrix(kernels, shape_, {b, turned ? 1 : columns, turned ? depth : 1}, data_.data());
}

void PackedMatrix::multiply(const MatrixOperand& a, int64_t rows, const float* bias,
                            const MatrixTarget& y, const Exec& exec,
                            const FinishTile* finish) const {
  Product product{kernels_, shape_, data_.data()};
  product.bias = bias;
  product.a = a;
  product.a_step = shape_.depth;
  product.y = y;
  product.y_step = shape_.columns;
  product.rows = rows;
  product.finish = finish;
  product.run(exec);
}

void multiply_doubles(const double* a, int64_t rows, int64_t depth, const double* b,
                      int64_t columns, Transposed transposed, const double* bias, double* y,
                      const Exec& exec) {
  std::vector<double> turned;
  if (transposed == Transposed::kYes) {
    turned.resize(static_cast<size_t>(depth * columns));
    transpose_matrix(b, columns, depth, turned.data());
    b = turned.data();
  }
  parallel_for(exec, rows, [&](int64_t r) {
    double* to = y + r * columns;
    std::fill_n(to, columns, 0.0);
    for (int64_t k = 0; k < depth; ++k) {
      const double factor = a[r * depth + k];
      for (int64_t c = 0; c < columns; ++c) to[c] += factor * b[k * columns + c];
    }
    for (int64_t c = 0; c < columns && bias != nullptr; ++c) to[c] += bias[c];
  });
}

}  // namespace ascendrt::ops
