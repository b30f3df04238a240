// Element-wise operators of the table. Owns: their attributes and type rules.
// Must never: hold arithmetic; that is in ops/.
#include <array>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

using ops::Unary;

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

Kernel build_unary(const OpView& v, std::span<const TensorType>) {
  const UnaryRow& row = row_of(kUnary, v.op.type);
  ops::UnaryParams params;
  if (!row.a.empty()) params.a = v.op.attrs.float_or(row.a, row.a_default);
  if (!row.b.empty()) params.b = v.op.attrs.float_or(row.b, row.b_default);
  return {[op = row.op, params](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::unary(op, params, in[0], out[0], exec);
          },
          0, false};
}

struct BinaryRow {
  std::string_view name;
  ops::Binary op;
};

constexpr BinaryRow kBinary[] = {
    {"Add", ops::Binary::kAdd},      {"Sub", ops::Binary::kSub},
    {"Mul", ops::Binary::kMul},      {"RealDiv", ops::Binary::kDiv},
    {"Div", ops::Binary::kDiv},      {"Maximum", ops::Binary::kMax},
    {"Minimum", ops::Binary::kMin},  {"Pow", ops::Binary::kPow},
    {"FloorMod", ops::Binary::kMod}, {"FloorDiv", ops::Binary::kFloorDiv},
};

TensorType broadcast_type(const OpView& v, aclDataType result) {
  v.want_count(2, 2);
  if (v.dtype(0) != v.dtype(1)) {
    v.fail(std::string("operands of different types ") + ops::dtype_name(v.dtype(0)) + " and " +
           ops::dtype_name(v.dtype(1)));
  }
  return {result, ops::broadcast_shape(v.op.type, v.shape(0), v.shape(1))};
}

void want_number(const OpView& v) {
  if (!ops::binary_takes(v.dtype(0))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(0)));
  }
}

std::vector<TensorType> infer_binary(const OpView& v) {
  const TensorType type = broadcast_type(v, v.dtype(0));
  want_number(v);
  return {type};
}

Kernel build_binary(const OpView& v, std::span<const TensorType>) {
  return {[op = row_of(kBinary, v.op.type).op](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::binary(op, in[0], in[1], out[0], exec);
          },
          0, false};
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
          0, false};
}

std::vector<TensorType> infer_not(const OpView& v) {
  v.want_count(1, 1);
  want_bool(v, 0);
  return {v.inputs[0].type};
}

Kernel build_not(const OpView&, std::span<const TensorType>) {
  return {
      [](Inputs in, Outputs out, const ops::Exec& exec) { ops::logical_not(in[0], out[0], exec); },
      0, false};
}

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
      0, false};
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
          0, false};
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
          0, false};
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
  return {[](Inputs in, Outputs out, const ops::Exec& exec) { ops::cast(in[0], out[0], exec); }, 0,
          v.dtype(0) == outputs[0].dtype};
}

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
          0, false};
}

std::vector<OpType> make_table() {
  std::vector<OpType> table;
  for (const auto& row : kUnary) table.push_back({row.name, infer_unary, build_unary});
  for (const auto& row : kBinary) table.push_back({row.name, infer_binary, build_binary});
  for (const auto& row : kCompare) table.push_back({row.name, infer_compare, build_compare});
  for (const auto& row : kLogical) table.push_back({row.name, infer_logical, build_logical});
  table.push_back({"LogicalNot", infer_not, build_not});
  table.push_back({"PRelu", infer_prelu, build_prelu});
  table.push_back({"ClipByValue", infer_clip, build_clip});
  table.push_back({"SelectV2", infer_select, build_select});
  table.push_back({"Cast", infer_cast, build_cast});
  table.push_back({"AccumulateNV2", infer_accumulate, build_accumulate});
  return table;
}

}  // namespace

std::span<const OpType> elementwise_op_types() {
  static const auto* table = new std::vector<OpType>(make_table());
  return *table;
}

}  // namespace ascendrt::model
