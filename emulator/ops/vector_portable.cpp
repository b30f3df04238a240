// Vector kernels in plain C++ for every CPU.
#include "ops/elementwise.hpp"
#include "ops/vector_isa.hpp"

namespace ascendrt::ops {
namespace {

#include "ops/vec_portable.inc"
#include "ops/vector_kernels.inc"

}  // namespace

const VectorKernels kPortableVectors = make_vector_kernels(Isa::kPortable);

}  // namespace ascendrt::ops
