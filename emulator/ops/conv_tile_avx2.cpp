// Convolution kernels for x86 with AVX2, FMA and F16C. Empty elsewhere.
#include "ops/conv_tile.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#include "ops/vec_avx2.inc"
#include "ops/vector_conv.inc"

}  // namespace

const ConvKernels kAvx2ConvKernels = make_conv_kernels(Isa::kAvx2);

}  // namespace ascendrt::ops
#endif
