// The vector kernels compiled into the library. Private to ops/vector*.cpp.
// Must never: be used without asking isa_available first.
#pragma once

#include "ops/vector.hpp"

namespace ascendrt::ops {

extern const VectorKernels kPortableVectors;
#if defined(__x86_64__)
extern const VectorKernels kAvx2Vectors;
extern const VectorKernels kAvx512Vectors;
#elif defined(__aarch64__)
extern const VectorKernels kNeonVectors;
#endif

}  // namespace ascendrt::ops
