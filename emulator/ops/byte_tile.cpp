// Owns: the choice of byte kernels for this CPU and the split of rows into tiles.
// Must never: contain instructions of an optional set; those live in byte_tile_<isa>.cpp.
#include "ops/byte_tile.hpp"

namespace ascendrt::ops {
namespace {

ByteKernels::Step step_of(int64_t x_step) {
  switch (x_step) {
    case 16:
      return ByteKernels::kStep16;
    case 32:
      return ByteKernels::kStep32;
    case 8:
      return ByteKernels::kStep8;
    default:
      return ByteKernels::kStepAny;
  }
}

}  // namespace

std::array<const ByteKernels*, 3> available_byte_kernels() {
  std::array<const ByteKernels*, 3> list = {&kPortableByteKernels, nullptr, nullptr};
#if defined(__x86_64__)
  if (isa_available(Isa::kAvx2)) list[1] = &kAvx2ByteKernels;
  if (isa_available(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0) {
    list[2] = &kVnniByteKernels;
  }
#endif
  return list;
}

const ByteKernels& byte_kernels() {
  static const ByteKernels& best = [] {
    const ByteKernels* last = &kPortableByteKernels;
    for (const ByteKernels* kernels : available_byte_kernels()) {
      if (kernels != nullptr) last = kernels;
    }
    return *last;
  }();
  return best;
}

void run_byte_row(const ByteKernels& kernels, int blocks, ByteTile tile, int64_t count) {
  const ByteKernels::Step step = step_of(tile.x_step);
  const ByteKernels::Table& table = kernels.tile[static_cast<size_t>(blocks - 1)][step];
  const int64_t limit =
      step == ByteKernels::kStepAny ? kernels.max_pixels_any_step : kernels.max_pixels;
  for (int64_t tiles = (count + limit - 1) / limit; tiles > 0; --tiles) {
    const int64_t pixels = (count + tiles - 1) / tiles;
    table[static_cast<size_t>(pixels)](tile);
    tile.x += pixels * tile.x_step;
    tile.finish.y += pixels * tile.finish.y_pixel;
    if (tile.finish.sums != nullptr) tile.finish.sums += pixels * tile.finish.sums_pixel;
    if (tile.finish.add != nullptr) tile.finish.add += pixels * tile.finish.add_pixel;
    count -= pixels;
  }
}

}  // namespace ascendrt::ops
