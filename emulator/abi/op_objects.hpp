// Single operators, for the entries of several files. Owns: the objects that clients hold, and the
// way of an operator onto a stream. Must never: know what an operator computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/model_objects.hpp"
#include "model/single_op.hpp"

namespace ascendrt::abi {

// aclopAttr
struct OpAttr : base::Object {
  static constexpr base::Kind kKind = base::Kind::kOpAttr;
  model::AttrMap values;
};

// An operator with all that is known before its tensors are.
struct DescribedOp {
  std::shared_ptr<const model::SingleOp> op;
  std::vector<model::TensorType> outputs;
};

// aclopHandle
struct OpHandle : base::Object {
  static constexpr base::Kind kKind = base::Kind::kOpHandle;
  explicit OpHandle(DescribedOp described) : op(std::move(described)) {}
  DescribedOp op;
};

struct OpBuffer {
  void* data = nullptr;
  uint64_t size = 0;
};

// Raises 100024, 100022 when the outputs are of other types than the operator's.
DescribedOp describe_op(const std::string& type, model::AttrMap attrs,
                        std::vector<model::SingleOperand> inputs,
                        std::vector<model::TensorType> outputs);

// Queues it. Raises 100000 for a buffer that is too small or no device memory.
void submit_op(const DescribedOp& op, const std::vector<OpBuffer>& inputs,
               const std::vector<OpBuffer>& outputs, aclrtStream stream);

aclopHandle* new_op_handle(DescribedOp op);

}  // namespace ascendrt::abi
