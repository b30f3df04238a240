// Tile kernels for aarch64, whose base instruction set has the vectors. Empty elsewhere.
#include "ops/tile_isa.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace ascendrt::ops {
namespace {

#define ART_TARGET
#define ART_INLINE __attribute__((always_inline)) inline

struct Vec {
  float32x4_t a, b, c, d;
};

ART_INLINE Vec load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
ART_INLINE void store(float* p, Vec v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
  vst1q_f32(p + 8, v.c);
  vst1q_f32(p + 12, v.d);
}
ART_INLINE Vec broadcast(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
ART_INLINE Vec fma(Vec x, Vec y, Vec sum) {
  return {vfmaq_f32(sum.a, x.a, y.a), vfmaq_f32(sum.b, x.b, y.b), vfmaq_f32(sum.c, x.c, y.c),
          vfmaq_f32(sum.d, x.d, y.d)};
}

// 32 registers of 4 lanes: 24 accumulators, 4 weights, 1 value.
constexpr int kMaxBlocks = 1;
constexpr int kMaxPixels = 6;
constexpr int kMaxPixelsAnyStep = 6;

#include "ops/tile_kernels.inc"

}  // namespace

const TileKernels kNeonKernels = make_kernels(Isa::kNeon);

}  // namespace ascendrt::ops
#endif
