// Convolutions and pooling of compiled graphs. Owns: what the shapes tell of strides and pads that
// the compiler dropped. Must never: take one of several answers.
//
// Note [Lost windows]: an op that was merged with others keeps its filter and its shapes, not its
// strides, pads and dilations (newer files list dilations of 1 whatever they were). Frameworks pad
// in few ways: ONNX exporters alike on both sides and by no more than half the kernel, TensorFlow
// by its rules SAME and VALID. Under that rule, with a dilation of 1, the sizes often leave one
// answer; it is taken and told. A dilation shows in no shape, so this stays an inference.
#include <algorithm>

#include "model/vendor_call.hpp"

namespace ascendrt::model {
namespace {

enum class Padding : uint8_t { kAlike, kTensorFlow };

Padding padding_of(const VendorCall& call) {
  const std::string framework = call.model.attrs.string_or("framework_type", "");
  if (framework == "TensorFlow") return Padding::kTensorFlow;
  if (!framework.empty()) return Padding::kAlike;
  return call.out_desc().origin_format() == kNhwc ? Padding::kTensorFlow : Padding::kAlike;
}

// One axis of a window over `in` elements that gives `out`.
struct Axis {
  int64_t stride, before, after;
  bool operator==(const Axis&) const = default;
};

void add(std::vector<Axis>& found, Axis axis, int64_t out) {
  if (out == 1) axis.stride = 1;  // nothing to step to
  if (std::find(found.begin(), found.end(), axis) == found.end()) found.push_back(axis);
}

std::vector<Axis> answers(Padding padding, int64_t in, int64_t kernel, int64_t out) {
  std::vector<Axis> found;
  constexpr int64_t kMost = 1 << 20;  // keeps the search short, whatever a file says
  if (in < 1 || out < 1 || kernel < 1 || in > kMost || out > kMost || kernel > 1024) return found;
  for (int64_t stride = 1; stride <= std::min<int64_t>(in, 64); ++stride) {
    if (padding == Padding::kAlike) {
      for (int64_t pad = 0; pad <= kernel / 2; ++pad) {
        const int64_t room = in + 2 * pad - kernel;
        if (room >= 0 && room / stride + 1 == out) add(found, {stride, pad, pad}, out);
      }
      continue;
    }
    if (in >= kernel && (in - kernel) / stride + 1 == out) add(found, {stride, 0, 0}, out);
    if ((in + stride - 1) / stride == out) {
      const int64_t total = std::max<int64_t>((out - 1) * stride + kernel - in, 0);
      add(found, {stride, total / 2, total - total / 2}, out);
    }
  }
  return found;
}

std::string text(const Dims& dims) {
  std::string out;
  for (const int64_t dim : dims) out += (out.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + out + "]";
}

struct Window {
  Dims strides{1, 1, 1, 1}, pads{0, 0, 0, 0}, dilations{1, 1, 1, 1};
};

// x and y are the larger and the smaller side of a convolution, w its filter.
Window infer_window(const VendorCall& call, const ops::Shape& x, const ops::Shape& w,
                    const ops::Shape& y) {
  const Padding padding = padding_of(call);
  std::vector<std::pair<Axis, Axis>> found;
  for (const Axis& h : answers(padding, x[2], w[2], y[2])) {
    for (const Axis& v : answers(padding, x[3], w[3], y[3])) found.emplace_back(h, v);
  }
  if (found.size() > 1) {  // square steps are the rule
    std::erase_if(found, [](const auto& pair) { return pair.first.stride != pair.second.stride; });
  }
  const std::string shapes = "shapes " + x.text() + " to " + y.text() + " with a kernel of " +
                             std::to_string(w[2]) + "x" + std::to_string(w[3]);
  if (found.size() != 1) {
    call.fail("its strides and pads are not in the file, and " + shapes + " leave " +
              std::to_string(found.size()) + " answers");
  }
  const auto& [h, v] = found[0];
  Window window;
  window.strides = {1, 1, h.stride, v.stride};
  window.pads = {h.before, h.after, v.before, v.after};
  std::string what =
      "strides " + text({h.stride, v.stride}) + " and pads " + text(window.pads) + " by " + shapes;
  if (w[2] > 1 || w[3] > 1) what += ", a dilation of 1 assumed (shapes do not tell dilations)";
  call.infer(what);
  return window;
}

Window window_of(const VendorCall& call, const ops::Shape& x, const ops::Shape& w,
                 const ops::Shape& y) {
  if (call.op.attrs.get_ints("strides") == nullptr) return infer_window(call, x, w, y);
  Window window;
  window.strides = call.four("strides");
  window.pads = call.op.attrs.ints_or("pads", {});
  if (window.pads.size() != 4) call.fail("attribute pads is not in the file");
  if (call.op.attrs.get_ints("dilations") != nullptr) window.dilations = call.four("dilations");
  return window;
}

AttrMap window_attrs(const Window& window, int64_t groups) {
  AttrMap attrs;
  attrs.set("strides", window.strides);
  attrs.set("pads", window.pads);
  attrs.set("dilations", window.dilations);
  attrs.set("groups", groups);
  attrs.set("data_format", "NCHW");
  return attrs;
}

// Filters in blocks of 16 by 16 are only known without groups.
int64_t groups_of(const VendorCall& call, int64_t channels, int64_t per_group, size_t filter) {
  const int64_t groups = per_group < 1 ? 0 : channels / per_group;
  if (groups < 1 || groups * per_group != channels) {
    call.fail("a filter for " + std::to_string(per_group) + " channels does not fit " +
              std::to_string(channels));
  }
  if (groups > 1 && !is_plain_format(call.in_desc(filter).format)) {
    call.fail("the layout of a filter in " + std::to_string(groups) + " groups is not known");
  }
  return groups;
}

GraphBuilder::Inputs with_bias(const VendorCall& call, GraphBuilder::Inputs operands,
                               std::optional<size_t> bias) {
  if (bias && call.has(*bias)) {
    const GraphValue b = call.as_result(call.in(*bias));
    operands.emplace_back(call.layouts.reshape(b, {b.type.shape.elements()}));
  }
  return operands;
}

void want_four(const VendorCall& call, std::initializer_list<const GraphValue*> values) {
  for (const GraphValue* value : values) {
    if (value->type.shape.rank() != 4) {
      call.fail("a tensor of " + value->type.shape.text() + " in a 2-D window");
    }
  }
}

ops::Shape result_shape(const VendorCall& call) {
  const TensorDesc& desc = call.out_desc();
  ops::Shape y = to_shape(desc.origin_dims());
  if (y.rank() != 4) call.fail("a result of " + y.text());
  const std::string_view letters = axis_letters(desc.origin_format());
  if (letters.size() != 4) return y;
  ops::Shape out;
  for (const char axis : std::string_view("NCHW")) out.push_back(y[letters.find(axis)]);
  return out;
}

// --- pooling ---

// TensorFlow's names of padding; explicit pads otherwise.
Dims pool_pads(const VendorCall& call, const ops::Shape& x, const Dims& kernel,
               const Dims& strides) {
  const AttrMap& attrs = call.op.attrs;
  const std::string mode =
      attrs.string_or("padding_mode", attrs.string_or("padding", "CALCULATED"));
  if (mode == "VALID") return {0, 0, 0, 0};
  if (mode != "SAME") {
    const Dims pads = attrs.ints_or("pads", {});
    if (pads.size() != 4) call.fail("attribute pads is not in the file");
    return pads;
  }
  Dims pads;
  for (const size_t axis : {2U, 3U}) {
    if (strides[axis] < 1) call.fail("attribute strides");
    const int64_t out = (x[axis] + strides[axis] - 1) / strides[axis];
    const int64_t total = std::max<int64_t>((out - 1) * strides[axis] + kernel[axis] - x[axis], 0);
    pads.push_back(total / 2);
    pads.push_back(total - total / 2);
  }
  return pads;
}

std::vector<GraphValue> pool(const VendorCall& call) {
  const GraphValue x = call.nchw(0);
  want_four(call, {&x});
  const bool average = call.op.type.starts_with("Avg");
  AttrMap attrs = call.op.attrs;
  const bool global = attrs.get_bool("global_pooling").value_or(false);
  const Dims kernel = global ? Dims{1, 1, x.type.shape[2], x.type.shape[3]} : call.four("ksize");
  const Dims strides = global ? Dims{1, 1, 1, 1} : call.four("strides");
  attrs.set("pads", global ? Dims(4, 0) : pool_pads(call, x.type.shape, kernel, strides));
  attrs.set("ksize", kernel);
  attrs.set("strides", strides);
  attrs.set("padding_mode", "CALCULATED");
  attrs.set("global_pooling", false);
  attrs.set("data_format", "NCHW");
  return {call.from_nchw(call.make(average ? "AvgPoolV2" : "MaxPoolV3", {x}, std::move(attrs)))};
}

std::optional<size_t> bias_at(size_t i) { return i; }

std::vector<GraphValue> convolution(const VendorCall& call) {
  if (call.has(3)) call.fail("offset_w is not computed");
  return {make_convolution(call, 0, 1, bias_at(2))};
}

std::vector<GraphValue> transposed(const VendorCall& call) {
  if (call.has(3)) call.fail("offset_w is not computed");
  return {make_transposed(call, 0, 1, bias_at(2))};
}

std::vector<GraphValue> backprop(const VendorCall& call) {
  return {make_transposed(call, 1, 0, std::nullopt)};
}

constexpr VendorRule kRules[] = {
    {"Conv2D", convolution},
    {"Conv2DTransposeD", transposed},
    {"Conv2DBackpropInputD", backprop},
    {"MaxPoolV3", pool},
    {"MaxPool", pool},
    {"AvgPoolV2", pool},
    {"AvgPool", pool},
};

}  // namespace

GraphValue make_convolution(const VendorCall& call, size_t x_at, size_t filter_at,
                            std::optional<size_t> bias) {
  const GraphValue x = call.as_result(call.nchw(x_at));
  const GraphValue w = call.as_result(call.nchw(filter_at));
  want_four(call, {&x, &w});
  const int64_t groups = groups_of(call, x.type.shape[1], w.type.shape[1], filter_at);
  const Window window = window_of(call, x.type.shape, w.type.shape, result_shape(call));
  return call.from_nchw(
      call.make("Conv2D", with_bias(call, {x, w}, bias), window_attrs(window, groups)));
}

GraphValue make_transposed(const VendorCall& call, size_t x_at, size_t filter_at,
                           std::optional<size_t> bias) {
  const GraphValue x = call.as_result(call.nchw(x_at));
  const GraphValue w = call.as_result(call.nchw(filter_at));
  want_four(call, {&x, &w});
  const ops::Shape y = result_shape(call);
  const int64_t groups = groups_of(call, y[1], w.type.shape[1], filter_at);
  const Window window = window_of(call, y, w.type.shape, x.type.shape);
  const GraphValue size = call.graph.int_list(call.op.name + "_size", to_dims(y));
  return call.from_nchw(call.make("Conv2DTranspose", with_bias(call, {size, x, w}, bias),
                                  window_attrs(window, groups)));
}

std::span<const VendorRule> vendor_window_rules() { return kRules; }

}  // namespace ascendrt::model
