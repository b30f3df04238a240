// Rules for nodes that move or reshape data, and for constants.
// Owns: attributes that became inputs in later opsets. Must never: need values of run-time tensors.
#include <algorithm>
#include <cstring>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

GraphValue from_tensor(const NodeCall& call, const onnx::TensorData& tensor) {
  return call.graph.constant(call.node.outputs.empty() ? call.name : call.node.outputs[0],
                             {static_cast<aclDataType>(tensor.dtype), to_shape(tensor.dims)},
                             tensor.bytes);
}

Values constant(const NodeCall& call) {
  using Kind = onnx::Attribute::Kind;
  if (call.node.attributes.size() != 1) call.fail("needs exactly one value");
  const onnx::Attribute& a = call.node.attributes[0];
  const std::string name = call.node.outputs.empty() ? call.name : call.node.outputs[0];
  if (a.kind == Kind::kTensor) return {from_tensor(call, *a.tensor)};
  if (a.kind == Kind::kInt) return {call.graph.int_scalar(name, a.i)};
  if (a.kind == Kind::kInts) return {call.graph.int_list(name, a.ints)};
  if (a.kind == Kind::kFloat) return {call.graph.float_scalar(name, a.f)};
  if (a.kind == Kind::kFloats) {
    Bytes bytes(a.floats.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), a.floats.data(), bytes.size());
    const TensorType type{ACL_FLOAT, {static_cast<int64_t>(a.floats.size())}};
    return {call.graph.constant(name, type, std::move(bytes))};
  }
  call.fail("attribute " + a.name + " is no tensor, number or list of numbers");
}

Values pass(const NodeCall& call) { return {call.in(0)}; }

// Ratio and training mode may only be known to a run; the op checks them then.
Values dropout(const NodeCall& call) {
  const bool trains = call.has(2) && !(call.in(2).is_constant() && call.in(2).constant->at(0) == 0);
  if (!trains && !call.wants_output(1)) return {call.in(0)};
  GraphBuilder::Inputs operands = {call.in(0)};
  if (trains) operands = {call.in(0), call.has(1) ? call.inputs[1] : std::nullopt, call.in(2)};
  return call.make("DropOutDoMask", operands);
}

// A constant where the shape is fixed.
Values shape(const NodeCall& call) {
  if (call.open(0)) return call.make("Shape", {call.in(0)}, node_attributes(call.node));
  const ops::Shape& s = call.in(0).type.shape;
  const auto rank = static_cast<int64_t>(s.rank());
  const auto limit = [rank](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const int64_t start = limit(call.node.int_or("start", 0));
  const int64_t end = limit(call.node.int_or("end", rank));
  std::vector<int64_t> dims;
  for (int64_t i = start; i < end; ++i) dims.push_back(s[static_cast<size_t>(i)]);
  return {call.ints("_shape", dims)};
}

Values size(const NodeCall& call) {
  if (call.open(0)) return call.make("Size", {call.in(0)});
  return {call.graph.int_scalar(call.name, call.in(0).type.shape.elements())};
}

Values reshape(const NodeCall& call) {
  const auto wanted = call.list_value("shape", 1);
  if (!wanted) call.fail("needs a shape");
  return call.make("Reshape", {call.in(0), wanted},
                   attributes({{"allowzero", call.node.int_or("allowzero", 0)}}));
}

Values flatten(const NodeCall& call) {
  return call.make("Flatten", {call.in(0)}, attributes({{"axis", call.node.int_or("axis", 1)}}));
}

Values squeeze(const NodeCall& call) {
  if (call.opset < 13) {
    return call.make("Squeeze", {call.in(0)},
                     attributes({{"axis", call.node.ints_or("axes", {})}}));
  }
  return call.make("SqueezeV3", {call.in(0), call.list_value("axes", 1)});
}

Values unsqueeze(const NodeCall& call) {
  if (call.opset < 13) {
    return call.make("Unsqueeze", {call.in(0)},
                     attributes({{"axes", call.node.ints_or("axes", {})}}));
  }
  return call.make("UnsqueezeV3", {call.in(0), call.in(1)});
}

Values transpose(const NodeCall& call) {
  auto perm = call.node.ints_or("perm", {});
  if (perm.empty() && call.open(0)) return call.make("Transpose", {call.in(0)});
  if (perm.empty()) {
    for (size_t i = call.rank(0); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  return call.make("Transpose", {call.in(0), call.ints("_perm", perm)});
}

Values concat(const NodeCall& call) {
  if (call.node.find("axis") == nullptr) call.fail("needs an axis");
  for (size_t i = 0; i < call.inputs.size(); ++i) static_cast<void>(call.in(i));
  return call.make("ConcatD", call.inputs,
                   attributes({{"concat_dim", call.node.int_or("axis", 1)},
                               {"N", static_cast<int64_t>(call.inputs.size())}}));
}

Values pad(const NodeCall& call) {
  const auto pads = call.list_value("pads", 1);
  if (!pads) call.fail("needs pads");
  GraphBuilder::Inputs operands = {call.in(0), pads, std::nullopt, std::nullopt};
  if (call.opset >= 11 && call.has(2)) operands[2] = call.in(2);
  if (call.opset < 11 && call.node.has("value")) {
    operands[2] = call.graph.float_scalar(call.name + "_value", call.node.float_or("value", 0.0F));
  }
  if (call.has(3)) operands[3] = call.in(3);
  return call.make("PadV3", operands,
                   attributes({{"mode", call.node.string_or("mode", "constant")},
                               {"paddings_contiguous", false}}));
}

Values slice(const NodeCall& call) {
  const auto starts = call.list_value("starts", 1);
  const auto ends = call.list_value("ends", 2);
  if (!starts || !ends) call.fail("needs starts and ends");
  GraphBuilder::Inputs operands = {call.in(0), starts, ends, call.list_value("axes", 3)};
  operands.push_back(call.has(4) ? call.inputs[4] : std::nullopt);
  return call.make("StridedSliceV2", operands);
}

Values split(const NodeCall& call) {
  const int64_t axis = call.node.int_or("axis", 0);
  const auto parts = static_cast<int64_t>(call.node.outputs.size());
  if (parts == 0) call.fail("has no output");
  auto sizes = call.list_value("split", 1);
  if (!sizes && !call.open(0)) {
    const int64_t dim = call.shape(0)[ops::resolve_axis("Split", axis, call.rank(0))];
    if (call.opset < 18 && dim % parts != 0) {
      call.fail("needs 'split': " + std::to_string(dim) + " elements do not make " +
                std::to_string(parts) + " equal parts");
    }
    const int64_t each = (dim + parts - 1) / parts;
    std::vector<int64_t> equal;
    for (int64_t i = 0; i < parts; ++i) {
      equal.push_back(std::clamp<int64_t>(dim - i * each, 0, each));
    }
    sizes = call.ints("_sizes", equal);
  }
  return call.make("SplitV", {call.in(0), sizes, call.graph.int_scalar(call.name + "_axis", axis)},
                   attributes({{"num_split", parts}}));
}

Values gather(const NodeCall& call) {
  const GraphValue axis = call.graph.int_scalar(call.name + "_axis", call.node.int_or("axis", 0));
  return call.make("GatherV2", {call.in(0), call.in(1), axis},
                   attributes({{"negative_index_support", true}}));
}

Values expand(const NodeCall& call) { return call.make("Expand", {call.in(0), call.in(1)}); }
Values tile(const NodeCall& call) { return call.make("Tile", {call.in(0), call.in(1)}); }

Values constant_of_shape(const NodeCall& call) {
  const onnx::Attribute* value = call.node.find("value", onnx::Attribute::Kind::kTensor);
  GraphValue fill = call.graph.float_scalar(call.name + "_value", 0.0F);
  if (value != nullptr) fill = from_tensor(call, *value->tensor);
  return call.make("Fill", {call.in(0), fill});
}

constexpr NodeRule kRules[] = {
    {"Constant", constant},   {"Identity", pass},   {"Dropout", dropout},
    {"Shape", shape},         {"Size", size},       {"Reshape", reshape},
    {"Flatten", flatten},     {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze},
    {"Transpose", transpose}, {"Concat", concat},   {"Pad", pad},
    {"Slice", slice},         {"Split", split},     {"Gather", gather},
    {"Expand", expand},       {"Tile", tile},       {"ConstantOfShape", constant_of_shape},
};

}  // namespace

std::span<const NodeRule> shape_rules() { return kRules; }

}  // namespace ascendrt::model
