// Owns: the way from a described operator to the table's.
#include "model/single_op.hpp"

#include <utility>

#include "base/error.hpp"

namespace ascendrt::model {
namespace {

const OpType& find_type(const std::string& name) {
  if (name == gemm_op_type().name) return gemm_op_type();
  if (const OpType* found = find_op_type(name)) return *found;
  base::fail(ACL_ERROR_OP_NOT_FOUND,
             "operator type '" + name +
                 "' is none that the emulator computes; names are those of the graph engine, such "
                 "as Add, MatMulV2 or ReduceSum, not those of ONNX",
             base::Layer::kAcl);
}

}  // namespace

SingleOp::SingleOp(const std::string& type, AttrMap attrs, std::vector<SingleOperand> inputs)
    : type_(&find_type(type)), inputs_(std::move(inputs)) {
  op_.name = op_.type = type;
  op_.attrs = std::move(attrs);
  for (const SingleOperand& input : inputs_) {
    TensorDesc desc;
    desc.dtype = input.type.dtype;
    desc.dims = to_dims(input.type.shape);
    op_.input_descs.push_back(std::move(desc));
  }
}

OpView SingleOp::view(std::span<const std::span<const uint8_t>> bytes) const {
  OpView view{op_, {}, {}};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SingleOperand& input = inputs_[i];
    Operand operand{input.type, input.connected, false, {}};
    if (input.connected && input.known != nullptr) {
      operand.is_constant = true;
      operand.constant = *input.known;
    } else if (input.connected && i < bytes.size()) {
      operand.is_constant = true;
      operand.constant = bytes[i];
    }
    view.inputs.push_back(operand);
  }
  return view;
}

std::optional<std::vector<TensorType>> SingleOp::results() const {
  if (type_->infer == nullptr) return std::nullopt;
  std::optional<std::vector<TensorType>> types;
  try {
    types = infer_op(*type_, view({}));
    // Only the kernel's maker looks at all attributes.
    static_cast<void>(build_op(*type_, view({}), *types));
  } catch (const ops::NotKnown&) {
    return types;  // values decide: what is missing is seen when they are there
  }
  return types;
}

std::vector<OwnedTensor> SingleOp::run(std::span<const std::span<const uint8_t>> bytes,
                                       ops::Workers& workers) const {
  return evaluate(*type_, view(bytes), {workers});
}

}  // namespace ascendrt::model
