// Tile kernels for x86 with AVX2 and FMA. Empty elsewhere.
#include "ops/tile_isa.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace ascendrt::ops {
namespace {

#define ART_TARGET __attribute__((target("avx2,fma")))
#define ART_INLINE ART_TARGET __attribute__((always_inline)) inline

struct Vec {
  __m256 low;
  __m256 high;
};

ART_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
ART_INLINE void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
ART_INLINE Vec broadcast(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
ART_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

// 16 registers: 12 accumulators, 2 weights, 1 value.
constexpr int kMaxBlocks = 1;
constexpr int kMaxPixels = 6;
constexpr int kMaxPixelsAnyStep = 6;

#include "ops/tile_kernels.inc"

}  // namespace

const TileKernels kAvx2Kernels = make_kernels(Isa::kAvx2);

}  // namespace ascendrt::ops
#endif
