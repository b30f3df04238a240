// Rules for nodes that become several ops. Owns: those compositions.
// Must never: compute at conversion what depends on run-time values.
#include <algorithm>
#include <cmath>

#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;
using List = std::vector<int64_t>;

GraphValue cast_to(const NodeCall& call, const char* suffix, const GraphValue& x, int32_t to) {
  if (x.type.dtype == to) return x;
  return call.helper("Cast", suffix, {x}, attributes({{"dst_type", static_cast<int64_t>(to)}}));
}

// A number of the type of x.
GraphValue number(const NodeCall& call, const char* suffix, float value, const GraphValue& x) {
  return cast_to(call, suffix, call.graph.float_scalar(call.name + suffix, value), x.type.dtype);
}

GraphValue reduced(const NodeCall& call, const char* type, const char* suffix, const GraphValue& x,
                   const List& axes) {
  return call.helper(type, suffix, {x, call.ints("_axes", axes)},
                     attributes({{"keep_dims", true}}));
}

// --- normalisations ---

Values layer_norm(const NodeCall& call) {
  const float epsilon = call.node.float_or("epsilon", 1e-5F);
  const int64_t axis = call.node.int_or("axis", -1);
  AttrMap attrs =
      attributes({{"begin_norm_axis", axis}, {"begin_params_axis", axis}, {"epsilon", epsilon}});
  GraphBuilder::Inputs operands = {call.in(0), call.in(1)};
  if (call.has(2)) operands.emplace_back(call.in(2));
  const bool plain =
      !call.open(0) &&
      call.shape(1).elements() ==
          call.shape(0).elements(ops::resolve_axis("LayerNormalization", axis, call.rank(0)),
                                 call.rank(0));
  const bool more = call.wants_output(1) || call.wants_output(2);
  if (!more && plain) return call.make("LayerNorm", operands, std::move(attrs));
  Values y = call.make("LayerNormV3", operands, std::move(attrs));
  // The statistics are float32 by default, whatever the type of the input.
  for (size_t i = 1; i < y.size() && more; ++i) y[i] = cast_to(call, "_stash", y[i], kFloat);
  return y;
}

Values rms_norm(const NodeCall& call) {
  return call.make("RmsNorm", {call.in(0), call.in(1)},
                   attributes({{"begin_norm_axis", call.node.int_or("axis", -1)},
                               {"epsilon", call.node.float_or("epsilon", 1e-5F)}}));
}

// Statistics of the batch; the running ones follow by momentum.
Values batch_norm_training(const NodeCall& call) {
  List axes;
  for (size_t i = 0; i < call.rank(0); ++i) {
    if (i != 1) axes.push_back(static_cast<int64_t>(i));
  }
  const GraphValue& x = call.in(0);
  const GraphValue mean = reduced(call, "ReduceMean", "_mean", x, axes);
  const GraphValue centered = call.helper("Sub", "_centered", {x, mean});
  const GraphValue square = call.helper("Square", "_square", {centered});
  const GraphValue variance = reduced(call, "ReduceMean", "_variance", square, axes);
  const auto flat = [&](const char* suffix, const GraphValue& v) {
    return call.helper("Reshape", suffix, {v, call.ints("_channels", {-1})});
  };
  const GraphValue own[] = {flat("_flat_mean", mean), flat("_flat_variance", variance)};
  Values y = call.make("BatchNorm", {x, call.in(1), call.in(2), own[0], own[1]},
                       attributes({{"epsilon", call.node.float_or("epsilon", 1e-5F)},
                                   {"data_format", "NCHW"},
                                   {"is_training", false}}));
  const float momentum = call.node.float_or("momentum", 0.9F);
  for (size_t i = 0; i < 2; ++i) {
    const GraphValue old =
        call.helper("Muls", "_old", {call.in(3 + i)}, attributes({{"value", momentum}}));
    const GraphValue fresh =
        call.helper("Muls", "_fresh", {own[i]}, attributes({{"value", 1 - momentum}}));
    y.push_back(call.helper("Add", "_running", {old, fresh}));
  }
  return y;
}

Values batch_norm(const NodeCall& call) {
  if (call.node.int_or("spatial", 1) != 1) call.fail("spatial 0");
  if (call.node.int_or("training_mode", 0) != 0) return batch_norm_training(call);
  for (size_t i = 1; i < call.node.outputs.size(); ++i) {
    if (call.wants_output(i)) call.fail("more outputs than the result");
  }
  return call.make("BatchNorm", {call.in(0), call.in(1), call.in(2), call.in(3), call.in(4)},
                   attributes({{"epsilon", call.node.float_or("epsilon", 1e-5F)},
                               {"data_format", "NCHW"},
                               {"is_training", false}}));
}

Values mean_variance(const NodeCall& call) {
  const List axes = call.node.ints_or("axes", {0, 2, 3});
  const GraphValue mean = reduced(call, "ReduceMean", "_mean", call.in(0), axes);
  const GraphValue centered = call.helper("Sub", "_centered", {call.in(0), mean});
  const GraphValue square = call.helper("Square", "_square", {centered});
  const GraphValue variance = reduced(call, "ReduceMean", "_variance", square, axes);
  const GraphValue deviation = call.helper("Sqrt", "_deviation", {variance});
  const GraphValue safe = call.helper("Adds", "_safe", {deviation}, attributes({{"value", 1e-9F}}));
  return call.make("RealDiv", {centered, safe});
}

// Nothing divided by nothing is nothing.
Values lp_normalization(const NodeCall& call) {
  const int64_t p = call.node.int_or("p", 2);
  if (p != 1 && p != 2) call.fail("p " + std::to_string(p));
  const List axes = {call.node.int_or("axis", -1)};
  const GraphValue norm =
      call.helper("LpNormV2", "_norm", {call.in(0), call.ints("_axes", axes)},
                  attributes({{"keepdim", true}, {"p", static_cast<float>(p)}}));
  const GraphValue least = number(call, "_least", 1e-30F, norm);
  return call.make("RealDiv", {call.in(0), call.helper("Maximum", "_safe", {norm, least})});
}

Values global_lp_pool(const NodeCall& call) {
  const auto p = static_cast<float>(call.node.int_or("p", 2));
  if (p < 1) call.fail("p below 1");
  List axes;
  for (size_t i = 2; i < call.rank(0); ++i) axes.push_back(static_cast<int64_t>(i));
  const GraphValue size = call.helper("Abs", "_size", {call.in(0)});
  const GraphValue power = call.helper("Pow", "_power", {size, number(call, "_p", p, size)});
  const GraphValue sum = reduced(call, "ReduceSum", "_sum", power, axes);
  return call.make("Pow", {sum, number(call, "_root", 1 / p, sum)});
}

Values local_response(const NodeCall& call) {
  const int64_t size = call.node.int_or("size", 0);
  if (size < 1 || size % 2 == 0) call.fail("size " + std::to_string(size));
  return call.make(
      "LRN", {call.in(0)},
      attributes({{"depth_radius", (size - 1) / 2},
                  {"bias", call.node.float_or("bias", 1.0F)},
                  {"alpha", call.node.float_or("alpha", 1e-4F) / static_cast<float>(size)},
                  {"beta", call.node.float_or("beta", 0.75F)}}));
}

// --- losses ---

Values cross_entropy(const NodeCall& call) {
  const GraphValue log =
      call.helper("LogSoftmaxV2", "_log", {call.in(0)}, attributes({{"axes", List{1}}}));
  GraphBuilder::Inputs operands = {log, call.in(1)};
  if (call.has(2)) operands.emplace_back(call.in(2));
  Values y = call.make("NLLLoss", operands, node_attributes(call.node));
  y.push_back(log);
  return y;
}

// --- gates and states ---

Values swiglu(const NodeCall& call) {
  const float alpha = call.node.float_or("alpha", 1.0F);
  const GraphValue gate =
      call.helper("Swish", "_gate", {call.in(0)}, attributes({{"scale", alpha}}));
  return call.make("Mul", {gate, call.in(1)});
}

// A depthwise convolution over the state with the input behind it; the last elements are the next
// state.
Values causal_conv(const NodeCall& call) {
  const ops::Shape& x = call.shape(0);
  const ops::Shape& w = call.shape(1);
  if (x.rank() != 3 || w.rank() != 3 || w[1] != 1 || w[0] != x[1]) call.fail("operands");
  const int64_t past = w[2] - 1;
  const GraphValue zero = number(call, "_zero", 0.0F, call.in(0));
  const GraphValue state =
      call.has(3)
          ? call.in(3)
          : call.helper("Fill", "_state", {call.ints("_state_shape", {x[0], x[1], past}), zero});
  const GraphValue all = call.helper("ConcatD", "_all", {state, call.in(0)},
                                     attributes({{"concat_dim", int64_t{2}}, {"N", int64_t{2}}}));
  const auto row = [&](const char* suffix, const GraphValue& v) {
    return call.helper("Unsqueeze", suffix, {v}, attributes({{"axes", List{2}}}));
  };
  GraphBuilder::Inputs operands = {row("_row", all), row("_filter", call.in(1))};
  if (call.has(2)) operands.emplace_back(call.in(2));
  const GraphValue conv = call.helper("Conv2D", "_conv", operands,
                                      attributes({{"strides", List{1, 1, 1, 1}},
                                                  {"pads", List{0, 0, 0, 0}},
                                                  {"dilations", List{1, 1, 1, 1}},
                                                  {"groups", x[1]},
                                                  {"data_format", "NCHW"}}));
  Values y = {call.helper("Squeeze", "_line", {conv}, attributes({{"axis", List{2}}}))};
  const std::string activation = call.node.string_or("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = call.make("Swish", {y[0]}, attributes({{"scale", 1.0F}}));
  } else if (activation != "none") {
    call.fail("activation " + activation);
  }
  y.push_back(call.helper("StridedSliceV2", "_next",
                          {all, call.ints("_begin", {x[2]}), call.ints("_end", {x[2] + past}),
                           call.ints("_axis", {2})}));
  return y;
}

// Scores and probabilities pass through bodies of the node.
Values flex_attention(const NodeCall& call) {
  if (call.rank(0) != 4 || call.rank(1) != 4 || call.rank(2) != 4) call.fail("operands of rank 4");
  const ops::Shape& q = call.shape(0);
  const float fallback = 1.0F / std::sqrt(static_cast<float>(q[3]));
  const auto spread = [&](const char* suffix, size_t input) {
    const ops::Shape& s = call.shape(input);
    if (s[1] == q[1]) return call.in(input);
    if (s[1] < 1 || q[1] % s[1] != 0) call.fail("heads that do not divide");
    const std::string name(suffix);
    GraphValue v = call.helper("Unsqueeze", (name + "_group").c_str(), {call.in(input)},
                               attributes({{"axes", List{2}}}));
    v = call.helper("Expand", (name + "_spread").c_str(),
                    {v, call.ints("_wide", {s[0], s[1], q[1] / s[1], s[2], s[3]})});
    return call.helper("Reshape", suffix, {v, call.ints("_heads", {s[0], q[1], s[2], s[3]})});
  };
  const auto through = [&](const char* attribute, const GraphValue& v) {
    const onnx::Attribute* a = call.node.find(attribute);
    if (a == nullptr || !a->graph) return v;
    const Values results = call.bodies.inline_body(call, *a->graph, {v});
    if (results.size() != 1) call.fail(attribute);
    return results[0];
  };
  const AttrMap product = attributes({{"adj_x1", false}, {"adj_x2", true}});
  GraphValue score =
      call.helper("BatchMatMulV2", "_scores", {call.in(0), spread("_keys", 1)}, product);
  score = call.helper("Muls", "_scaled", {score},
                      attributes({{"value", call.node.float_or("scale", fallback)}}));
  score = through("score_mod", score);
  GraphValue probability =
      call.helper("SoftmaxV2", "_probabilities", {score}, attributes({{"axes", List{-1}}}));
  probability = through("prob_mod", probability);
  return call.make("BatchMatMulV2", {probability, spread("_values", 2)},
                   attributes({{"adj_x1", false}, {"adj_x2", false}}));
}

// --- other domains and optional values ---

Values binarizer(const NodeCall& call) {
  const GraphValue limit =
      number(call, "_limit", call.node.float_or("threshold", 0.0F), call.in(0));
  const GraphValue above = call.helper("Greater", "_above", {call.in(0), limit});
  return call.make("Cast", {above},
                   attributes({{"dst_type", static_cast<int64_t>(call.in(0).type.dtype)}}));
}

// Columns of the last axis by number.
Values feature_extractor(const NodeCall& call) {
  const GraphValue flat = call.helper("Reshape", "_flat", {call.in(1), call.ints("_list", {-1})});
  const GraphValue axis = call.graph.int_scalar(call.name + "_axis", -1);
  const GraphValue y = call.helper("GatherV2", "_columns", {call.in(0), flat, axis});
  if (call.rank(0) != 1) return {y};
  return call.make("Unsqueeze", {y}, attributes({{"axes", List{0}}}));
}

// Tensors that are there: an optional value of another kind is refused where it is made.
Values has_element(const NodeCall& call) {
  const uint8_t there = call.has(0) ? 1 : 0;
  return {call.graph.constant(call.name, {ACL_BOOL, {}}, Bytes{there})};
}

Values get_element(const NodeCall& call) { return {call.in(0)}; }

constexpr NodeRule kRules[] = {
    {"LayerNormalization", layer_norm},
    {"RMSNormalization", rms_norm},
    {"BatchNormalization", batch_norm},
    {"MeanVarianceNormalization", mean_variance},
    {"LpNormalization", lp_normalization},
    {"GlobalLpPool", global_lp_pool},
    {"LRN", local_response},
    {"SoftmaxCrossEntropyLoss", cross_entropy},
    {"SwiGLU", swiglu},
    {"CausalConvWithState", causal_conv},
    {"FlexAttention", flex_attention},
    {"Binarizer", binarizer},
    {"ArrayFeatureExtractor", feature_extractor},
    {"OptionalHasElement", has_element},
    {"OptionalGetElement", get_element},
};

}  // namespace

std::span<const NodeRule> composite_rules() { return kRules; }

}  // namespace ascendrt::model
