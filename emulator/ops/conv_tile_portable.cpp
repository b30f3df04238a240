// Convolution kernels in plain C++ for every CPU. Where the base instruction set has no fused
// multiply-add, fmaf is a library call: right but slow.
#include "ops/conv_tile.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::ops {
namespace {

#include "ops/vec_portable.inc"
#include "ops/vector_conv.inc"

}  // namespace

const ConvKernels kPortableConvKernels = make_conv_kernels(Isa::kPortable);

}  // namespace ascendrt::ops
