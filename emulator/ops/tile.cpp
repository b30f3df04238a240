// Owns: the choice of kernels for this CPU and the split of rows into tiles.
// Must never: contain instructions of an optional set; those live in tile_<isa>.cpp.
#include "ops/tile.hpp"

#include "ops/tile_isa.hpp"

namespace ascendrt::ops {

bool isa_available(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return __builtin_cpu_supports("avx512f") != 0;
  if (isa == Isa::kAvx2) {  // F16C came before AVX2; not every compiler can ask for it
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  }
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return true;
#endif
  return isa == Isa::kPortable;
}

const TileKernels& tile_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return kNeonKernels;
#endif
  static_cast<void>(isa);
  return kPortableKernels;
}

Isa best_isa() {
  static const Isa best = [] {
    for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kNeon}) {
      if (isa_available(isa)) return isa;
    }
    return Isa::kPortable;
  }();
  return best;
}

const TileKernels& tile_kernels() {
  static const TileKernels& best = tile_kernels(best_isa());
  return best;
}

void run_row(const TileKernels& kernels, int blocks, TileArgs args, int64_t count) {
  const TileKernels::Table& table = kernels.table(blocks, args.x_step);
  const int64_t limit = kernels.pixels(args.x_step);
  // Even pieces: 49 pixels become 13, 12, 12, 12 instead of 14, 14, 14, 7.
  for (int64_t tiles = (count + limit - 1) / limit; tiles > 0; --tiles) {
    const int64_t pixels = (count + tiles - 1) / tiles;
    table[static_cast<size_t>(pixels)](args);
    args.x += pixels * args.x_step;
    args.y += pixels * args.y_step;
    count -= pixels;
  }
}

}  // namespace ascendrt::ops
