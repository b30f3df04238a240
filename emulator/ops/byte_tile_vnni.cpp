// Byte kernels for x86 with AVX-512 VNNI. Empty elsewhere.
#include "ops/byte_tile.hpp"

#if defined(__x86_64__)
// Intrinsics of gcc 12 start from undefined registers on purpose (gcc bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#include "ops/byte_vnni.inc"
#include "ops/bytes_conv.inc"

}  // namespace

const ByteKernels kVnniByteKernels = make_byte_kernels("vnni");

}  // namespace ascendrt::ops
#endif
