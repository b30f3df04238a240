// Operators whose tasks failed, for who was told of the failure and asks what ran there.
// Owns: the newest of them. Must never: know how an operator is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gen/abi.h"

namespace ascendrt::core {

struct OpTensor {
  aclDataType dtype = ACL_DT_UNDEFINED;
  std::vector<int64_t> dims;
  void* address = nullptr;  // on the device; null: no place of its own there
};

struct FailedOp {
  std::string name;
  std::vector<OpTensor> inputs;
  std::vector<OpTensor> outputs;
};

struct TaskIds {
  uint32_t device = 0;
  uint32_t stream = 0;
  uint32_t task = 0;
  bool operator==(const TaskIds&) const = default;
};

// The task that this thread runs is about to fail in this operator.
void note_failed_op(std::shared_ptr<const FailedOp> op);

// The failure that was noted on this thread, if any, was one of this task.
void keep_failed_op(const TaskIds& ids);

// Null when no operator of a model failed there, or a long time ago.
std::shared_ptr<const FailedOp> find_failed_op(const TaskIds& ids);

}  // namespace ascendrt::core
