// Operators of the table that move or rename data. Owns: their shape rules.
// Must never: read values of inputs that are not constant.
#include <algorithm>
#include <memory>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/move.hpp"

namespace ascendrt::model {
namespace {

Kernel view_kernel(const OpView&, std::span<const TensorType>) { return {{}, 0, true}; }

void want_sized(const OpView& v, size_t i) {
  const size_t size = ops::dtype_size(v.dtype(i));
  if (size == 0 || size > 8) v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(i)));
}

int64_t attr_axis(const OpView& v, std::string_view attr, int64_t fallback, size_t rank) {
  return static_cast<int64_t>(
      ops::resolve_axis(v.op.type, v.op.attrs.int_or(attr, fallback), rank));
}

std::vector<TensorType> infer_identity(const OpView& v) {
  v.want_count(1, 1);
  return {v.inputs[0].type};
}

// --- shapes ---

// ONNX rule: 0 copies a dim unless allowzero, one -1 takes what is left.
std::vector<TensorType> infer_reshape(const OpView& v) {
  v.want_count(2, 2);
  const ops::Shape& x = v.shape(0);
  const auto wanted = v.constant_ints(1);
  const bool zeros = v.op.attrs.int_or("allowzero", 0) != 0;
  ops::Shape y;
  int64_t open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t dim = wanted[i];
    if (dim == 0 && !zeros) {
      if (i >= x.rank()) v.fail("a 0 at position " + std::to_string(i) + " copies no dim");
      dim = x[i];
    }
    if (dim < -1)
      v.fail("the shape holds " + std::to_string(dim) + ", only -1 is possible below 0");
    if (dim == -1 && open >= 0) v.fail("the shape may hold one -1 only");
    if (dim == -1) open = static_cast<int64_t>(i);
    y.push_back(dim == -1 ? 1 : dim);
  }
  const int64_t total = x.elements();
  if (open >= 0) {
    const int64_t rest = y.elements();
    if (rest == 0 || total % rest != 0) v.fail("-1 cannot be found for " + x.text());
    y[static_cast<size_t>(open)] = total / rest;
  }
  if (y.elements() != total) v.fail(x.text() + " cannot become " + y.text());
  return {{v.dtype(0), y}};
}

std::vector<TensorType> infer_flatten(const OpView& v) {
  v.want_count(1, 1);
  const ops::Shape& x = v.shape(0);
  const int64_t axis = v.op.attrs.int_or("axis", 1);
  const auto rank = static_cast<int64_t>(x.rank());
  if (axis < -rank || axis > rank) v.fail("axis " + std::to_string(axis) + " is out of range");
  const auto cut = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  return {{v.dtype(0), {x.elements(0, cut), x.elements(cut, x.rank())}}};
}

// Axes from the attribute or from a constant second input; nothing when neither is there.
std::vector<int64_t> axes_of(const OpView& v, std::string_view attr) {
  v.want_count(1, 2);
  return v.has(1) ? v.constant_ints(1) : v.op.attrs.ints_or(attr, {});
}

std::vector<TensorType> infer_squeeze(const OpView& v) {
  const auto axes = axes_of(v, "axis");
  const ops::Shape& x = v.shape(0);
  std::vector<bool> gone(x.rank(), false);
  for (const int64_t axis : axes) {
    const size_t i = ops::resolve_axis(v.op.type, axis, x.rank());
    if (x[i] != 1) v.fail("dim " + std::to_string(i) + " of " + x.text() + " is not 1");
    gone[i] = true;
  }
  ops::Shape y;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!(axes.empty() ? x[i] == 1 : gone[i])) y.push_back(x[i]);
  }
  return {{v.dtype(0), y}};
}

std::vector<TensorType> infer_unsqueeze(const OpView& v) {
  const auto axes = axes_of(v, "axes");
  const ops::Shape& x = v.shape(0);
  const size_t rank = x.rank() + axes.size();
  if (rank > ops::Shape::kMaxRank) v.fail("rank above 8");
  std::vector<bool> fresh(rank, false);
  for (const int64_t axis : axes) {
    const size_t i = ops::resolve_axis(v.op.type, axis, rank);
    if (fresh[i]) v.fail("axis " + std::to_string(axis) + " is named twice");
    fresh[i] = true;
  }
  ops::Shape y;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) y.push_back(fresh[i] ? 1 : x[next++]);
  return {{v.dtype(0), y}};
}

// --- movement ---

// Without a permutation the axes are reversed.
std::vector<int64_t> permutation(const OpView& v) {
  v.want_count(1, 2);
  if (v.has(1)) return v.constant_ints(1);
  std::vector<int64_t> perm;
  for (size_t i = v.shape(0).rank(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  return perm;
}

std::vector<TensorType> infer_transpose(const OpView& v) {
  want_sized(v, 0);
  return {{v.dtype(0), ops::transpose_shape(v.shape(0), permutation(v))}};
}

Kernel build_transpose(const OpView& v, std::span<const TensorType>) {
  return {[perm = permutation(v)](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::transpose(in[0], perm, out[0], exec);
          },
          0, false};
}

std::vector<TensorType> infer_concat(const OpView& v) {
  v.want_count(1, v.inputs.size());
  const auto axis = static_cast<size_t>(attr_axis(v, "concat_dim", 0, v.shape(0).rank()));
  TensorType type = v.inputs[0].type;
  want_sized(v, 0);
  for (size_t k = 1; k < v.inputs.size(); ++k) {
    ops::Shape other = v.shape(k);
    if (v.dtype(k) != type.dtype || other.rank() != type.shape.rank()) {
      v.fail("operands of different types or ranks");
    }
    type.shape[axis] += other[axis];
    other[axis] = type.shape[axis];
    if (!(other == type.shape)) v.fail("shapes differ beside the axis");
  }
  static_cast<void>(type.shape.elements());
  return {type};
}

Kernel build_concat(const OpView& v, std::span<const TensorType>) {
  const auto axis = static_cast<size_t>(attr_axis(v, "concat_dim", 0, v.shape(0).rank()));
  return {[axis](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::concat(in, axis, out[0], exec);
          },
          0, false};
}

ops::PadMode pad_mode(const OpView& v) {
  const std::string mode = v.op.attrs.string_or("mode", "constant");
  if (mode == "constant") return ops::PadMode::kConstant;
  if (mode == "reflect") return ops::PadMode::kReflect;
  if (mode == "edge") return ops::PadMode::kEdge;
  if (mode == "wrap") return ops::PadMode::kWrap;
  v.fail("mode " + mode + " is not computed");
}

// [begins, ends] of all axes; input 3 may name the axes that the pads are for.
std::vector<int64_t> full_pads(const OpView& v) {
  auto pads = v.constant_ints(1);
  if (!v.has(3)) return pads;
  const auto axes = v.constant_ints(3);
  const size_t rank = v.shape(0).rank();
  if (pads.size() != 2 * axes.size()) v.fail("pads and axes have different lengths");
  std::vector<int64_t> full(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = ops::resolve_axis(v.op.type, axes[i], rank);
    full[axis] = pads[i];
    full[axis + rank] = pads[i + axes.size()];
  }
  return full;
}

std::vector<TensorType> infer_pad(const OpView& v) {
  v.want_count(2, 4);
  want_sized(v, 0);
  const ops::Shape& x = v.shape(0);
  const auto pads = full_pads(v);
  if (v.flag("paddings_contiguous")) {
    v.fail("paddings_contiguous is not computed");
  }
  if (pads.size() != 2 * x.rank()) v.fail("needs two pads per dim");
  if (v.has(2) && (v.dtype(2) != v.dtype(0) || v.shape(2).elements() != 1)) {
    v.fail("the pad value must be one element of the type of the input");
  }
  ops::Shape y = x;
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t before = pads[i];
    const int64_t after = pads[i + x.rank()];
    constexpr int64_t kLimit = int64_t{1} << 40;
    y[i] = -1;
    if (std::max(before, after) <= kLimit && std::min(before, after) >= -kLimit) {
      y[i] = x[i] + before + after;
    }
    if (y[i] < 0) {
      v.fail("pads of " + std::to_string(before) + " and " + std::to_string(after) + " on axis " +
             std::to_string(i) + ", which has " + std::to_string(x[i]) +
             " elements; 0 elements must be left, a pad may be up to 1099511627776");
    }
    if (x[i] == 0 && pad_mode(v) != ops::PadMode::kConstant) v.fail("nothing to repeat");
  }
  static_cast<void>(y.elements());
  return {{v.dtype(0), y}};
}

Kernel build_pad(const OpView& v, std::span<const TensorType>) {
  return {[mode = pad_mode(v), pads = full_pads(v)](Inputs in, Outputs out, const ops::Exec& exec) {
            const void* value = in.size() > 2 ? in[2].data : nullptr;
            ops::pad(mode, in[0], std::span(pads).first(pads.size() / 2), value, out[0], exec);
          },
          0, false};
}

// Inputs begin, end, axes, strides are constants; the last two may be missing.
std::vector<ops::SliceAxis> slice_axes(const OpView& v) {
  v.want_count(3, 5);
  want_sized(v, 0);
  const ops::Shape& x = v.shape(0);
  std::vector<ops::SliceAxis> out;
  for (size_t i = 0; i < x.rank(); ++i) out.push_back({0, 1, x[i]});
  const auto begin = v.constant_ints(1);
  const auto end = v.constant_ints(2);
  const auto axes = v.has(3) ? v.constant_ints(3) : std::vector<int64_t>{};
  const auto steps = v.has(4) ? v.constant_ints(4) : std::vector<int64_t>(begin.size(), 1);
  if (end.size() != begin.size() || steps.size() != begin.size() || begin.size() > x.rank() ||
      (v.has(3) && axes.size() != begin.size())) {
    v.fail("begin, end, axes and strides have different lengths");
  }
  std::vector<bool> sliced(x.rank(), false);
  for (size_t k = 0; k < begin.size(); ++k) {
    const size_t i = v.has(3) ? ops::resolve_axis(v.op.type, axes[k], x.rank()) : k;
    if (sliced[i]) v.fail("axis " + std::to_string(i) + " is named twice");
    sliced[i] = true;
    out[i] = ops::resolve_slice(x[i], begin[k], end[k], steps[k]);
  }
  return out;
}

std::vector<TensorType> infer_slice(const OpView& v) {
  ops::Shape y;
  for (const ops::SliceAxis& axis : slice_axes(v)) y.push_back(axis.count);
  return {{v.dtype(0), y}};
}

Kernel slice_kernel(std::vector<ops::SliceAxis> axes) {
  return {[axes = std::move(axes)](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::slice(in[0], axes, out[0], exec);
          },
          0, false};
}

Kernel build_slice(const OpView& v, std::span<const TensorType>) {
  return slice_kernel(slice_axes(v));
}

int64_t part_count(const OpView& v, int64_t fallback) {
  const int64_t parts = v.op.attrs.int_or("num_split", fallback);
  if (parts < 1 || parts > 1 << 20) v.fail("num_split");
  return parts;
}

// The sizes of the parts; without them equal ones, the last may be smaller.
std::vector<int64_t> split_sizes(const OpView& v, int64_t dim) {
  if (v.has(1)) return v.constant_ints(1);
  const int64_t parts = part_count(v, 0);
  const int64_t each = (dim + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) {
    sizes.push_back(std::clamp<int64_t>(dim - i * each, 0, each));
  }
  return sizes;
}

// SplitV(x, size_splits, split_dim), the last two constants.
std::vector<TensorType> infer_split(const OpView& v) {
  want_sized(v, 0);
  const auto axes = v.constant_ints(2);
  if (axes.size() != 1) v.fail("needs one axis");
  const ops::Shape& x = v.shape(0);
  const size_t axis = ops::resolve_axis(v.op.type, axes[0], x.rank());
  const auto sizes = split_sizes(v, x[axis]);
  std::vector<TensorType> out;
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > x[axis]) {
      v.fail("a part of " + std::to_string(size) + " of an axis of " + std::to_string(x[axis]) +
             " elements");
    }
    sum += size;
    TensorType type = v.inputs[0].type;
    type.shape[axis] = size;
    out.push_back(type);
  }
  if (sum != x[axis]) {
    v.fail("parts of together " + std::to_string(sum) + " elements of an axis of " +
           std::to_string(x[axis]));
  }
  return out;
}

Kernel build_split(const OpView& v, std::span<const TensorType> outputs) {
  const size_t axis = ops::resolve_axis(v.op.type, v.constant_ints(2)[0], v.shape(0).rank());
  std::vector<std::vector<ops::SliceAxis>> parts;
  int64_t start = 0;
  for (const TensorType& type : outputs) {
    std::vector<ops::SliceAxis> axes;
    for (const int64_t dim : type.shape) axes.push_back({0, 1, dim});
    axes[axis].start = start;
    start += type.shape[axis];
    parts.push_back(std::move(axes));
  }
  return {[parts = std::move(parts)](Inputs in, Outputs out, const ops::Exec& exec) {
            for (size_t i = 0; i < parts.size(); ++i) ops::slice(in[0], parts[i], out[i], exec);
          },
          0, false};
}

// GatherV2(x, indices, axis constant).
std::vector<TensorType> infer_gather(const OpView& v) {
  v.want_count(3, 3);
  want_sized(v, 0);
  if (v.dtype(1) != ACL_INT32 && v.dtype(1) != ACL_INT64) v.fail("indices must be int32 or int64");
  const auto axes = v.constant_ints(2);
  if (axes.size() != 1) v.fail("needs one axis");
  const ops::Shape& x = v.shape(0);
  const size_t axis = ops::resolve_axis(v.op.type, axes[0], x.rank());
  ops::Shape y(x.dims().first(axis));
  for (const int64_t dim : v.shape(1)) y.push_back(dim);
  for (const int64_t dim : x.dims().subspan(axis + 1)) y.push_back(dim);
  static_cast<void>(y.elements());
  return {{v.dtype(0), y}};
}

Kernel build_gather(const OpView& v, std::span<const TensorType>) {
  const size_t axis = ops::resolve_axis(v.op.type, v.constant_ints(2)[0], v.shape(0).rank());
  return {[axis](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::gather(in[0], in[1], axis, out[0], exec);
          },
          0, false};
}

ops::Shape constant_shape(const OpView& v, size_t i) {
  const auto dims = v.constant_ints(i);
  ops::Shape shape(dims);
  if (shape.is_open()) v.fail("the shape asked for is " + shape.text() + ", no dim may be below 0");
  static_cast<void>(shape.elements());
  return shape;
}

std::vector<TensorType> infer_expand(const OpView& v) {
  v.want_count(2, 2);
  want_sized(v, 0);
  const auto y = ops::broadcast_shape(v.op.type, v.shape(0), constant_shape(v, 1));
  static_cast<void>(y.elements());
  return {{v.dtype(0), y}};
}

// Fill(dims, value): inputs the other way round.
std::vector<TensorType> infer_fill(const OpView& v) {
  v.want_count(2, 2);
  want_sized(v, 1);
  if (v.shape(1).elements() != 1) v.fail("the value must be one element");
  return {{v.dtype(1), constant_shape(v, 0)}};
}

Kernel build_expand(const OpView& v, std::span<const TensorType>) {
  return {[source = v.op.type == "Fill" ? 1U : 0U](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::TensorView x = in[source];
            if (source == 1) x.shape = {};
            ops::expand(x, out[0], exec);
          },
          0, false};
}

std::vector<TensorType> infer_tile(const OpView& v) {
  v.want_count(2, 2);
  want_sized(v, 0);
  const auto times = v.constant_ints(1);
  if (times.size() != v.shape(0).rank()) v.fail("needs one number per dim");
  TensorType type = v.inputs[0].type;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 0 || __builtin_mul_overflow(type.shape[i], times[i], &type.shape[i])) {
      v.fail("axis " + std::to_string(i) + " of " + v.shape(0).text() + " repeated " +
             std::to_string(times[i]) + " times");
    }
  }
  static_cast<void>(type.shape.elements());
  return {type};
}

Kernel build_tile(const OpView&, std::span<const TensorType>) {
  return {[](Inputs in, Outputs out, const ops::Exec& exec) { ops::tile(in[0], out[0], exec); }, 0,
          false};
}

std::vector<aclDataType> fill_type(const OpView& v) { return {v.dtype(1)}; }

std::vector<aclDataType> split_types(const OpView& v) {
  return std::vector<aclDataType>(static_cast<size_t>(part_count(v, 1)), v.dtype(0));
}

constexpr Halves kNative = Halves::kNative;

constexpr OpType kTable[] = {
    {"Identity", infer_identity, view_kernel, kNative},
    {"Dropout", infer_identity, view_kernel, kNative},
    {"Reshape", infer_reshape, view_kernel, kNative},
    {"Flatten", infer_flatten, view_kernel, kNative},
    {"FlattenV2", infer_flatten, view_kernel, kNative},
    {"Squeeze", infer_squeeze, view_kernel, kNative},
    {"SqueezeV3", infer_squeeze, view_kernel, kNative},
    {"Unsqueeze", infer_unsqueeze, view_kernel, kNative},
    {"UnsqueezeV3", infer_unsqueeze, view_kernel, kNative},
    {"Transpose", infer_transpose, build_transpose, kNative},
    {"ConcatD", infer_concat, build_concat, kNative},
    {"PadV3", infer_pad, build_pad, kNative},
    {"StridedSliceV2", infer_slice, build_slice, kNative},
    {"SplitV", infer_split, build_split, kNative, split_types},
    {"GatherV2", infer_gather, build_gather, kNative},
    {"Expand", infer_expand, build_expand, kNative},
    {"Fill", infer_fill, build_expand, kNative, fill_type},
    {"Tile", infer_tile, build_tile, kNative},
};

}  // namespace

std::span<const OpType> movement_op_types() { return kTable; }

}  // namespace ascendrt::model
