// Element-wise operators of the table. Owns: their attributes and type rules.
// Must never: hold arithmetic; that is in ops/.
#include <array>

#include "model/op_set_matmul.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

using ops::Unary;

// Operands that a result may be written over.
constexpr uint8_t kFirst = 1;
constexpr uint8_t kSecond = 2;
constexpr uint8_t kThird = 4;

struct UnaryRow {
  std::string_view name;
  Unary op;
  // Attributes behind UnaryParams a and b with their defaults; "" = none.
  std::string_view a;
  float a_default;
  std::string_view b;
  float b_default;
};

constexpr UnaryRow kUnary[] = {
    {"Relu", Unary::kRelu, "", 0, "", 0},
    {"Relu6", Unary::kRelu6, "", 0, "", 0},
    {"LeakyRelu", Unary::kLeakyRelu, "negative_slope", 0, "", 0},
    {"Elu", Unary::kElu, "alpha", 1, "", 0},
    {"Selu", Unary::kSelu, "alpha", 1.67326319F, "gamma", 1.05070102F},
    {"Celu", Unary::kCelu, "alpha1", 1, "", 0},
    {"HardSigmoid", Unary::kHardSigmoid, "alpha", 0.16666666F, "beta", 0.5F},
    {"HardSwish", Unary::kHardSwish, "", 0, "", 0},
    {"Sigmoid", Unary::kSigmoid, "", 0, "", 0},
    {"Tanh", Unary::kTanh, "", 0, "", 0},
    {"Softplus", Unary::kSoftplus, "", 0, "", 0},
    {"Softsign", Unary::kSoftsign, "", 0, "", 0},
    {"Gelu", Unary::kGelu, "", 0, "", 0},
    {"Mish", Unary::kMish, "", 0, "", 0},
    {"Swish", Unary::kSwish, "scale", 1, "", 0},
    {"Abs", Unary::kAbs, "", 0, "", 0},
    {"Neg", Unary::kNeg, "", 0, "", 0},
    {"Exp", Unary::kExp, "", 0, "", 0},
    {"Log", Unary::kLog, "", 0, "", 0},
    {"Sqrt", Unary::kSqrt, "", 0, "", 0},
    {"Rsqrt", Unary::kRsqrt, "", 0, "", 0},
    {"Reciprocal", Unary::kReciprocal, "", 0, "", 0},
    {"Floor", Unary::kFloor, "", 0, "", 0},
    {"Ceil", Unary::kCeil, "", 0, "", 0},
    {"Round", Unary::kRound, "", 0, "", 0},
    {"Erf", Unary::kErf, "", 0, "", 0},
    {"Sign", Unary::kSign, "", 0, "", 0},
    {"Sin", Unary::kSin, "", 0, "", 0},
    {"Cos", Unary::kCos, "", 0, "", 0},
    {"Square", Unary::kSquare, "", 0, "", 0},
    {"Adds", Unary::kAdds, "value", 0, "", 0},
    {"Muls", Unary::kMuls, "value", 1, "", 0},
    {"Tan", Unary::kTan, "", 0, "", 0},
    {"Asin", Unary::kAsin, "", 0, "", 0},
    {"Acos", Unary::kAcos, "", 0, "", 0},
    {"Atan", Unary::kAtan, "", 0, "", 0},
    {"Sinh", Unary::kSinh, "", 0, "", 0},
    {"Cosh", Unary::kCosh, "", 0, "", 0},
    {"Asinh", Unary::kAsinh, "", 0, "", 0},
    {"Acosh", Unary::kAcosh, "", 0, "", 0},
    {"Atanh", Unary::kAtanh, "", 0, "", 0},
    {"GeluV2", Unary::kGeluTanh, "", 0, "", 0},
    {"ThresholdedRelu", Unary::kThresholdedRelu, "alpha", 1, "", 0},
    {"Shrink", Unary::kShrink, "lambd", 0.5F, "bias", 0},
    {"Invert", Unary::kInvert, "", 0, "", 0},
};

template <class Row, size_t n>
const Row& row_of(const Row (&rows)[n], std::string_view type) {
  for (const Row& row : rows) {
    if (row.name == type) return row;
  }
  ops::fail(type, "not in its table");
}

std::vector<TensorType> infer_unary(const OpView& v) {
  v.want_count(1, 1);
  if (!ops::unary_takes(row_of(kUnary, v.op.type).op, v.dtype(0))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(0)));
  }
  return {v.inputs[0].type};
}

ops::UnaryParams params_of(const UnaryRow& row, const Op& op) {
  ops::UnaryParams params;
  if (!row.a.empty()) params.a = op.attrs.float_or(row.a, row.a_default);
  if (!row.b.empty()) params.b = op.attrs.float_or(row.b, row.b_default);
  return params;
}

Kernel build_unary(const OpView& v, std::span<const TensorType>) {
  const UnaryRow& row = row_of(kUnary, v.op.type);
  return {
      [op = row.op, params = params_of(row, v.op)](Inputs in, Outputs out, const ops::Exec& exec) {
        ops::unary(op, params, in[0], out[0], exec);
      },
      0, false, kFirst};
}

struct BinaryRow {
  std::string_view name;
  ops::Binary op;
};

constexpr BinaryRow kBinary[] = {
    {"Add", ops::Binary::kAdd},
    {"Sub", ops::Binary::kSub},
    {"Mul", ops::Binary::kMul},
    {"RealDiv", ops::Binary::kDiv},
    {"Div", ops::Binary::kDiv},
    {"Maximum", ops::Binary::kMax},
    {"Minimum", ops::Binary::kMin},
    {"Pow", ops::Binary::kPow},
    {"FloorMod", ops::Binary::kMod},
    {"FloorDiv", ops::Binary::kFloorDiv},
    {"Mod", ops::Binary::kFmod},
    {"BitwiseAnd", ops::Binary::kBitAnd},
    {"BitwiseOr", ops::Binary::kBitOr},
    {"BitwiseXor", ops::Binary::kBitXor},
    {"LeftShift", ops::Binary::kLeftShift},
    {"RightShift", ops::Binary::kRightShift},
};

TensorType broadcast_type(const OpView& v, aclDataType result) {
  v.want_count(2, 2);
  if (v.dtype(0) != v.dtype(1)) {
    v.fail(std::string("operands of different types ") + ops::dtype_name(v.dtype(0)) + " and " +
           ops::dtype_name(v.dtype(1)));
  }
  return {result, ops::broadcast_shape(v.op.type, v.shape(0), v.shape(1))};
}

void want_number(const OpView& v, ops::Binary op = ops::Binary::kAdd) {
  if (!ops::binary_takes(op, v.dtype(0))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(0)));
  }
}

std::vector<TensorType> infer_binary(const OpView& v) {
  const TensorType type = broadcast_type(v, v.dtype(0));
  want_number(v, row_of(kBinary, v.op.type).op);
  return {type};
}

Kernel build_binary(const OpView& v, std::span<const TensorType>) {
  return {[op = row_of(kBinary, v.op.type).op](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::binary(op, in[0], in[1], out[0], exec);
          },
          0, false, kFirst | kSecond};
}

struct CompareRow {
  std::string_view name;
  ops::Compare op;
};

constexpr CompareRow kCompare[] = {
    {"Equal", ops::Compare::kEqual},     {"NotEqual", ops::Compare::kNotEqual},
    {"Less", ops::Compare::kLess},       {"LessEqual", ops::Compare::kLessEqual},
    {"Greater", ops::Compare::kGreater}, {"GreaterEqual", ops::Compare::kGreaterEqual},
};

std::vector<TensorType> infer_compare(const OpView& v) {
  const TensorType type = broadcast_type(v, ACL_BOOL);
  if (v.dtype(0) != ACL_BOOL) want_number(v);
  return {type};
}

Kernel build_compare(const OpView& v, std::span<const TensorType>) {
  return {[op = row_of(kCompare, v.op.type).op](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::compare(op, in[0], in[1], out[0], exec);
          },
          0, false};
}

struct LogicalRow {
  std::string_view name;
  ops::Logical op;
};

constexpr LogicalRow kLogical[] = {
    {"LogicalAnd", ops::Logical::kAnd},
    {"LogicalOr", ops::Logical::kOr},
    {"LogicalXor", ops::Logical::kXor},
};

void want_bool(const OpView& v, size_t i) {
  if (v.dtype(i) != ACL_BOOL) v.fail("input " + std::to_string(i) + " must be bool");
}

std::vector<TensorType> infer_logical(const OpView& v) {
  const TensorType type = broadcast_type(v, ACL_BOOL);
  want_bool(v, 0);
  return {type};
}

Kernel build_logical(const OpView& v, std::span<const TensorType>) {
  return {[op = row_of(kLogical, v.op.type).op](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::logical(op, in[0], in[1], out[0], exec);
          },
          0, false, kFirst | kSecond};
}

std::vector<TensorType> infer_not(const OpView& v) {
  v.want_count(1, 1);
  want_bool(v, 0);
  return {v.inputs[0].type};
}

Kernel build_not(const OpView&, std::span<const TensorType>) {
  return {
      [](Inputs in, Outputs out, const ops::Exec& exec) { ops::logical_not(in[0], out[0], exec); },
      0, false, kFirst};
}

// --- tests of floats ---

std::vector<TensorType> infer_test(const OpView& v) {
  v.want_count(1, 1);
  want_number(v);
  return {{ACL_BOOL, v.shape(0)}};
}

Kernel test_kernel(ops::Test kind) {
  return {[kind](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::test(kind, in[0], out[0], exec);
          },
          0, false};
}

Kernel build_nan(const OpView&, std::span<const TensorType>) {
  return test_kernel(ops::Test::kNan);
}

Kernel build_infinite(const OpView& v, std::span<const TensorType>) {
  const bool negative = v.op.attrs.int_or("detect_negative", 1) != 0;
  const bool positive = v.op.attrs.int_or("detect_positive", 1) != 0;
  if (negative && positive) return test_kernel(ops::Test::kInfinite);
  if (positive) return test_kernel(ops::Test::kPositiveInfinite);
  return test_kernel(negative ? ops::Test::kNegativeInfinite : ops::Test::kNever);
}

std::vector<aclDataType> bool_type(const OpView&) { return {ACL_BOOL}; }

std::vector<TensorType> infer_prelu(const OpView& v) {
  v.want_count(2, 2);
  v.want_float(0);
  v.want_float(1);
  if (!(ops::broadcast_shape(v.op.type, v.shape(0), v.shape(1)) == v.shape(0))) {
    v.fail("slopes of shape " + v.shape(1).text() + " do not fit " + v.shape(0).text());
  }
  return {v.inputs[0].type};
}

Kernel build_prelu(const OpView&, std::span<const TensorType>) {
  return {
      [](Inputs in, Outputs out, const ops::Exec& exec) { ops::prelu(in[0], in[1], out[0], exec); },
      0, false, kFirst};
}

std::vector<TensorType> infer_clip(const OpView& v) {
  v.want_count(3, 3);
  want_number(v);
  for (const size_t i : {1U, 2U}) {
    if (v.dtype(i) != v.dtype(0) || v.shape(i).elements() != 1) {
      v.fail("bounds must be single values of the type of the input");
    }
  }
  return {v.inputs[0].type};
}

Kernel build_clip(const OpView&, std::span<const TensorType>) {
  return {[](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::clip(in[0], in[1], in[2], out[0], exec);
          },
          0, false, kFirst};
}

std::vector<TensorType> infer_select(const OpView& v) {
  v.want_count(3, 3);
  want_bool(v, 0);
  if (v.dtype(1) != v.dtype(2)) v.fail("both choices must have one type");
  if (ops::dtype_size(v.dtype(1)) == 0 || ops::dtype_size(v.dtype(1)) > 8) v.fail("no such form");
  const auto both = ops::broadcast_shape(v.op.type, v.shape(1), v.shape(2));
  return {{v.dtype(1), ops::broadcast_shape(v.op.type, v.shape(0), both)}};
}

Kernel build_select(const OpView&, std::span<const TensorType>) {
  return {[](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::select(in[0], in[1], in[2], out[0], exec);
          },
          0, false, kSecond | kThird};
}

std::vector<TensorType> infer_cast(const OpView& v) {
  v.want_count(1, 1);
  const auto to = static_cast<aclDataType>(v.op.attrs.int_or("dst_type", ACL_DT_UNDEFINED));
  if (!ops::cast_takes(v.dtype(0)) || !ops::cast_takes(to)) {
    v.fail(std::string("cannot convert ") + ops::dtype_name(v.dtype(0)) + " to type " +
           std::to_string(static_cast<int>(to)));
  }
  return {{to, v.shape(0)}};
}

Kernel build_cast(const OpView& v, std::span<const TensorType> outputs) {
  const std::string rounding = v.op.attrs.string_or("round_mode", "up");
  ops::CastParams params;
  const bool saturate = v.op.attrs.int_or("saturate", 1) != 0;
  params.overflow = saturate ? ops::Overflow::kSaturate : ops::Overflow::kSpecial;
  if (rounding == "down") params.rounding = ops::CastRounding::kDown;
  if (rounding == "nearest") params.rounding = ops::CastRounding::kNearest;
  return {[params](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::cast(in[0], out[0], exec, params);
          },
          0, v.dtype(0) == outputs[0].dtype};
}

std::vector<aclDataType> cast_type(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("dst_type", ACL_DT_UNDEFINED))};
}

std::vector<aclDataType> second_type(const OpView& v) { return {v.dtype(1)}; }

// Sum of any number of tensors of one type, left to right.
std::vector<TensorType> infer_accumulate(const OpView& v) {
  v.want_count(1, v.inputs.size());
  want_number(v);
  TensorType type = v.inputs[0].type;
  for (const Operand& operand : v.inputs) {
    if (operand.type.dtype != type.dtype) v.fail("operands of different types");
    type.shape = ops::broadcast_shape(v.op.type, type.shape, operand.type.shape);
  }
  return {type};
}

Kernel build_accumulate(const OpView&, std::span<const TensorType>) {
  return {[](Inputs in, Outputs out, const ops::Exec& exec) {
            if (in.size() == 1) return ops::cast(in[0], out[0], exec);
            ops::binary(ops::Binary::kAdd, in[0], in[1], out[0], exec);
            for (const ops::TensorView& next : in.subspan(2)) {
              ops::binary(ops::Binary::kAdd, out[0], next, out[0], exec);
            }
          },
          0, false, kFirst};
}

std::vector<OpType> make_table() {
  constexpr Halves kWide = Halves::kWidened;
  std::vector<OpType> table;
  for (const auto& row : kUnary) table.push_back({row.name, infer_unary, build_unary});
  for (const auto& row : kBinary) table.push_back({row.name, infer_binary, build_binary});
  for (const auto& row : kCompare) {
    table.push_back({row.name, infer_compare, build_compare, kWide, bool_type});
  }
  for (const auto& row : kLogical) table.push_back({row.name, infer_logical, build_logical});
  table.push_back({"LogicalNot", infer_not, build_not});
  table.push_back({"IsNan", infer_test, build_nan, kWide, bool_type});
  table.push_back({"IsInf", infer_test, build_infinite, kWide, bool_type});
  table.push_back({"PRelu", infer_prelu, build_prelu});
  table.push_back({"ClipByValue", infer_clip, build_clip});
  table.push_back({"SelectV2", infer_select, build_select, Halves::kNative, second_type});
  table.push_back({"Cast", infer_cast, build_cast, Halves::kNative, cast_type});
  table.push_back({"AccumulateNV2", infer_accumulate, build_accumulate});
  return table;
}

}  // namespace

bool find_element_wise(const Op& op, ops::ChainStep& step) {
  for (const UnaryRow& row : kUnary) {
    if (row.name != op.type) continue;
    step.unary = row.op;
    step.params = params_of(row, op);
    return row.op != Unary::kInvert;
  }
  for (const BinaryRow& row : kBinary) {
    if (row.name != op.type) continue;
    step.is_binary = true;
    step.binary = row.op;
    return ops::binary_takes(row.op, ACL_FLOAT);
  }
  return false;
}

std::span<const OpType> elementwise_op_types() {
  static const auto* table = new std::vector<OpType>(make_table());
  return *table;
}

}  // namespace ascendrt::model
