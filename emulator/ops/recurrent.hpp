// Recurrent layers: RNN, GRU, LSTM, with weights of float32 or of bytes. Owns: the order of gates
// and steps. Must never: keep state between runs.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

enum class Cell : uint8_t { kRnn, kGru, kLstm };
enum class Gate : uint8_t {
  kSigmoid,
  kTanh,
  kRelu,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus
};

struct GateFunction {
  Gate kind = Gate::kTanh;
  float alpha = 0.0F, beta = 0.0F;
};

struct RecurrentParams {
  Cell cell = Cell::kRnn;
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;
  int64_t directions = 1;
  bool reverse = false;  // of a single direction
  bool batch_first = false;
  float clip = 0.0F;  // 0: none
  bool linear_before_reset = false;
  bool input_forget = false;
  std::vector<GateFunction> functions;  // per direction 1, 2 or 3
  int64_t gates() const { return cell == Cell::kRnn ? 1 : (cell == Cell::kGru ? 3 : 4); }
};

// Weights as integers with scales and zero points: [directions][depth][gates * hidden]. What they
// multiply is quantised when it is known, to unsigned bytes of one scale.
struct ByteWeights {
  TensorView values, scales, zeros;  // one scale and zero point per direction, or per column of it
  bool given() const { return values.data != nullptr; }
};

// Float weights of every direction, packed once instead of in every run. Immutable.
struct PackedRecurrent {
  std::vector<PackedMatrix> w, r;
};
PackedRecurrent pack_recurrent(const RecurrentParams& params, const float* w, const float* r);

// Gate order: z r h of a GRU, i o f c of an LSTM. w [directions][gates * hidden][inputs], r with
// hidden in place of inputs, bias [directions][2 * gates * hidden]. Null: not given.
struct RecurrentTensors {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* r = nullptr;
  ByteWeights byte_w, byte_r;               // in place of w and r
  const PackedRecurrent* packed = nullptr;  // of w and r, where they are constants
  const float* bias = nullptr;
  const int32_t* lengths = nullptr;
  const float* first_h = nullptr;
  const float* first_c = nullptr;
  const float* peephole = nullptr;  // [directions][3 * hidden]: i o f
  float* y = nullptr;
  float* last_h = nullptr;
  float* last_c = nullptr;  // LSTM
};

void recurrent(const RecurrentParams& params, const RecurrentTensors& tensors, const Exec& exec);

}  // namespace ascendrt::ops
