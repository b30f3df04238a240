// Owns: the choice of vector kernels for this CPU.
// Must never: contain instructions of an optional set; those live in vector_<isa>.cpp.
#include "ops/vector.hpp"

#include "ops/vector_isa.hpp"

namespace ascendrt::ops {

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

}  // namespace ascendrt::ops
