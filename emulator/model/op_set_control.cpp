// Operators with bodies: If, Loop, Scan. Owns: running a subgraph op by op.
// Must never: look at graphs that the op does not name.
#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "model/kept_kernels.hpp"
#include "ops/move.hpp"

namespace ascendrt::model {
namespace {

using Tensors = std::vector<OwnedTensor>;
constexpr int kMostDepth = 64;  // bodies in bodies; also ends bodies that name themselves

Operand operand_of(const OwnedTensor& tensor) { return {tensor.type, true, true, *tensor.bytes}; }

OwnedTensor copy_of(const Operand& operand) {
  OwnedTensor out = make_tensor(operand.type);
  std::copy_n(operand.constant.begin(), out.bytes->size(), out.bytes->begin());
  return out;
}

// Runs the ops of a body in the order of the file. Results are kept until the end of the body.
class BodyRun {
 public:
  BodyRun(const OpView& parent, const std::string& graph, const ops::Exec& exec)
      : parent_(parent), exec_(exec), scope_(parent.scope) {
    if (++scope_.depth > kMostDepth) {
      parent.fail("more than " + std::to_string(kMostDepth) + " bodies in one another");
    }
    graph_ = parent.scope.model == nullptr ? nullptr : parent.scope.model->find_graph(graph);
    if (graph_ == nullptr) parent.fail("the file has no graph '" + graph + "'");
  }

  // inputs: by operand number of the op around the body.
  Tensors run(const std::vector<Operand>& inputs) {
    made_.clear();
    kept_.clear();
    for (const Op& op : graph_->ops) {
      if (exec_.stop != nullptr) exec_.stop->look();
      if (op.type == "NetOutput") return results(op);
      made_[op.name] = one(op, inputs);
    }
    parent_.fail("graph '" + graph_->name + "' has no outputs");
  }

 private:
  std::vector<Operand> one(const Op& op, const std::vector<Operand>& inputs) {
    if (op.type == "Data") {
      const int64_t i = op.attrs.int_or("_parent_node_index", op.attrs.int_or("index", -1));
      if (i < 0 || static_cast<size_t>(i) >= inputs.size()) parent_.fail("no such operand");
      return {inputs[static_cast<size_t>(i)]};
    }
    if (op.type == "Const" || op.type == "Constant") return {constant(op)};
    const OpType* type = find_op_type(op.type);
    if (type == nullptr) parent_.fail("its body holds " + op.type + ", which is not implemented");
    OpView view{op, {}, scope_};
    for (size_t i = 0; i < op.inputs.size(); ++i) view.inputs.push_back(input(op, i));
    std::vector<Operand> out;
    KeptKernels* const kernels = parent_.scope.kernels;
    for (OwnedTensor& tensor : kernels == nullptr ? evaluate(*type, view, exec_)
                                                  : kernels->evaluate(*type, view, exec_)) {
      kept_.push_back(std::move(tensor));
      out.push_back(operand_of(kept_.back()));
    }
    return out;
  }

  Operand constant(const Op& op) {
    const TensorType type = tensor_type(op.output_descs.at(0));
    const auto data = parent_.scope.model->constant_data(op, parent_.scope.weights);
    const auto bytes = static_cast<size_t>(type.shape.elements()) * ops::dtype_size(type.dtype);
    if (data.size() < bytes) parent_.fail("the data of constant '" + op.name + "' is missing");
    return {type, true, true, data.first(bytes), true};
  }

  Operand input(const Op& op, size_t i) {
    const auto ref = op.input(i);
    if (!ref) return {};
    const auto found = made_.find(ref->node);
    if (found == made_.end() || static_cast<size_t>(ref->index) >= found->second.size()) {
      parent_.fail("its body reads '" + op.inputs[i] + "', which nothing makes before");
    }
    return found->second[static_cast<size_t>(ref->index)];
  }

  Tensors results(const Op& op) {
    Tensors out;
    for (size_t i = 0; i < op.inputs.size(); ++i) out.push_back(copy_of(input(op, i)));
    return out;
  }

  const OpView& parent_;
  const ops::Exec& exec_;
  GraphScope scope_;
  const Graph* graph_;
  std::unordered_map<std::string_view, std::vector<Operand>> made_;
  std::vector<OwnedTensor> kept_;
};

bool truth(const OpView& v, const Operand& operand) {
  if (operand.type.dtype != ACL_BOOL || operand.constant.empty())
    v.fail("a condition must be bool");
  return operand.constant[0] != 0;
}

const std::string& body_name(const OpView& v, size_t i) {
  if (i >= v.op.subgraphs.size()) v.fail("a body is missing");
  return v.op.subgraphs[i];
}

// A number of states or sequences.
size_t count_of(const OpView& v, std::string_view attr) {
  const int64_t count = v.op.attrs.int_or(attr, 0);
  if (count < 0 || static_cast<size_t>(count) > v.inputs.size()) v.fail(attr);
  return static_cast<size_t>(count);
}

// Types of ops with bodies are described in the file; rules give them when they make the op.
std::vector<aclDataType> described_types(const OpView& v) {
  std::vector<aclDataType> out;
  for (const TensorDesc& desc : v.op.output_descs) {
    out.push_back(static_cast<aclDataType>(desc.dtype));
  }
  return out;
}

// If(condition, captured...): bodies then, else.
Tensors run_if(const OpView& v, const ops::Exec& exec) {
  const bool chosen = truth(v, v.input(0));
  return BodyRun(v, body_name(v, chosen ? 0 : 1), exec).run(v.inputs);
}

// What stands for a branch whose shapes contradict those around it: Refusal(), attribute text.
Tensors run_refusal(const OpView& v, const ops::Exec& /*exec*/) {
  v.fail("this branch cannot run with the shapes the model was converted for: " +
         v.op.attrs.string_or("text", ""));
}

// What each turn gives besides the states. When all turns are done they are put side by side, so
// the host must have as much memory again as they take.
class Stacks {
 public:
  explicit Stacks(size_t outputs) : parts_(outputs) {}

  void push(size_t output, OwnedTensor part) {
    bytes_ += static_cast<int64_t>(part.bytes->size() + sizeof(OwnedTensor) + sizeof(Bytes));
    if (bytes_ >= asked_ * 2) want_memory(asked_ = bytes_, "what the turns so far give");
    parts_.at(output).push_back(std::move(part));
  }
  const Tensors& of(size_t output) const { return parts_.at(output); }
  size_t outputs() const { return parts_.size(); }

 private:
  std::vector<Tensors> parts_;
  int64_t bytes_ = 0;
  int64_t asked_ = int64_t{32} << 20;
};

// One tensor per turn, put side by side along a new axis.
OwnedTensor stack(const OpView& v, const Tensors& parts, size_t output, int64_t axis_number,
                  bool backwards) {
  if (parts.empty()) {
    TensorType type = tensor_type(v.op.output_descs.at(output));
    if (type.shape.is_open()) v.fail("no turn was made, so the shape of an output is not known");
    return make_tensor(type);
  }
  const ops::Shape& one = parts[0].type.shape;
  const size_t axis = ops::resolve_axis(v.op.type, axis_number, one.rank() + 1);
  ops::Shape widened(one.dims().first(axis));
  widened.push_back(1);
  for (const int64_t dim : one.dims().subspan(axis)) widened.push_back(dim);
  std::vector<ops::TensorView> views;
  for (const OwnedTensor& part : parts) {
    if (!(part.type == parts[0].type)) v.fail("turns give different shapes");
    views.push_back({part.bytes->data(), part.type.dtype, widened});
  }
  if (backwards) std::reverse(views.begin(), views.end());
  ops::Shape full = widened;
  full[axis] = static_cast<int64_t>(parts.size());
  OwnedTensor out = make_tensor({parts[0].type.dtype, full});
  ops::concat(views, axis, out.view(), {});
  return out;
}

// Loop(most turns, condition, states..., captured...): body(turn, condition, states...) gives
// (condition, states..., one tensor of every turn...).
Tensors run_loop(const OpView& v, const ops::Exec& exec) {
  const size_t states = count_of(v, "N");
  const int64_t most = v.has(0) ? v.constant_int(0) : std::numeric_limits<int64_t>::max();
  bool go = !v.has(1) || truth(v, v.input(1));
  std::vector<Operand> inputs = v.inputs;
  if (inputs.size() < states + 2 || v.op.output_descs.size() < states) v.fail("a state is missing");
  BodyRun body(v, body_name(v, 0), exec);
  Tensors current;
  for (size_t i = 0; i < states; ++i) current.push_back(copy_of(v.input(i + 2)));
  Stacks stacks(v.op.output_descs.size() - states);
  OwnedTensor turn = make_tensor({ACL_INT64, {}});
  OwnedTensor condition = make_tensor({ACL_BOOL, {}});
  for (int64_t i = 0; go && i < most; ++i) {
    std::memcpy(turn.bytes->data(), &i, sizeof(i));
    condition.bytes->at(0) = 1;
    inputs[0] = operand_of(turn);
    inputs[1] = operand_of(condition);
    for (size_t k = 0; k < states; ++k) inputs[k + 2] = operand_of(current[k]);
    Tensors out = body.run(inputs);
    if (out.size() != 1 + states + stacks.outputs())
      v.fail("the body gives another number of values");
    go = truth(v, operand_of(out[0]));
    for (size_t k = 0; k < states; ++k) current[k] = std::move(out[k + 1]);
    for (size_t k = 0; k < stacks.outputs(); ++k) stacks.push(k, std::move(out[1 + states + k]));
  }
  for (size_t k = 0; k < stacks.outputs(); ++k) {
    current.push_back(stack(v, stacks.of(k), states + k, 0, false));
  }
  return current;
}

// Element `index` of x along an axis, without that axis.
OwnedTensor take(const OpView& v, const Operand& x, int64_t axis_number, int64_t index) {
  const size_t axis = ops::resolve_axis(v.op.type, axis_number, x.type.shape.rank());
  std::vector<ops::SliceAxis> axes;
  ops::Shape rest;
  ops::Shape cut = x.type.shape;
  for (size_t i = 0; i < cut.rank(); ++i) {
    axes.push_back(i == axis ? ops::SliceAxis{index, 1, 1} : ops::SliceAxis{0, 1, cut[i]});
    if (i != axis) rest.push_back(cut[i]);
  }
  if (index >= cut[axis]) {
    v.fail("a sequence of " + std::to_string(cut[axis]) + " elements has no element " +
           std::to_string(index) + "; all sequences must be as long as the first");
  }
  cut[axis] = 1;
  OwnedTensor out = make_tensor({x.type.dtype, rest});
  void* data = const_cast<uint8_t*>(x.constant.data());
  ops::slice({data, x.type.dtype, x.type.shape}, axes, {out.bytes->data(), x.type.dtype, cut}, {});
  return out;
}

// Scan(states..., sequences..., captured...): body(states..., elements...) gives (states...,
// elements...).
Tensors run_scan(const OpView& v, const ops::Exec& exec) {
  const size_t scans = count_of(v, "num_scan_inputs");
  const size_t states = count_of(v, "N");
  if (scans == 0 || v.inputs.size() < scans + states || v.op.output_descs.size() < states) {
    v.fail("a sequence or a state is missing");
  }
  const size_t outputs = v.op.output_descs.size() - states;
  const std::vector<int64_t> zeros(scans, 0);
  const auto in_axes = v.op.attrs.ints_or("scan_input_axes", zeros);
  const auto in_back = v.op.attrs.ints_or("scan_input_directions", zeros);
  const std::vector<int64_t> none(outputs, 0);
  const auto out_axes = v.op.attrs.ints_or("scan_output_axes", none);
  const auto out_back = v.op.attrs.ints_or("scan_output_directions", none);
  if (in_axes.size() != scans || in_back.size() != scans) v.fail("scan_input attributes");
  if (out_axes.size() != outputs || out_back.size() != outputs) v.fail("scan_output attributes");
  const ops::Shape& first = v.shape(states);
  const int64_t turns = first[ops::resolve_axis(v.op.type, in_axes.at(0), first.rank())];
  std::vector<Operand> inputs = v.inputs;
  BodyRun body(v, body_name(v, 0), exec);
  Tensors current;
  for (size_t i = 0; i < states; ++i) current.push_back(copy_of(v.input(i)));
  Stacks stacks(outputs);
  for (int64_t turn = 0; turn < turns; ++turn) {
    Tensors elements;
    for (size_t k = 0; k < scans; ++k) {
      const int64_t at = in_back.at(k) != 0 ? turns - 1 - turn : turn;
      elements.push_back(take(v, v.input(states + k), in_axes.at(k), at));
    }
    for (size_t k = 0; k < states; ++k) inputs[k] = operand_of(current[k]);
    for (size_t k = 0; k < scans; ++k) inputs[states + k] = operand_of(elements[k]);
    Tensors out = body.run(inputs);
    if (out.size() != states + outputs) v.fail("the body gives another number of values");
    for (size_t k = 0; k < states; ++k) current[k] = std::move(out[k]);
    for (size_t k = 0; k < outputs; ++k) stacks.push(k, std::move(out[states + k]));
  }
  for (size_t k = 0; k < outputs; ++k) {
    current.push_back(stack(v, stacks.of(k), states + k, out_axes.at(k), out_back.at(k) != 0));
  }
  return current;
}

constexpr OpType kTable[] = {
    {"If", nullptr, nullptr, Halves::kNative, described_types, run_if},
    {"StatelessIf", nullptr, nullptr, Halves::kNative, described_types, run_if},
    {"Loop", nullptr, nullptr, Halves::kNative, described_types, run_loop},
    {"Scan", nullptr, nullptr, Halves::kNative, described_types, run_scan},
    {"Refusal", nullptr, nullptr, Halves::kNative, described_types, run_refusal},
};

}  // namespace

std::span<const OpType> control_op_types() { return kTable; }

}  // namespace ascendrt::model
