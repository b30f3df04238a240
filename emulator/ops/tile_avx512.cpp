// Tile kernels for x86 with AVX-512F. Empty elsewhere.
#include "ops/tile_isa.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#define ART_TARGET __attribute__((target("avx512f")))
#define ART_INLINE ART_TARGET __attribute__((always_inline)) inline

struct Vec {
  __m512 v;
};

ART_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
ART_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v.v); }
ART_INLINE Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
ART_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

// 32 registers: 28 accumulators, 2 weights, 1 value. With a step that is no constant the general
// registers limit the pixels instead.
constexpr int kMaxBlocks = 2;
constexpr int kMaxPixels = 14;
constexpr int kMaxPixelsAnyStep = 8;

#include "ops/tile_kernels.inc"

}  // namespace

const TileKernels kAvx512Kernels = make_kernels(Isa::kAvx512);

}  // namespace ascendrt::ops
#endif
