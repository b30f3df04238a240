// Tile kernels in plain C++ for every CPU. Where the base instruction set has no fused
// multiply-add, fmaf is a library call: right but slow. Must never: use intrinsics.
#include "ops/tile_isa.hpp"

namespace ascendrt::ops {
namespace {

#define ART_TARGET

struct Vec {
  float lane[kLanes];
};

inline Vec load(const float* p) {
  Vec v;
  for (int64_t i = 0; i < kLanes; ++i) v.lane[i] = p[i];
  return v;
}
inline void store(float* p, const Vec& v) {
  for (int64_t i = 0; i < kLanes; ++i) p[i] = v.lane[i];
}
inline Vec broadcast(float x) {
  Vec v;
  for (float& lane : v.lane) lane = x;
  return v;
}
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  Vec v;
  for (int64_t i = 0; i < kLanes; ++i) v.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
  return v;
}

constexpr int kMaxBlocks = 1;
constexpr int kMaxPixels = 6;
constexpr int kMaxPixelsAnyStep = 6;

#include "ops/tile_kernels.inc"

}  // namespace

const TileKernels kPortableKernels = make_kernels(Isa::kPortable);

}  // namespace ascendrt::ops
