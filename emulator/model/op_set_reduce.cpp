// Reductions, softmax and normalisations of the operator table.
// Owns: how axes of the graph become the arguments of kernels. Must never: hold arithmetic; that is
// in ops/.
#include <algorithm>
#include <utility>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/reduce.hpp"

namespace ascendrt::model {
namespace {

// --- reductions ---

struct ReduceRow {
  std::string_view name;
  ops::Reduce op;
};

constexpr ReduceRow kReduce[] = {
    {"ReduceSum", ops::Reduce::kSum},         {"ReduceMean", ops::Reduce::kMean},
    {"ReduceMax", ops::Reduce::kMax},         {"ReduceMin", ops::Reduce::kMin},
    {"ReduceProd", ops::Reduce::kProd},       {"ReduceLogSum", ops::Reduce::kLogSum},
    {"SquareSumV1", ops::Reduce::kSumSquare}, {"ReduceLogSumExp", ops::Reduce::kLogSumExp},
};

ops::Reduce reduce_kind(const OpView& v) {
  if (v.op.type == "LpNormV2") {
    const float p = v.op.attrs.float_or("p", 2.0F);
    if (p != 1.0F && p != 2.0F) v.fail("only p 1 and 2 are computed");
    return p == 1.0F ? ops::Reduce::kL1 : ops::Reduce::kL2;
  }
  for (const ReduceRow& row : kReduce) {
    if (row.name == v.op.type) return row.op;
  }
  v.fail("not in its table");
}

// The reduced axes, sorted, from input 1 or the attribute that some types have instead. Empty stays
// "all" or "none" by noop_with_empty_axes.
std::vector<size_t> reduced_axes(const OpView& v) {
  v.want_count(1, 2);
  if (!ops::reduce_takes(reduce_kind(v), v.dtype(0))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(0)));
  }
  const char* attr = v.op.type == "LpNormV2" ? "axes" : "axis";
  std::vector<size_t> axes;
  for (const int64_t axis : v.has(1) ? v.constant_ints(1) : v.op.attrs.ints_or(attr, {})) {
    axes.push_back(ops::resolve_axis(v.op.type, axis, v.shape(0).rank()));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) v.fail("an axis is named twice");
  return axes;
}

bool keeps_all(const OpView& v, const std::vector<size_t>& axes) {
  return axes.empty() && v.flag("noop_with_empty_axes");
}

std::vector<TensorType> infer_reduce(const OpView& v) {
  const auto axes = reduced_axes(v);
  const ops::Shape& x = v.shape(0);
  if (keeps_all(v, axes)) return {v.inputs[0].type};
  const char* attr = v.op.type == "LpNormV2" ? "keepdim" : "keep_dims";
  const bool keep = v.flag(attr);
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
  if (keeps_all(v, axes)) {
    return make_kernel([op = reduce_kind(v)](Inputs in, Outputs out, const ops::Exec& exec) {
      ops::reduce_nothing(op, in[0], out[0], exec);
    });
  }
  return reduce_kernel(reduce_kind(v), std::move(axes));
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
  if (!ops::is_plain_number(v.dtype(0))) v.fail("needs numbers");
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

std::vector<aclDataType> arg_type(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("dtype", ACL_INT32))};
}

Kernel build_arg(const OpView& v, std::span<const TensorType>) {
  const auto kind = v.op.type == "ArgMin" ? ops::Extreme::kMin : ops::Extreme::kMax;
  const size_t axis = ops::resolve_axis(v.op.type, v.constant_ints(1)[0], v.shape(0).rank());
  const bool last = v.op.attrs.int_or("select_last_index", 0) != 0;
  const auto pick = last ? ops::Pick::kLast : ops::Pick::kFirst;
  return {[kind, pick, axis](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::arg_extreme(kind, pick, in[0], axis, out[0], exec);
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
  if (v.dtype(0) != ACL_DOUBLE) v.want_float(0);
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
  if (v.op.attrs.string_or("data_format", "NCHW") != "NCHW") v.fail("only NCHW is computed");
  if (v.shape(0).rank() < 2) v.fail("needs rank 2 or more");
  if (v.flag("is_training", true)) v.fail("training mode is not computed");
  want_lists(v, 1, 4, v.shape(0)[1]);
  return {v.inputs[0].type};
}

Kernel build_batch_norm(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", kBatchNormEpsilon);
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
  if (v.op.attrs.string_or("data_format", "NCHW") != "NCHW") v.fail("only NCHW is computed");
  if (v.shape(0).rank() < 3) v.fail("needs rank 3 or more");
  want_lists(v, 1, 2, v.shape(0)[1]);
  return {v.inputs[0].type};
}

Kernel build_instance_norm(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", 1e-6F);
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
    {"GlobalAveragePool", infer_global_average, build_global_average},
    {"ReduceSum", infer_reduce, build_reduce},
    {"ReduceMean", infer_reduce, build_reduce},
    {"ReduceMax", infer_reduce, build_reduce},
    {"ReduceMin", infer_reduce, build_reduce},
    {"ReduceProd", infer_reduce, build_reduce},
    {"ReduceLogSum", infer_reduce, build_reduce},
    {"ReduceLogSumExp", infer_reduce, build_reduce},
    {"SquareSumV1", infer_reduce, build_reduce},
    {"LpNormV2", infer_reduce, build_reduce},
    {"ArgMaxV2", infer_arg, build_arg, Halves::kWidened, arg_type},
    {"ArgMin", infer_arg, build_arg, Halves::kWidened, arg_type},
    {"SoftmaxV2", infer_softmax, build_softmax},
    {"LogSoftmaxV2", infer_softmax, build_softmax},
    {"BatchNorm", infer_batch_norm, build_batch_norm},
    {"InstanceNorm", infer_instance_norm, build_instance_norm},
    {"LayerNorm", infer_layer_norm, build_layer_norm},
};

}  // namespace

std::span<const OpType> reduce_op_types() { return kTable; }

}  // namespace ascendrt::model
