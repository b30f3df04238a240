// Operators of the table that choose elements by index or order. Owns: their shape rules.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cstring>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/index.hpp"
#include "ops/move.hpp"

namespace ascendrt::model {
namespace {

size_t axis_of(const OpView& v, std::string_view attr, int64_t fallback) {
  return ops::resolve_axis(v.op.type, v.op.attrs.int_or(attr, fallback), v.shape(0).rank());
}

void want_indices(const OpView& v, size_t i) {
  if (v.dtype(i) != ACL_INT32 && v.dtype(i) != ACL_INT64) v.fail("indices must be int32 or int64");
}

// --- gather and scatter ---

std::vector<TensorType> infer_gather_elements(const OpView& v) {
  v.want_count(2, 2);
  want_indices(v, 1);
  static_cast<void>(axis_of(v, "dim", 0));
  return {{v.dtype(0), v.shape(1)}};
}

Kernel build_gather_elements(const OpView& v, std::span<const TensorType>) {
  return make_kernel([axis = axis_of(v, "dim", 0)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::gather_elements(in[0], in[1], axis, out[0], exec);
  });
}

size_t batch_dims(const OpView& v) {
  const int64_t count = v.op.attrs.int_or("batch_dims", 0);
  if (count < 0 || static_cast<size_t>(count) >= v.shape(1).rank()) v.fail("batch_dims");
  return static_cast<size_t>(count);
}

std::vector<TensorType> infer_gather_nd(const OpView& v) {
  v.want_count(2, 2);
  want_indices(v, 1);
  const ops::Shape& at = v.shape(1);
  const ops::Shape& x = v.shape(0);
  if (at.rank() == 0) v.fail("indices need a dim");
  const size_t used = batch_dims(v) + static_cast<size_t>(at[at.rank() - 1]);
  if (used > x.rank()) v.fail("index tuples are longer than the rank");
  ops::Shape y(at.dims().first(at.rank() - 1));
  for (const int64_t dim : x.dims().subspan(used)) y.push_back(dim);
  return {{v.dtype(0), y}};
}

Kernel build_gather_nd(const OpView& v, std::span<const TensorType>) {
  return make_kernel([batch = batch_dims(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::gather_nd(in[0], in[1], batch, out[0], exec);
  });
}

ops::Scatter reduction(const OpView& v) {
  constexpr std::pair<std::string_view, ops::Scatter> kTypes[] = {
      {"TensorScatterUpdate", ops::Scatter::kSet}, {"ScatterNdAdd", ops::Scatter::kAdd},
      {"ScatterNdMul", ops::Scatter::kMul},        {"ScatterNdMax", ops::Scatter::kMax},
      {"ScatterNdMin", ops::Scatter::kMin},
  };
  for (const auto& [type, how] : kTypes) {
    if (v.op.type == type) return how;
  }
  const std::string name = v.op.attrs.string_or("reduction", "none");
  if (name == "none") return ops::Scatter::kSet;
  if (name == "add") return ops::Scatter::kAdd;
  if (name == "mul") return ops::Scatter::kMul;
  if (name == "max") return ops::Scatter::kMax;
  if (name == "min") return ops::Scatter::kMin;
  v.fail("reduction " + name + " is not computed");
}

std::vector<TensorType> infer_scatter(const OpView& v) {
  v.want_count(3, 3);
  want_indices(v, 1);
  if (v.dtype(2) != v.dtype(0)) v.fail("updates of another type");
  static_cast<void>(reduction(v));
  if (v.op.type == "ScatterElements") {
    static_cast<void>(axis_of(v, "axis", 0));
    if (!(v.shape(1) == v.shape(2))) v.fail("indices and updates have different shapes");
    return {v.inputs[0].type};
  }
  const ops::Shape& at = v.shape(1);
  if (at.rank() == 0) v.fail("indices need a dim");
  const auto depth = static_cast<size_t>(at[at.rank() - 1]);
  if (depth > v.shape(0).rank()) v.fail("index tuples are longer than the rank");
  const int64_t slice = v.shape(0).elements(depth, v.shape(0).rank());
  if (v.shape(2).elements() != at.elements(0, at.rank() - 1) * slice) {
    v.fail("updates of shape " + v.shape(2).text() + " do not fit the indices");
  }
  return {v.inputs[0].type};
}

Kernel build_scatter(const OpView& v, std::span<const TensorType>) {
  const auto how = reduction(v);
  if (v.op.type == "ScatterElements") {
    const size_t axis = axis_of(v, "axis", 0);
    return make_kernel([how, axis](Inputs in, Outputs out, const ops::Exec& exec) {
      ops::scatter_elements(how, in[0], in[1], in[2], axis, out[0], exec);
    });
  }
  return make_kernel([how](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::scatter_nd(how, in[0], in[1], in[2], out[0], exec);
  });
}

// OneHot(indices, depth, on, off).
size_t one_hot_axis(const OpView& v) {
  return ops::resolve_axis(v.op.type, v.op.attrs.int_or("axis", -1), v.shape(0).rank() + 1);
}

std::vector<TensorType> infer_one_hot(const OpView& v) {
  v.want_count(4, 4);
  if (v.shape(2).elements() != 1 || v.shape(3).elements() != 1 || v.dtype(2) != v.dtype(3)) {
    v.fail("needs two values of one type");
  }
  const auto depth = v.constant_floats(1);
  if (depth.size() != 1) v.fail("needs one depth");
  if (!(depth[0] >= 0) || depth[0] > 1e9F) {
    v.fail("the depth is " + std::to_string(depth[0]) + ", 0 to 1000000000 is possible");
  }
  const size_t axis = one_hot_axis(v);
  ops::Shape y(v.shape(0).dims().first(axis));
  y.push_back(static_cast<int64_t>(depth[0]));
  for (const int64_t dim : v.shape(0).dims().subspan(axis)) y.push_back(dim);
  return {{v.dtype(2), y}};
}

Kernel build_one_hot(const OpView& v, std::span<const TensorType>) {
  return make_kernel([axis = one_hot_axis(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::one_hot(in[0], in[2], in[3], axis, out[0], exec);
  });
}

// --- order ---

// TopK(x, k) gives values and int64 indices.
std::vector<TensorType> infer_top_k(const OpView& v) {
  v.want_count(2, 2);
  const auto count = v.constant_ints(1);
  const size_t axis = axis_of(v, "dim", -1);
  if (count.size() != 1) v.fail("k must be one number, it has " + std::to_string(count.size()));
  if (count[0] < 0 || count[0] > v.shape(0)[axis]) {
    v.fail("k is " + std::to_string(count[0]) + ", the axis has " +
           std::to_string(v.shape(0)[axis]) + " elements; 0 to that many can be taken");
  }
  ops::Shape y = v.shape(0);
  y[axis] = count[0];
  return {{v.dtype(0), y}, {ACL_INT64, y}};
}

Kernel build_top_k(const OpView& v, std::span<const TensorType>) {
  const bool largest = v.flag("largest", true);
  const auto order = largest ? ops::Order::kLargest : ops::Order::kSmallest;
  return make_kernel(
      [order, axis = axis_of(v, "dim", -1)](Inputs in, Outputs out, const ops::Exec& exec) {
        ops::top_k(order, in[0], axis, out[0], out[1], exec);
      });
}

size_t cumulate_axis(const OpView& v) {
  const auto axis = v.constant_ints(1);
  if (axis.size() != 1) v.fail("needs one axis");
  return ops::resolve_axis(v.op.type, axis[0], v.shape(0).rank());
}

std::vector<TensorType> infer_cumulate(const OpView& v) {
  v.want_count(2, 2);
  if (!ops::is_plain_number(v.dtype(0))) v.fail("needs numbers");
  static_cast<void>(cumulate_axis(v));
  return {v.inputs[0].type};
}

Kernel build_cumulate(const OpView& v, std::span<const TensorType>) {
  ops::CumulateParams params;
  params.kind = v.op.type == "Cumsum" ? ops::Cumulate::kSum : ops::Cumulate::kProduct;
  params.exclusive = v.flag("exclusive");
  params.reverse = v.flag("reverse");
  return make_kernel(
      [params, axis = cumulate_axis(v)](Inputs in, Outputs out, const ops::Exec& exec) {
        ops::cumulate(params, in[0], axis, out[0], exec);
      });
}

std::vector<TensorType> infer_reverse(const OpView& v) {
  v.want_count(2, 2);
  want_indices(v, 1);
  const size_t batch = axis_of(v, "batch_dim", 1);
  if (axis_of(v, "seq_dim", 0) == batch || v.shape(1).elements() != v.shape(0)[batch]) {
    v.fail("the axes do not fit the lengths");
  }
  return {v.inputs[0].type};
}

Kernel build_reverse(const OpView& v, std::span<const TensorType>) {
  return make_kernel([time = axis_of(v, "seq_dim", 0), batch = axis_of(v, "batch_dim", 1)](
                         Inputs in, Outputs out, const ops::Exec& exec) {
    ops::reverse_sequence(in[0], in[1], time, batch, out[0], exec);
  });
}

// Everything from the axis on in older opsets: axis_end is given then.
std::vector<TensorType> infer_hardmax(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  static_cast<void>(axis_of(v, "axis", -1));
  return {v.inputs[0].type};
}

Kernel build_hardmax(const OpView& v, std::span<const TensorType>) {
  const size_t first = axis_of(v, "axis", -1);
  const size_t last = v.op.attrs.int_or("to_end", 0) != 0 ? v.shape(0).rank() : first + 1;
  return make_kernel([first, last](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::hardmax(in[0], first, last, out[0], exec);
  });
}

// --- made from shapes and numbers ---

// Trilu(x, k).
std::vector<TensorType> infer_triangle(const OpView& v) {
  v.want_count(1, 2);
  if (v.shape(0).rank() < 2) v.fail("needs matrices");
  if (v.has(1)) static_cast<void>(v.constant_ints(1));
  return {v.inputs[0].type};
}

Kernel build_triangle(const OpView& v, std::span<const TensorType>) {
  const bool upper = v.op.attrs.int_or("upper", 1) != 0;
  const auto part = upper ? ops::Triangle::kUpper : ops::Triangle::kLower;
  const int64_t diagonal = v.has(1) ? v.constant_int(1) : 0;
  return make_kernel([part, diagonal](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::triangle(part, diagonal, in[0], out[0], exec);
  });
}

std::vector<TensorType> infer_eye(const OpView& v) {
  v.want_rank(0, 2);
  return {{static_cast<aclDataType>(v.op.attrs.int_or("dtype", v.dtype(0))), v.shape(0)}};
}

Kernel build_eye(const OpView& v, std::span<const TensorType>) {
  return make_kernel(
      [k = std::clamp<int64_t>(v.op.attrs.int_or("k", 0), -(1LL << 40), 1LL << 40)](
          Inputs, Outputs out, const ops::Exec& exec) { ops::eye(k, out[0], exec); });
}

std::vector<aclDataType> dtype_attribute(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("dtype", v.dtype(0)))};
}

std::vector<TensorType> infer_range(const OpView& v) {
  v.want_count(3, 3);
  for (size_t i = 0; i < 3; ++i) {
    if (v.dtype(i) != v.dtype(0) || v.shape(i).elements() != 1) v.fail("needs three numbers");
  }
  const int64_t count =
      ops::range_count(v.constant_view(0), v.constant_view(1), v.constant_view(2));
  return {{v.dtype(0), {count}}};
}

Kernel build_range(const OpView&, std::span<const TensorType>) {
  return make_kernel([](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::range(in[0], in[2], out[0], exec);
  });
}

OwnedTensor int64_tensor(const std::vector<int64_t>& values, const ops::Shape& shape) {
  OwnedTensor out = make_tensor({ACL_INT64, shape});
  if (!values.empty()) std::memcpy(out.bytes->data(), values.data(), out.bytes->size());
  return out;
}

std::vector<OwnedTensor> run_shape(const OpView& v, const ops::Exec&) {
  const ops::Shape& s = v.shape(0);
  const auto rank = static_cast<int64_t>(s.rank());
  const auto limit = [rank](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t start = limit(v.op.attrs.int_or("start", 0));
  const int64_t end = std::max(start, limit(v.op.attrs.int_or("end", rank)));
  return {int64_tensor({s.begin() + start, s.begin() + end}, {end - start})};
}

std::vector<OwnedTensor> run_size(const OpView& v, const ops::Exec&) {
  return {int64_tensor({v.shape(0).elements()}, {})};
}

std::vector<aclDataType> int64_type(const OpView&) { return {ACL_INT64}; }

// --- shapes that depend on values ---

// The operand as numbers that C++ compares: halves become float32.
OwnedTensor comparable(const OpView& v) {
  const ops::TensorView x = v.constant_view(0);
  const bool half = x.dtype == ACL_FLOAT16 || x.dtype == ACL_BF16;
  OwnedTensor out = make_tensor({half ? ACL_FLOAT : x.dtype, x.shape});
  ops::cast(x, out.view(), {});
  return out;
}

std::vector<OwnedTensor> run_nonzero(const OpView& v, const ops::Exec&) {
  const auto at = ops::nonzero(comparable(v).view());
  const auto rank = static_cast<int64_t>(std::max<size_t>(v.shape(0).rank(), 1));
  return {int64_tensor(at, {rank, static_cast<int64_t>(at.size()) / rank})};
}

// The slices of x along an axis (without one: the elements of x) that are listed.
OwnedTensor pick(const OpView& v, bool flat, size_t axis, const std::vector<int64_t>& indices) {
  ops::TensorView x = v.constant_view(0);
  if (flat) x.shape = {x.elements()};
  const OwnedTensor list = int64_tensor(indices, {static_cast<int64_t>(indices.size())});
  ops::Shape y = x.shape;
  y[axis] = static_cast<int64_t>(indices.size());
  OwnedTensor out = make_tensor({x.dtype, y});
  ops::gather(x, list.view(), axis, out.view(), {});
  return out;
}

std::vector<OwnedTensor> run_compress(const OpView& v, const ops::Exec&) {
  const bool flat = v.op.attrs.find("axis") == nullptr;
  const size_t axis = flat ? 0 : axis_of(v, "axis", 0);
  const int64_t length = flat ? v.shape(0).elements() : v.shape(0)[axis];
  const ops::TensorView condition = v.constant_view(1);
  if (condition.dtype != ACL_BOOL || condition.elements() > length) v.fail("the condition");
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.elements(); ++i) {
    if (condition.as<const uint8_t>()[i] != 0) chosen.push_back(i);
  }
  return {pick(v, flat, axis, chosen)};
}

// Gives the unique slices, their first places, the place of each slice among them, and counts.
std::vector<OwnedTensor> run_unique(const OpView& v, const ops::Exec&) {
  const bool flat = v.op.attrs.find("axis") == nullptr;
  const size_t axis = flat ? 0 : axis_of(v, "axis", 0);
  const ops::Shape& x = v.shape(0);
  const bool sorted = v.op.attrs.int_or("sorted", 1) != 0;
  const auto groups =
      ops::group_equal(comparable(v).view(), flat ? 1 : x.elements(0, axis),
                       flat ? x.elements() : x[axis], flat ? 1 : x.elements(axis + 1, x.rank()),
                       sorted ? ops::GroupOrder::kSorted : ops::GroupOrder::kAppearance);
  const auto count = static_cast<int64_t>(groups.first.size());
  return {pick(v, flat, axis, groups.first), int64_tensor(groups.first, {count}),
          int64_tensor(groups.of, {static_cast<int64_t>(groups.of.size())}),
          int64_tensor(groups.members, {count})};
}

std::vector<aclDataType> unique_types(const OpView& v) {
  return {v.dtype(0), ACL_INT64, ACL_INT64, ACL_INT64};
}
std::vector<aclDataType> top_k_types(const OpView& v) { return {v.dtype(0), ACL_INT64}; }
std::vector<aclDataType> values_type(const OpView& v) { return {v.dtype(2)}; }

constexpr Halves kNative = Halves::kNative;
constexpr Halves kWidened = Halves::kWidened;

constexpr OpType kTable[] = {
    {"GatherElements", infer_gather_elements, build_gather_elements, kNative},
    {"GatherNd", infer_gather_nd, build_gather_nd, kNative},
    {"ScatterElements", infer_scatter, build_scatter},
    {"TensorScatterUpdate", infer_scatter, build_scatter},
    {"ScatterNdAdd", infer_scatter, build_scatter},
    {"ScatterNdMul", infer_scatter, build_scatter},
    {"ScatterNdMax", infer_scatter, build_scatter},
    {"ScatterNdMin", infer_scatter, build_scatter},
    {"OneHot", infer_one_hot, build_one_hot, kNative, values_type},
    {"TopK", infer_top_k, build_top_k, kWidened, top_k_types},
    {"Cumsum", infer_cumulate, build_cumulate},
    {"Cumprod", infer_cumulate, build_cumulate},
    {"ReverseSequence", infer_reverse, build_reverse, kNative},
    {"HardMax", infer_hardmax, build_hardmax},
    {"Trilu", infer_triangle, build_triangle, kNative},
    {"EyeLike", infer_eye, build_eye, kNative, dtype_attribute},
    {"Range", infer_range, build_range},
    {"Shape", nullptr, nullptr, kNative, int64_type, run_shape},
    {"Size", nullptr, nullptr, kNative, int64_type, run_size},
    {"NonZero", nullptr, nullptr, kNative, int64_type, run_nonzero},
    {"Compress", nullptr, nullptr, kNative, nullptr, run_compress},
    {"OnnxUnique", nullptr, nullptr, kNative, unique_types, run_unique},
};

}  // namespace

std::span<const OpType> index_op_types() { return kTable; }

}  // namespace ascendrt::model
