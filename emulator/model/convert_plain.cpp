// Rules for nodes that become one op with the same operands. Owns: the table of their names.
// Must never: hold a rule that needs more than names and types of attributes.
#include <algorithm>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

// Attributes keep their names and types but for `changes`: "old=new" renames, "name:b" makes a
// number a bool, "name:t" an ONNX element type an acl one. Separated by blanks.
struct PlainRow {
  std::string_view onnx_type;
  std::string_view ge_type;
  std::string_view changes;
};

constexpr PlainRow kPlain[] = {
    {"Acos", "Acos", ""},
    {"Acosh", "Acosh", ""},
    {"AffineGrid", "AffineGrid", ""},
    {"Asin", "Asin", ""},
    {"Asinh", "Asinh", ""},
    {"Atan", "Atan", ""},
    {"Atanh", "Atanh", ""},
    {"Attention", "Attention", ""},
    {"BitwiseAnd", "BitwiseAnd", ""},
    {"BitwiseNot", "Invert", ""},
    {"BitwiseOr", "BitwiseOr", ""},
    {"BitwiseXor", "BitwiseXor", ""},
    {"BlackmanWindow", "BlackmanWindow", "output_datatype:t"},
    {"CenterCropPad", "CenterCropPad", ""},
    {"Compress", "Compress", ""},
    {"Cosh", "Cosh", ""},
    {"CumProd", "Cumprod", "exclusive:b reverse:b"},
    {"CumSum", "Cumsum", "exclusive:b reverse:b"},
    {"DFT", "DFT", ""},
    {"DepthToSpace", "DepthToSpace", "blocksize=block_size"},
    {"DequantizeLinear", "DequantizeLinear", "output_dtype:t"},
    {"Det", "MatrixDeterminant", ""},
    {"DynamicQuantizeLinear", "DynamicQuantizeLinear", ""},
    {"Einsum", "Einsum", ""},
    {"EyeLike", "EyeLike", "dtype:t"},
    {"GatherElements", "GatherElements", "axis=dim"},
    {"GatherND", "GatherNd", ""},
    {"GridSample", "GridSample", ""},
    {"GRU", "CommonGRU", ""},
    {"HammingWindow", "HammingWindow", "output_datatype:t"},
    {"HannWindow", "HannWindow", "output_datatype:t"},
    {"IsInf", "IsInf", ""},
    {"IsNaN", "IsNan", ""},
    {"LSTM", "CommonLSTM", ""},
    {"LinearAttention", "LinearAttention", ""},
    {"MatMulInteger", "MatMulInteger", ""},
    {"MelWeightMatrix", "MelWeightMatrix", "output_datatype:t"},
    {"NegativeLogLikelihoodLoss", "NLLLoss", ""},
    {"NonMaxSuppression", "NonMaxSuppressionV6", ""},
    {"NonZero", "NonZero", ""},
    {"QuantizeLinear", "QuantizeLinear", "output_dtype:t"},
    {"RNN", "CommonRNN", ""},
    {"Range", "Range", ""},
    {"ReverseSequence", "ReverseSequence", "time_axis=seq_dim batch_axis=batch_dim"},
    {"RotaryEmbedding", "RotaryEmbedding", ""},
    {"STFT", "STFT", ""},
    {"Scatter", "ScatterElements", ""},
    {"ScatterElements", "ScatterElements", ""},
    {"Shrink", "Shrink", ""},
    {"Sinh", "Sinh", ""},
    {"SpaceToDepth", "SpaceToDepth", "blocksize=block_size"},
    {"Swish", "Swish", "alpha=scale"},
    {"Tan", "Tan", ""},
    {"TensorScatter", "TensorScatter", ""},
    {"ThresholdedRelu", "ThresholdedRelu", ""},
    {"Trilu", "Trilu", ""},
    {"Unique", "OnnxUnique", ""},
};

// One change applied to the attributes of a node.
void change(AttrMap& attrs, std::string_view text) {
  const size_t split = text.find_first_of("=:");
  const std::string_view name = text.substr(0, split);
  const AttrValue* found = attrs.find(name);
  if (found == nullptr) return;
  const AttrValue value = *found;
  const auto* number = value.as<int64_t>();
  const std::string_view rest = text.substr(split + 1);
  if (text[split] == '=') {
    attrs.erase(name);
    attrs.set(rest, value);
  } else if (number != nullptr && rest == "b") {
    attrs.set(name, *number != 0);
  } else if (number != nullptr && *number == 0) {
    attrs.erase(name);  // no type is named
  } else if (number != nullptr) {
    attrs.set(name, static_cast<int64_t>(onnx::dtype_from_onnx(*number)));
  }
}

Values plain(const NodeCall& call) {
  const auto* found = std::find_if(std::begin(kPlain), std::end(kPlain), [&](const PlainRow& r) {
    return r.onnx_type == call.node.op_type;
  });
  AttrMap attrs = node_attributes(call.node);
  std::string_view changes = found->changes;
  while (!changes.empty()) {
    const size_t end = std::min(changes.find(' '), changes.size());
    change(attrs, changes.substr(0, end));
    changes.remove_prefix(std::min(end + 1, changes.size()));
  }
  return call.make(std::string(found->ge_type), call.inputs, std::move(attrs));
}

Values bit_shift(const NodeCall& call) {
  const std::string direction = call.node.string_or("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") call.fail("direction " + direction);
  return call.make(direction == "LEFT" ? "LeftShift" : "RightShift", {call.in(0), call.in(1)});
}

Values scatter_nd(const NodeCall& call) {
  const std::string how = call.node.string_or("reduction", "none");
  const char* type = how == "none"  ? "TensorScatterUpdate"
                     : how == "add" ? "ScatterNdAdd"
                     : how == "mul" ? "ScatterNdMul"
                     : how == "max" ? "ScatterNdMax"
                     : how == "min" ? "ScatterNdMin"
                                    : nullptr;
  if (type == nullptr) call.fail("reduction " + how);
  return call.make(type, {call.in(0), call.in(1), call.in(2)});
}

// GE has the two values as operands of their own.
Values one_hot(const NodeCall& call) {
  const Values values = call.graph.add("SplitV", call.name + "_values",
                                       {call.in(2), call.ints("_sizes", {1, 1}),
                                        call.graph.int_scalar(call.name + "_split_axis", 0)},
                                       attributes({{"num_split", int64_t{2}}}));
  return call.make("OneHot", {call.in(0), call.in(1), values[1], values[0]},
                   attributes({{"axis", call.node.int_or("axis", -1)}}));
}

Values top_k(const NodeCall& call) {
  const auto k =
      call.has(1) ? call.in(1) : call.graph.int_list(call.name + "_k", {call.node.int_or("k", 0)});
  return call.make("TopK", {call.in(0), k},
                   attributes({{"sorted", true},
                               {"largest", call.node.int_or("largest", 1) != 0},
                               {"dim", call.node.int_or("axis", -1)}}));
}

// Before opset 13 everything from the axis on is one line.
Values hardmax(const NodeCall& call) {
  const bool flattens = call.opset < 13;
  AttrMap attrs = attributes({{"axis", call.node.int_or("axis", flattens ? 1 : -1)}});
  if (flattens) attrs.set("to_end", int64_t{1});
  return call.make("HardMax", {call.in(0)}, std::move(attrs));
}

Values cast_like(const NodeCall& call) {
  const int32_t to = call.in(1).type.dtype;
  if (to == call.in(0).type.dtype) return {call.in(0)};
  AttrMap attrs = node_attributes(call.node);
  attrs.set("dst_type", static_cast<int64_t>(to));
  return call.make("Cast", {call.in(0)}, std::move(attrs));
}

Values bit_cast(const NodeCall& call) {
  const int32_t to = onnx::dtype_from_onnx(call.node.int_or("to", 0));
  return call.make("Bitcast", {call.in(0)}, attributes({{"type", static_cast<int64_t>(to)}}));
}

// Sizes or scales come as inputs 2 and 3, in opset 10 and in Upsample scales are input 1, before
// that an attribute.
Values resize(const NodeCall& call) {
  AttrMap attrs = node_attributes(call.node);
  GraphBuilder::Inputs operands(4);
  operands[0] = call.in(0);
  const bool upsamples = call.node.op_type == "Upsample";
  if (upsamples || call.opset < 11) {
    attrs.set("coordinate_transformation_mode", "asymmetric");
    attrs.set("nearest_mode", "floor");
    const onnx::Attribute* scales = call.node.find("scales", onnx::Attribute::Kind::kFloats);
    if (call.has(1)) operands[2] = call.in(1);
    if (!call.has(1) && scales != nullptr) {
      Bytes bytes(scales->floats.size() * sizeof(float));
      std::copy_n(reinterpret_cast<const uint8_t*>(scales->floats.data()), bytes.size(),
                  bytes.begin());
      operands[2] = call.graph.constant(call.name + "_scales",
                                        {ACL_FLOAT, {static_cast<int64_t>(scales->floats.size())}},
                                        std::move(bytes));
    }
  } else {
    for (size_t i = 1; i < 4 && i < call.inputs.size(); ++i) operands[i] = call.inputs[i];
  }
  return call.make("Resize", operands, std::move(attrs));
}

Values roi_align(const NodeCall& call) {
  AttrMap attrs = node_attributes(call.node);
  if (call.opset < 16) attrs.set("coordinate_transformation_mode", "output_half_pixel");
  return call.make("RoiAlign", {call.in(0), call.in(1), call.in(2)}, std::move(attrs));
}

Values group_norm(const NodeCall& call) {
  AttrMap attrs = node_attributes(call.node);
  // Before opset 21 scale and bias are per group.
  attrs.set("per_group", call.opset < 21);
  return call.make("GroupNorm", {call.in(0), call.in(1), call.in(2)}, std::move(attrs));
}

constexpr NodeRule kRules[] = {
    {"BitShift", bit_shift},
    {"ScatterND", scatter_nd},
    {"OneHot", one_hot},
    {"TopK", top_k},
    {"Hardmax", hardmax},
    {"CastLike", cast_like},
    {"BitCast", bit_cast},
    {"Resize", resize},
    {"Upsample", resize},
    {"RoiAlign", roi_align},
    {"GroupNormalization", group_norm},
};

}  // namespace

std::span<const NodeRule> plain_rules() {
  static const auto* rules = [] {
    auto* all = new std::vector<NodeRule>(std::begin(kRules), std::end(kRules));
    for (const PlainRow& row : kPlain) all->push_back({row.onnx_type, plain});
    return all;
  }();
  return *rules;
}

}  // namespace ascendrt::model
