// Rules for matrix products, normalisation and reduction.
// Owns: how ONNX attributes become GE attributes. Must never: drop an attribute that changes
// results.
#include <algorithm>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

Values global_average(const NodeCall& call) { return call.make("GlobalAveragePool", {call.in(0)}); }

Values global_max(const NodeCall& call) {
  std::vector<int64_t> axes;
  for (size_t i = 2; i < call.rank(0); ++i) axes.push_back(static_cast<int64_t>(i));
  return call.make("ReduceMax", {call.in(0), call.ints("_axes", axes)},
                   attributes({{"keep_dims", true}}));
}

// --- matrix products ---

Values gemm(const NodeCall& call) {
  const float alpha = call.node.float_or("alpha", 1.0F);
  const float beta = call.node.float_or("beta", 1.0F);
  const AttrMap attrs = attributes({{"transpose_x1", call.node.int_or("transA", 0) != 0},
                                    {"transpose_x2", call.node.int_or("transB", 0) != 0}});
  const bool open = call.open(0) || call.open(1);
  if (!open && (call.rank(0) != 2 || call.rank(1) != 2)) call.fail("operands must be matrices");
  Values y = call.make("MatMulV2", {call.in(0), call.in(1)}, attrs);
  if (alpha != 1.0F) {
    y = {call.helper("Muls", "_alpha", {y[0]}, attributes({{"value", alpha}}))};
  }
  if (!call.has(2) || beta == 0.0F) return y;
  GraphValue c = call.in(2);
  if (beta != 1.0F) c = call.helper("Muls", "_beta", {c}, attributes({{"value", beta}}));
  const ops::Shape before = y[0].type.shape;
  y = {call.helper("Add", "_add", {y[0], c})};
  if (!open && !(y[0].type.shape == before)) call.fail("C does not broadcast to the product");
  return y;
}

// Vectors count as one row or one column and lose that dim in the result.
Values matmul(const NodeCall& call) {
  GraphValue a = call.in(0);
  GraphValue b = call.in(1);
  // Of an open shape only matrices can be multiplied; a run checks that.
  const bool row = !call.open(0) && call.rank(0) == 1;
  const bool column = !call.open(1) && call.rank(1) == 1;
  const auto axes = [](int64_t axis) { return std::vector<int64_t>{axis}; };
  if (row) a = call.helper("Unsqueeze", "_row", {a}, attributes({{"axes", axes(0)}}));
  if (column) b = call.helper("Unsqueeze", "_column", {b}, attributes({{"axes", axes(1)}}));
  Values y = call.make("BatchMatMulV2", {a, b}, attributes({{"adj_x1", false}, {"adj_x2", false}}));
  if (!row && !column) return y;
  std::vector<int64_t> gone;
  if (row) gone.push_back(-2);
  if (column) gone.push_back(-1);
  return {call.helper("Squeeze", "_vector", {y[0]}, attributes({{"axis", gone}}))};
}

// --- normalisation ---

Values instance_norm(const NodeCall& call) {
  return call.make(
      "InstanceNorm", {call.in(0), call.in(1), call.in(2)},
      attributes({{"epsilon", call.node.float_or("epsilon", 1e-5F)}, {"data_format", "NCHW"}}));
}

// Before opset 13 softmax works on everything from the axis on.
Values softmax_as(const NodeCall& call, const char* type) {
  const bool flattens = call.opset < 13;
  AttrMap attrs =
      attributes({{"axes", std::vector<int64_t>{call.node.int_or("axis", flattens ? 1 : -1)}}});
  if (flattens) attrs.set("need_fusion", int64_t{1});
  return call.make(type, {call.in(0)}, std::move(attrs));
}

Values softmax(const NodeCall& call) { return softmax_as(call, "SoftmaxV2"); }
Values log_softmax(const NodeCall& call) { return softmax_as(call, "LogSoftmaxV2"); }

// --- reductions ---

// Axes are an attribute in older opsets and an input, perhaps of unknown values, in newer ones.
Values reduce(const NodeCall& call) {
  const std::string& type = call.node.op_type;
  const bool keep = call.node.int_or("keepdims", 1) != 0;
  AttrMap attrs =
      attributes({{"keep_dims", keep},
                  {"noop_with_empty_axes", call.node.int_or("noop_with_empty_axes", 0) != 0}});
  const GraphBuilder::Inputs operands = {call.in(0), call.list_value("axes", 1)};
  if (type == "ReduceSumSquare") return call.make("SquareSumV1", operands, std::move(attrs));
  if (type != "ReduceL1" && type != "ReduceL2") return call.make(type, operands, std::move(attrs));
  attrs.set("keepdim", keep);
  attrs.set("p", type == "ReduceL1" ? 1.0F : 2.0F);
  return call.make("LpNormV2", operands, std::move(attrs));
}

Values arg(const NodeCall& call) {
  const int64_t axis = call.node.int_or("axis", 0);
  const bool keep = call.node.int_or("keepdims", 1) != 0;
  const char* type = call.node.op_type == "ArgMin" ? "ArgMin" : "ArgMaxV2";
  const GraphValue dimension = call.graph.int_scalar(call.name + "_dimension", axis);
  AttrMap attrs = attributes({{"dtype", int64_t{ACL_INT64}}});
  const int64_t last = call.node.int_or("select_last_index", 0);
  if (last != 0) attrs.set("select_last_index", last);
  Values y = call.make(type, {call.in(0), dimension}, std::move(attrs));
  if (!keep) return y;
  return {call.helper("Unsqueeze", "_keep", {y[0]},
                      attributes({{"axes", std::vector<int64_t>{axis}}}))};
}

constexpr NodeRule kRules[] = {
    {"GlobalAveragePool", global_average},
    {"GlobalMaxPool", global_max},
    {"Gemm", gemm},
    {"MatMul", matmul},
    {"InstanceNormalization", instance_norm},
    {"Softmax", softmax},
    {"LogSoftmax", log_softmax},
    {"ReduceSum", reduce},
    {"ReduceMean", reduce},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ReduceL1", reduce},
    {"ReduceL2", reduce},
    {"ReduceLogSum", reduce},
    {"ReduceLogSumExp", reduce},
    {"ReduceSumSquare", reduce},
    {"ArgMax", arg},
    {"ArgMin", arg},
};

}  // namespace

std::span<const NodeRule> compute_rules() { return kRules; }

}  // namespace ascendrt::model
