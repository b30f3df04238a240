// Quantisation and integer products in the operator table. Owns: which scale belongs to what.
// Must never: hold arithmetic; that is in ops/.
#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/integer.hpp"
#include "ops/quantize.hpp"

namespace ascendrt::model {
namespace {

// One scale, one per element of the axis, or blocks along the axis.
ops::ScaleMap scale_map(const OpView& v) {
  const ops::Shape& x = v.shape(0);
  const ops::Shape& scale = v.shape(1);
  ops::ScaleMap map;
  map.inner = std::max<int64_t>(x.elements(), 1);
  if (v.has(2) && v.shape(2).elements() != scale.elements()) v.fail("zero points do not fit");
  if (scale.elements() == 1 && scale.rank() < 2) return map;
  const size_t axis = ops::resolve_axis(v.op.type, v.op.attrs.int_or("axis", 1), x.rank());
  map.dim = x[axis];
  map.inner = x.elements(axis + 1, x.rank());
  const int64_t block = v.op.attrs.int_or("block_size", 0);
  if (scale.rank() == x.rank() && (x.rank() > 1 || block > 0)) {
    if (block < 1 || (map.dim + block - 1) / block != scale[axis]) v.fail("block_size");
    map.block = block;
    map.per_element_of_inner = true;
    ops::Shape rest = x;
    rest[axis] = scale[axis];
    if (!(rest == scale)) v.fail("scales of shape " + scale.text() + " do not fit " + x.text());
    return map;
  }
  if (scale.elements() != map.dim) v.fail("scales of shape " + scale.text() + " do not fit");
  return map;
}

const ops::TensorView* optional(Inputs in, size_t i) {
  return in.size() > i && in[i].data != nullptr ? &in[i] : nullptr;
}

aclDataType quantized_type(const OpView& v) {
  const auto fallback = v.has(2) ? v.dtype(2) : ACL_UINT8;
  const auto type = static_cast<aclDataType>(v.op.attrs.int_or("output_dtype", fallback));
  constexpr aclDataType kTypes[] = {ACL_INT8, ACL_UINT8,         ACL_INT16,       ACL_UINT16,
                                    ACL_INT4, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E5M2, ACL_FLOAT4_E2M1};
  for (const aclDataType known : kTypes) {
    if (type == known) return type;
  }
  v.fail(std::string("no form for ") + ops::dtype_name(type));
}

std::vector<TensorType> infer_quantize(const OpView& v) {
  v.want_count(2, 3);
  static_cast<void>(scale_map(v));
  return {{quantized_type(v), v.shape(0)}};
}

Kernel build_quantize(const OpView& v, std::span<const TensorType>) {
  ops::CastParams params;
  if (!v.flag("saturate", true)) params.overflow = ops::Overflow::kSpecial;
  return make_kernel([map = scale_map(v), params](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::quantize(in[0], in[1], optional(in, 2), map, params, out[0], exec);
  });
}

std::vector<aclDataType> quantize_type(const OpView& v) { return {quantized_type(v)}; }

std::vector<aclDataType> dequantize_type(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("output_dtype", v.dtype(1)))};
}

std::vector<TensorType> infer_dequantize(const OpView& v) {
  v.want_count(2, 3);
  static_cast<void>(scale_map(v));
  if (!ops::cast_takes(v.dtype(0))) v.fail("no form for the type of the input");
  return {{dequantize_type(v)[0], v.shape(0)}};
}

Kernel build_dequantize(const OpView& v, std::span<const TensorType>) {
  return make_kernel([map = scale_map(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::dequantize(in[0], in[1], optional(in, 2), map, out[0], exec);
  });
}

std::vector<TensorType> infer_dynamic(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  return {{ACL_UINT8, v.shape(0)}, {ACL_FLOAT, {}}, {ACL_UINT8, {}}};
}

Kernel build_dynamic(const OpView&, std::span<const TensorType>) {
  return make_kernel([](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::quantize_dynamically(in[0], out[0], out[1], out[2], exec);
  });
}

std::vector<aclDataType> dynamic_types(const OpView&) { return {ACL_UINT8, ACL_FLOAT, ACL_UINT8}; }

// --- integer matrix products ---

struct Product {
  ops::IntegerMatmul shape;
  ops::Shape y;
};

// Vectors count as one row or one column and lose that dim in the result.
Product product_of(const OpView& v, size_t a_input, size_t b_input) {
  for (const size_t i : {a_input, b_input}) {
    if (v.dtype(i) != ACL_INT8 && v.dtype(i) != ACL_UINT8) v.fail("needs 8 bit integers");
    if (v.shape(i).rank() == 0) v.fail("needs matrices");
  }
  ops::Shape a = v.shape(a_input);
  ops::Shape b = v.shape(b_input);
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  if (row) a = {1, a[0]};
  if (column) b.push_back(1);
  Product p{{a[a.rank() - 2], a[a.rank() - 1], b[b.rank() - 1], {}, {}}, {}};
  if (b[b.rank() - 2] != p.shape.depth) v.fail(a.text() + " and " + b.text() + " do not multiply");
  const ops::Shape a_batch(a.dims().first(a.rank() - 2));
  const ops::Shape b_batch(b.dims().first(b.rank() - 2));
  p.y = ops::broadcast_shape(v.op.type, a_batch, b_batch);
  for (int64_t i = 0; i < p.y.elements(); ++i) {
    p.shape.a_start.push_back(batch_index(a_batch, p.y, i) * p.shape.rows * p.shape.depth);
    p.shape.b_start.push_back(batch_index(b_batch, p.y, i) * p.shape.depth * p.shape.columns);
  }
  if (!row) p.y.push_back(p.shape.rows);
  if (!column) p.y.push_back(p.shape.columns);
  return p;
}

void want_zeros(const OpView& v, size_t i, int64_t many) {
  if (!v.has(i) || v.shape(i).elements() == 1) return;
  if (v.shape(i).elements() != many) v.fail("zero points do not fit");
}

std::vector<TensorType> infer_integers(const OpView& v) {
  v.want_count(2, 4);
  const Product p = product_of(v, 0, 1);
  want_zeros(v, 2, p.shape.rows);
  want_zeros(v, 3, p.shape.columns);
  return {{ACL_INT32, p.y}};
}

// A matrix that is known is packed once.
std::shared_ptr<const ops::IntegerMatrix> packed_matrix(const OpView& v,
                                                        const ops::IntegerMatmul& s) {
  const bool known = v.input(1).is_constant && (!v.has(3) || v.input(3).is_constant);
  if (!known || v.shape(1).rank() > 2) return nullptr;
  const ops::TensorView zeros = v.has(3) ? v.constant_view(3) : ops::TensorView{};
  return std::make_shared<const ops::IntegerMatrix>(v.constant_view(1), 0, s.depth, s.columns,
                                                    v.has(3) ? &zeros : nullptr);
}

Kernel build_integers(const OpView& v, std::span<const TensorType>) {
  const ops::IntegerMatmul s = product_of(v, 0, 1).shape;
  const auto packed = packed_matrix(v, s);
  Kernel kernel = make_kernel([s, packed](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::multiply_integers(s, in[0], optional(in, 2), in[1], optional(in, 3), out[0].as<int32_t>(),
                           exec, packed.get());
  });
  if (packed != nullptr) kernel.unread = 1U << 1U | 1U << 3U;
  return kernel;
}

std::vector<aclDataType> int32_type(const OpView&) { return {ACL_INT32}; }

// QLinearMatMul(a, scale, zero, b, scale, zero, y scale, y zero).
std::vector<TensorType> infer_linear(const OpView& v) {
  v.want_count(8, 8);
  const Product p = product_of(v, 0, 3);
  want_zeros(v, 2, p.shape.rows);
  want_zeros(v, 5, p.shape.columns);
  if (v.shape(1).elements() != 1 || v.shape(6).elements() != 1 || v.shape(7).elements() != 1 ||
      (v.shape(4).elements() != 1 && v.shape(4).elements() != p.shape.columns)) {
    v.fail("only one scale for each operand, or one per column of the second, is computed");
  }
  return {{v.dtype(7), p.y}};
}

Kernel build_linear(const OpView& v, std::span<const TensorType>) {
  const ops::IntegerMatmul s = product_of(v, 0, 3).shape;
  const bool by_column = v.shape(4).elements() != 1;
  return make_kernel([s, by_column](Inputs in, Outputs out, const ops::Exec& exec) {
    std::vector<int32_t> sums(static_cast<size_t>(out[0].elements()));
    std::vector<float> real(sums.size());
    std::vector<float> scales(static_cast<size_t>(in[4].elements()));
    float a_scale = 0;
    ops::multiply_integers(s, in[0], &in[2], in[3], &in[5], sums.data(), exec);
    ops::cast(in[1], {&a_scale, ACL_FLOAT, {}}, exec);
    ops::cast(in[4], {scales.data(), ACL_FLOAT, in[4].shape}, exec);
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t column = by_column ? i % static_cast<size_t>(s.columns) : 0;
      real[i] = static_cast<float>(sums[i]) * a_scale * scales[column];
    }
    const ops::ScaleMap map{1, 1, std::max<int64_t>(out[0].elements(), 1), false};
    ops::quantize({real.data(), ACL_FLOAT, out[0].shape}, in[6], &in[7], map, {}, out[0], exec);
  });
}

std::vector<aclDataType> linear_type(const OpView& v) { return {v.dtype(7)}; }

constexpr Halves kNative = Halves::kNative;

constexpr OpType kTable[] = {
    {"QuantizeLinear", infer_quantize, build_quantize, kNative, quantize_type},
    {"DequantizeLinear", infer_dequantize, build_dequantize, kNative, dequantize_type},
    {"DynamicQuantizeLinear", infer_dynamic, build_dynamic, kNative, dynamic_types},
    {"MatMulInteger", infer_integers, build_integers, kNative, int32_type},
    {"QLinearMatMul", infer_linear, build_linear, kNative, linear_type},
};

}  // namespace

std::span<const OpType> quantize_op_types() { return kTable; }

}  // namespace ascendrt::model
