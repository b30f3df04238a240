// Attention over heads, its linear form, and rotary positions. Owns: masking rules.
// Must never: hold a whole score matrix beyond a block of queries unless it is asked for.
#pragma once

#include <cstdint>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// What the scores output holds.
enum class Scores : uint8_t { kProducts, kCapped, kMasked, kProbabilities };

// Heads lie side by side in rows of a 3-dim tensor, or are a dim before the rows of a 4-dim one.
struct HeadLayout {
  int64_t heads = 1, rows = 0, size = 0;
  bool packed = false;  // [batch][rows][heads * size]
  int64_t offset(int64_t batch, int64_t head, int64_t row) const {
    return packed ? ((batch * rows + row) * heads + head) * size
                  : ((batch * heads + head) * rows + row) * size;
  }
};

struct AttentionParams {
  int64_t batch = 0;
  HeadLayout q, k, v, y;  // k and v: the new rows
  int64_t past = 0;       // rows of the cache before them
  float scale = 1.0F, cap = 0.0F;
  bool causal = false;
  int64_t left = -1, right = -1;  // window around a query's position; -1 open
  Scores scores = Scores::kProducts;
  bool divides = false;  // products are divided by the scale
  bool plain = false;  // a query whose keys are all masked: what the arithmetic gives (NaN), not 0
};

struct AttentionTensors {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const float *past_k = nullptr, *past_v = nullptr;  // [batch][heads][past][size]
  const TensorView* mask = nullptr;                  // bool or float32, broadcast from the right
  const int64_t* lengths = nullptr;                  // valid rows of k and v, per batch
  float* y = nullptr;
  float *present_k = nullptr, *present_v = nullptr;  // [batch][heads][past + rows][size]
  float* scores = nullptr;                           // [batch][q heads][q rows][past + rows]
};

// A query whose keys are all masked gives 0.
void attention(const AttentionParams& params, const AttentionTensors& tensors, const Exec& exec);

// State [size of k][size of v] per head, updated row by row: it decays by exp(decay), takes the
// outer product of key and value, and is read by the queries.
struct LinearParams {
  int64_t batch = 0;
  HeadLayout q, k, v, y;
  float scale = 1.0F;
  int64_t decays = 0;  // values of decay per row: 0, heads, or heads * size
  int64_t betas = 0;   // the same for beta: 0, 1 or heads; the value is corrected then
};
void linear_attention(const LinearParams& params, const float* q, const float* k, const float* v,
                      const float* decay, const float* beta, float* state, float* y,
                      const Exec& exec);

enum class Pairs : uint8_t { kHalves, kNeighbours };
// cosines and sines: [positions][pairs] with `positions` [batch][rows], or without positions
// [batch][rows][pairs]. The first 2 * pairs elements of each head turn, the rest stay.
void rotate_positions(const HeadLayout& layout, int64_t batch, Pairs pairs, int64_t count,
                      const float* x, const float* cosines, const float* sines,
                      const int64_t* positions, float* y, const Exec& exec);

}  // namespace ascendrt::ops
