// Rules for convolution and pooling. Owns: pads, and how ONNX attributes become GE attributes.
// Must never: drop an attribute that changes results.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "model/convert_node.hpp"

namespace ascendrt::model {
namespace {

using Values = std::vector<GraphValue>;
using List = std::vector<int64_t>;

struct Window {
  List kernel, strides, dilations;  // one per spatial dim
  List pads;                        // [before, after] by dim
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kMost = 1 << 24;

// Refuses a list attribute with a number outside of [least, kMost].
void want_range(const NodeCall& call, const std::string& attribute, const List& values,
                int64_t least) {
  for (const int64_t v : values) {
    if (v >= least && v <= kMost) continue;
    call.fail("attribute '" + attribute + "' with " + std::to_string(v) + ", " +
              std::to_string(least) + " to " + std::to_string(kMost) + " is possible: it");
  }
}

// A list attribute of `count` numbers, each at least `fallback`.
List list_of(const NodeCall& call, std::string_view attribute, size_t count, int64_t fallback) {
  List values = call.node.ints_or(attribute, List(count, fallback));
  if (values.size() != count) {
    call.fail("attribute '" + std::string(attribute) + "' of " + std::to_string(values.size()) +
              " numbers, this input needs " + std::to_string(count) + ": it");
  }
  want_range(call, std::string(attribute), values, fallback);
  return values;
}

// SAME_*: as many outputs as ceil(in / stride); the odd pad goes to the named side.
void resolve_auto_pad(const NodeCall& call, const ops::Shape& x, Window& window) {
  const std::string mode = call.node.string_or("auto_pad", "NOTSET");
  if (mode == "NOTSET") return;
  window.pads.assign(window.pads.size(), 0);
  if (mode == "VALID") return;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") call.fail("auto_pad " + mode);
  for (size_t i = 0; i < window.kernel.size(); ++i) {
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

// Without auto_pad: that differs between convolutions and their transposes.
Window plain_window(const NodeCall& call, List kernel) {
  const size_t spatial = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  w.strides = list_of(call, "strides", spatial, 1);
  w.dilations = list_of(call, "dilations", spatial, 1);
  const List pads = list_of(call, "pads", 2 * spatial, 0);
  for (size_t i = 0; i < spatial; ++i) {
    w.pads.push_back(pads[i]);
    w.pads.push_back(pads[i + spatial]);
  }
  return w;
}

Window read_window(const NodeCall& call, List kernel) {
  Window w = plain_window(call, std::move(kernel));
  resolve_auto_pad(call, call.shape(0), w);
  return w;
}

size_t spatial_dims(const NodeCall& call) {
  const size_t rank = call.rank(0);
  if (rank < 3 || rank > 5) {
    call.fail("an input of shape " + call.shape(0).text() + "; only 1-D, 2-D and 3-D forms");
  }
  return rank - 2;
}

// 1-D forms are computed as one row of 2-D ones.
void add_row(Window& w) {
  for (List* list : {&w.kernel, &w.strides, &w.dilations}) list->insert(list->begin(), 1);
  w.pads.insert(w.pads.begin(), 2, 0);
}

GraphValue add_row(const NodeCall& call, const char* suffix, const GraphValue& x) {
  return call.helper("Unsqueeze", suffix, {x}, attributes({{"axes", List{2}}}));
}

GraphValue drop_row(const NodeCall& call, const GraphValue& y) {
  return call.helper("Squeeze", "_squeeze", {y}, attributes({{"axis", List{2}}}));
}

// [n, c, spatial...]
List with_leading_ones(const List& values) {
  List out = {1, 1};
  out.insert(out.end(), values.begin(), values.end());
  return out;
}

List filter_kernel(const NodeCall& call, size_t input) {
  const ops::Shape& filter = call.shape(input);
  if (filter.rank() != call.rank(0)) call.fail("input and filter of different ranks");
  List kernel(filter.begin() + 2, filter.end());
  const List declared = call.node.ints_or("kernel_shape", {});
  if (!declared.empty() && declared != kernel) call.fail("a kernel_shape that is not the filter's");
  return kernel;
}

AttrMap conv_attributes(const NodeCall& call, const Window& window, const char* format) {
  return attributes({{"strides", with_leading_ones(window.strides)},
                     {"pads", window.pads},
                     {"dilations", with_leading_ones(window.dilations)},
                     {"groups", call.node.int_or("group", 1)},
                     {"data_format", format}});
}

Values conv(const NodeCall& call) {
  const size_t spatial = spatial_dims(call);
  const bool flat = spatial == 1;
  Window window = read_window(call, filter_kernel(call, 1));
  if (flat) add_row(window);
  const GraphValue x = flat ? add_row(call, "_unsqueeze", call.in(0)) : call.in(0);
  const GraphValue w = flat ? add_row(call, "_filter_unsqueeze", call.in(1)) : call.in(1);
  GraphBuilder::Inputs operands = {x, w};
  if (call.has(2)) operands.emplace_back(call.in(2));
  AttrMap attrs = conv_attributes(call, window, spatial == 3 ? "NCDHW" : "NCHW");
  attrs.set("offset_x", int64_t{0});
  attrs.set("auto_pad", call.node.string_or("auto_pad", "NOTSET"));
  Values y = call.make(spatial == 3 ? "Conv3D" : "Conv2D", operands, std::move(attrs));
  return flat ? Values{drop_row(call, y[0])} : y;
}

// The dims of the result; pads follow from them where auto_pad or output_shape asks for it.
List transposed_dims(const NodeCall& call, Window& w) {
  const size_t spatial = w.kernel.size();
  const List extra = list_of(call, "output_padding", spatial, 0);
  const std::string mode = call.node.string_or("auto_pad", "NOTSET");
  List wanted = call.node.ints_or("output_shape", {});
  if (wanted.size() > spatial)
    wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(spatial));
  if (!wanted.empty() && wanted.size() != spatial) call.fail("output_shape");
  List dims = {call.shape(0)[0], call.shape(1)[1] * call.node.int_or("group", 1)};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t in = call.shape(0)[i + 2];
    const int64_t full =
        w.strides[i] * (in - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (mode == "VALID") w.pads[2 * i] = w.pads[2 * i + 1] = 0;
    if (wanted.empty() && !same) {
      dims.push_back(full - w.pads[2 * i] - w.pads[2 * i + 1]);
      continue;
    }
    dims.push_back(wanted.empty() ? in * w.strides[i] : wanted[i]);
    const int64_t total = std::max<int64_t>(0, full - dims.back());
    w.pads[2 * i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[2 * i + 1] = total - w.pads[2 * i];
  }
  return dims;
}

Values conv_transpose(const NodeCall& call) {
  const size_t spatial = spatial_dims(call);
  const bool flat = spatial == 1;
  Window window = plain_window(call, filter_kernel(call, 1));
  List dims = transposed_dims(call, window);
  if (flat) {
    add_row(window);
    dims.insert(dims.begin() + 2, 1);
  }
  const GraphValue x = flat ? add_row(call, "_unsqueeze", call.in(0)) : call.in(0);
  const GraphValue w = flat ? add_row(call, "_filter_unsqueeze", call.in(1)) : call.in(1);
  GraphBuilder::Inputs operands = {call.ints("_input_size", dims), x, w};
  if (call.has(2)) operands.emplace_back(call.in(2));
  const bool deep = spatial == 3;
  Values y = call.make(deep ? "Conv3DTranspose" : "Conv2DTranspose", operands,
                       conv_attributes(call, window, deep ? "NCDHW" : "NCHW"));
  return flat ? Values{drop_row(call, y[0])} : y;
}

Values deform_conv(const NodeCall& call) {
  const Window window = read_window(call, filter_kernel(call, 1));
  AttrMap attrs = conv_attributes(call, window, "NCHW");
  attrs.set("offset_group", call.node.int_or("offset_group", 1));
  return call.make("DeformConv", call.inputs, std::move(attrs));
}

Values conv_integer(const NodeCall& call) {
  const Window window = read_window(call, filter_kernel(call, 1));
  return call.make("ConvInteger", call.inputs, conv_attributes(call, window, "NCHW"));
}

// The attributes of a quantised convolution, when all its scales are known and of one value but for
// the filter's, and its filter needs no zero point.
std::optional<AttrMap> quantized_attributes(const NodeCall& call, const Window& window) {
  AttrMap attrs = conv_attributes(call, window, "NCHW");
  const auto bytes = [](const GraphValue& v) {
    return v.type.dtype == ACL_INT8 || v.type.dtype == ACL_UINT8;
  };
  for (const auto& [name, scale] : {std::pair<const char*, size_t>{"x", 1}, {"y", 6}}) {
    const GraphValue& zero = call.in(scale + 1);
    const GraphValue& real = call.in(scale);
    if (!real.is_constant() || !zero.is_constant() || real.type.shape.elements() != 1 ||
        zero.type.shape.elements() != 1 || real.type.dtype != ACL_FLOAT || !bytes(zero)) {
      return {};
    }
    float value = 0.0F;
    std::memcpy(&value, real.constant->data(), sizeof(value));
    const uint8_t raw = (*zero.constant)[0];
    if (!std::isnormal(value) || value < 0) return {};
    attrs.set(std::string(name) + "_scale", value);
    attrs.set(std::string(name) + "_zero_point",
              zero.type.dtype == ACL_INT8 ? int64_t{static_cast<int8_t>(raw)} : int64_t{raw});
  }
  const GraphValue& zeros = call.in(5);
  const bool plain = call.in(3).is_constant() && call.in(3).type.dtype == ACL_INT8 &&
                     call.in(4).is_constant() && zeros.is_constant() &&
                     std::all_of(zeros.constant->begin(), zeros.constant->end(),
                                 [](uint8_t zero) { return zero == 0; });
  if (!plain || !bytes(call.in(0))) return {};
  if (call.has(8) && !call.in(8).is_constant()) return {};
  attrs.set("dst_type", int64_t{call.in(7).type.dtype});
  return attrs;
}

// One operator for the whole; nothing for what it cannot take, such as groups that straddle blocks.
std::optional<Values> merged_qlinear_conv(const NodeCall& call, const Window& window) {
  const auto attrs = quantized_attributes(call, window);
  if (!attrs) return std::nullopt;
  try {
    const std::optional<GraphValue> bias = call.has(8) ? std::optional(call.in(8)) : std::nullopt;
    return call.make("QuantizedConv2D", {call.in(0), call.in(3), bias, call.in(4)}, *attrs);
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

// QLinearConv(x, scale, zero, w, scale, zero, y scale, y zero, bias): exact integer sums, plus the
// bias, scaled to the type of the result.
Values qlinear_conv(const NodeCall& call) {
  const Window window = read_window(call, filter_kernel(call, 3));
  if (auto merged = merged_qlinear_conv(call, window)) return *std::move(merged);
  GraphValue sums =
      call.helper("ConvInteger", "_sums", {call.in(0), call.in(3), call.in(2), call.in(5)},
                  conv_attributes(call, window, "NCHW"));
  const List per_output = {-1, 1, 1};
  const auto column = [&](const char* suffix, const GraphValue& x) {
    return call.helper("Reshape", suffix, {x, call.ints("_column", per_output)});
  };
  if (call.has(8)) sums = call.helper("Add", "_bias", {sums, column("_bias_column", call.in(8))});
  const AttrMap to_float = attributes({{"dst_type", int64_t{ACL_FLOAT}}});
  GraphValue y = call.helper("Cast", "_float", {sums}, to_float);
  y = call.helper("Mul", "_x_scale", {y, call.in(1)});
  y = call.helper("Mul", "_w_scale", {y, column("_w_scale_column", call.in(4))});
  return call.make("QuantizeLinear", {y, call.in(6), call.in(7)});
}

Values col2im(const NodeCall& call) {
  if (!call.in(1).is_constant()) {  // the number of dims must be known for the defaults
    if (call.open(1) || call.rank(1) != 1) call.fail("image_shape");
  }
  const auto spatial = static_cast<size_t>(call.shape(1)[0]);
  const Window w = plain_window(call, List(spatial, 1));
  return call.make(
      "Col2ImV2", {call.in(0), call.in(1), call.in(2)},
      attributes({{"strides", w.strides}, {"pads", w.pads}, {"dilations", w.dilations}}));
}

// --- pooling ---

Window pool_window(const NodeCall& call) {
  const List kernel = call.node.ints_or("kernel_shape", {});
  if (kernel.size() != spatial_dims(call)) {
    call.fail("attribute 'kernel_shape' of " + std::to_string(kernel.size()) +
              " numbers, an input of shape " + call.shape(0).text() + " needs " +
              std::to_string(spatial_dims(call)) + ": it");
  }
  want_range(call, "kernel_shape", kernel, 1);
  Window window = read_window(call, kernel);
  for (size_t i = 0; i < window.pads.size(); ++i) {
    const int64_t reach = window.dilations[i / 2] * (window.kernel[i / 2] - 1) + 1;
    if (window.pads[i] < reach) continue;
    call.fail("pads with " + std::to_string(window.pads[i]) + ", as wide as the kernel's " +
              std::to_string(reach) + ",");
  }
  return window;
}

Values pool(const NodeCall& call, const char* type, AttrMap extra) {
  Window window = pool_window(call);
  const bool flat = window.kernel.size() == 1;
  if (flat) add_row(window);
  const GraphValue x = flat ? add_row(call, "_unsqueeze", call.in(0)) : call.in(0);
  AttrMap attrs = attributes({{"ksize", with_leading_ones(window.kernel)},
                              {"strides", with_leading_ones(window.strides)},
                              {"padding_mode", "CALCULATED"},
                              {"pads", window.pads},
                              {"dilation", with_leading_ones(window.dilations)},
                              {"data_format", window.kernel.size() == 3 ? "NCDHW" : "NCHW"},
                              {"global_pooling", false},
                              {"ceil_mode", call.node.int_or("ceil_mode", 0) != 0}});
  for (const Attr& attr : extra.items()) attrs.set(attr.name, attr.value);
  Values y = call.make(type, {x}, std::move(attrs));
  if (!flat) return y;
  for (GraphValue& value : y) value = drop_row(call, value);
  return y;
}

Values max_pool(const NodeCall& call) {
  const int32_t dtype = call.in(0).type.dtype;
  const bool floats = dtype == kFloat || dtype == kFloat16 || dtype == kBfloat16;
  if (call.wants_output(1) || !floats) {
    return pool(call, "MaxPoolWithIndices",
                attributes({{"storage_order", call.node.int_or("storage_order", 0)}}));
  }
  return pool(call, spatial_dims(call) == 3 ? "MaxPool3D" : "MaxPoolV3", {});
}

Values average_pool(const NodeCall& call) {
  const bool counts = call.node.int_or("count_include_pad", 0) != 0;
  if (spatial_dims(call) == 3) {
    return pool(call, "AvgPool3D", attributes({{"count_include_pad", counts}}));
  }
  return pool(call, "AvgPoolV2", attributes({{"exclusive", !counts}}));
}

Values lp_pool(const NodeCall& call) {
  return pool(call, "LpPool", attributes({{"p", call.node.int_or("p", 2)}}));
}

Values max_unpool(const NodeCall& call) {
  const Window w = plain_window(call, call.node.ints_or("kernel_shape", {}));
  return call.make("MaxUnpool", call.inputs,
                   attributes({{"ksize", w.kernel}, {"strides", w.strides}, {"pads", w.pads}}));
}

constexpr NodeRule kRules[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"DeformConv", deform_conv},
    {"ConvInteger", conv_integer},
    {"QLinearConv", qlinear_conv},
    {"Col2Im", col2im},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"LpPool", lp_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const NodeRule> window_rules() { return kRules; }

}  // namespace ascendrt::model
