// Rules for element-wise nodes. Owns: names and attributes that differ between ONNX and GE.
// Must never: change the type of an operand silently.
#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

// ONNX type -> GE type with the same operands and no attributes.
constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"Relu", "Relu"},
    {"Sigmoid", "Sigmoid"},
    {"Tanh", "Tanh"},
    {"HardSwish", "HardSwish"},
    {"Softplus", "Softplus"},
    {"Softsign", "Softsign"},
    {"Mish", "Mish"},
    {"Abs", "Abs"},
    {"Neg", "Neg"},
    {"Exp", "Exp"},
    {"Log", "Log"},
    {"Sqrt", "Sqrt"},
    {"Reciprocal", "Reciprocal"},
    {"Floor", "Floor"},
    {"Ceil", "Ceil"},
    {"Round", "Round"},
    {"Erf", "Erf"},
    {"Sign", "Sign"},
    {"Sin", "Sin"},
    {"Cos", "Cos"},
    {"Not", "LogicalNot"},
    {"Add", "Add"},
    {"Sub", "Sub"},
    {"Mul", "Mul"},
    {"Div", "RealDiv"},
    {"PRelu", "PRelu"},
    {"Equal", "Equal"},
    {"Less", "Less"},
    {"LessOrEqual", "LessEqual"},
    {"Greater", "Greater"},
    {"GreaterOrEqual", "GreaterEqual"},
    {"And", "LogicalAnd"},
    {"Or", "LogicalOr"},
    {"Xor", "LogicalXor"},
    {"Where", "SelectV2"},
};

Values same(const NodeCall& call) {
  for (const auto& [onnx_type, ge_type] : kSame) {
    if (onnx_type != call.node.op_type) continue;
    for (size_t i = 0; i < call.inputs.size(); ++i) static_cast<void>(call.in(i));
    return call.make(std::string(ge_type), call.inputs);
  }
  call.fail("has no counterpart");
}

Values with_float(const NodeCall& call, const char* type, const char* attribute, const char* ge,
                  float fallback) {
  return call.make(type, {call.in(0)}, attributes({{ge, call.node.float_or(attribute, fallback)}}));
}

Values leaky_relu(const NodeCall& call) {
  return with_float(call, "LeakyRelu", "alpha", "negative_slope", 0.01F);
}
Values elu(const NodeCall& call) { return with_float(call, "Elu", "alpha", "alpha", 1.0F); }

Values celu(const NodeCall& call) {
  const float alpha = call.node.float_or("alpha", 1.0F);
  return call.make("Celu", {call.in(0)},
                   attributes({{"alpha1", alpha}, {"alpha2", alpha}, {"alpha3", 1.0F}}));
}

Values selu(const NodeCall& call) {
  return call.make("Selu", {call.in(0)},
                   attributes({{"alpha", call.node.float_or("alpha", 1.67326319F)},
                               {"gamma", call.node.float_or("gamma", 1.05070102F)}}));
}

Values hard_sigmoid(const NodeCall& call) {
  return call.make("HardSigmoid", {call.in(0)},
                   attributes({{"alpha", call.node.float_or("alpha", 0.2F)},
                               {"beta", call.node.float_or("beta", 0.5F)}}));
}

Values gelu(const NodeCall& call) {
  const std::string form = call.node.string_or("approximate", "none");
  if (form == "none") return call.make("Gelu", {call.in(0)});
  if (form != "tanh") call.fail("approximate " + form);
  return call.make("GeluV2", {call.in(0)}, attributes({{"approximate", form}}));
}

Values mod(const NodeCall& call) {
  const bool c_rule = call.node.int_or("fmod", 0) != 0;
  return call.make(c_rule ? "Mod" : "FloorMod", {call.in(0), call.in(1)});
}

// The exponent may have another type; the result has that of the base.
Values pow(const NodeCall& call) {
  const int32_t base = call.in(0).type.dtype;
  const int32_t exponent = call.in(1).type.dtype;
  if (base == exponent) return call.make("Pow", {call.in(0), call.in(1)});
  const auto cast = [&](const char* suffix, const GraphValue& x, int32_t to) {
    return call.helper("Cast", suffix, {x}, attributes({{"dst_type", static_cast<int64_t>(to)}}));
  };
  const auto is_float = [](int32_t type) {
    return type == kFloat || type == kDouble || type == kFloat16 || type == kBfloat16;
  };
  if (is_float(base) || !is_float(exponent)) {
    return call.make("Pow", {call.in(0), cast("_exponent", call.in(1), base)});
  }
  const Values y = call.make("Pow", {cast("_base", call.in(0), exponent), call.in(1)});
  return {cast("_result", y[0], base)};
}

// The bounds of Clip: attributes before opset 11, inputs since.
std::optional<GraphValue> bound(const NodeCall& call, const char* attribute, size_t input) {
  if (call.opset >= 11) {
    return call.has(input) ? std::optional(call.in(input)) : std::nullopt;
  }
  if (!call.node.has(attribute)) return std::nullopt;
  return call.graph.float_scalar(call.name + "_" + attribute, call.node.float_or(attribute, 0.0F));
}

Values clip(const NodeCall& call) {
  const auto low = bound(call, "min", 1);
  const auto high = bound(call, "max", 2);
  if (low && high) return call.make("ClipByValue", {call.in(0), low, high});
  if (low) return call.make("Maximum", {call.in(0), low});
  if (high) return call.make("Minimum", {call.in(0), high});
  return {call.in(0)};
}

Values chain(const NodeCall& call, const char* type) {
  GraphValue result = call.in(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    result = i == 1 ? call.make(type, {result, call.in(i)})[0]
                    : call.helper(type, "_next", {result, call.in(i)});
  }
  return {result};
}

Values max(const NodeCall& call) { return chain(call, "Maximum"); }
Values min(const NodeCall& call) { return chain(call, "Minimum"); }

Values sum(const NodeCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) static_cast<void>(call.in(i));
  return call.make("AccumulateNV2", call.inputs,
                   attributes({{"N", static_cast<int64_t>(call.inputs.size())}}));
}

Values mean(const NodeCall& call) {
  const Values total = sum(call);
  const float factor = 1.0F / static_cast<float>(call.inputs.size());
  return {call.helper("Muls", "_mean", {total[0]}, attributes({{"value", factor}}))};
}

Values cast(const NodeCall& call) {
  const int32_t to = onnx::dtype_from_onnx(call.node.int_or("to", 0));
  if (to == call.in(0).type.dtype) return {call.in(0)};
  AttrMap attrs = node_attributes(call.node);
  attrs.erase("to");
  attrs.set("dst_type", static_cast<int64_t>(to));
  return call.make("Cast", {call.in(0)}, std::move(attrs));
}

constexpr NodeRule kRules[] = {
    {"LeakyRelu", leaky_relu},
    {"Elu", elu},
    {"Celu", celu},
    {"Selu", selu},
    {"HardSigmoid", hard_sigmoid},
    {"Gelu", gelu},
    {"Mod", mod},
    {"Pow", pow},
    {"Clip", clip},
    {"Max", max},
    {"Min", min},
    {"Sum", sum},
    {"Mean", mean},
    {"Cast", cast},
};

}  // namespace

std::span<const NodeRule> elementwise_rules() {
  static const auto* rules = [] {
    auto* all = new std::vector<NodeRule>(std::begin(kRules), std::end(kRules));
    for (const auto& row : kSame) all->push_back({row.first, same});
    return all;
  }();
  return *rules;
}

}  // namespace ascendrt::model
