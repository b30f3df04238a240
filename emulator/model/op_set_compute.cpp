// Convolution and pooling of the operator table.
// Owns: how attributes and constants of the graph become the arguments of kernels.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>

#include "model/op_set.hpp"
#include "ops/conv.hpp"
#include "ops/elementwise.hpp"
#include "ops/pool.hpp"

namespace ascendrt::model {
namespace {

// Constant bytes need not be aligned in the file.
std::vector<float> floats_of(const Operand& operand) {
  std::vector<float> out(operand.constant.size() / sizeof(float));
  std::memcpy(out.data(), operand.constant.data(), out.size() * sizeof(float));
  return out;
}

void want_nchw(const OpView& v) {
  const std::string format = v.op.attrs.string_or("data_format", "NCHW");
  if (format != "NCHW") v.fail("data_format " + format + " is not computed, only NCHW");
}

// A list attribute of 4 numbers, [n, c, h, w] or [top, bottom, left, right].
std::vector<int64_t> four(const OpView& v, std::string_view attr) {
  std::vector<int64_t> values = v.ints(attr);
  if (values.size() != 4) v.fail("attribute " + std::string(attr) + " must have 4 numbers");
  return values;
}

// Inputs 2 and 3 of convolutions.
void want_bias(const OpView& v, int64_t outputs) {
  if (v.has(3)) v.fail("offset_w is not computed");
  if (!v.has(2)) return;
  v.want_float(2);
  if (v.shape(2).elements() != outputs) {
    v.fail("the bias has " + v.shape(2).text() + " values, " + std::to_string(outputs) +
           " are needed");
  }
}

// Height and width of the picture and of what moves over it.
template <class WindowShape>
void set_window(WindowShape& s, const ops::Shape& picture, const Dims& kernel, const Dims& strides,
                const Dims& dilations, const Dims& pads) {
  std::tie(s.in_h, s.in_w) = std::tuple(picture[2], picture[3]);
  std::tie(s.kernel_h, s.kernel_w) = std::tuple(kernel[2], kernel[3]);
  std::tie(s.stride_h, s.stride_w) = std::tuple(strides[2], strides[3]);
  std::tie(s.dilation_h, s.dilation_w) = std::tuple(dilations[2], dilations[3]);
  std::tie(s.pad_top, s.pad_bottom, s.pad_left, s.pad_right) =
      std::tuple(pads[0], pads[1], pads[2], pads[3]);
}

}  // namespace

// --- convolution ---

ops::ConvShape conv_shape(const OpView& v) {
  v.want_count(2, 4);
  want_nchw(v);
  for (const size_t i : {0U, 1U}) {
    v.want_float(i);
    v.want_rank(i, 4);
  }
  const auto strides = four(v, "strides");
  const auto dilations = four(v, "dilations");
  const auto pads = four(v, "pads");
  const ops::Shape& x = v.shape(0);
  const ops::Shape& w = v.shape(1);
  ops::ConvShape s;
  s.batch = x[0];
  s.groups = v.op.attrs.int_or("groups", 1);
  s.in_channels = x[1];
  s.out_channels = w[0];
  set_window(s, x, {1, 1, w[2], w[3]}, strides, dilations, pads);
  s.resolve();
  if (w[1] * s.groups != s.in_channels) {
    v.fail("a filter of shape " + w.text() + " does not fit an input of shape " + x.text() +
           " in " + std::to_string(s.groups) + " groups");
  }
  want_bias(v, s.out_channels);
  return s;
}

namespace {

std::vector<TensorType> infer_conv(const OpView& v) {
  const ops::ConvShape s = conv_shape(v);
  return {{ACL_FLOAT, {s.batch, s.out_channels, s.out_h, s.out_w}}};
}

Kernel build_conv(const OpView& v, std::span<const TensorType>) {
  const ops::ConvShape s = conv_shape(v);
  const auto scratch = static_cast<int64_t>(ops::Convolution::scratch_bytes(s));
  std::shared_ptr<const ops::Convolution> packed;
  if (v.inputs[1].is_constant) {
    packed = std::make_shared<const ops::Convolution>(s, floats_of(v.inputs[1]).data());
  }
  return {[s, packed](Inputs in, Outputs out, const ops::Exec& exec) {
            const float* bias = in.size() > 2 ? in[2].as<const float>() : nullptr;
            const auto* x = in[0].as<const float>();
            if (packed != nullptr) return packed->run(x, bias, out[0].as<float>(), exec);
            const ops::Convolution fresh(s, in[1].as<const float>());
            fresh.run(x, bias, out[0].as<float>(), exec);
          },
          scratch, false, 0, static_cast<uint8_t>(packed != nullptr ? 1U << 1U : 0U)};
}

}  // namespace
// --- pooling ---

ops::PoolShape pool_shape(const OpView& v) {
  v.want_count(1, 1);
  want_nchw(v);
  v.want_float(0);
  v.want_rank(0, 4);
  const auto kernel = four(v, "ksize");
  const auto strides = four(v, "strides");
  const std::string mode = v.op.attrs.string_or("padding_mode", "CALCULATED");
  if (mode != "CALCULATED" && mode != "VALID") {
    v.fail("padding_mode " + mode + " is not computed, only CALCULATED and VALID");
  }
  const auto pads = mode == "VALID" ? std::vector<int64_t>(4, 0) : four(v, "pads");
  const auto dilations = v.op.attrs.ints_or("dilation", {1, 1, 1, 1});
  if (dilations.size() != 4) v.fail("attribute dilation must have 4 numbers");
  if (v.flag("global_pooling")) v.fail("global_pooling is not computed");
  const ops::Shape& x = v.shape(0);
  ops::PoolShape s;
  s.planes = x[0] * x[1];
  set_window(s, x, kernel, strides, dilations, pads);
  const bool ceil = v.flag("ceil_mode");
  s.rounding = ceil ? ops::Rounding::kCeil : ops::Rounding::kFloor;
  s.resolve();
  return s;
}

namespace {

std::vector<TensorType> infer_pool(const OpView& v) {
  const ops::PoolShape s = pool_shape(v);
  return {{ACL_FLOAT, {v.shape(0)[0], v.shape(0)[1], s.out_h, s.out_w}}};
}

Kernel build_max_pool(const OpView& v, std::span<const TensorType>) {
  return {[s = pool_shape(v)](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::max_pool(s, in[0].as<const float>(), out[0].as<float>(), exec);
          },
          0, false};
}

Kernel build_average_pool(const OpView& v, std::span<const TensorType>) {
  const bool exclusive = v.flag("exclusive", true);
  const auto count = exclusive ? ops::PadsCount::kNo : ops::PadsCount::kYes;
  return {[s = pool_shape(v), count](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::average_pool(s, count, in[0].as<const float>(), out[0].as<float>(), exec);
          },
          0, false};
}

constexpr OpType kTable[] = {
    {"Conv2D", infer_conv, build_conv},
    {"MaxPoolV3", infer_pool, build_max_pool},
    {"AvgPoolV2", infer_pool, build_average_pool},
};

}  // namespace

std::span<const OpType> compute_op_types() { return kTable; }

}  // namespace ascendrt::model
