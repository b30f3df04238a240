// Byte kernels in plain C++ for every CPU.
#include "ops/byte_tile.hpp"

namespace ascendrt::ops {
namespace {

#include "ops/byte_portable.inc"
#include "ops/bytes_conv.inc"

}  // namespace

const ByteKernels kPortableByteKernels = make_byte_kernels("portable");

}  // namespace ascendrt::ops
