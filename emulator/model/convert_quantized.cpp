// Rules for the quantised operators of the domain com.microsoft and those that share their form:
// operands become real numbers, the operator of real numbers works on them, its result is
// quantised. What integers express is merged again afterwards (fuse_quantized.cpp). Owns: which
// inputs are a tensor, its scale and its zero point. Must never: hold a rule of a real operator.
#include <algorithm>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

// The operator of real numbers is the one of this opset: axes are attributes, softmax has one axis.
constexpr int64_t kRealOpset = 13;

// Input i with the scale and the zero point behind it. Several scales lie along the axis.
GraphValue real(const NodeCall& call, size_t i, int64_t axis) {
  GraphBuilder::Inputs operands = {call.in(i), call.in(i + 1)};
  if (call.has(i + 2)) operands.emplace_back(call.in(i + 2));
  return call.helper("DequantizeLinear", "_real", std::move(operands),
                     attributes({{"axis", axis}}));
}

// With the scale `scale` of the node's inputs and the zero point behind it, else of type `dtype`.
GraphValue quantized(const NodeCall& call, const GraphValue& y, size_t scale, int32_t dtype) {
  GraphBuilder::Inputs operands = {y, call.in(scale)};
  AttrMap attrs;
  if (call.has(scale + 1)) {
    operands.emplace_back(call.in(scale + 1));
  } else {
    attrs.set("output_dtype", int64_t{dtype});
  }
  return call.helper("QuantizeLinear", "_quantize", std::move(operands), std::move(attrs));
}

// What the rule of the operator `type` makes of these operands, under the node's name.
GraphValue computed(const NodeCall& call, const char* type, const Values& operands,
                    int64_t opset = kRealOpset) {
  onnx::Node node = call.node;
  node.op_type = type;
  node.domain.clear();
  node.outputs.resize(1);
  const std::vector<std::optional<GraphValue>> inputs(operands.begin(), operands.end());
  const NodeCall inner{call.graph, node, opset, call.name, inputs, call.bodies};
  return find_node_rule("", type)->convert(inner).front();
}

// Operators whose operands and result all have scales.
struct LinearRow {
  std::string_view type;
  const char* real_type;
  size_t first;     // operand, with its scale and zero point behind it
  size_t operands;  // that many
  size_t result;    // the scale of the result, with its zero point behind it
};

constexpr LinearRow kLinear[] = {
    {"QLinearAdd", "Add", 0, 2, 6},
    {"QLinearAveragePool", "AveragePool", 0, 1, 3},
    {"QLinearGlobalAveragePool", "GlobalAveragePool", 0, 1, 3},
    {"QLinearLeakyRelu", "LeakyRelu", 0, 1, 3},
    {"QLinearMul", "Mul", 0, 2, 6},
    {"QLinearSigmoid", "Sigmoid", 0, 1, 3},
    {"QLinearSoftmax", "Softmax", 0, 1, 3},
    {"QLinearWhere", "Where", 1, 2, 7},
};

Values linear(const NodeCall& call) {
  const auto* row = std::find_if(std::begin(kLinear), std::end(kLinear),
                                 [&](const LinearRow& r) { return r.type == call.node.op_type; });
  if (call.node.int_or("channels_last", 0) != 0) call.fail("attribute channels_last = 1");
  Values operands;
  for (size_t i = 0; i < row->first; ++i) operands.push_back(call.in(i));  // conditions
  for (size_t i = 0; i < row->operands; ++i) {
    operands.push_back(real(call, row->first + 3 * i, 0));
  }
  const int64_t opset = call.node.int_or("opset", kRealOpset);
  const GraphValue y = computed(call, row->real_type, operands, opset);
  return {quantized(call, y, row->result, call.in(row->first).type.dtype)};
}

// QLinearConcat(y scale, y zero, [x, scale, zero]...); tensors of float32 stay as they are.
Values concat(const NodeCall& call) {
  if (call.inputs.size() < 5 || call.inputs.size() % 3 != 2) call.fail("this number of inputs");
  Values operands;
  for (size_t i = 2; i < call.inputs.size(); i += 3) {
    operands.push_back(call.in(i).type.dtype == ACL_FLOAT ? call.in(i) : real(call, i, 0));
  }
  return {quantized(call, computed(call, "Concat", operands), 0, call.in(2).type.dtype)};
}

// QLinearMatMul(a, scale, zero, b, scale, zero, y scale, y zero): a constant matrix has a form on
// integers, other operands are multiplied as integers less their zero points.
Values matmul(const NodeCall& call) {
  const GraphValue& b = call.in(3);
  const bool layer = b.is_constant() && b.type.shape.rank() == 2 && !call.open(1) &&
                     call.shape(1).elements() == 1 && call.in(1).type.dtype == ACL_FLOAT;
  if (!layer) return call.make("QLinearMatMul", call.inputs, node_attributes(call.node));
  const GraphValue y = computed(call, "MatMul", {real(call, 0, 0), real(call, 3, 1)});
  return {quantized(call, y, 6, call.in(0).type.dtype)};
}

// QGemm(a, scale, zero, b, scale, zero, c, y scale, y zero): c is in units of the products.
Values gemm(const NodeCall& call) {
  const int64_t columns = call.node.int_or("transB", 0) != 0 ? 0 : 1;
  Values operands = {real(call, 0, 0), real(call, 3, columns)};
  if (call.has(6)) {
    const GraphValue unit = call.helper("Mul", "_unit", {call.in(1), call.in(4)});
    operands.push_back(call.helper("DequantizeLinear", "_bias", {call.in(6), unit},
                                   attributes({{"axis", int64_t{-1}}})));
    const float alpha = call.node.float_or("alpha", 1.0F);
    if (alpha != 1.0F) {
      operands[2] =
          call.helper("Muls", "_bias_alpha", {operands[2]}, attributes({{"value", alpha}}));
    }
  }
  const GraphValue y = computed(call, "Gemm", operands);
  return {call.has(7) ? quantized(call, y, 7, call.in(0).type.dtype) : y};
}

// --- sums of integers that become real numbers ---

// (sums of a and b less their zero points) * the scales, plus the bias at input `bias`.
Values scaled_product(const NodeCall& call, const GraphBuilder::Inputs& operands,
                      const GraphValue& a_scale, const GraphValue& b_scale, size_t bias) {
  GraphValue y = call.make("MatMulInteger", operands).front();
  y = call.helper("Cast", "_float", {y}, attributes({{"dst_type", int64_t{ACL_FLOAT}}}));
  y = call.helper("Mul", "_scaled", {y, call.helper("Mul", "_scales", {a_scale, b_scale})});
  if (call.has(bias)) y = call.helper("Add", "_bias", {y, call.in(bias)});
  return {y};
}

std::optional<GraphValue> input_or_none(const NodeCall& call, size_t i) {
  return call.has(i) ? std::optional(call.in(i)) : std::nullopt;
}

// MatMulIntegerToFloat(a, b, a scale, b scale, a zero, b zero, bias).
Values product_to_float(const NodeCall& call) {
  return scaled_product(call,
                        {call.in(0), call.in(1), input_or_none(call, 4), input_or_none(call, 5)},
                        call.in(2), call.in(3), 6);
}

// DynamicQuantizeMatMul(a, b, b scale, b zero, bias).
Values dynamic_product(const NodeCall& call) {
  const Values a = call.graph.add("DynamicQuantizeLinear", call.name + "_bytes", {call.in(0)}, {});
  return scaled_product(call, {a[0], call.in(1), a[2], input_or_none(call, 3)}, a[1], call.in(2),
                        4);
}

Values lstm(const NodeCall& call) {
  return call.make("DynamicQuantizeLSTM", call.inputs, node_attributes(call.node));
}

Values standard(const NodeCall& call) {
  return find_node_rule("", call.node.op_type)->convert(call);
}

constexpr NodeRule kMicrosoft[] = {
    {"DequantizeLinear", standard},
    {"DynamicQuantizeLSTM", lstm},
    {"DynamicQuantizeMatMul", dynamic_product},
    {"MatMulIntegerToFloat", product_to_float},
    {"QGemm", gemm},
    {"QLinearConcat", concat},
    {"QuantizeLinear", standard},
};
constexpr NodeRule kStandard[] = {{"QLinearMatMul", matmul}};

}  // namespace

std::span<const NodeRule> quantized_rules() { return kStandard; }

std::span<const NodeRule> microsoft_rules() {
  static const auto* rules = [] {
    auto* all = new std::vector<NodeRule>(std::begin(kMicrosoft), std::end(kMicrosoft));
    for (const LinearRow& row : kLinear) all->push_back({row.type, linear});
    return all;
  }();
  return *rules;
}

}  // namespace ascendrt::model
