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
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"
#include "ops/conv.hpp"
#include "ops/parallel.hpp"
#include "ops/pool.hpp"
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
  bool is_fixed = false;  // of what a run evaluates: the same in every run
};

class KeptKernels;

// Where ops with subgraphs find them. `weights` holds the constants of all graphs.
struct GraphScope {
  const Model* model = nullptr;
  std::span<const uint8_t> weights;
  KeptKernels* kernels = nullptr;  // of the ops in bodies; null: they are made for every turn
  int depth = 0;                   // bodies around the op
};

// An op with its inputs, as shape rules and kernel makers see it. The checked accessors raise
// ops::fail with the op's type and what is wrong, ops::NotKnown for what only a run can tell.
struct OpView {
  const Op& op;
  std::vector<Operand> inputs;
  GraphScope scope;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].connected; }
  const Operand& input(size_t i) const;
  const ops::Shape& shape(size_t i) const { return input(i).type.shape; }
  aclDataType dtype(size_t i) const { return input(i).type.dtype; }
  void want_float(size_t i) const;
  void want_rank(size_t i, size_t rank) const;
  void want_count(size_t least, size_t most) const;    // number of connected inputs
  std::vector<int64_t> constant_ints(size_t i) const;  // int32 or int64 constant
  int64_t constant_int(size_t i) const;                // the same of one element
  float constant_float(size_t i) const;
  std::vector<float> constant_floats(size_t i) const;  // constant of any number type
  ops::TensorView constant_view(size_t i) const;
  bool flag(std::string_view attr, bool fallback = false) const;  // a bool, or a number not 0
  std::vector<int64_t> ints(std::string_view attr) const;         // required attribute
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
  // Bit i: output 0 may lie on input i when both have the same size; element k of the output is
  // written after the last read of element k of that input.
  uint8_t in_place = 0;
  // Bit i: input i is a constant whose values were taken over when the kernel was made; a run does
  // not read it.
  uint8_t unread = 0;
  // The same where input 0 and output 0 are of halves, other operands widened as for `run`; `room`
  // has a float for each element of input 0. Empty: all are widened.
  std::function<void(Inputs, Outputs, const ops::Exec&, float* room)> run_halves = nullptr;
};

// Runs a kernel, unless all it makes is empty: other dims may then be of any size.
void run_kernel(const Kernel& kernel, Inputs in, Outputs out, const ops::Exec& exec);

template <class F>
Kernel make_kernel(F run) {
  return {std::move(run), 0, false};
}

// A tensor that owns its bytes.
struct OwnedTensor {
  TensorType type;
  std::shared_ptr<Bytes> bytes;

  ops::TensorView view() const { return {bytes->data(), type.dtype, type.shape}; }
};
OwnedTensor make_tensor(const TensorType& type);  // zeros; raises when the host has no room
// Raises 207001 when the host cannot give this process so many bytes now.
void want_memory(int64_t bytes, const std::string& what);

// Of the graph engine, for a BatchNorm that does not say.
inline constexpr float kBatchNormEpsilon = 1e-4F;

// What becomes of float16 and bfloat16 operands. Widened: the op sees float32 and its float32
// results are narrowed again, as the device computes.
enum class Halves : uint8_t { kWidened, kNative };

// Note [Late ops]: a shape rule may need values (a Reshape whose shape is computed) or a kernel may
// decide the shape itself (NonZero). Such an op is compiled when it runs: then every operand is
// known and counts as constant, so rule and kernel maker are the same as for a fixed op. Only the
// element types must be known before; `dtypes` tells them.
struct OpType {
  std::string_view name;
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;
  // Called after infer accepted the op; `outputs` is its answer.
  Kernel (*build)(const OpView&, std::span<const TensorType> outputs) = nullptr;
  Halves halves = Halves::kWidened;
  // Element types of the results of a late op; null: one result of the type of input 0.
  std::vector<aclDataType> (*dtypes)(const OpView&) = nullptr;
  // Instead of infer and build, for ops whose results have shapes that depend on values. All
  // operands are constants.
  std::vector<OwnedTensor> (*compute)(const OpView&, const ops::Exec&) = nullptr;
  bool draws = false;  // every run gives other results: never computed before
};

// infer and build of the type, with halves widened as the type wants.
std::vector<TensorType> infer_op(const OpType& type, const OpView& view);
Kernel build_op(const OpType& type, const OpView& view, std::span<const TensorType> outputs);
// Types of a late op's results, shapes open.
std::vector<TensorType> late_types(const OpType& type, const OpView& view);
// An op ready to run; NotKnown where only the values of a run tell what it makes.
struct BuiltOp {
  std::vector<TensorType> results;
  Kernel kernel;
};
BuiltOp make_built(const OpType& type, const OpView& view);
// All operands of the view have values.
std::vector<OwnedTensor> run_built(const BuiltOp& op, const OpView& view, const ops::Exec& exec);
// Runs an op whose operands are all constants; it gets scratch memory of its own.
std::vector<OwnedTensor> evaluate(const OpType& type, const OpView& view, const ops::Exec& exec);

// Null when the type is not in the set. Names are listed in model/op_set.cpp.
const OpType* find_op_type(std::string_view name);

// The parts of the table, one per file.
std::span<const OpType> compute_op_types();
std::span<const OpType> matmul_op_types();
std::span<const OpType> fused_op_types();
// GEMM: alpha * a * b + beta * c of a, b, c, alpha and beta, the operator behind the BLAS calls.
// Halves are multiplied and added in float32 and rounded once, int8 in int32.
std::span<const OpType> gemm_op_types();
std::span<const OpType> reduce_op_types();
std::span<const OpType> elementwise_op_types();
std::span<const OpType> movement_op_types();
std::span<const OpType> index_op_types();
std::span<const OpType> window_op_types();
std::span<const OpType> quantize_op_types();
std::span<const OpType> quantized_op_types();
std::span<const OpType> sequence_op_types();
std::span<const OpType> image_op_types();
std::span<const OpType> misc_op_types();
std::span<const OpType> control_op_types();
std::span<const OpType> aipp_op_types();
std::span<const OpType> random_op_types();

// Geometry of convolutions and poolings of float32 operands, checked and resolved.
ops::ConvShape conv_shape(const OpView& v);
ops::PoolShape pool_shape(const OpView& v);

ops::Shape open_shape();  // of a tensor whose rank is not known: one dim of -2, as in the files
// Which matrix of an operand with the batch dims `operand` belongs to matrix `index` of `batch`.
int64_t batch_index(const ops::Shape& operand, const ops::Shape& batch, int64_t index);
TensorType tensor_type(const TensorDesc& desc);
ops::Shape to_shape(std::span<const int64_t> dims);
Dims to_dims(const ops::Shape& shape);

}  // namespace ascendrt::model
