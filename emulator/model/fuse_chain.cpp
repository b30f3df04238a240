// Owns: the growth of a region. Must never: let a step read what is made behind the region's start.
#include "model/fuse_chain.hpp"

#include <algorithm>

#include "model/fuse.hpp"
#include "model/op_set_matmul.hpp"

namespace ascendrt::model {

bool ChainRegion::operand(Index next, size_t input, int64_t& code) {
  const std::string& value = g_->op(next).inputs[input];
  if (value == start_.root) {
    code = kChainProduct;
    return true;
  }
  const auto made = made_by_.find(g_->producer(next, input));
  if (made == made_by_.end()) return find_beside(next, input, code);
  code = made->second;
  return true;
}

bool ChainRegion::find_beside(Index next, size_t input, int64_t& code) {
  const Op& op = g_->op(next);
  const Index from = g_->producer(next, input);
  const TensorDesc& desc = op.input_descs[input];
  const auto count = element_count(desc.dims);
  if (!count || desc.dtype != start_.y.dtype) return false;
  const bool one = *count == 1;
  const bool row = start_.takes_rows && !desc.dims.empty() &&
                   desc.dims.back() == start_.y.dims.back() && *count == start_.y.dims.back();
  // A tensor that is made later could depend on the region.
  const bool ready =
      g_->is_constant(next, input) || from == FusionGraph::kNone || (from < start_.ready_before);
  if (!ready || (!one && !row && desc.dims != start_.y.dims)) return false;
  const auto known = std::find(beside_.begin(), beside_.end(), op.inputs[input]);
  code = kFirstChainBeside - static_cast<int64_t>(known - beside_.begin());
  if (known == beside_.end()) {
    beside_.push_back(op.inputs[input]);
    beside_descs_.push_back(desc);
  }
  return true;
}

void ChainRegion::add(const ops::ChainStep& step, std::string_view type, int64_t a, int64_t b) {
  const auto place = [](int64_t code) {
    if (code == kChainProduct) return ops::ChainOperand{};
    if (code >= 0) return ops::ChainOperand{ops::ChainFrom::kStep, static_cast<size_t>(code)};
    return ops::ChainOperand{ops::ChainFrom::kBeside, 0};
  };
  steps_.push_back(step);
  steps_.back().a = place(a);
  steps_.back().b = place(b);
  types_.emplace_back(type);
  operands_.insert(operands_.end(), {a, b});
  params_.insert(params_.end(), {step.params.a, step.params.b});
}

bool ChainRegion::absorb(Index next) {
  const Op& op = g_->op(next);
  if (op.output_descs.size() != 1 || op.output_descs[0].dims != start_.y.dims ||
      op.output_descs[0].dtype != start_.y.dtype) {
    return false;
  }
  // max(low, x), then min(high, ..): with these sides a NaN and the sign of zero are those of clip.
  const bool clips = op.type == "ClipByValue" && op.inputs.size() == 3;
  ops::ChainStep step;
  if (!clips && !find_element_wise(op, step)) return false;
  int64_t codes[3] = {kChainProduct, kChainProduct, kChainProduct};
  const size_t inputs = clips ? 3 : (step.is_binary ? 2 : 1);
  for (size_t i = 0; i < inputs; ++i) {
    if (!operand(next, i, codes[i])) return false;
  }
  if (clips) {
    const auto is_number = [&](size_t i) { return g_->constant_float(next, i).has_value(); };
    if (!is_number(1) || !is_number(2)) return false;
    step.is_binary = true;
    step.binary = ops::Binary::kMax;
    add(step, "Maximum", codes[1], codes[0]);
    step.binary = ops::Binary::kMin;
    add(step, "Minimum", codes[2], static_cast<int64_t>(steps_.size()) - 1);
  } else {
    add(step, op.type, codes[0], codes[1]);
  }
  parts_.push_back(next);
  made_by_.emplace(next, static_cast<int64_t>(steps_.size()) - 1);
  return true;
}

bool ChainRegion::is_whole() const {
  ops::Chain chain;
  return g_->closed(parts_, parts_.back()) && chain.set_steps(steps_);
}

void ChainRegion::describe(Op& op) const {
  op.inputs.insert(op.inputs.end(), beside_.begin(), beside_.end());
  op.input_descs.insert(op.input_descs.end(), beside_descs_.begin(), beside_descs_.end());
  op.attrs.set(kChainTypes, types_);
  op.attrs.set(kChainOperands, operands_);
  op.attrs.set(kChainParams, params_);
}

}  // namespace ascendrt::model
