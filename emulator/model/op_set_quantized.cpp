// Owns: how quantised operators of the graph become arguments of kernels on bytes, on tensors in
// the order of their dims. Must never: hold arithmetic; that is in ops/.
#include "model/op_set_quantized.hpp"

#include <cmath>
#include <cstring>
#include <functional>

namespace ascendrt::model {
namespace {

bool is_signed(aclDataType dtype) { return dtype == ACL_INT8; }

void want_bytes(const OpView& v, size_t i) {
  if (v.dtype(i) != ACL_INT8 && v.dtype(i) != ACL_UINT8) {
    v.fail("input " + std::to_string(i) + " must be int8 or uint8");
  }
}

// The op as if its operands were floats, for the rules of windows.
OpView as_floats(const OpView& v, size_t operands) {
  OpView view{v.op, {}, v.scope};
  for (size_t i = 0; i < operands; ++i) {
    view.inputs.push_back(v.input(i));
    view.inputs[i].type.dtype = ACL_FLOAT;
  }
  return view;
}

bool is_product(const OpView& v) { return v.op.type == kQuantizedMatMul; }

// Rows of a product are images of one pixel.
ops::ConvShape product_shape(const OpView& v) {
  v.want_rank(1, 2);
  const ops::Shape& x = v.shape(0);
  if (x.rank() < 1) v.fail("input 0 must not be a scalar");
  ops::ConvShape s;
  s.in_channels = x[x.rank() - 1];
  s.batch = x.elements(0, x.rank() - 1);
  s.out_channels = v.shape(1)[0];
  s.in_h = s.in_w = 1;
  if (v.shape(1)[1] != s.in_channels) {
    v.fail(x.text() + " and a filter of " + v.shape(1).text() + " do not multiply");
  }
  s.resolve();
  return s;
}

}  // namespace

aclDataType byte_result(const OpView& v) {
  const int64_t type = v.op.attrs.int_or("dst_type", ACL_UINT8);
  if (type != ACL_INT8 && type != ACL_UINT8) v.fail("dst_type must be int8 or uint8");
  return static_cast<aclDataType>(type);
}

ops::ByteScale byte_scale(const OpView& v, const std::string& name, aclDataType dtype) {
  const float scale = v.op.attrs.float_or(name + "_scale", 0);
  const int64_t zero = v.op.attrs.int_or(name + "_zero_point", 0);
  const int32_t turn = is_signed(dtype) ? 128 : 0;
  if (!std::isnormal(scale) || scale < 0) v.fail(name + "_scale must be above zero");
  if (zero + turn < 0 || zero + turn > 255) v.fail(name + "_zero_point must be a byte");
  return {scale, static_cast<int32_t>(zero) + turn};
}

int32_t byte_bound(const OpView& v, const std::string& name, aclDataType dtype) {
  const int32_t turn = is_signed(dtype) ? 128 : 0;
  const int64_t fallback = (name.ends_with("low") ? 0 : 255) - turn;
  const int64_t bound = v.op.attrs.int_or(name, fallback) + turn;
  if (bound < 0 || bound > 255) v.fail(name + " must be a byte");
  return static_cast<int32_t>(bound);
}

ops::ConvShape byte_conv_shape(const OpView& v) {
  want_bytes(v, 0);
  if (v.dtype(1) != ACL_INT8) v.fail("the filter must be int8");
  const ops::ConvShape s = is_product(v) ? product_shape(v) : conv_shape(as_floats(v, 2));
  if (!ops::BlockedConvSpec::takes(s)) v.fail("groups that straddle blocks of 16 channels");
  if (v.has(2) && (v.dtype(2) != ACL_INT32 || v.shape(2).elements() != s.out_channels)) {
    v.fail("the bias must be int32, one per output");
  }
  if (v.shape(3).elements() != 1 && v.shape(3).elements() != s.out_channels) {
    v.fail("scales of the filter: one, or one per output");
  }
  return s;
}

ops::PoolShape byte_pool_shape(const OpView& v) {
  want_bytes(v, 0);
  return pool_shape(as_floats(v, 1));
}

ops::ByteConvSpec byte_conv_spec(const OpView& v) {
  ops::ByteConvSpec spec;
  ops::ConvShape& s = spec.geometry.shape = byte_conv_shape(v);
  const aclDataType type = byte_result(v);
  spec.x = byte_scale(v, "x", v.dtype(0));
  spec.turns = is_signed(v.dtype(0));
  spec.weight_scales = v.constant_floats(3);
  if (spec.weight_scales.size() == 1) {
    spec.weight_scales.resize(static_cast<size_t>(s.out_channels), spec.weight_scales[0]);
  }
  spec.y = spec.sum = byte_scale(v, "y", type);
  spec.low = byte_bound(v, "low", type);
  spec.high = byte_bound(v, "high", type);
  if (!v.has(kAddendInput)) {
    return spec;
  }
  want_bytes(v, kAddendInput);
  const auto sum_type = static_cast<aclDataType>(v.op.attrs.int_or("sum_type", type));
  spec.sum = byte_scale(v, "sum", sum_type);
  spec.sum_low = byte_bound(v, "sum_low", sum_type);
  spec.sum_high = byte_bound(v, "sum_high", sum_type);
  spec.addend = byte_scale(v, "addend", v.dtype(kAddendInput));
  if (!(v.shape(kAddendInput) == ops::Shape{s.batch, s.out_channels, s.out_h, s.out_w})) {
    v.fail("the addend has shape " + v.shape(kAddendInput).text());
  }
  return spec;
}

std::shared_ptr<const ops::ByteConvolution> make_byte_conv(const OpView& v,
                                                           const ops::ByteConvSpec& spec) {
  const auto* weights = v.constant_view(1).as<const int8_t>();
  std::vector<int32_t> bias;
  if (v.has(2)) {
    bias.resize(static_cast<size_t>(spec.geometry.shape.out_channels));
    std::memcpy(bias.data(), v.constant_view(2).data, bias.size() * sizeof(int32_t));
  }
  return std::make_shared<const ops::ByteConvolution>(spec, weights,
                                                      v.has(2) ? bias.data() : nullptr);
}

namespace {

// --- kernels on tensors in the order of their dims ---

int64_t room(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Operands and results pass through blocks in scratch memory; a shape without channels stays as it
// is (turned, when signed).
struct Passed {
  size_t input;
  ops::BlockedShape shape;
};
using BlockBody = std::function<void(std::span<const uint8_t* const>, uint8_t*, const ops::Exec&)>;

Kernel on_blocks(const std::vector<Passed>& operands, const ops::BlockedShape& result,
                 int64_t inner, const BlockBody& body) {
  int64_t scratch = room(inner) + room(result.elements());
  for (const Passed& p : operands) scratch += room(p.shape.elements());
  Kernel kernel;
  kernel.scratch_bytes = scratch;
  kernel.run = [=](Inputs in, Outputs out, const ops::Exec& exec) {
    auto* next = static_cast<uint8_t*>(exec.scratch) + room(inner);
    std::vector<const uint8_t*> sources;
    for (const Passed& p : operands) {
      ops::bytes_to_blocked(in[p.input], p.shape, next, exec);
      sources.push_back(next);
      next += room(p.shape.elements());
    }
    body(sources, next, exec);
    ops::bytes_from_blocked(next, result, out[0], exec);
  };
  return kernel;
}

ops::BlockedShape blocks_of(const ops::Shape& s) { return {s[0], s[1], s[2], s[3], {}}; }

std::vector<TensorType> infer_conv(const OpView& v) {
  v.want_count(2, 5);
  const ops::ConvShape s = byte_conv_shape(v);
  static_cast<void>(byte_scale(v, "x", v.dtype(0)));
  if (!is_product(v)) return {{byte_result(v), {s.batch, s.out_channels, s.out_h, s.out_w}}};
  ops::Shape y = v.shape(0);
  y[y.rank() - 1] = s.out_channels;
  return {{byte_result(v), y}};
}

Kernel build_conv(const OpView& v, std::span<const TensorType>) {
  ops::ByteConvSpec spec = byte_conv_spec(v);
  ops::BlockedConvSpec& g = spec.geometry;
  const ops::ConvShape& s = g.shape;
  g.in = {s.batch, s.in_channels, s.in_h, s.in_w, g.reach()};
  g.in.border.fill = static_cast<uint8_t>(spec.x.zero);
  g.out = {s.batch, s.out_channels, s.out_h, s.out_w, {}};
  std::vector<Passed> operands = {{0, g.in}};
  if (v.has(kAddendInput)) {
    g.add = g.out;
    operands.push_back({kAddendInput, g.out});
  }
  const auto conv = make_byte_conv(v, spec);
  const bool straight = is_product(v) && s.in_channels % ops::kLanes == 0 &&
                        s.out_channels % ops::kLanes == 0 && v.dtype(0) == ACL_UINT8 &&
                        byte_result(v) == ACL_UINT8;
  if (straight) {
    return make_kernel([conv](Inputs in, Outputs out, const ops::Exec& exec) {
      conv->run(in[0].as<const uint8_t>(), nullptr, out[0].as<uint8_t>(), exec);
    });
  }
  return on_blocks(operands, g.out, 0,
                   [conv](std::span<const uint8_t* const> in, uint8_t* y, const ops::Exec& exec) {
                     conv->run(in[0], in.size() > 1 ? in[1] : nullptr, y, exec);
                   });
}

std::vector<TensorType> infer_add(const OpView& v) {
  v.want_count(2, 2);
  for (const size_t i : {size_t{0}, size_t{1}}) want_bytes(v, i);
  if (!(v.shape(0) == v.shape(1))) v.fail("operands of one shape are needed");
  return {{byte_result(v), v.shape(0)}};
}

Kernel build_add(const OpView& v, std::span<const TensorType>) {
  const aclDataType type = byte_result(v);
  const ops::ByteScale a = byte_scale(v, "a", v.dtype(0));
  const ops::ByteScale b = byte_scale(v, "b", v.dtype(1));
  const ops::ByteScale y = byte_scale(v, "y", type);
  const int32_t low = byte_bound(v, "low", type);
  const int32_t high = byte_bound(v, "high", type);
  Kernel kernel;
  const int64_t count = v.shape(0).elements();
  kernel.scratch_bytes = 2 * room(count);
  kernel.run = [=](Inputs in, Outputs out, const ops::Exec& exec) {
    const uint8_t* sources[2];
    for (size_t i = 0; i < 2; ++i) {
      sources[i] = in[i].as<const uint8_t>();
      if (!is_signed(in[i].dtype)) continue;
      auto* turned = static_cast<uint8_t*>(exec.scratch) + static_cast<int64_t>(i) * room(count);
      ops::turn_bytes(sources[i], turned, count, exec);
      sources[i] = turned;
    }
    auto* to = out[0].as<uint8_t>();
    ops::add_bytes(sources[0], a, sources[1], b, to, y, low, high, count, exec);
    if (is_signed(out[0].dtype)) ops::turn_bytes(to, to, count, exec);
  };
  return kernel;
}

std::vector<TensorType> infer_max_pool(const OpView& v) {
  const ops::PoolShape s = byte_pool_shape(v);
  return {{v.dtype(0), {v.shape(0)[0], v.shape(0)[1], s.out_h, s.out_w}}};
}

Kernel build_max_pool(const OpView& v, std::span<const TensorType> outputs) {
  const ops::BlockedShape from = blocks_of(v.shape(0));
  const ops::BlockedShape to = blocks_of(outputs[0].shape);
  return on_blocks({{0, from}}, to, 0,
                   [s = byte_pool_shape(v), from, to](std::span<const uint8_t* const> in,
                                                      uint8_t* y, const ops::Exec& exec) {
                     ops::max_pool_bytes(s, in[0], from, y, to, exec);
                   });
}

std::vector<TensorType> infer_average(const OpView& v) {
  v.want_count(1, 1);
  want_bytes(v, 0);
  v.want_rank(0, 4);
  return {{byte_result(v), {v.shape(0)[0], v.shape(0)[1], 1, 1}}};
}

Kernel build_average(const OpView& v, std::span<const TensorType> outputs) {
  const ops::BlockedShape from = blocks_of(v.shape(0));
  const ops::ByteScale x = byte_scale(v, "x", v.dtype(0));
  const ops::ByteScale y = byte_scale(v, "y", byte_result(v));
  return on_blocks({{0, from}}, blocks_of(outputs[0].shape), 0,
                   [=](std::span<const uint8_t* const> in, uint8_t* to, const ops::Exec& exec) {
                     ops::average_planes(in[0], from, x, to, y, exec);
                   });
}

std::vector<aclDataType> result_type(const OpView& v) { return {byte_result(v)}; }

constexpr Halves kNative = Halves::kNative;

constexpr OpType kTable[] = {
    {kQuantizedConv, infer_conv, build_conv, kNative, result_type},
    {kQuantizedMatMul, infer_conv, build_conv, kNative, result_type},
    {kQuantizedAdd, infer_add, build_add, kNative, result_type},
    {kQuantizedMaxPool, infer_max_pool, build_max_pool, kNative},
    {kQuantizedAverage, infer_average, build_average, kNative, result_type},
};

}  // namespace

std::span<const OpType> quantized_op_types() { return kTable; }

}  // namespace ascendrt::model
