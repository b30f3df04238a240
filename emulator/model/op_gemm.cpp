// The operator GEMM. Owns: its checks, its types and its sums.
#include <vector>

#include "model/single_op.hpp"
#include "ops/elementwise.hpp"
#include "ops/matmul.hpp"

namespace ascendrt::model {
namespace {

enum Operands : size_t { kA, kB, kC, kAlpha, kBeta, kCount };

struct Sizes {
  int64_t rows, columns, depth;
  bool turned_a, turned_b;
};

// src: hicann/ge docs, aclblasGemmEx: which types go together.
bool types_fit(aclDataType factor, aclDataType result) {
  if (factor == ACL_FLOAT16) return result == ACL_FLOAT16 || result == ACL_FLOAT;
  return factor == ACL_INT8 && (result == ACL_FLOAT || result == ACL_INT32);
}

Sizes sizes_of(const OpView& v) {
  Sizes s{0, 0, 0, v.flag("transpose_a"), v.flag("transpose_b")};
  for (const size_t i : {kA, kB, kC}) v.want_rank(i, 2);
  const ops::Shape& a = v.shape(kA);
  const ops::Shape& b = v.shape(kB);
  s.rows = a[s.turned_a ? 1 : 0];
  s.depth = a[s.turned_a ? 0 : 1];
  s.columns = b[s.turned_b ? 0 : 1];
  if (b[s.turned_b ? 1 : 0] != s.depth || !(v.shape(kC) == ops::Shape{s.rows, s.columns})) {
    v.fail("shapes " + a.text() + ", " + b.text() + " and " + v.shape(kC).text() +
           " do not fit together");
  }
  return s;
}

std::vector<TensorType> infer(const OpView& v) {
  v.want_count(kCount, kCount);
  sizes_of(v);
  if (v.dtype(kA) != v.dtype(kB) || !types_fit(v.dtype(kA), v.dtype(kC))) {
    v.fail(std::string("no form for ") + ops::dtype_name(v.dtype(kA)) + " * " +
           ops::dtype_name(v.dtype(kB)) + " + " + ops::dtype_name(v.dtype(kC)) +
           "; there are fp16 * fp16 + (fp16 or float) and int8 * int8 + (int32 or float)");
  }
  for (const size_t i : {kAlpha, kBeta}) {
    if (v.dtype(i) != v.dtype(kC) || v.shape(i).elements() != 1) {
      v.fail("alpha and beta must be one value of the type of c");
    }
  }
  return {{v.dtype(kC), v.shape(kC)}};
}

template <class T>
std::vector<T> to(aclDataType dtype, const ops::TensorView& x) {
  std::vector<T> out(static_cast<size_t>(x.elements()));
  ops::cast(x, {out.data(), dtype, x.shape}, {});
  return out;
}

// [rows][columns] as the product wants it.
template <class T>
std::vector<T> straight(std::vector<T> x, int64_t rows, int64_t columns, bool turned) {
  if (!turned) return x;
  std::vector<T> out(x.size());
  ops::transpose_matrix(x.data(), columns, rows, out.data());
  return out;
}

std::vector<float> float_product(const Sizes& s, Inputs in, const ops::Exec& exec) {
  const auto a = straight(to<float>(ACL_FLOAT, in[kA]), s.rows, s.depth, s.turned_a);
  const auto b = to<float>(ACL_FLOAT, in[kB]);
  std::vector<float> y(static_cast<size_t>(s.rows * s.columns));
  const auto turned = s.turned_b ? ops::Transposed::kYes : ops::Transposed::kNo;
  ops::PackedMatrix(b.data(), s.depth, s.columns, turned)
      .multiply(a.data(), s.rows, nullptr, y.data(), exec);
  return y;
}

// Sums wrap around, as the unit's do.
std::vector<uint32_t> int_product(const Sizes& s, Inputs in, const ops::Exec& exec) {
  const auto a = straight(to<int32_t>(ACL_INT32, in[kA]), s.rows, s.depth, s.turned_a);
  const auto b = straight(to<int32_t>(ACL_INT32, in[kB]), s.depth, s.columns, s.turned_b);
  std::vector<uint32_t> y(static_cast<size_t>(s.rows * s.columns));
  ops::parallel_for(exec, s.rows, [&](int64_t r) {
    uint32_t* row = y.data() + r * s.columns;
    for (int64_t k = 0; k < s.depth; ++k) {
      const int32_t factor = a[static_cast<size_t>(r * s.depth + k)];
      const int32_t* from = b.data() + k * s.columns;
      for (int64_t c = 0; c < s.columns; ++c) row[c] += static_cast<uint32_t>(factor * from[c]);
    }
  });
  return y;
}

// c need not hold numbers when beta is 0.
void finish_floats(std::vector<float> y, Inputs in, Outputs out, const ops::Exec& exec) {
  const float alpha = to<float>(ACL_FLOAT, in[kAlpha])[0];
  const float beta = to<float>(ACL_FLOAT, in[kBeta])[0];
  for (float& value : y) value *= alpha;
  if (beta != 0) {
    const auto c = to<float>(ACL_FLOAT, in[kC]);
    for (size_t i = 0; i < y.size(); ++i) y[i] += beta * c[i];
  }
  ops::cast({y.data(), ACL_FLOAT, out[0].shape}, out[0], exec);
}

void finish_ints(const std::vector<uint32_t>& y, Inputs in, Outputs out) {
  const uint32_t alpha = *in[kAlpha].as<const uint32_t>();
  const uint32_t beta = *in[kBeta].as<const uint32_t>();
  const auto* c = in[kC].as<const uint32_t>();
  auto* to = out[0].as<uint32_t>();
  for (size_t i = 0; i < y.size(); ++i) to[i] = alpha * y[i] + (beta == 0 ? 0 : beta * c[i]);
}

void run(const Sizes& s, Inputs in, Outputs out, const ops::Exec& exec) {
  if (in[kA].dtype == ACL_FLOAT16) {
    return finish_floats(float_product(s, in, exec), in, out, exec);
  }
  const auto y = int_product(s, in, exec);
  if (out[0].dtype == ACL_INT32) return finish_ints(y, in, out);
  std::vector<float> floats;
  for (const uint32_t value : y) floats.push_back(static_cast<float>(static_cast<int32_t>(value)));
  finish_floats(std::move(floats), in, out, exec);
}

Kernel build(const OpView& v, std::span<const TensorType>) {
  return make_kernel(
      [s = sizes_of(v)](Inputs in, Outputs out, const ops::Exec& exec) { run(s, in, out, exec); });
}

constexpr OpType kGemm = {"GEMM", infer, build, Halves::kNative};

}  // namespace

const OpType& gemm_op_type() { return kGemm; }

}  // namespace ascendrt::model
