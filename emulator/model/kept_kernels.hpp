// Kernels of ops that are compiled when they run: late ops, and ops in the bodies of If and loops.
// Owns: one kernel of each op, for the types that its operands had last. Must never: keep a kernel
// that took over values of another run.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "model/op_set.hpp"

namespace ascendrt::model {

class KeptKernels {
 public:
  // Like model::evaluate. The op must live as long as this object. From any thread.
  std::vector<OwnedTensor> evaluate(const OpType& type, const OpView& view, const ops::Exec& exec);

 private:
  struct Kept {
    std::vector<Operand> operands;         // without their values
    std::shared_ptr<const BuiltOp> built;  // null: the op depends on values that runs differ in
  };
  std::shared_ptr<const Kept> find(const OpView& view) const;

  mutable std::mutex mutex_;  // of the map; no op runs under it
  std::unordered_map<const Op*, std::shared_ptr<const Kept>> kept_;
};

}  // namespace ascendrt::model
