// Owns: which weights runs read. Must never: give back what anything may read again.
//
// Note [Weights that kernels took over]: products and convolutions hold their constants packed, so
// most weights are never read by a run. Where the loader allows it, their bytes go back to the
// system as soon as the last op that uses them is compiled, and only the rest reaches the device:
// file, device and packed form are never in memory together.
#include <algorithm>

#include "model/program_builder.hpp"

namespace ascendrt::model {

void ProgramBuilder::count_uses() {
  if (!forget_) return;
  std::unordered_map<std::string_view, int64_t> offsets;
  for (const Op& op : graph_.ops) {
    if (op.type != "Const" && op.type != "Constant") continue;
    const auto data = model_.constant_data(op);
    const auto weights = model_.weights.bytes;
    if (data.data() < weights.data() || data.data() >= weights.data() + weights.size()) continue;
    offsets.emplace(op.name, data.data() - weights.data());
  }
  for (const Op& op : graph_.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto ref = op.input(i);
      const auto found = ref ? offsets.find(ref->node) : offsets.end();
      if (found != offsets.end()) ++uses_[found->second].left;
    }
  }
}

void ProgramBuilder::end_use(const Op& op, bool keep) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto ref = op.input(i);
    const auto made = ref ? made_.find(ref->node) : made_.end();
    if (made == made_.end() || ref->index != 0) continue;
    const Made& value = made->second.front();
    const auto found = value.is_constant ? uses_.find(value.place.offset) : uses_.end();
    if (found == uses_.end() || value.place.home != Place::Home::kWeights) continue;
    found->second.is_read |= keep;
    if (--found->second.left == 0 && !found->second.is_read) forget_(value.constant);
  }
}

// An op without a step may be another name of its operand: what it reads is kept.
void ProgramBuilder::finish_op(const Op& op, size_t first_step) {
  if (!forget_) return;
  const ConvChain* chain = chains_.of(op);
  if (chain != nullptr && &chain->tail() != &op) return;  // compiled with its last part
  const bool keep = program_.steps_.size() == first_step;
  for (size_t k = first_step; k < program_.steps_.size(); ++k) {
    const Step& step = program_.steps_[k];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Place& place = step.inputs[i].place;
      const bool unread = i < 8 && ((step.kernel.unread >> i) & 1U) != 0;
      if (place.home == Place::Home::kWeights && !unread) uses_[place.offset].is_read = true;
    }
  }
  if (chain == nullptr) return end_use(op, keep);
  for (const Op* part : chain->parts()) end_use(*part, keep);
}

void ProgramBuilder::collect_weight_parts() {
  std::map<int64_t, int64_t> parts;
  const auto add = [&](const Value& value) {
    if (value.place.home != Place::Home::kWeights || value.type.shape.is_open()) return;
    const auto size = static_cast<int64_t>(ops::dtype_size(value.type.dtype));
    int64_t& bytes = parts[value.place.offset];
    bytes = std::max(bytes, value.type.shape.elements() * size);
  };
  for (const Step& step : program_.steps_) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (i >= 8 || ((step.kernel.unread >> i) & 1U) == 0) add(step.inputs[i]);
    }
  }
  for (const OutputSlot& output : program_.outputs_) add(output.value);
  for (const auto& [offset, bytes] : parts) program_.weight_parts_.push_back({offset, bytes});
}

}  // namespace ascendrt::model
