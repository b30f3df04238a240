// Convolution kernels for aarch64. Empty elsewhere.
#include "ops/conv_tile.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace ascendrt::ops {
namespace {

#include "ops/vec_neon.inc"
#include "ops/vector_conv.inc"

}  // namespace

const ConvKernels kNeonConvKernels = make_conv_kernels(Isa::kNeon);

}  // namespace ascendrt::ops
#endif
