// Convolution kernels for x86 with AVX-512F. Empty elsewhere.
#include "ops/conv_tile.hpp"

#if defined(__x86_64__)
// Intrinsics of gcc 12 start from undefined registers on purpose (gcc bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#include "ops/vec_avx512.inc"
#include "ops/vector_conv.inc"

}  // namespace

const ConvKernels kAvx512ConvKernels = make_conv_kernels(Isa::kAvx512);

}  // namespace ascendrt::ops
#endif
