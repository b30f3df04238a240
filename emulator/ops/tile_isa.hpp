// The kernel sets compiled into the library. Private to ops/tile*.cpp.
// Must never: be used without asking isa_available first.
#pragma once

#include "ops/tile.hpp"

namespace ascendrt::ops {

extern const TileKernels kPortableKernels;
#if defined(__x86_64__)
extern const TileKernels kAvx2Kernels;
extern const TileKernels kAvx512Kernels;
#elif defined(__aarch64__)
extern const TileKernels kNeonKernels;
#endif

}  // namespace ascendrt::ops
