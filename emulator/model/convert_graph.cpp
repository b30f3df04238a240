// Owns: emission of ops and folding. Must never: fold into tensors of unreasonable size.
#include "model/convert_graph.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace ascendrt::model {
namespace {

// Results above this are left to the device: a file should not grow by what it can compute.
constexpr int64_t kFoldLimitBytes = int64_t{64} << 20;
// Where only values tell the size of a result, operands of more elements are left to the device.
constexpr int64_t kFoldLimitElements = int64_t{1} << 20;

int64_t bytes_of(const TensorType& type) {
  int64_t bytes = 0;
  const auto size = static_cast<int64_t>(ops::dtype_size(type.dtype));
  return __builtin_mul_overflow(type.shape.elements(), size, &bytes) ? INT64_MAX : bytes;
}

// A tensor that no memory plan has room for is refused where its node is known.
constexpr int64_t kMostBytes = int64_t{1} << 48;

void want_room(const std::string& op, const TensorType& result) {
  const ops::Shape& shape = result.shape;
  if (shape.is_open() || bytes_of(result) <= kMostBytes) return;
  ops::fail(op, "a result of shape " + shape.text() + " needs " + std::to_string(bytes_of(result)) +
                    " bytes, a tensor may have up to " + std::to_string(kMostBytes) + " bytes");
}

template <class T>
Bytes to_bytes(std::span<const T> values) {
  Bytes out(values.size_bytes());
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

std::vector<int64_t> GraphValue::ints() const {
  static const Op kOp = [] {
    Op op;
    op.type = "constant";
    return op;
  }();
  OpView view{kOp, {{type, true, is_constant(), {}}}, {}};
  if (is_constant()) view.inputs[0].constant = *constant;
  return view.constant_ints(0);
}

std::string GraphBuilder::unique(const std::string& name) {
  std::string base = name.empty() ? "unnamed" : name;
  int& next = names_[base];
  if (next++ == 0) return base;
  while (true) {
    std::string candidate = base + "_" + std::to_string(next - 1);
    if (names_.emplace(candidate, 1).second) return candidate;
    ++next;
  }
}

TensorDesc describe(const TensorType& type) {
  TensorDesc desc;
  desc.dtype = type.dtype;
  desc.dims = to_dims(type.shape);
  desc.format = type.shape.rank() == 4 ? kNchw : kNd;
  return desc;
}

GraphValue GraphBuilder::add_data(const std::string& name, const TensorType& type,
                                  int64_t parent_operand) {
  Op op;
  op.name = unique(name);
  op.type = "Data";
  op.input_descs.push_back(describe(type));
  op.output_descs.push_back(describe(type));
  if (parent_operand >= 0) op.attrs.set("_parent_node_index", parent_operand);
  GraphValue value{type, name, op.name + ":0", nullptr};
  graph_.ops.push_back(std::move(op));
  return value;
}

void GraphBuilder::annotate_data(const AttrMap& attrs, int32_t format) {
  Op& op = graph_.ops.back();
  for (const Attr& attr : attrs.items()) op.attrs.set(attr.name, attr.value);
  op.input_descs[0].format = op.output_descs[0].format = format;
}

GraphValue GraphBuilder::constant(const std::string& name, const TensorType& type, Bytes bytes) {
  return {type, name, "", std::make_shared<const Bytes>(std::move(bytes))};
}

GraphValue GraphBuilder::int_list(const std::string& name, const std::vector<int64_t>& values) {
  return constant(name, {ACL_INT64, {static_cast<int64_t>(values.size())}},
                  to_bytes(std::span(values)));
}

GraphValue GraphBuilder::int_scalar(const std::string& name, int64_t value) {
  return constant(name, {ACL_INT64, {}}, to_bytes(std::span<const int64_t>(&value, 1)));
}

GraphValue GraphBuilder::float_scalar(const std::string& name, float value) {
  return constant(name, {ACL_FLOAT, {}}, to_bytes(std::span<const float>(&value, 1)));
}

std::string GraphBuilder::reference(const GraphValue& value) {
  if (!value.is_constant()) return value.ref;
  std::string& ref = const_refs_[value.constant.get()];
  if (!ref.empty()) return ref;
  Op op;
  op.name = unique(value.name);
  op.type = "Const";
  op.output_descs.push_back(describe(value.type));
  op.attrs.set("value", Box(Tensor{describe(value.type), *value.constant}));
  if (value.from != nullptr) {
    op.attrs.set(kDequantizedFrom, value.from->operands);
    op.attrs.set(kDequantizedAxis, value.from->axis);
  }
  ref = op.name + ":0";
  graph_.ops.push_back(std::move(op));
  kept_.push_back(value.constant);
  return ref;
}

namespace {

std::vector<Operand> operands_of(const GraphBuilder::Inputs& inputs) {
  std::vector<Operand> operands;
  for (const auto& input : inputs) {
    Operand operand;
    operand.connected = input.has_value();
    if (input) {
      operand.type = input->type;
      operand.is_constant = input->is_constant();
      if (operand.is_constant) operand.constant = *input->constant;
    }
    operands.push_back(operand);
  }
  return operands;
}

// Every operand is a constant, so that the op can be computed now.
bool is_known(const std::vector<Operand>& operands) {
  return !operands.empty() &&
         std::all_of(operands.begin(), operands.end(), [](const Operand& operand) {
           return operand.is_constant || !operand.connected;
         });
}

// Shapes stay open where only a run can tell them.
std::vector<TensorType> infer_or_open(const OpType& type, const OpView& view) {
  if (type.compute != nullptr) return late_types(type, view);
  try {
    return infer_op(type, view);
  } catch (const ops::NotKnown&) {
    return late_types(type, view);
  }
}

}  // namespace

namespace {

std::shared_ptr<const Dequantized> dequantized(const Op& op, const GraphBuilder::Inputs& inputs) {
  if (op.type != "DequantizeLinear") return nullptr;
  auto from = std::make_shared<Dequantized>();
  from->axis = op.attrs.int_or("axis", 1);
  for (const auto& input : inputs) {
    if (input) from->operands.push_back({describe(input->type), *input->constant});
  }
  return from;
}

}  // namespace

// Whether an op is computed now: all operands are known, and what comes out has a sane size.
bool GraphBuilder::may_fold(const OpType& type, const std::vector<Operand>& operands,
                            const std::vector<TensorType>& results) {
  if (type.draws || !is_known(operands)) return false;
  if (type.compute != nullptr) {
    return std::all_of(operands.begin(), operands.end(), [](const Operand& operand) {
      return !operand.connected || operand.type.shape.elements() <= kFoldLimitElements;
    });
  }
  int64_t total = 0;
  for (const TensorType& result : results) total += std::min(bytes_of(result), kMostBytes);
  if (total > std::min(kFoldLimitBytes, *budget_)) return false;
  *budget_ -= total;
  return true;
}

std::vector<GraphValue> GraphBuilder::add(const std::string& type, const std::string& name,
                                          Inputs inputs, AttrMap attrs) {
  const OpType* row = find_op_type(type);
  if (row == nullptr) ops::fail(type, "is not in the operator table");
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Op op;
  op.type = type;
  op.attrs = std::move(attrs);
  const OpView view{op, operands_of(inputs), {}};
  const std::vector<TensorType> results = infer_or_open(*row, view);
  for (const TensorType& result : results) want_room(type, result);
  if (may_fold(*row, view.inputs, results)) {
    std::vector<GraphValue> out;
    for (OwnedTensor& tensor : model::evaluate(*row, view, {})) {
      out.push_back(constant(name, tensor.type, std::move(*tensor.bytes)));
      out.back().from = dequantized(op, inputs);
    }
    return out;
  }
  return emit(std::move(op), name, inputs, results);
}

std::vector<GraphValue> GraphBuilder::emit(Op op, const std::string& name, const Inputs& inputs,
                                           const std::vector<TensorType>& results) {
  std::vector<GraphValue> out;
  for (const auto& input : inputs) {
    op.inputs.push_back(input ? reference(*input) : "");
    op.input_descs.push_back(input ? describe(input->type) : TensorDesc{});
  }
  op.name = unique(name);
  for (size_t i = 0; i < results.size(); ++i) {
    op.output_descs.push_back(describe(results[i]));
    out.push_back({results[i], name, op.name + ":" + std::to_string(i), nullptr});
  }
  graph_.ops.push_back(std::move(op));
  return out;
}

std::vector<GraphValue> GraphBuilder::add_control(const std::string& type, const std::string& name,
                                                  const Inputs& inputs, AttrMap attrs,
                                                  std::vector<std::string> subgraphs,
                                                  const std::vector<TensorType>& results) {
  Op op;
  op.type = type;
  op.attrs = std::move(attrs);
  op.subgraphs = std::move(subgraphs);
  return emit(std::move(op), name, inputs, results);
}

void GraphBuilder::declare(GraphValue& value, const ops::Shape& shape) {
  const auto ref = parse_input(value.ref);
  for (auto op = graph_.ops.rbegin(); ref && op != graph_.ops.rend(); ++op) {
    if (op->name != ref->node) continue;
    value.type.shape = shape;
    op->output_descs[static_cast<size_t>(ref->index)] = describe(value.type);
    return;
  }
}

void GraphBuilder::add_outputs(const std::vector<GraphValue>& values) {
  Op op;
  op.type = "NetOutput";
  for (const GraphValue& value : values) {
    op.inputs.push_back(reference(value));
    op.input_descs.push_back(describe(value.type));
    graph_.outputs.push_back(op.inputs.back());
  }
  op.name = unique("Node_Output");
  graph_.ops.push_back(std::move(op));
}

void remove_dead_ops(Graph& graph) {
  std::unordered_map<std::string_view, const Op*> by_name;
  for (const Op& op : graph.ops) by_name.emplace(op.name, &op);
  std::unordered_set<const Op*> live;
  std::vector<const Op*> open;
  const auto keep = [&](const Op& op) {
    if (live.insert(&op).second) open.push_back(&op);
  };
  for (const Op& op : graph.ops) {
    if (op.type == "Data" || op.type == "NetOutput") keep(op);
  }
  while (!open.empty()) {
    const Op& op = *open.back();
    open.pop_back();
    for (const std::string& input : op.inputs) {
      const auto ref = parse_input(input);
      const auto source = ref ? by_name.find(ref->node) : by_name.end();
      if (source != by_name.end()) keep(*source->second);
    }
  }
  std::vector<Op> kept;
  for (Op& op : graph.ops) {
    if (live.contains(&op)) kept.push_back(std::move(op));
  }
  graph.ops = std::move(kept);
}

}  // namespace ascendrt::model
