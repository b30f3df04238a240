// Rules for convolution, pooling, matrix products, normalisation and reduction.
// Owns: how ONNX attributes become GE attributes. Must never: drop an attribute that changes
// results.
#include <algorithm>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;

// --- windows: what convolution and pooling share ---

struct Window {
  std::vector<int64_t> kernel, strides, dilations;  // [h, w]
  std::vector<int64_t> pads;                        // [top, bottom, left, right]
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// SAME_*: as many outputs as ceil(in / stride); the odd pad goes to the named side.
void resolve_auto_pad(const NodeCall& call, const ops::Shape& x, Window& window) {
  const std::string mode = call.node.string_or("auto_pad", "NOTSET");
  if (mode == "NOTSET") return;
  window.pads.assign(4, 0);
  if (mode == "VALID") return;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") call.fail("auto_pad " + mode);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = window.dilations[i] * (window.kernel[i] - 1) + 1;
    const int64_t in = x[i + 2];
    const int64_t out = ceil_div(in, window.strides[i]);
    const int64_t total = std::max<int64_t>(0, (out - 1) * window.strides[i] + reach - in);
    const int64_t small = total / 2;
    const bool upper = mode == "SAME_UPPER";
    window.pads[2 * i] = upper ? small : total - small;
    window.pads[2 * i + 1] = upper ? total - small : small;
  }
}

// kernel: from the attribute or, for a convolution, from the filter. x has rank 4.
Window read_window(const NodeCall& call, const ops::Shape& x, std::vector<int64_t> kernel,
                   size_t spatial) {
  const auto list = [&](std::string_view attribute, size_t count, int64_t fallback) {
    auto values = call.node.ints_or(attribute, std::vector<int64_t>(count, fallback));
    if (values.size() != count) {
      call.fail("attribute " + std::string(attribute) + " needs " + std::to_string(count) +
                " numbers");
    }
    for (const int64_t v : values) {
      if (v < fallback || v > (1 << 24)) call.fail("attribute " + std::string(attribute));
    }
    return values;
  };
  Window w;
  w.kernel = std::move(kernel);
  w.strides = list("strides", spatial, 1);
  w.dilations = list("dilations", spatial, 1);
  const auto pads = list("pads", 2 * spatial, 0);
  if (spatial == 1) {  // computed as one row
    w.strides.insert(w.strides.begin(), 1);
    w.dilations.insert(w.dilations.begin(), 1);
    w.pads = {0, 0, pads[0], pads[1]};
  } else {
    w.pads = {pads[0], pads[2], pads[1], pads[3]};
  }
  resolve_auto_pad(call, x, w);
  return w;
}

std::vector<int64_t> with_leading_ones(const std::vector<int64_t>& hw) {
  return {1, 1, hw[0], hw[1]};
}

// 3-dim tensors become 4-dim ones for the 2-D operators, and back.
GraphValue add_row(const NodeCall& call, const char* suffix, const GraphValue& x) {
  return call.helper("Unsqueeze", suffix, {x}, attributes({{"axes", std::vector<int64_t>{2}}}));
}

GraphValue drop_row(const NodeCall& call, const GraphValue& y) {
  return call.helper("Squeeze", "_squeeze", {y}, attributes({{"axis", std::vector<int64_t>{2}}}));
}

void want_1d_or_2d(const NodeCall& call) {
  if (call.rank(0) != 3 && call.rank(0) != 4) {
    call.fail("an input of shape " + call.in(0).type.shape.text() +
              "; only 1-D and 2-D forms can be converted");
  }
}

Values conv(const NodeCall& call) {
  want_1d_or_2d(call);
  if (call.rank(1) != call.rank(0)) call.fail("input and filter have different ranks");
  const bool flat = call.rank(0) == 3;
  const GraphValue x = flat ? add_row(call, "_unsqueeze", call.in(0)) : call.in(0);
  const GraphValue w = flat ? add_row(call, "_filter_unsqueeze", call.in(1)) : call.in(1);
  const ops::Shape& filter = w.type.shape;
  std::vector<int64_t> kernel = {filter[2], filter[3]};
  const auto declared = call.node.ints_or("kernel_shape", {});
  if (!declared.empty() &&
      !std::equal(declared.begin(), declared.end(), kernel.begin() + flat, kernel.end())) {
    call.fail("a kernel_shape that is not the filter's");
  }
  const Window window = read_window(call, x.type.shape, kernel, flat ? 1 : 2);
  AttrMap attrs = attributes({{"strides", with_leading_ones(window.strides)},
                              {"pads", window.pads},
                              {"dilations", with_leading_ones(window.dilations)},
                              {"groups", call.node.int_or("group", 1)},
                              {"data_format", "NCHW"},
                              {"offset_x", int64_t{0}},
                              {"auto_pad", call.node.string_or("auto_pad", "NOTSET")}});
  GraphBuilder::Inputs operands = {x, w};
  if (call.has(2)) operands.emplace_back(call.in(2));
  Values y = call.make("Conv2D", operands, std::move(attrs));
  return flat ? Values{drop_row(call, y[0])} : y;
}

Values pool(const NodeCall& call, const char* type, AttrMap extra) {
  want_1d_or_2d(call);
  const bool flat = call.rank(0) == 3;
  auto kernel = call.node.ints_or("kernel_shape", {});
  if (kernel.size() != (flat ? 1U : 2U)) call.fail("kernel_shape does not fit the input");
  if (std::any_of(kernel.begin(), kernel.end(), [](int64_t k) { return k < 1 || k > 1 << 24; })) {
    call.fail("kernel_shape");
  }
  if (flat) kernel.insert(kernel.begin(), 1);
  if (call.node.int_or("storage_order", 0) != 0) call.fail("storage_order 1");
  const GraphValue x = flat ? add_row(call, "_unsqueeze", call.in(0)) : call.in(0);
  const Window window = read_window(call, x.type.shape, kernel, flat ? 1 : 2);
  for (size_t i = 0; i < window.pads.size(); ++i) {
    const int64_t reach = window.dilations[i / 2] * (window.kernel[i / 2] - 1) + 1;
    if (window.pads[i] >= reach) call.fail("pads as wide as the kernel");
  }
  AttrMap attrs = attributes({{"ksize", with_leading_ones(window.kernel)},
                              {"strides", with_leading_ones(window.strides)},
                              {"padding_mode", "CALCULATED"},
                              {"pads", window.pads},
                              {"dilation", with_leading_ones(window.dilations)},
                              {"data_format", "NCHW"},
                              {"global_pooling", false},
                              {"ceil_mode", call.node.int_or("ceil_mode", 0) != 0}});
  for (const Attr& attr : extra.items()) attrs.set(attr.name, attr.value);
  Values y = call.make(type, {x}, std::move(attrs));
  return flat ? Values{drop_row(call, y[0])} : y;
}

Values max_pool(const NodeCall& call) { return pool(call, "MaxPoolV3", {}); }

Values average_pool(const NodeCall& call) {
  const bool exclusive = call.node.int_or("count_include_pad", 0) == 0;
  return pool(call, "AvgPoolV2", attributes({{"exclusive", exclusive}}));
}

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
  if (call.rank(0) != 2 || call.rank(1) != 2) call.fail("operands must be matrices");
  Values y = call.make("MatMulV2", {call.in(0), call.in(1)}, attrs);
  if (alpha != 1.0F) {
    y = {call.helper("Muls", "_alpha", {y[0]}, attributes({{"value", alpha}}))};
  }
  if (!call.has(2) || beta == 0.0F) return y;
  GraphValue c = call.in(2);
  if (beta != 1.0F) c = call.helper("Muls", "_beta", {c}, attributes({{"value", beta}}));
  const ops::Shape before = y[0].type.shape;
  y = {call.helper("Add", "_add", {y[0], c})};
  if (!(y[0].type.shape == before)) call.fail("C does not broadcast to the product");
  return y;
}

// Vectors count as one row or one column and lose that dim in the result.
Values matmul(const NodeCall& call) {
  GraphValue a = call.in(0);
  GraphValue b = call.in(1);
  const bool row = call.rank(0) == 1;
  const bool column = call.rank(1) == 1;
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

Values batch_norm(const NodeCall& call) {
  if (call.node.int_or("training_mode", 0) != 0) call.fail("training_mode 1");
  if (call.node.int_or("spatial", 1) != 1) call.fail("spatial 0");
  for (size_t i = 1; i < call.node.outputs.size(); ++i) {
    if (!call.node.outputs[i].empty()) call.fail("more outputs than the result");
  }
  return call.make("BatchNorm", {call.in(0), call.in(1), call.in(2), call.in(3), call.in(4)},
                   attributes({{"epsilon", call.node.float_or("epsilon", 1e-5F)},
                               {"data_format", "NCHW"},
                               {"is_training", false}}));
}

Values instance_norm(const NodeCall& call) {
  return call.make(
      "InstanceNorm", {call.in(0), call.in(1), call.in(2)},
      attributes({{"epsilon", call.node.float_or("epsilon", 1e-5F)}, {"data_format", "NCHW"}}));
}

Values layer_norm(const NodeCall& call) {
  for (size_t i = 1; i < call.node.outputs.size(); ++i) {
    if (!call.node.outputs[i].empty()) call.fail("more outputs than the result");
  }
  const int64_t axis = call.node.int_or("axis", -1);
  GraphBuilder::Inputs operands = {call.in(0), call.in(1)};
  if (call.has(2)) operands.emplace_back(call.in(2));
  return call.make("LayerNorm", operands,
                   attributes({{"begin_norm_axis", axis},
                               {"begin_params_axis", axis},
                               {"epsilon", call.node.float_or("epsilon", 1e-5F)}}));
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

Values reduce(const NodeCall& call) {
  const auto axes = call.list("axes", 1);
  GraphBuilder::Inputs operands = {call.in(0)};
  if (axes) operands.emplace_back(call.ints("_axes", *axes));
  return call.make(
      call.node.op_type, operands,
      attributes({{"keep_dims", call.node.int_or("keepdims", 1) != 0},
                  {"noop_with_empty_axes", call.node.int_or("noop_with_empty_axes", 0) != 0}}));
}

Values arg(const NodeCall& call) {
  if (call.node.int_or("select_last_index", 0) != 0) call.fail("select_last_index 1");
  const int64_t axis = call.node.int_or("axis", 0);
  const bool keep = call.node.int_or("keepdims", 1) != 0;
  const char* type = call.node.op_type == "ArgMin" ? "ArgMin" : "ArgMaxV2";
  const GraphValue dimension = call.graph.int_scalar(call.name + "_dimension", axis);
  Values y = call.make(type, {call.in(0), dimension}, attributes({{"dtype", int64_t{ACL_INT64}}}));
  if (!keep) return y;
  return {call.helper("Unsqueeze", "_keep", {y[0]},
                      attributes({{"axes", std::vector<int64_t>{axis}}}))};
}

constexpr NodeRule kRules[] = {
    {"Conv", conv},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"GlobalAveragePool", global_average},
    {"GlobalMaxPool", global_max},
    {"Gemm", gemm},
    {"MatMul", matmul},
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization", instance_norm},
    {"LayerNormalization", layer_norm},
    {"Softmax", softmax},
    {"LogSoftmax", log_softmax},
    {"ReduceSum", reduce},
    {"ReduceMean", reduce},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"ArgMax", arg},
    {"ArgMin", arg},
};

}  // namespace

std::span<const NodeRule> compute_rules() { return kRules; }

}  // namespace ascendrt::model
