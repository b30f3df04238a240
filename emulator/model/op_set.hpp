// The operators that can be computed: for each GE type its shape rule and its kernel.
// Owns: the table and the view of one op that both work on. Must never: know graphs, offsets,
// devices.
//
// The shape rule and the kernel maker read the same attributes of the same op, so a file that holds
// the graph holds everything needed to run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/ir.hpp"
#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::model {

struct TensorType {
  aclDataType dtype = ACL_DT_UNDEFINED;
  ops::Shape shape;
  bool operator==(const TensorType&) const = default;
};

// One input of an op. `constant` is its bytes when they are known before the model runs.
struct Operand {
  TensorType type;
  bool connected = false;
  bool is_constant = false;
  std::span<const uint8_t> constant;
};

// An op with its inputs, as shape rules and kernel makers see it. The checked accessors raise
// ops::fail with the op's type and what is wrong.
struct OpView {
  const Op& op;
  std::vector<Operand> inputs;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].connected; }
  const Operand& input(size_t i) const;
  const ops::Shape& shape(size_t i) const { return input(i).type.shape; }
  aclDataType dtype(size_t i) const { return input(i).type.dtype; }
  void want_float(size_t i) const;
  void want_rank(size_t i, size_t rank) const;
  void want_count(size_t least, size_t most) const;        // number of connected inputs
  std::vector<int64_t> constant_ints(size_t i) const;      // int32 or int64 constant
  std::vector<int64_t> ints(std::string_view attr) const;  // required attribute
  [[noreturn]] void fail(std::string_view what) const;
};

using Inputs = std::span<const ops::TensorView>;
using Outputs = std::span<const ops::TensorView>;

// What a step of an executor calls. Immutable: may run on several threads at once.
struct Kernel {
  std::function<void(Inputs, Outputs, const ops::Exec&)> run;
  int64_t scratch_bytes = 0;
  // The output is input 0 under another shape: nothing runs, both share their bytes.
  bool is_view = false;
};

struct OpType {
  std::string_view name;
  std::vector<TensorType> (*infer)(const OpView&);
  // Called after infer accepted the op; `outputs` is its answer.
  Kernel (*build)(const OpView&, std::span<const TensorType> outputs);
};

// Null when the type is not in the set. Names are listed in model/op_set.cpp.
const OpType* find_op_type(std::string_view name);
std::vector<std::string_view> op_type_names();

// The parts of the table, one per file.
std::span<const OpType> compute_op_types();
std::span<const OpType> reduce_op_types();
std::span<const OpType> elementwise_op_types();
std::span<const OpType> movement_op_types();

TensorType tensor_type(const TensorDesc& desc);
ops::Shape to_shape(std::span<const int64_t> dims);
Dims to_dims(const ops::Shape& shape);

}  // namespace ascendrt::model
