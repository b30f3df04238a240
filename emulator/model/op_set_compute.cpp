// Convolution, matrix product, pooling, normalisation and reduction of the operator table.
// Owns: how attributes and constants of the graph become the arguments of kernels.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cstring>
#include <memory>

#include "model/op_set.hpp"
#include "ops/conv.hpp"
#include "ops/elementwise.hpp"
#include "ops/matmul.hpp"
#include "ops/pool.hpp"
#include "ops/reduce.hpp"

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
  s.in_h = x[2];
  s.in_w = x[3];
  s.out_channels = w[0];
  s.kernel_h = w[2];
  s.kernel_w = w[3];
  s.stride_h = strides[2];
  s.stride_w = strides[3];
  s.dilation_h = dilations[2];
  s.dilation_w = dilations[3];
  s.pad_top = pads[0];
  s.pad_bottom = pads[1];
  s.pad_left = pads[2];
  s.pad_right = pads[3];
  s.resolve();
  if (w[1] * s.groups != s.in_channels) {
    v.fail("a filter of shape " + w.text() + " does not fit an input of shape " + x.text() +
           " in " + std::to_string(s.groups) + " groups");
  }
  if (v.has(2)) {
    v.want_float(2);
    if (v.shape(2).elements() != s.out_channels) v.fail("bias needs one value per output channel");
  }
  if (v.has(3)) v.fail("offset_w is not computed");
  return s;
}

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
          scratch, false};
}

// --- matrix products ---

struct MatmulShape {
  int64_t batch_a = 1, batch_b = 1;  // matrices; 1 is repeated
  int64_t rows = 0, depth = 0, columns = 0;
  bool transposed_a = false;
  ops::Transposed transposed_b = ops::Transposed::kNo;
  ops::Shape batch;  // broadcast batch dims of the result
  ops::Shape a_batch, b_batch;
  bool has_bias = false;
};

bool flag(const OpView& v, std::string_view first, std::string_view second) {
  const auto value = v.op.attrs.get_bool(first);
  return value ? *value : v.op.attrs.get_bool(second).value_or(false);
}

MatmulShape matmul_shape(const OpView& v) {
  v.want_count(2, 4);
  v.want_float(0);
  v.want_float(1);
  const ops::Shape& a = v.shape(0);
  const ops::Shape& b = v.shape(1);
  if (a.rank() < 2 || b.rank() < 2) v.fail("operands need rank 2 or more");
  MatmulShape s;
  s.transposed_a = flag(v, "transpose_x1", "adj_x1");
  const bool turned_b = flag(v, "transpose_x2", "adj_x2");
  s.transposed_b = turned_b ? ops::Transposed::kYes : ops::Transposed::kNo;
  s.rows = a[a.rank() - (s.transposed_a ? 1 : 2)];
  s.depth = a[a.rank() - (s.transposed_a ? 2 : 1)];
  s.columns = b[b.rank() - (turned_b ? 2 : 1)];
  if (b[b.rank() - (turned_b ? 1 : 2)] != s.depth) {
    v.fail("shapes " + a.text() + " and " + b.text() + " do not multiply");
  }
  s.a_batch = ops::Shape(a.dims().first(a.rank() - 2));
  s.b_batch = ops::Shape(b.dims().first(b.rank() - 2));
  s.batch = ops::broadcast_shape(v.op.type, s.a_batch, s.b_batch);
  s.batch_a = s.a_batch.elements();
  s.batch_b = s.b_batch.elements();
  s.has_bias = v.has(2);
  if (s.has_bias) {
    v.want_float(2);
    if (v.shape(2).elements() != s.columns) v.fail("bias needs one value per column");
  }
  if (v.has(3)) v.fail("offset_w is not computed");
  return s;
}

std::vector<TensorType> infer_matmul(const OpView& v) {
  const MatmulShape s = matmul_shape(v);
  ops::Shape y = s.batch;
  y.push_back(s.rows);
  y.push_back(s.columns);
  return {{ACL_FLOAT, y}};
}

// Which matrix of an operand belongs to matrix `index` of the result.
int64_t batch_index(const ops::Shape& operand, const ops::Shape& batch, int64_t index) {
  int64_t at = 0;
  int64_t step = 1;
  for (size_t i = 0; i < batch.rank(); ++i) {
    const int64_t dim = batch[batch.rank() - 1 - i];
    const int64_t own = i < operand.rank() ? operand[operand.rank() - 1 - i] : 1;
    if (own != 1) at += index % dim * step;
    step *= own;
    index /= dim;
  }
  return at;
}

void run_matmul(const MatmulShape& s, const std::vector<ops::PackedMatrix>& packed, Inputs in,
                Outputs out, const ops::Exec& exec) {
  const auto* a = in[0].as<const float>();
  const auto* b = in[1].as<const float>();
  const float* bias = s.has_bias ? in[2].as<const float>() : nullptr;
  const int64_t a_size = s.rows * s.depth;
  for (int64_t i = 0; i < s.batch.elements(); ++i) {
    const float* left = a + batch_index(s.a_batch, s.batch, i) * a_size;
    if (s.transposed_a) {
      auto* turned = static_cast<float*>(exec.scratch);
      ops::transpose_matrix(left, s.depth, s.rows, turned);
      left = turned;
    }
    const int64_t which = batch_index(s.b_batch, s.batch, i);
    float* y = out[0].as<float>() + i * s.rows * s.columns;
    if (!packed.empty()) {
      packed[static_cast<size_t>(which)].multiply(left, s.rows, bias, y, exec);
      continue;
    }
    const ops::PackedMatrix right(b + which * s.depth * s.columns, s.depth, s.columns,
                                  s.transposed_b);
    right.multiply(left, s.rows, bias, y, exec);
  }
}

Kernel build_matmul(const OpView& v, std::span<const TensorType>) {
  const MatmulShape s = matmul_shape(v);
  auto packed = std::make_shared<std::vector<ops::PackedMatrix>>();
  if (v.inputs[1].is_constant) {
    const std::vector<float> b = floats_of(v.inputs[1]);
    for (int64_t i = 0; i < s.batch_b; ++i) {
      packed->emplace_back(b.data() + i * s.depth * s.columns, s.depth, s.columns, s.transposed_b);
    }
  }
  const int64_t scratch = s.transposed_a ? s.rows * s.depth * 4 : 0;
  return {[s, packed](Inputs in, Outputs out, const ops::Exec& exec) {
            run_matmul(s, *packed, in, out, exec);
          },
          scratch, false};
}

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
  if (v.op.attrs.get_bool("global_pooling").value_or(false))
    v.fail("global_pooling is not computed");
  const ops::Shape& x = v.shape(0);
  ops::PoolShape s;
  s.planes = x[0] * x[1];
  s.in_h = x[2];
  s.in_w = x[3];
  s.kernel_h = kernel[2];
  s.kernel_w = kernel[3];
  s.stride_h = strides[2];
  s.stride_w = strides[3];
  s.dilation_h = dilations[2];
  s.dilation_w = dilations[3];
  s.pad_top = pads[0];
  s.pad_bottom = pads[1];
  s.pad_left = pads[2];
  s.pad_right = pads[3];
  const bool ceil = v.op.attrs.get_bool("ceil_mode").value_or(false);
  s.rounding = ceil ? ops::Rounding::kCeil : ops::Rounding::kFloor;
  s.resolve();
  return s;
}

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
  const bool exclusive = v.op.attrs.get_bool("exclusive").value_or(true);
  const auto count = exclusive ? ops::PadsCount::kNo : ops::PadsCount::kYes;
  return {[s = pool_shape(v), count](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::average_pool(s, count, in[0].as<const float>(), out[0].as<float>(), exec);
          },
          0, false};
}

// --- reductions ---

struct ReduceRow {
  std::string_view name;
  ops::Reduce op;
};

constexpr ReduceRow kReduce[] = {
    {"ReduceSum", ops::Reduce::kSum},   {"ReduceMean", ops::Reduce::kMean},
    {"ReduceMax", ops::Reduce::kMax},   {"ReduceMin", ops::Reduce::kMin},
    {"ReduceProd", ops::Reduce::kProd},
};

// The reduced axes, sorted. Empty stays "all" or "none" by noop_with_empty_axes.
std::vector<size_t> reduced_axes(const OpView& v) {
  v.want_count(1, 2);
  if (!ops::reduce_takes(v.dtype(0))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(0)));
  }
  std::vector<size_t> axes;
  if (v.has(1)) {
    for (const int64_t axis : v.constant_ints(1)) {
      axes.push_back(ops::resolve_axis(v.op.type, axis, v.shape(0).rank()));
    }
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) v.fail("an axis is named twice");
  return axes;
}

bool keeps_all(const OpView& v, const std::vector<size_t>& axes) {
  return axes.empty() && v.op.attrs.get_bool("noop_with_empty_axes").value_or(false);
}

std::vector<TensorType> infer_reduce(const OpView& v) {
  const auto axes = reduced_axes(v);
  const ops::Shape& x = v.shape(0);
  if (keeps_all(v, axes)) return {v.inputs[0].type};
  const bool keep = v.op.attrs.get_bool("keep_dims").value_or(false);
  ops::Shape y;
  for (size_t i = 0; i < x.rank(); ++i) {
    const bool gone = axes.empty() || std::binary_search(axes.begin(), axes.end(), i);
    if (!gone) y.push_back(x[i]);
    if (gone && keep) y.push_back(1);
  }
  return {{v.dtype(0), y}};
}

Kernel reduce_kernel(ops::Reduce op, std::vector<size_t> axes) {
  return {[op, axes = std::move(axes)](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::reduce(op, in[0], axes, out[0], exec);
          },
          0, false};
}

Kernel build_reduce(const OpView& v, std::span<const TensorType>) {
  auto axes = reduced_axes(v);
  if (keeps_all(v, axes)) return {{}, 0, true};
  for (const ReduceRow& row : kReduce) {
    if (row.name == v.op.type) return reduce_kernel(row.op, std::move(axes));
  }
  v.fail("not in its table");
}

std::vector<TensorType> infer_global_average(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  if (v.shape(0).rank() < 3) v.fail("needs rank 3 or more");
  ops::Shape y = v.shape(0);
  for (size_t i = 2; i < y.rank(); ++i) y[i] = 1;
  return {{ACL_FLOAT, y}};
}

Kernel build_global_average(const OpView& v, std::span<const TensorType>) {
  std::vector<size_t> axes;
  for (size_t i = 2; i < v.shape(0).rank(); ++i) axes.push_back(i);
  return reduce_kernel(ops::Reduce::kMean, std::move(axes));
}

// dimension is a constant input; dtype int32 or int64.
std::vector<TensorType> infer_arg(const OpView& v) {
  v.want_count(2, 2);
  v.want_float(0);
  const auto axes = v.constant_ints(1);
  if (axes.size() != 1) v.fail("needs one axis");
  const size_t axis = ops::resolve_axis(v.op.type, axes[0], v.shape(0).rank());
  const auto type = static_cast<aclDataType>(v.op.attrs.int_or("dtype", ACL_INT32));
  if (type != ACL_INT32 && type != ACL_INT64) v.fail("the result must be int32 or int64");
  if (v.shape(0)[axis] == 0) v.fail("no largest element of an empty axis");
  ops::Shape y;
  for (size_t i = 0; i < v.shape(0).rank(); ++i) {
    if (i != axis) y.push_back(v.shape(0)[i]);
  }
  return {{type, y}};
}

Kernel build_arg(const OpView& v, std::span<const TensorType>) {
  const auto kind = v.op.type == "ArgMin" ? ops::Extreme::kMin : ops::Extreme::kMax;
  const size_t axis = ops::resolve_axis(v.op.type, v.constant_ints(1)[0], v.shape(0).rank());
  return {[kind, axis](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::arg_extreme(kind, in[0], axis, out[0], exec);
          },
          0, false};
}

// --- softmax and normalisations ---

struct AxisRange {
  size_t first, last;
};

// axes, or with need_fusion = 1 all dims from the axis on (the meaning of ONNX before opset 13).
AxisRange softmax_axes(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  const size_t rank = v.shape(0).rank();
  auto axes = v.op.attrs.ints_or("axes", {-1});
  if (axes.empty() || rank == 0) v.fail("needs an axis");
  for (int64_t& axis : axes) axis = static_cast<int64_t>(ops::resolve_axis(v.op.type, axis, rank));
  std::sort(axes.begin(), axes.end());
  if (static_cast<size_t>(axes.back() - axes.front()) + 1 != axes.size()) {
    v.fail("axes must be neighbours");
  }
  const auto first = static_cast<size_t>(axes.front());
  const bool to_end = v.op.attrs.int_or("need_fusion", 0) == 1;
  return {first, to_end ? rank : static_cast<size_t>(axes.back()) + 1};
}

std::vector<TensorType> infer_softmax(const OpView& v) {
  static_cast<void>(softmax_axes(v));
  return {v.inputs[0].type};
}

Kernel build_softmax(const OpView& v, std::span<const TensorType>) {
  const auto form = v.op.type == "LogSoftmaxV2" ? ops::SoftmaxForm::kLog : ops::SoftmaxForm::kPlain;
  return {[form, axes = softmax_axes(v)](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::softmax(form, in[0], axes.first, axes.last, out[0], exec);
          },
          0, false};
}

// Inputs from `first` on are float lists of `length` values.
void want_lists(const OpView& v, size_t first, size_t last, int64_t length) {
  for (size_t i = first; i <= last; ++i) {
    v.want_float(i);
    if (v.shape(i).elements() != length) {
      v.fail("input " + std::to_string(i) + " must have " + std::to_string(length) + " values");
    }
  }
}

std::vector<TensorType> infer_batch_norm(const OpView& v) {
  v.want_count(5, 5);
  v.want_float(0);
  want_nchw(v);
  if (v.shape(0).rank() < 2) v.fail("needs rank 2 or more");
  if (v.op.attrs.get_bool("is_training").value_or(true)) v.fail("training mode is not computed");
  want_lists(v, 1, 4, v.shape(0)[1]);
  return {v.inputs[0].type};
}

Kernel build_batch_norm(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", 1e-5F);
  return {[epsilon](Inputs in, Outputs out, const ops::Exec& exec) {
            const ops::BatchNormParams params{in[1].as<const float>(), in[2].as<const float>(),
                                              in[3].as<const float>(), in[4].as<const float>(),
                                              epsilon};
            ops::batch_norm(in[0], params, out[0], exec);
          },
          0, false};
}

std::vector<TensorType> infer_instance_norm(const OpView& v) {
  v.want_count(3, 3);
  v.want_float(0);
  want_nchw(v);
  if (v.shape(0).rank() < 3) v.fail("needs rank 3 or more");
  want_lists(v, 1, 2, v.shape(0)[1]);
  return {v.inputs[0].type};
}

Kernel build_instance_norm(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", 1e-5F);
  return {[epsilon](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::instance_norm(in[0], in[1].as<const float>(), in[2].as<const float>(), epsilon,
                               out[0], exec);
          },
          0, false};
}

size_t norm_axis(const OpView& v) {
  const size_t rank = v.shape(0).rank();
  return ops::resolve_axis(v.op.type, v.op.attrs.int_or("begin_norm_axis", 0), rank);
}

std::vector<TensorType> infer_layer_norm(const OpView& v) {
  v.want_count(2, 3);
  v.want_float(0);
  const ops::Shape& x = v.shape(0);
  want_lists(v, 1, v.has(2) ? 2 : 1, x.elements(norm_axis(v), x.rank()));
  return {v.inputs[0].type};
}

Kernel build_layer_norm(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", 1e-7F);
  return {[epsilon, axis = norm_axis(v)](Inputs in, Outputs out, const ops::Exec& exec) {
            const float* offset = in.size() > 2 ? in[2].as<const float>() : nullptr;
            ops::layer_norm(in[0], axis, in[1].as<const float>(), offset, epsilon, out[0], exec);
          },
          0, false};
}

constexpr OpType kTable[] = {
    {"Conv2D", infer_conv, build_conv},
    {"MatMulV2", infer_matmul, build_matmul},
    {"MatMul", infer_matmul, build_matmul},
    {"BatchMatMulV2", infer_matmul, build_matmul},
    {"BatchMatMul", infer_matmul, build_matmul},
    {"MaxPoolV3", infer_pool, build_max_pool},
    {"AvgPoolV2", infer_pool, build_average_pool},
    {"GlobalAveragePool", infer_global_average, build_global_average},
    {"ReduceSum", infer_reduce, build_reduce},
    {"ReduceMean", infer_reduce, build_reduce},
    {"ReduceMax", infer_reduce, build_reduce},
    {"ReduceMin", infer_reduce, build_reduce},
    {"ReduceProd", infer_reduce, build_reduce},
    {"ArgMaxV2", infer_arg, build_arg},
    {"ArgMin", infer_arg, build_arg},
    {"SoftmaxV2", infer_softmax, build_softmax},
    {"LogSoftmaxV2", infer_softmax, build_softmax},
    {"BatchNorm", infer_batch_norm, build_batch_norm},
    {"InstanceNorm", infer_instance_norm, build_instance_norm},
    {"LayerNorm", infer_layer_norm, build_layer_norm},
};

}  // namespace

std::span<const OpType> compute_op_types() { return kTable; }

}  // namespace ascendrt::model
