// Owns: the choice of vector kernels for this CPU and the split of rows.
// Must never: contain instructions of an optional set; those live in vector_<isa>.cpp.
#include "ops/vector.hpp"

#include "ops/vector_isa.hpp"

namespace ascendrt::ops {

constexpr int64_t kBlockBytes = kLanes * static_cast<int64_t>(sizeof(float));

const VectorKernels& vector_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Vectors;
  if (isa == Isa::kAvx2) return kAvx2Vectors;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return kNeonVectors;
#endif
  static_cast<void>(isa);
  return kPortableVectors;
}

const VectorKernels& vector_kernels() {
  static const VectorKernels& best = vector_kernels(best_isa());
  return best;
}

void matrix_rows(const VectorKernels& kernels, int blocks, MatrixArgs args, int64_t rows,
                 const float* ahead) {
  const auto& table = kernels.matrix[static_cast<size_t>(blocks - 1)];
  // Even pieces: 128 rows become 13, 13, .., 12 instead of 14, 14, .., 2.
  int64_t calls = (rows + kernels.max_rows - 1) / kernels.max_rows;
  args.ahead = reinterpret_cast<const char*>(ahead == nullptr ? args.weights : ahead);
  args.ahead_step = ahead == nullptr ? 0 : (blocks * kBlockBytes + calls - 1) / calls;
  for (; calls > 0; --calls) {
    const int64_t count = (rows + calls - 1) / calls;
    table[static_cast<size_t>(count)](args);
    args.x += count * args.x_step;
    args.y += count * args.y_step;
    args.ahead += args.depth * args.ahead_step;
    rows -= count;
  }
}

}  // namespace ascendrt::ops
