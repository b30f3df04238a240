// Convolution and pooling forms beside the 2-D float ones. Owns: how attributes become windows.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cstring>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/integer.hpp"
#include "ops/window.hpp"

namespace ascendrt::model {
namespace {

// Lists may have leading ones for batch and channels; pads are [before, after] by dim.
ops::WindowShape window_of(const OpView& v, const ops::Shape& x, std::span<const int64_t> kernel,
                           const char* dilations_attr) {
  ops::WindowShape s;
  if (x.rank() < 3 || x.rank() - 2 > ops::WindowShape::kMaxDims) v.fail("an input of " + x.text());
  s.dims = x.rank() - 2;
  const auto last = [&](std::vector<int64_t> list, const char* what) {
    if (list.size() < s.dims) v.fail(std::string("attribute ") + what + " is too short");
    return std::vector<int64_t>(list.end() - static_cast<std::ptrdiff_t>(s.dims), list.end());
  };
  const auto strides = last(v.ints("strides"), "strides");
  const auto dilations =
      last(v.op.attrs.ints_or(dilations_attr, std::vector<int64_t>(s.dims, 1)), dilations_attr);
  const auto pads = v.ints("pads");
  if (pads.size() != 2 * s.dims || kernel.size() < s.dims) v.fail("pads or kernel do not fit");
  for (size_t i = 0; i < s.dims; ++i) {
    s.in[i] = x[i + 2];
    s.kernel[i] = kernel[kernel.size() - s.dims + i];
    s.stride[i] = strides[i];
    s.dilation[i] = dilations[i];
    s.pad_before[i] = pads[2 * i];
    s.pad_after[i] = pads[2 * i + 1];
  }
  s.batch = x[0];
  s.channels = x[1];
  s.groups = v.op.attrs.int_or("groups", 1);
  return s;
}

ops::Shape with_dims(int64_t batch, int64_t channels, const ops::WindowShape::Dims& dims,
                     size_t count) {
  ops::Shape y = {batch, channels};
  for (size_t i = 0; i < count; ++i) y.push_back(dims[i]);
  return y;
}

// --- pooling ---

ops::WindowShape pool_window(const OpView& v) {
  v.want_count(1, 1);
  ops::WindowShape s = window_of(v, v.shape(0), v.ints("ksize"), "dilation");
  s.resolve(v.flag("ceil_mode"));
  return s;
}

ops::PoolParams pool_params(const OpView& v) {
  ops::PoolParams p;
  if (v.op.type == "AvgPool3D") p.kind = ops::PoolKind::kAverage;
  if (v.op.type == "LpPool") p.kind = ops::PoolKind::kLp;
  p.count_pads = v.flag("count_include_pad");
  p.p = v.op.attrs.int_or("p", 2);
  p.column_major = v.op.attrs.int_or("storage_order", 0) != 0;
  return p;
}

std::vector<TensorType> infer_pool(const OpView& v) {
  if (!ops::is_plain_number(v.dtype(0))) v.fail("needs numbers");
  const ops::WindowShape s = pool_window(v);
  const ops::Shape y = with_dims(s.batch, s.channels, s.out, s.dims);
  if (v.op.type == "MaxPoolWithIndices") return {{v.dtype(0), y}, {ACL_INT64, y}};
  return {{v.dtype(0), y}};
}

Kernel build_pool(const OpView& v, std::span<const TensorType>) {
  return make_kernel([s = pool_window(v), p = pool_params(v)](Inputs in, Outputs out,
                                                              const ops::Exec& exec) {
    ops::pool_windows(s, p, in[0], out[0], out.size() > 1 ? out[1].as<int64_t>() : nullptr, exec);
  });
}

// MaxUnpool(x, indices, output shape). Indices count in the shape that the windows give; a larger
// output shape leaves zeros behind it.
struct Unpooled {
  ops::Shape own, wanted;
};

Unpooled unpooled(const OpView& v) {
  v.want_count(2, 3);
  const ops::Shape& x = v.shape(0);
  const auto kernel = v.ints("ksize");
  const auto strides = v.ints("strides");
  const auto pads = v.ints("pads");
  Unpooled u;
  u.own = x;
  if (x.rank() < 3 || kernel.size() != x.rank() - 2 || strides.size() != kernel.size() ||
      pads.size() != 2 * kernel.size() || !(v.shape(1) == x) || v.dtype(1) != ACL_INT64) {
    v.fail("operands and attributes do not fit");
  }
  for (size_t i = 0; i < kernel.size(); ++i) {
    u.own[i + 2] = (x[i + 2] - 1) * strides[i] + kernel[i] - pads[2 * i] - pads[2 * i + 1];
  }
  u.wanted = v.has(2) ? to_shape(v.constant_ints(2)) : u.own;
  if (u.wanted.rank() != x.rank()) v.fail("an output shape of another rank");
  return u;
}

std::vector<TensorType> infer_unpool(const OpView& v) { return {{v.dtype(0), unpooled(v).wanted}}; }

Kernel build_unpool(const OpView& v, std::span<const TensorType>) {
  return make_kernel([u = unpooled(v)](Inputs in, Outputs out, const ops::Exec&) {
    const size_t width = ops::dtype_size(in[0].dtype);
    std::memset(out[0].data, 0, out[0].size_bytes());
    for (int64_t i = 0; i < in[0].elements(); ++i) {
      int64_t rest = in[1].as<const int64_t>()[i];
      if (rest < 0 || rest >= u.own.elements()) ops::fail("MaxUnpool", "an index out of range");
      int64_t at = 0;
      int64_t step = 1;
      bool inside = true;
      for (size_t k = u.own.rank(); k-- > 0; step *= u.wanted[k], rest /= u.own[k]) {
        inside = inside && rest % u.own[k] < u.wanted[k];
        at += rest % u.own[k] * step;
        if (k == 0) break;
      }
      if (!inside) continue;
      std::memcpy(out[0].as<char>() + static_cast<size_t>(at) * width,
                  in[0].as<const char>() + static_cast<size_t>(i) * width, width);
    }
  });
}

// --- convolution ---

const float* optional_floats(Inputs in, size_t i) {
  return in.size() > i ? in[i].as<const float>() : nullptr;
}

ops::WindowShape conv_window(const OpView& v, size_t x, size_t w) {
  const ops::Shape& filter = v.shape(w);
  if (filter.rank() != v.shape(x).rank()) v.fail("input and filter have different ranks");
  ops::WindowShape s = window_of(v, v.shape(x), filter.dims().subspan(2), "dilations");
  s.resolve(false);
  if (s.groups < 1 || filter[1] * s.groups != s.channels || filter[0] % s.groups != 0) {
    v.fail("a filter of shape " + filter.text() + " does not fit " + v.shape(x).text());
  }
  return s;
}

std::vector<TensorType> infer_conv(const OpView& v) {
  v.want_count(2, 3);
  for (size_t i = 0; i < v.inputs.size(); ++i) v.want_float(i);
  const ops::WindowShape s = conv_window(v, 0, 1);
  if (v.has(2) && v.shape(2).elements() != v.shape(1)[0]) v.fail("the bias does not fit");
  return {{ACL_FLOAT, with_dims(s.batch, v.shape(1)[0], s.out, s.dims)}};
}

Kernel build_conv(const OpView& v, std::span<const TensorType>) {
  return make_kernel([s = conv_window(v, 0, 1), outputs = v.shape(1)[0]](Inputs in, Outputs out,
                                                                         const ops::Exec& exec) {
    ops::convolve_windows(s, outputs, in[0].as<const float>(), in[1].as<const float>(),
                          optional_floats(in, 2), out[0].as<float>(), exec);
  });
}

// Transposed convolution (output dims, x, filter, bias): the convolution that goes back from the
// result to x.
ops::WindowShape transposed_window(const OpView& v) {
  const ops::Shape& x = v.shape(1);
  const ops::Shape& filter = v.shape(2);
  const ops::Shape y = to_shape(v.constant_ints(0));
  if (filter.rank() != x.rank() || y.rank() != x.rank()) v.fail("operands of different ranks");
  ops::WindowShape s = window_of(v, y, filter.dims().subspan(2), "dilations");
  s.channels = x[1];
  for (size_t i = 0; i < s.dims; ++i) {
    s.out[i] = x[i + 2];
    if (s.stride[i] < 1 || s.dilation[i] < 1 || s.pad_before[i] < -(1 << 24)) v.fail("attributes");
  }
  if (s.groups < 1 || filter[0] != s.channels || s.channels % s.groups != 0 ||
      filter[1] * s.groups != y[1] || y[0] != x[0]) {
    v.fail("a filter of shape " + filter.text() + " does not fit " + x.text());
  }
  return s;
}

std::vector<TensorType> infer_transposed(const OpView& v) {
  v.want_count(3, 4);
  for (size_t i = 1; i < v.inputs.size(); ++i) v.want_float(i);
  const ops::Shape y = to_shape(v.constant_ints(0));
  static_cast<void>(transposed_window(v));
  if (v.has(3) && v.shape(3).elements() != y[1]) v.fail("the bias does not fit");
  return {{ACL_FLOAT, y}};
}

Kernel build_transposed(const OpView& v, std::span<const TensorType> outputs) {
  return make_kernel([s = transposed_window(v), count = outputs[0].shape[1]](
                         Inputs in, Outputs out, const ops::Exec& exec) {
    ops::convolve_transposed(s, count, in[1].as<const float>(), in[2].as<const float>(),
                             optional_floats(in, 3), out[0].as<float>(), exec);
  });
}

// DeformConv(x, filter, offset, bias, mask).
std::vector<TensorType> infer_deformed(const OpView& v) {
  v.want_count(3, 5);
  v.want_rank(0, 4);
  for (const size_t i : {0U, 1U, 2U, 3U, 4U}) {
    if (v.has(i)) v.want_float(i);
  }
  const ops::WindowShape s = conv_window(v, 0, 1);
  const int64_t groups = v.op.attrs.int_or("offset_group", 1);
  const int64_t places = s.batch * groups * s.taps() * s.out_size();
  if (groups < 1 || s.channels % groups != 0 || v.shape(2).elements() != 2 * places ||
      (v.has(4) && v.shape(4).elements() != places) ||
      (v.has(3) && v.shape(3).elements() != v.shape(1)[0])) {
    v.fail("offsets, mask or bias do not fit");
  }
  return {{ACL_FLOAT, with_dims(s.batch, v.shape(1)[0], s.out, s.dims)}};
}

Kernel build_deformed(const OpView& v, std::span<const TensorType>) {
  return make_kernel([s = conv_window(v, 0, 1), outputs = v.shape(1)[0],
                      groups = v.op.attrs.int_or("offset_group", 1)](Inputs in, Outputs out,
                                                                     const ops::Exec& exec) {
    ops::convolve_deformed(s, outputs, groups, in[0].as<const float>(), in[1].as<const float>(),
                           in[2].as<const float>(), optional_floats(in, 4), optional_floats(in, 3),
                           out[0].as<float>(), exec);
  });
}

// ConvInteger(x, filter, zero point of x, zero points of the filter).
std::vector<TensorType> infer_integers(const OpView& v) {
  v.want_count(2, 4);
  const ops::WindowShape s = conv_window(v, 0, 1);
  for (const size_t i : {0U, 1U}) {
    if (v.dtype(i) != ACL_INT8 && v.dtype(i) != ACL_UINT8) v.fail("needs 8 bit integers");
  }
  const int64_t outputs = v.shape(1)[0];
  const int64_t zeros = v.has(3) ? v.shape(3).elements() : 1;
  if ((v.has(2) && v.shape(2).elements() != 1) || (zeros != 1 && zeros != outputs)) {
    v.fail("zero points do not fit");
  }
  return {{ACL_INT32, with_dims(s.batch, outputs, s.out, s.dims)}};
}

// Null: only a run tells the filter.
std::shared_ptr<const ops::IntegerConvolution> packed_filter(const OpView& v,
                                                             const ops::WindowShape& s) {
  if (!v.input(1).is_constant || (v.has(3) && !v.input(3).is_constant)) return nullptr;
  const ops::TensorView zeros = v.has(3) ? v.constant_view(3) : ops::TensorView{};
  return std::make_shared<const ops::IntegerConvolution>(s, v.shape(1)[0], v.constant_view(1),
                                                         v.has(3) ? &zeros : nullptr);
}

Kernel build_integers(const OpView& v, std::span<const TensorType>) {
  const ops::WindowShape s = conv_window(v, 0, 1);
  const int64_t outputs = v.shape(1)[0];
  const bool tiled = ops::IntegerConvolution::takes(s, outputs);
  const auto packed = tiled ? packed_filter(v, s) : nullptr;
  Kernel kernel = make_kernel([=](Inputs in, Outputs out, const ops::Exec& exec) {
    const auto given = [&](size_t i) {
      return in.size() > i && in[i].data != nullptr ? &in[i] : nullptr;
    };
    auto* y = out[0].as<int32_t>();
    if (packed != nullptr) return packed->run(in[0], given(2), y, exec);
    if (!tiled) {
      return ops::convolve_integers(s, outputs, in[0], in[1], given(2), given(3), y, exec);
    }
    ops::IntegerConvolution(s, outputs, in[1], given(3)).run(in[0], given(2), y, exec);
  });
  if (packed != nullptr) kernel.unread = 1U << 1U | 1U << 3U;
  return kernel;
}

// Col2im(columns, image dims, block dims).
ops::WindowShape image_window(const OpView& v) {
  const auto image = v.constant_ints(1);
  const auto block = v.constant_ints(2);
  v.want_rank(0, 3);
  ops::Shape x = {v.shape(0)[0], 1};
  for (const int64_t dim : image) x.push_back(dim);
  ops::WindowShape s = window_of(v, x, block, "dilations");
  s.resolve(false);
  if (v.shape(0)[1] % s.taps() != 0 || v.shape(0)[2] != s.out_size()) {
    v.fail("columns of shape " + v.shape(0).text() + " do not fit the image");
  }
  s.channels = v.shape(0)[1] / s.taps();
  return s;
}

std::vector<TensorType> infer_image(const OpView& v) {
  v.want_count(3, 3);
  v.want_float(0);
  const ops::WindowShape s = image_window(v);
  return {{ACL_FLOAT, with_dims(s.batch, s.channels, s.in, s.dims)}};
}

Kernel build_image(const OpView& v, std::span<const TensorType>) {
  return make_kernel([s = image_window(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::columns_to_image(s, in[0].as<const float>(), out[0].as<float>(), exec);
  });
}

std::vector<aclDataType> int32_type(const OpView&) { return {ACL_INT32}; }
std::vector<aclDataType> filter_type(const OpView& v) { return {v.dtype(1)}; }
std::vector<aclDataType> with_indices(const OpView& v) { return {v.dtype(0), ACL_INT64}; }

constexpr Halves kWidened = Halves::kWidened;

constexpr OpType kTable[] = {
    {"MaxPool3D", infer_pool, build_pool},
    {"AvgPool3D", infer_pool, build_pool},
    {"LpPool", infer_pool, build_pool},
    {"MaxPoolWithIndices", infer_pool, build_pool, kWidened, with_indices},
    {"MaxUnpool", infer_unpool, build_unpool, Halves::kNative},
    {"Conv3D", infer_conv, build_conv},
    {"Conv2DTranspose", infer_transposed, build_transposed, kWidened, filter_type},
    {"Conv3DTranspose", infer_transposed, build_transposed, kWidened, filter_type},
    {"DeformConv", infer_deformed, build_deformed},
    {"ConvInteger", infer_integers, build_integers, kWidened, int32_type},
    {"Col2ImV2", infer_image, build_image},
};

}  // namespace

std::span<const OpType> window_op_types() { return kTable; }

}  // namespace ascendrt::model
