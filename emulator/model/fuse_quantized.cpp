// Owns: recognising operators between DequantizeLinear and QuantizeLinear and the integers they
// become. Must never: merge what integers cannot express; that stays as it is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "model/convert_graph.hpp"
#include "model/fuse.hpp"
#include "model/fuse_graph.hpp"
#include "model/op_set_quantized.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

using Index = FusionGraph::Index;
constexpr Index kNone = FusionGraph::kNone;

// real = (integer - zero) * scale
struct Scale {
  float scale = 0.0F;
  int64_t zero = 0;
  int32_t dtype = kUndefined;
  bool operator==(const Scale&) const = default;
  int64_t least() const { return dtype == kInt8 ? -128 : 0; }
  int64_t most() const { return least() + 255; }
  int64_t quantized(float value) const {
    const float v = std::nearbyint(value / scale) + static_cast<float>(zero);
    return static_cast<int64_t>(
        std::clamp(v, static_cast<float>(least()), static_cast<float>(most())));
  }
};

struct Bounds {
  int64_t low, high;
};

template <class T>
Tensor list_tensor(int32_t dtype, const Dims& dims, const std::vector<T>& values) {
  Tensor tensor;
  tensor.desc = describe({static_cast<aclDataType>(dtype), to_shape(dims)});
  tensor.data.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

template <class T>
std::vector<T> values_of(const Tensor& tensor, aclDataType dtype) {
  const ops::Shape shape = to_shape(tensor.desc.dims);
  std::vector<T> out(static_cast<size_t>(shape.elements()));
  ops::cast({const_cast<uint8_t*>(tensor.data.data()), static_cast<aclDataType>(tensor.desc.dtype),
             shape},
            {out.data(), dtype, shape}, {});
  return out;
}
std::vector<float> floats(const Tensor& t) { return values_of<float>(t, ACL_FLOAT); }
std::vector<int32_t> ints(const Tensor& t) { return values_of<int32_t>(t, ACL_INT32); }

// Constant weights of a layer as integers, [outputs][the rest].
struct Filter {
  std::vector<int8_t> values;
  std::vector<float> scales;  // one, or one per output
};

class QuantizedPattern {
 public:
  explicit QuantizedPattern(FusionGraph& graph) : g_(graph) {}

  void find_all() {
    const size_t count = g_.size();
    for (Index i = 0; i < count; ++i) {
      if (g_.alive(i) && g_.op(i).type == "QuantizeLinear") match(i);
    }
  }

 private:
  // Of a QuantizeLinear or DequantizeLinear between float32 and bytes with one scale.
  std::optional<Scale> scale_of(Index i) const {
    const Op& op = g_.op(i);
    const bool makes = op.type == "QuantizeLinear";
    const TensorDesc& bytes = makes ? op.output_descs[0] : op.input_descs[0];
    const TensorDesc& real = makes ? op.input_descs[0] : op.output_descs[0];
    if (real.dtype != kFloat || (bytes.dtype != kInt8 && bytes.dtype != kUint8)) return {};
    if (!FusionGraph::is_known(bytes.dims)) return {};
    const auto scale = g_.constant_float(i, 1);
    const Tensor* zero = g_.constant(i, 2);
    const bool has_zero = op.inputs.size() > 2 && !op.inputs[2].empty();
    if (!scale || !std::isnormal(*scale) || *scale < 0 || has_zero != (zero != nullptr)) return {};
    if (zero != nullptr && (zero->desc.dtype != bytes.dtype || zero->data.size() != 1)) return {};
    return Scale{*scale, zero == nullptr ? 0 : ints(*zero)[0], bytes.dtype};
  }

  // The DequantizeLinear that makes an operand.
  Index source(Index i, size_t input) const {
    const Index from = g_.producer(i, input);
    const bool fits = from != kNone && g_.op(from).type == "DequantizeLinear" && scale_of(from);
    return fits ? from : kNone;
  }

  bool ends_at(Index i, Index reader) const { return i != kNone && g_.only_reader(i) == reader; }

  void match(Index last) {
    const auto y = scale_of(last);
    if (!y || !g_.op(last).attrs.get_bool("saturate").value_or(true)) return;
    last_ = last;
    y_ = *y;
    bounds_ = {y_.least(), y_.most()};
    parts_ = {last};
    Index at = g_.producer(last, 0);
    if (!ends_at(at, last)) return;
    if (take_clamp(at)) {
      const Index before = g_.producer(at, 0);
      if (!ends_at(before, at)) return;
      at = before;
    }
    parts_.push_back(at);
    const std::string& type = g_.op(at).type;
    if (type == "Conv2D") return match_conv(at);
    if (type == "MatMulV2" || type == "BatchMatMulV2") return match_product(at, kNone);
    if (type == "Add") return match_add(at);
    if (parts_.size() > 2) return;
    if (type == "GlobalAveragePool") return match_average(at);
    match_mover(at);
  }

  // A clamp in front of the rounding bounds the integers instead.
  bool take_clamp(Index i) {
    const Op& op = g_.op(i);
    if (op.type == "Relu" || op.type == "Relu6") {
      bounds_.low = y_.quantized(0.0F);
      if (op.type == "Relu6") bounds_.high = y_.quantized(6.0F);
    } else if (op.type == "ClipByValue") {
      const auto low = g_.constant_float(i, 1);
      const auto high = g_.constant_float(i, 2);
      if (!low || !high || !(*low <= *high)) return false;
      bounds_ = {y_.quantized(*low), y_.quantized(*high)};
    } else {
      return false;
    }
    parts_.push_back(i);
    return true;
  }

  // --- layers with weights ---

  const std::vector<Tensor>* integers_of(Index i, size_t input) const {
    const Index from = g_.producer(i, input);
    const AttrValue* list = from == kNone ? nullptr : g_.op(from).attrs.find(kDequantizedFrom);
    return list == nullptr ? nullptr : list->as<std::vector<Tensor>>();
  }

  // Weights less their zero points; nullopt when they have no integers, or not of 8 bits.
  // axis: the one of outputs.
  std::optional<Filter> filter_of(Index i, size_t input, int64_t axis) const {
    const auto* parts = integers_of(i, input);
    if (parts == nullptr || parts->size() < 2) return {};
    const TensorDesc& desc = (*parts)[0].desc;
    if (desc.dtype != kInt8 && desc.dtype != kUint8) return {};
    Filter filter;
    filter.scales = floats((*parts)[1]);
    const std::vector<int32_t> raw = ints((*parts)[0]);
    const auto zeros = parts->size() > 2 ? ints((*parts)[2]) : std::vector<int32_t>{0};
    const int64_t own = g_.op(g_.producer(i, input)).attrs.int_or(kDequantizedAxis, 1);
    const auto rank = static_cast<int64_t>(desc.dims.size());
    const auto outputs = static_cast<size_t>(desc.dims[static_cast<size_t>(axis)]);
    for (const size_t many : {filter.scales.size(), zeros.size()}) {
      if (many != 1 && (many != outputs || (own < 0 ? own + rank : own) != axis)) return {};
    }
    size_t inner = 1;
    for (int64_t d = axis + 1; d < rank; ++d) {
      inner *= static_cast<size_t>(desc.dims[static_cast<size_t>(d)]);
    }
    for (size_t k = 0; k < raw.size(); ++k) {
      const int32_t v = raw[k] - zeros[zeros.size() == 1 ? 0 : k / inner % outputs];
      if (v < -128 || v > 127) return {};
      filter.values.push_back(static_cast<int8_t>(v));
    }
    const auto fine = [](float s) { return std::isnormal(s) && s > 0; };
    if (!std::all_of(filter.scales.begin(), filter.scales.end(), fine)) return {};
    return filter;
  }

  // The bias in units of the products: its own integers when they are in that unit.
  std::optional<std::vector<int32_t>> bias_of(Index i, size_t input, const Scale& x,
                                              const Filter& filter, size_t outputs) const {
    const Tensor* real = g_.constant(i, input);
    if (real == nullptr || real->desc.dtype != kFloat) return {};
    const std::vector<float> values = floats(*real);
    if (values.size() != outputs) return {};
    const auto* parts = integers_of(i, input);
    const bool stored = parts != nullptr && (*parts)[0].desc.dtype == kInt32;
    const auto own = stored ? ints((*parts)[0]) : std::vector<int32_t>{};
    std::vector<int32_t> out;
    for (size_t o = 0; o < outputs; ++o) {
      const double unit =
          static_cast<double>(x.scale) * filter.scales[filter.scales.size() == 1 ? 0 : o];
      const double v = std::nearbyint(values[o] / unit);
      if (!(std::fabs(v) < 2147483520.0)) return {};
      const bool same = stored && std::fabs(own[o] * unit - values[o]) <=
                                      1e-5 * unit + 1e-6 * std::fabs(values[o]);
      out.push_back(same ? own[o] : static_cast<int32_t>(v));
    }
    return out;
  }

  void match_conv(Index conv) {
    const Index from = source(conv, 0);
    const Op& before = g_.op(conv);
    if (from == kNone || before.attrs.string_or("data_format", "NCHW") != "NCHW") return;
    const auto filter = filter_of(conv, 1, 0);
    if (!filter || before.input_descs[1].dims.size() != 4) return;
    const auto outputs = static_cast<size_t>(before.input_descs[1].dims[0]);
    const bool biased = before.inputs.size() > 2 && !before.inputs[2].empty();
    std::optional<std::vector<int32_t>> bias;
    if (biased) {
      bias = bias_of(conv, 2, *scale_of(from), *filter, outputs);
      if (!bias) return;
    }
    Op op;
    op.type = kQuantizedConv;
    op.attrs = before.attrs;
    add_layer(std::move(op), conv, from, *filter, before.input_descs[1].dims, bias);
  }

  // A matrix product, with the vector that `add` adds to its rows.
  void match_product(Index product, Index add) {
    const Op& before = g_.op(product);
    const bool batched = before.type == "BatchMatMulV2";
    const auto flag = [&](const char* one, const char* other) {
      return before.attrs.get_bool(batched ? other : one).value_or(false);
    };
    const Index from = source(product, 0);
    if (from == kNone || before.inputs.size() != 2 || flag("transpose_x1", "adj_x1") ||
        before.input_descs[1].dims.size() != 2 || before.input_descs[0].dims.size() < 2) {
      return;
    }
    const bool turned = flag("transpose_x2", "adj_x2");
    auto filter = filter_of(product, 1, turned ? 0 : 1);
    if (!filter) return;
    Dims dims = before.input_descs[1].dims;
    if (!turned) {
      transpose(filter->values, dims);
      std::swap(dims[0], dims[1]);
    }
    std::optional<std::vector<int32_t>> bias;
    if (add != kNone) {
      const size_t side = g_.producer(add, 0) == product ? 1 : 0;
      const Dims& added = g_.op(add).input_descs[side].dims;
      if (added.empty() || added.back() != dims[0]) return;
      bias = bias_of(add, side, *scale_of(from), *filter, static_cast<size_t>(dims[0]));
      if (!bias || g_.op(add).output_descs[0].dims != before.output_descs[0].dims) return;
      parts_.push_back(product);
    }
    Op op;
    op.type = kQuantizedMatMul;
    add_layer(std::move(op), product, from, *filter, dims, bias);
  }

  static void transpose(std::vector<int8_t>& values, const Dims& dims) {
    const std::vector<int8_t> before = values;
    const auto rows = static_cast<size_t>(dims[0]);
    const auto columns = static_cast<size_t>(dims[1]);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) values[c * rows + r] = before[r * columns + c];
    }
  }

  void add_layer(Op op, Index layer, Index from, const Filter& filter, const Dims& dims,
                 const std::optional<std::vector<int32_t>>& bias) {
    const std::string name = g_.op(layer).name;
    set_scale(op, "x", *scale_of(from));
    set_result(op);
    const auto input = [&](const char* suffix, Tensor tensor) {
      op.input_descs.push_back(tensor.desc);
      op.inputs.push_back(g_.add_constant(name + suffix, std::move(tensor)));
    };
    op.inputs = {g_.op(from).inputs[0]};
    op.input_descs = {g_.op(from).input_descs[0]};
    const auto many = static_cast<int64_t>(filter.scales.size());
    if (!fits(op, dims, bias.has_value())) return;
    input("_filter", list_tensor(kInt8, dims, filter.values));
    if (bias) {
      input("_bias", list_tensor(kInt32, {dims[0]}, *bias));
    } else {
      op.inputs.emplace_back();
      op.input_descs.emplace_back();
    }
    input("_filter_scale", list_tensor(kFloat, {many}, filter.scales));
    finish(std::move(op), name, {from});
  }

  // Whether the operator takes such operands, before constants are added for it.
  bool fits(const Op& op, const Dims& dims, bool biased) const {
    Op trial = op;
    trial.inputs.resize(4, "x:0");
    const aclDataType type = ACL_FLOAT;
    OpView view{trial, {}, {}};
    view.inputs.push_back({tensor_type(op.input_descs[0]), true, false, {}});
    view.inputs.push_back({{ACL_INT8, to_shape(dims)}, true, false, {}});
    view.inputs.push_back({{ACL_INT32, {dims[0]}}, biased, false, {}});
    view.inputs.push_back({{type, {1}}, true, false, {}});
    try {
      return infer_op(*find_op_type(op.type), view)[0].shape ==
             to_shape(g_.op(last_).output_descs[0].dims);
    } catch (const base::Error&) {
      return false;
    }
  }

  // --- sums ---

  void match_add(Index add) {
    const Op& op = g_.op(add);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Index from = g_.producer(add, side);
      const bool product =
          from != kNone && (g_.op(from).type == "MatMulV2" || g_.op(from).type == "BatchMatMulV2");
      if (product && ends_at(from, add) && g_.is_constant(add, 1 - side)) {
        return match_product(from, add);
      }
    }
    const Index sources[] = {source(add, 0), source(add, 1)};
    if (sources[0] == kNone || sources[1] == kNone) return;
    if (op.input_descs[0].dims != op.input_descs[1].dims) return;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (sources[0] != sources[1] && join_layer(add, sources[side], sources[1 - side])) return;
    }
    Op sum;
    sum.type = kQuantizedAdd;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      set_scale(sum, side == 0 ? "a" : "b", *scale_of(sources[side]));
      sum.inputs.push_back(g_.op(sources[side]).inputs[0]);
      sum.input_descs.push_back(g_.op(sources[side]).input_descs[0]);
    }
    set_result(sum);
    finish(std::move(sum), op.name, {sources[0], sources[1]});
  }

  // The addition as part of the convolution that only it reads.
  bool join_layer(Index add, Index own, Index other) {
    const Index conv = g_.producer(own, 0);
    if (conv == kNone || g_.op(conv).type != kQuantizedConv || !ends_at(conv, own) ||
        !ends_at(own, add) || g_.op(conv).inputs.size() > kAddendInput) {
      return false;
    }
    Op op = g_.op(conv);
    const Scale sum = *scale_of(own);
    if (op.attrs.int_or("y_zero_point", 0) != sum.zero ||
        op.attrs.float_or("y_scale", 0.0F) != sum.scale) {
      return false;
    }
    set_scale(op, "sum", sum);
    op.attrs.set("sum_type", int64_t{sum.dtype});
    op.attrs.set("sum_low", op.attrs.int_or("low", sum.least()));
    op.attrs.set("sum_high", op.attrs.int_or("high", sum.most()));
    set_scale(op, "addend", *scale_of(other));
    set_result(op);
    op.inputs.push_back(g_.op(other).inputs[0]);
    op.input_descs.push_back(g_.op(other).input_descs[0]);
    parts_.insert(parts_.end(), {own, conv});
    const std::string name = op.name;
    finish(std::move(op), name, {other});
    return true;
  }

  // --- what has no weights ---

  void match_average(Index pool) {
    const Index from = source(pool, 0);
    if (from == kNone || g_.op(pool).input_descs[0].dims.size() != 4) return;
    Op op;
    op.type = kQuantizedAverage;
    set_scale(op, "x", *scale_of(from));
    set_result(op);
    op.inputs = {g_.op(from).inputs[0]};
    op.input_descs = {g_.op(from).input_descs[0]};
    finish(std::move(op), g_.op(pool).name, {from});
  }

  // Values that only move, between equal scales: integers move as well.
  void match_mover(Index i) {
    Op op = g_.op(i);
    constexpr std::string_view kMovers[] = {"Flatten",   "Reshape",   "Squeeze", "Unsqueeze",
                                            "Transpose", "MaxPoolV3", "ConcatD"};
    if (std::find(std::begin(kMovers), std::end(kMovers), op.type) == std::end(kMovers)) return;
    const bool many = op.type == "ConcatD";
    std::vector<Index> sources;
    for (size_t k = 0; k < (many ? op.inputs.size() : 1); ++k) {
      const Index from = source(i, k);
      if (from == kNone || *scale_of(from) != y_) return;
      sources.push_back(from);
      op.inputs[k] = g_.op(from).inputs[0];
      op.input_descs[k] = g_.op(from).input_descs[0];
    }
    if (op.type == "MaxPoolV3") {
      if (op.input_descs[0].dims.size() != 4) return;
      op.type = kQuantizedMaxPool;
    }
    const std::string name = op.name;
    finish(std::move(op), name, sources);
  }

  // --- the merged op ---

  static void set_scale(Op& op, const std::string& name, const Scale& scale) {
    op.attrs.set(name + "_scale", scale.scale);
    op.attrs.set(name + "_zero_point", scale.zero);
  }

  void set_result(Op& op) const {
    set_scale(op, "y", y_);
    op.attrs.set("dst_type", int64_t{y_.dtype});
    op.attrs.set("low", bounds_.low);
    op.attrs.set("high", bounds_.high);
  }

  // `passed`: operators that go when nobody else reads them.
  void finish(Op op, const std::string& name, const std::vector<Index>& passed) {
    op.name = name;
    op.output_descs = g_.op(last_).output_descs;
    if (!g_.closed(parts_, last_)) return;
    g_.add_unread(parts_, passed);
    g_.replace(parts_, last_, std::move(op));
  }

  FusionGraph& g_;
  Index last_ = kNone;
  Scale y_;
  Bounds bounds_{};
  std::vector<Index> parts_;
};

}  // namespace

void fuse_quantized(Graph& graph, bool merges) {
  if (merges) {
    FusionGraph view(graph);
    QuantizedPattern(view).find_all();
    view.finish();
  }
  for (Op& op : graph.ops) {
    op.attrs.erase(kDequantizedFrom);
    op.attrs.erase(kDequantizedAxis);
  }
}

}  // namespace ascendrt::model
