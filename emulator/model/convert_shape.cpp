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

Values dropout(const NodeCall& call) {
  if (call.node.outputs.size() > 1 && !call.node.outputs[1].empty()) call.fail("the mask output");
  if (call.has(2)) {
    const GraphValue& training = call.in(2);
    if (!training.is_constant() || training.constant->at(0) != 0) call.fail("training mode");
  }
  return {call.in(0)};
}

// Shapes are fixed, so this is always a constant.
Values shape(const NodeCall& call) {
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
  return {call.graph.int_scalar(call.name, call.in(0).type.shape.elements())};
}

Values reshape(const NodeCall& call) {
  const auto wanted = call.list("shape", 1);
  if (!wanted) call.fail("needs a shape");
  return call.make("Reshape", {call.in(0), call.ints("_shape", *wanted)},
                   attributes({{"allowzero", call.node.int_or("allowzero", 0)}}));
}

Values flatten(const NodeCall& call) {
  return call.make("Flatten", {call.in(0)}, attributes({{"axis", call.node.int_or("axis", 1)}}));
}

Values squeeze(const NodeCall& call) {
  const auto axes = call.list("axes", 1);
  if (call.opset < 13) {
    return call.make("Squeeze", {call.in(0)},
                     attributes({{"axis", axes.value_or(std::vector<int64_t>{})}}));
  }
  GraphBuilder::Inputs operands = {call.in(0)};
  if (axes) operands.emplace_back(call.ints("_axes", *axes));
  return call.make("SqueezeV3", operands);
}

Values unsqueeze(const NodeCall& call) {
  const auto axes = call.list("axes", 1);
  if (!axes) call.fail("needs axes");
  if (call.opset < 13) {
    return call.make("Unsqueeze", {call.in(0)}, attributes({{"axes", *axes}}));
  }
  return call.make("UnsqueezeV3", {call.in(0), call.ints("_axes", *axes)});
}

Values transpose(const NodeCall& call) {
  auto perm = call.node.ints_or("perm", {});
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

// Pads are [begins, ends]; from opset 18 on they may name some axes only.
std::vector<int64_t> full_pads(const NodeCall& call) {
  auto pads = call.list("pads", 1);
  if (!pads) call.fail("needs pads");
  if (!call.has(3)) return *pads;
  const auto axes = call.in(3).ints();
  const size_t rank = call.rank(0);
  if (pads->size() != 2 * axes.size()) call.fail("pads and axes have different lengths");
  std::vector<int64_t> full(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = ops::resolve_axis("Pad", axes[i], rank);
    full[axis] = (*pads)[i];
    full[axis + rank] = (*pads)[i + axes.size()];
  }
  return full;
}

Values pad(const NodeCall& call) {
  GraphBuilder::Inputs operands = {call.in(0), call.ints("_paddings", full_pads(call))};
  if (call.opset >= 11 && call.has(2)) operands.emplace_back(call.in(2));
  if (call.opset < 11 && call.node.has("value")) {
    operands.emplace_back(
        call.graph.float_scalar(call.name + "_value", call.node.float_or("value", 0.0F)));
  }
  return call.make("PadV3", operands,
                   attributes({{"mode", call.node.string_or("mode", "constant")},
                               {"paddings_contiguous", false}}));
}

Values slice(const NodeCall& call) {
  const auto starts = call.list("starts", 1);
  const auto ends = call.list("ends", 2);
  if (!starts || !ends) call.fail("needs starts and ends");
  std::vector<int64_t> axes;
  for (size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<int64_t>(i));
  axes = call.list("axes", 3).value_or(axes);
  const auto steps = call.has(4) ? call.in(4).ints() : std::vector<int64_t>(starts->size(), 1);
  return call.make("StridedSliceV2",
                   {call.in(0), call.ints("_begin", *starts), call.ints("_end", *ends),
                    call.ints("_axes", axes), call.ints("_strides", steps)});
}

Values split(const NodeCall& call) {
  const size_t axis = ops::resolve_axis("Split", call.node.int_or("axis", 0), call.rank(0));
  const int64_t dim = call.in(0).type.shape[axis];
  auto sizes = call.list("split", 1);
  if (!sizes) {
    const auto parts = static_cast<int64_t>(call.node.outputs.size());
    if (parts == 0) call.fail("has no output");
    const int64_t each = (dim + parts - 1) / parts;
    sizes.emplace();
    for (int64_t i = 0; i < parts; ++i) {
      sizes->push_back(std::clamp<int64_t>(dim - i * each, 0, each));
    }
  }
  return call.make("SplitV",
                   {call.in(0), call.ints("_sizes", *sizes),
                    call.graph.int_scalar(call.name + "_axis", static_cast<int64_t>(axis))},
                   attributes({{"num_split", static_cast<int64_t>(sizes->size())}}));
}

Values gather(const NodeCall& call) {
  const GraphValue axis = call.graph.int_scalar(call.name + "_axis", call.node.int_or("axis", 0));
  return call.make("GatherV2", {call.in(0), call.in(1), axis},
                   attributes({{"negative_index_support", true}}));
}

Values expand(const NodeCall& call) { return call.make("Expand", {call.in(0), call.in(1)}); }
Values tile(const NodeCall& call) { return call.make("Tile", {call.in(0), call.in(1)}); }

Values constant_of_shape(const NodeCall& call) {
  const onnx::Attribute* value = call.node.find("value");
  GraphValue fill = call.graph.float_scalar(call.name + "_value", 0.0F);
  if (value != nullptr && value->tensor) fill = from_tensor(call, *value->tensor);
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
