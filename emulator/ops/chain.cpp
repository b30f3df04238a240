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

const float* Chain::operand(const ChainOperand& from, const ResultTile& tile,
                            std::span<const float* const> beside, int64_t columns, Slots& slots,
                            float* room, bool& is_one) const {
  is_one = false;
  if (from.from == ChainFrom::kProduct) return tile.tile;
  if (from.from == ChainFrom::kStep) return slots.results[slot_[from.index]].data();
  const float* source = beside[from.index];
  is_one = spreads_[from.index] == Spread::kOne;
  if (is_one) return source;
  const bool row = spreads_[from.index] == Spread::kRow;
  source += tile.first_column + (row ? 0 : tile.first_row * columns);
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
  Slots slots;  // NOLINT: written before it is read
  const int64_t count = tile.rows * tile.columns;
  const Shape all{count};
  const auto view = [&](const float* data, bool is_one) {
    return TensorView{const_cast<float*>(data), ACL_FLOAT, is_one ? Shape{} : all};
  };
  round(tile.tile, count);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ChainStep& step = steps_[i];
    bool one_a = false;
    bool one_b = false;
    float* to = i + 1 == steps_.size() ? tile.tile : slots.results[slot_[i]].data();
    const float* a = operand(step.a, tile, beside, columns, slots, slots.gathered[0].data(), one_a);
    if (!step.is_binary) {
      unary(step.unary, step.params, view(a, false), view(to, false), {});
      round(to, count);
      continue;
    }
    const float* b = operand(step.b, tile, beside, columns, slots, slots.gathered[1].data(), one_b);
    binary(step.binary, view(a, one_a), view(b, one_b), view(to, false), {});
    round(to, count);
  }
}

}  // namespace ascendrt::ops
