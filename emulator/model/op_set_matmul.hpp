// Matrix products as several operators use them. Owns: MatmulShape and Matmul.
// Must never: know what follows a product.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "model/op_set.hpp"
#include "ops/chain.hpp"
#include "ops/matmul.hpp"

namespace ascendrt::model {

struct MatmulShape {
  int64_t batch_b = 1;  // right-hand matrices
  int64_t rows = 0, depth = 0, columns = 0;
  bool transposed_a = false;
  ops::Transposed transposed_b = ops::Transposed::kNo;
  ops::Shape batch;  // broadcast batch dims of the result
  ops::Shape a_batch, b_batch;
  bool has_bias = false;
};

// The values of a constant; its bytes need not be aligned in the file, then they are in `copy`.
const float* aligned_floats(const Operand& operand, std::vector<float>& copy);

// Of an op with the operands a, b, bias and the attributes transpose_x1, transpose_x2 (or adj_).
// `most` operands belong to the product; whatever is behind them is not looked at.
MatmulShape matmul_shape(const OpView& v, size_t most);

// A product of floats ready to run.
struct Matmul {
  MatmulShape shape;
  std::shared_ptr<const std::vector<ops::PackedMatrix>> packed;  // of a constant right-hand side
  int64_t scratch_bytes = 0;

  // Input 0 and output 0 may be halves; `room` has then a float for each of input 0.
  void run(Inputs in, Outputs out, const ops::Exec& exec, const ops::FinishTile* finish = nullptr,
           float* room = nullptr) const;
  // What a kernel says of its inputs.
  uint8_t unread() const { return packed->empty() ? 0 : 1U << 1U; }

 private:
  void run_one(int64_t index, Inputs in, Outputs out, float* turned, const ops::Exec& exec,
               const ops::FinishTile* finish, float* room) const;
};
Matmul make_matmul(const OpView& v, size_t most);

// The step that an element-wise op of floats is; its operands are not set. False: it is none.
bool find_element_wise(const Op& op, ops::ChainStep& step);

}  // namespace ascendrt::model
