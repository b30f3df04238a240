// Rules for nodes with bodies. Owns: which operands a body gets and the types of the results.
// Must never: convert the nodes of a body; the walk over graphs does that.
#include <algorithm>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

const onnx::Graph& body_of(const NodeCall& call, std::string_view attribute) {
  const onnx::Attribute* a = call.node.find(attribute, onnx::Attribute::Kind::kGraph);
  if (a == nullptr) call.fail("needs a " + std::string(attribute));
  return *a->graph;
}

Values emit(const NodeCall& call, GraphBuilder::Inputs operands, AttrMap attrs,
            std::vector<std::string> bodies, const std::vector<std::string>& captured,
            const std::vector<TensorType>& results) {
  for (const std::string& name : captured) operands.emplace_back(call.bodies.outer_value(name));
  return call.graph.add_control(call.node.op_type, call.name, operands, std::move(attrs),
                                std::move(bodies), results);
}

// A result whose shape differs between the two ways, or from turn to turn, is open.
TensorType merged(const NodeCall& call, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) call.fail("bodies that give different types");
  return a.shape == b.shape ? a : TensorType{a.dtype, open_shape()};
}

Values if_node(const NodeCall& call) {
  const onnx::Graph& yes = body_of(call, "then_branch");
  const onnx::Graph& no = body_of(call, "else_branch");
  if (call.in(0).is_constant()) {
    const Bytes& condition = *call.in(0).constant;
    if (call.in(0).type.dtype != ACL_BOOL || condition.empty())
      call.fail("a condition of this type");
    return call.bodies.inline_body(call, condition[0] != 0 ? yes : no, {});
  }
  std::vector<std::string> captured;
  Body first = call.bodies.convert_branch(call, yes, captured);
  Body second = call.bodies.convert_branch(call, no, captured);
  for (Body* body : {&first, &second}) {
    const Body& other = body == &first ? second : first;
    if (body->contradiction.empty()) continue;
    if (!other.contradiction.empty()) call.fail(first.contradiction + "; " + other.contradiction);
    *body = call.bodies.refusing_body(call, body->contradiction, other.outputs);
  }
  if (first.outputs.size() != second.outputs.size()) call.fail("bodies of different outputs");
  std::vector<TensorType> results;
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    results.push_back(merged(call, first.outputs[i], second.outputs[i]));
  }
  return emit(call, {call.in(0)}, {}, {first.graph, second.graph}, captured, results);
}

std::vector<TensorType> types_of(const NodeCall& call, size_t first, size_t last) {
  std::vector<TensorType> types;
  for (size_t i = first; i < last; ++i) types.push_back(call.in(i).type);
  return types;
}

// A state may change its shape from turn to turn: then the body must not count on it.
Body convert_states(const NodeCall& call, const onnx::Graph& body, std::vector<TensorType> inputs,
                    size_t first, size_t states, size_t first_result,
                    std::vector<std::string>& captured) {
  Body made = call.bodies.convert_body(call, body, inputs, captured, call.inputs.size());
  bool changed = false;
  for (size_t i = 0; i < states; ++i) {
    if (first_result + i >= made.outputs.size()) call.fail("a body with too few outputs");
    const TensorType after = merged(call, inputs[first + i], made.outputs[first_result + i]);
    changed = changed || !(after == inputs[first + i]);
    inputs[first + i] = after;
  }
  if (!changed) return made;
  captured.clear();
  return call.bodies.convert_body(call, body, inputs, captured, call.inputs.size());
}

Values loop(const NodeCall& call) {
  const onnx::Graph& body = body_of(call, "body");
  if (call.inputs.size() < 2) call.fail("needs two inputs");
  const size_t states = call.inputs.size() - 2;
  std::vector<TensorType> inputs = {{ACL_INT64, {}}, {ACL_BOOL, {}}};
  for (const TensorType& type : types_of(call, 2, call.inputs.size())) inputs.push_back(type);
  std::vector<std::string> captured;
  const Body made = convert_states(call, body, inputs, 2, states, 1, captured);
  if (made.outputs.empty()) call.fail("a body without outputs");
  std::vector<TensorType> results(made.outputs.begin() + 1, made.outputs.end());
  for (size_t i = states; i < results.size(); ++i) results[i].shape = open_shape();
  return emit(call, call.inputs, attributes({{"N", static_cast<int64_t>(states)}}), {made.graph},
              captured, results);
}

Values scan(const NodeCall& call) {
  if (call.opset < 9) call.fail("the form before opset 9");
  const onnx::Graph& body = body_of(call, "body");
  const auto scans = static_cast<size_t>(call.node.int_or("num_scan_inputs", 0));
  if (scans == 0 || scans > call.inputs.size()) call.fail("num_scan_inputs");
  const size_t states = call.inputs.size() - scans;
  std::vector<TensorType> inputs = types_of(call, 0, call.inputs.size());
  const auto axes = call.node.ints_or("scan_input_axes", std::vector<int64_t>(scans, 0));
  if (axes.size() != scans) call.fail("scan_input_axes");
  for (size_t k = 0; k < scans; ++k) {
    ops::Shape& shape = inputs[states + k].shape;
    if (shape.is_open()) continue;
    ops::Shape rest;
    const size_t axis = ops::resolve_axis("Scan", axes.at(k), shape.rank());
    for (size_t i = 0; i < shape.rank(); ++i) {
      if (i != axis) rest.push_back(shape[i]);
    }
    shape = rest;
  }
  std::vector<std::string> captured;
  const Body made = convert_states(call, body, inputs, 0, states, 0, captured);
  std::vector<TensorType> results = made.outputs;
  for (size_t i = states; i < results.size(); ++i) results[i].shape = open_shape();
  AttrMap attrs = node_attributes(call.node);
  attrs.set("N", static_cast<int64_t>(states));
  return emit(call, call.inputs, std::move(attrs), {made.graph}, captured, results);
}

constexpr NodeRule kRules[] = {{"If", if_node}, {"Loop", loop}, {"Scan", scan}};

}  // namespace

std::span<const NodeRule> control_rules() { return kRules; }

}  // namespace ascendrt::model
