// Owns: what a kept kernel is valid for. Must never: hold the lock while an op is made or runs.
#include "model/kept_kernels.hpp"

#include <algorithm>

namespace ascendrt::model {
namespace {

bool is_same(const Operand& a, const Operand& b) {
  return a.connected == b.connected && a.is_fixed == b.is_fixed && a.type == b.type;
}

}  // namespace

std::shared_ptr<const KeptKernels::Kept> KeptKernels::find(const OpView& view) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(&view.op);
  if (found == kept_.end() ||
      !std::equal(view.inputs.begin(), view.inputs.end(), found->second->operands.begin(),
                  found->second->operands.end(), is_same)) {
    return nullptr;
  }
  return found->second;
}

std::vector<OwnedTensor> KeptKernels::evaluate(const OpType& type, const OpView& view,
                                               const ops::Exec& exec) {
  if (type.compute != nullptr) return model::evaluate(type, view, exec);
  std::shared_ptr<const Kept> kept = find(view);
  if (kept == nullptr) {
    // Made as if only what every run has were known.
    OpView known = view;
    for (Operand& operand : known.inputs) {
      if (operand.is_fixed) continue;
      operand.is_constant = false;
      operand.constant = {};
    }
    auto made = std::make_shared<Kept>();
    try {
      made->built = std::make_shared<const BuiltOp>(make_built(type, known));
    } catch (const ops::NotKnown&) {  // NOLINT(bugprone-empty-catch): made for every run then
    }
    for (Operand& operand : known.inputs) operand.constant = {};
    made->operands = std::move(known.inputs);
    kept = std::move(made);
    const std::lock_guard lock(mutex_);
    kept_[&view.op] = kept;
  }
  if (kept->built == nullptr) return model::evaluate(type, view, exec);
  return run_built(*kept->built, view, exec);
}

}  // namespace ascendrt::model
