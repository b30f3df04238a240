// Vector kernels for aarch64. Empty elsewhere.
#include "ops/vector_isa.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace ascendrt::ops {
namespace {

#include "ops/vec_neon.inc"
#include "ops/vector_kernels.inc"

}  // namespace

const VectorKernels kNeonVectors = make_vector_kernels(Isa::kNeon);

}  // namespace ascendrt::ops
#endif
