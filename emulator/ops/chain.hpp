// Element-wise operations behind a matrix product or each other, done on tiles in the cache.
// Owns: the order of the steps and their temporary tiles. Must never: compute anything but through
// ops::unary and ops::binary, so that results are those of the operations one by one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/elementwise.hpp"
#include "ops/matmul.hpp"

namespace ascendrt::ops {

// An operand of a step: the product, the result of an earlier step, or a tensor beside it.
enum class ChainFrom : uint8_t { kProduct, kStep, kBeside };
struct ChainOperand {
  ChainFrom from = ChainFrom::kProduct;
  size_t index = 0;  // of the step or of the tensor
};

struct ChainStep {
  bool is_binary = false;
  Unary unary = Unary::kRelu;
  UnaryParams params;
  Binary binary = Binary::kAdd;
  ChainOperand a, b;
};

// How a tensor beside the product is spread over it.
enum class Spread : uint8_t { kOne, kRow, kFull };

class Chain {
 public:
  static constexpr size_t kMaxSlots = 4;

  // False: the steps need more temporary tiles than there are.
  bool set_steps(std::vector<ChainStep> steps);
  // One per tensor beside the product; kRow has as many values as the product has columns.
  void set_beside(std::vector<Spread> spreads) { spreads_ = std::move(spreads); }
  // ACL_FLOAT16 or ACL_BF16: the product and the result of every step are rounded to it.
  void set_rounding(aclDataType half) { half_ = half; }

  // Replaces a tile by what the steps make of it. `columns` of the whole product.
  void run(const ResultTile& tile, std::span<const float* const> beside, int64_t columns) const;
  // The same of `count` floats at `product`, which are of the rounded type already and stay.
  void run_flat(const float* product, float* y, int64_t count,
                std::span<const float* const> beside) const;

 private:
  struct Slots;
  void run_steps(const float* product, const ResultTile& tile, std::span<const float* const> beside,
                 int64_t columns) const;
  void round(float* tile, int64_t count) const;
  const float* operand(const ChainOperand& from, const float* product, const ResultTile& tile,
                       std::span<const float* const> beside, int64_t columns, Slots& slots,
                       float* room, bool& is_one) const;

  std::vector<ChainStep> steps_;
  std::vector<size_t> slot_;  // where a step's result lies; the last one lies on the tile
  std::vector<Spread> spreads_;
  aclDataType half_ = ACL_DT_UNDEFINED;
};

// The steps on whole tensors: x[0] in the product's place, the others beside it, all of one type.
// Halves are widened in tiles and what the last step gives is rounded. y may lie on any x of its
// shape.
void run_elementwise(const Chain& chain, std::span<const Spread> spreads,
                     std::span<const TensorView> x, const TensorView& y, const Exec& exec);

}  // namespace ascendrt::ops
