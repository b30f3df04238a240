// Owns: running steps on tiles. Must never: allocate while it runs.
#include "ops/chain.hpp"

#include <algorithm>
#include <array>

namespace ascendrt::ops {
namespace {

using Tile = std::array<float, kTileFloats>;

}  // namespace

struct Chain::Slots {
  std::array<Tile, kMaxSlots> results;
  std::array<Tile, 2> gathered;
};

bool Chain::set_steps(std::vector<ChainStep> steps) {
  steps_ = std::move(steps);
  std::vector<size_t> last(steps_.size(), 0);  // the last step that reads a step's result
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (const ChainOperand* from : {&steps_[i].a, &steps_[i].b}) {
      if (from->from == ChainFrom::kStep) last[from->index] = i;
    }
  }
  slot_.assign(steps_.size(), 0);
  std::array<size_t, kMaxSlots> busy_until{};  // a slot is free for the step that reads it last
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    size_t slot = 0;
    while (slot < kMaxSlots && busy_until[slot] > i) ++slot;
    if (slot == kMaxSlots) return false;
    slot_[i] = slot;
    busy_until[slot] = last[i];
  }
  return true;
}

const float* Chain::operand(const ChainOperand& from, const float* product, const ResultTile& tile,
                            std::span<const float* const> beside, int64_t columns, Slots& slots,
                            float* room, bool& is_one) const {
  is_one = false;
  if (from.from == ChainFrom::kProduct) return product;
  if (from.from == ChainFrom::kStep) return slots.results[slot_[from.index]].data();
  const float* source = beside[from.index];
  is_one = spreads_[from.index] == Spread::kOne;
  if (is_one) return source;
  const bool row = spreads_[from.index] == Spread::kRow;
  source += tile.first_column + (row ? 0 : tile.first_row * columns);
  if (tile.rows == 1) return source;
  for (int64_t r = 0; r < tile.rows; ++r) {
    std::copy_n(source + (row ? 0 : r * columns), tile.columns, room + r * tile.columns);
  }
  return room;
}

void Chain::round(float* tile, int64_t count) const {
  if (half_ == ACL_DT_UNDEFINED) return;
  std::array<uint16_t, kTileFloats> narrow;  // NOLINT: written before it is read
  const VectorKernels& kernels = vector_kernels();
  const bool brain = half_ == ACL_BF16;
  (brain ? kernels.to_brain : kernels.to_half)(tile, narrow.data(), count);
  (brain ? kernels.from_brain : kernels.from_half)(narrow.data(), tile, count);
}

void Chain::run(const ResultTile& tile, std::span<const float* const> beside,
                int64_t columns) const {
  round(tile.tile, tile.rows * tile.columns);
  run_steps(tile.tile, tile, beside, columns);
}

void Chain::run_flat(const float* product, float* y, int64_t count,
                     std::span<const float* const> beside) const {
  run_steps(product, {y, 0, 1, 0, count}, beside, count);
}

// The last step alone writes to the tile, so the product may lie there.
void Chain::run_steps(const float* product, const ResultTile& tile,
                      std::span<const float* const> beside, int64_t columns) const {
  Slots slots;  // NOLINT: written before it is read
  const int64_t count = tile.rows * tile.columns;
  const Shape all{count};
  const auto view = [&](const float* data, bool is_one) {
    return TensorView{const_cast<float*>(data), ACL_FLOAT, is_one ? Shape{} : all};
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ChainStep& step = steps_[i];
    bool one_a = false;
    bool one_b = false;
    float* to = i + 1 == steps_.size() ? tile.tile : slots.results[slot_[i]].data();
    const float* a =
        operand(step.a, product, tile, beside, columns, slots, slots.gathered[0].data(), one_a);
    if (!step.is_binary) {
      unary(step.unary, step.params, view(a, false), view(to, false), {});
      round(to, count);
      continue;
    }
    const float* b =
        operand(step.b, product, tile, beside, columns, slots, slots.gathered[1].data(), one_b);
    binary(step.binary, view(a, one_a), view(b, one_b), view(to, false), {});
    round(to, count);
  }
}

namespace {

void load(const TensorView& x, int64_t first, int64_t count, float* to) {
  if (x.dtype == ACL_FLOAT) {
    std::copy_n(x.as<const float>() + first, count, to);
    return;
  }
  const VectorKernels& kernels = vector_kernels();
  (x.dtype == ACL_BF16 ? kernels.from_brain : kernels.from_half)(x.as<const uint16_t>() + first, to,
                                                                 count);
}

void store(const float* from, const TensorView& y, int64_t first, int64_t count) {
  if (y.dtype == ACL_FLOAT) {
    std::copy_n(from, count, y.as<float>() + first);
    return;
  }
  const VectorKernels& kernels = vector_kernels();
  (y.dtype == ACL_BF16 ? kernels.to_brain : kernels.to_half)(from, y.as<uint16_t>() + first, count);
}

}  // namespace

void run_elementwise(const Chain& chain, std::span<const Spread> spreads,
                     std::span<const TensorView> x, const TensorView& y, const Exec& exec) {
  const int64_t total = y.elements();
  std::vector<float> numbers(spreads.size());
  for (size_t i = 0; i < spreads.size(); ++i) {
    if (spreads[i] == Spread::kOne) load(x[i + 1], 0, 1, &numbers[i]);
  }
  const bool wide = y.dtype == ACL_FLOAT;
  parallel_ranges(exec, (total + kTileFloats - 1) / kTileFloats, 4, [&](int64_t from, int64_t to) {
    Tile tile;  // NOLINT: written before it is read
    std::vector<Tile> widened(wide ? 0 : spreads.size());
    std::vector<const float*> beside(spreads.size());
    for (int64_t i = from; i < to; ++i) {
      const int64_t first = i * kTileFloats;
      const int64_t count = std::min(kTileFloats, total - first);
      for (size_t k = 0; k < spreads.size(); ++k) {
        beside[k] = &numbers[k];
        if (spreads[k] == Spread::kOne) continue;
        if (wide) {
          beside[k] = x[k + 1].as<const float>() + first;
        } else {
          load(x[k + 1], first, count, widened[k].data());
          beside[k] = widened[k].data();
        }
      }
      if (wide) {
        chain.run_flat(x[0].as<const float>() + first, y.as<float>() + first, count, beside);
        continue;
      }
      load(x[0], first, count, tile.data());
      chain.run({tile.data(), 0, 1, 0, count}, beside, count);
      store(tile.data(), y, first, count);
    }
  });
}

}  // namespace ascendrt::ops
