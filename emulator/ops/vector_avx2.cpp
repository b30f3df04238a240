// Vector kernels for x86 with AVX2, FMA and F16C. Empty elsewhere.
#include "ops/vector_isa.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#include "ops/vec_avx2.inc"
#include "ops/vector_kernels.inc"

}  // namespace

const VectorKernels kAvx2Vectors = make_vector_kernels(Isa::kAvx2);

}  // namespace ascendrt::ops
#endif
