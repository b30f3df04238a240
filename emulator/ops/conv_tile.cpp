// Owns: the choice of convolution kernels for this CPU and the split of rows into tiles.
// Must never: contain instructions of an optional set; those live in conv_tile_<isa>.cpp.
#include "ops/conv_tile.hpp"

namespace ascendrt::ops {
namespace {

ConvKernels::Step step_of(int64_t x_step, Prefetch prefetch) {
  const bool weights = prefetch == Prefetch::kWeights;
  const bool input = prefetch == Prefetch::kInput;
  switch (x_step) {
    case 16:
      if (input) return ConvKernels::kStep16Input;
      return weights ? ConvKernels::kStep16Weights : ConvKernels::kStep16;
    case 32:
      if (input) return ConvKernels::kStep32Input;
      return weights ? ConvKernels::kStep32Weights : ConvKernels::kStep32;
    case 1:
      return ConvKernels::kStep1;
    case 2:
      return ConvKernels::kStep2;
    default:
      return ConvKernels::kStepAny;
  }
}

template <class T>
T* moved(T* p, int64_t bytes) {
  if (p == nullptr) return nullptr;
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(p) + bytes);
}

}  // namespace

const ConvKernels& conv_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512ConvKernels;
  if (isa == Isa::kAvx2) return kAvx2ConvKernels;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return kNeonConvKernels;
#endif
  static_cast<void>(isa);
  return kPortableConvKernels;
}

const ConvKernels& conv_kernels() { return conv_kernels(best_isa()); }

int64_t run_conv_row(const ConvKernels& kernels, int blocks, Prefetch prefetch, ConvTile tile,
                     int64_t count) {
  const ConvKernels::Step step = step_of(tile.x_step, prefetch);
  const ConvKernels::Table& table = kernels.tile[static_cast<size_t>(blocks - 1)][step];
  const int64_t limit =
      step == ConvKernels::kStepAny ? kernels.max_pixels_any_step : kernels.max_pixels;
  const int64_t y_bytes = kLanes * stored_bytes(tile.finish.stored);
  const int64_t add_bytes = kLanes * stored_bytes(operands_of(tile.finish.stored));
  const int64_t partial = blocks * kLanes * static_cast<int64_t>(sizeof(float));
  // Even pieces: 49 pixels become 13, 12, 12, 12 instead of 14, 14, 14, 7.
  const int64_t all = (count + limit - 1) / limit;
  int64_t channels = 0;
  if (prefetch == Prefetch::kWeights) {
    for (int64_t t = 0; t < tile.tap_count; ++t) channels += tile.taps[t].channels;
  }
  for (int64_t tiles = all; tiles > 0; --tiles) {
    const int64_t pixels = (count + tiles - 1) / tiles;
    table[static_cast<size_t>(pixels)](tile);
    tile.x += pixels * tile.x_step;
    tile.partial_in = moved(tile.partial_in, pixels * partial);
    tile.partial_out = moved(tile.partial_out, pixels * partial);
    tile.finish.y = moved(static_cast<char*>(tile.finish.y), pixels * y_bytes);
    tile.finish.add = moved(static_cast<const char*>(tile.finish.add), pixels * add_bytes);
    tile.ahead = moved(tile.ahead, channels * kLanes * static_cast<int64_t>(sizeof(float)));
    const int64_t wait = (tile.next.wait - tile.tap_count) % tile.next.period;
    tile.next.wait = wait < 0 ? wait + tile.next.period : wait;
    count -= pixels;
  }
  return all;
}

}  // namespace ascendrt::ops
