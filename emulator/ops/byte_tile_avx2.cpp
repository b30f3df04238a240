// Byte kernels for x86 with AVX2. Empty elsewhere.
#include "ops/byte_tile.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#include "ops/byte_avx2.inc"
#include "ops/bytes_conv.inc"

}  // namespace

const ByteKernels kAvx2ByteKernels = make_byte_kernels("avx2");

}  // namespace ascendrt::ops
#endif
