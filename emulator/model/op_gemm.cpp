// The operator GEMM. Owns: its checks, its types and its sums.
#include <algorithm>
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
  bool fractal_a, fractal_b, fractal_c;
};

// Note [Fractal matrices]: a matrix cut into blocks of 16 rows, `width` columns each; blocks follow
// each other down the columns of blocks, rows inside a block one after the other, edges are padded.
// B of bytes is kept so with its rows and columns exchanged.
constexpr int64_t kBlockRows = 16;

int64_t block_width(aclDataType factor) { return factor == ACL_INT8 ? 32 : 16; }

ops::Shape fractal_shape(int64_t rows, int64_t columns, int64_t width) {
  return {(columns + width - 1) / width, (rows + kBlockRows - 1) / kBlockRows, kBlockRows, width};
}

// Calls f(place in the fractal matrix, place in the plain one).
template <class F>
void each_place(const ops::Shape& fractal, int64_t rows, int64_t columns, F f) {
  const int64_t width = fractal[3];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t block = c / width * fractal[1] + r / kBlockRows;
      f((block * kBlockRows + r % kBlockRows) * width + c % width, r * columns + c);
    }
  }
}

template <class T>
std::vector<T> plain(const std::vector<T>& x, const ops::Shape& shape, int64_t rows,
                     int64_t columns) {
  std::vector<T> out(static_cast<size_t>(rows * columns));
  each_place(shape, rows, columns, [&](int64_t from, int64_t to) {
    out[static_cast<size_t>(to)] = x[static_cast<size_t>(from)];
  });
  return out;
}

// src: hicann/ge docs, aclblasGemmEx: which types go together.
bool types_fit(aclDataType factor, aclDataType result) {
  if (factor == ACL_FLOAT16) return result == ACL_FLOAT16 || result == ACL_FLOAT;
  return factor == ACL_INT8 && (result == ACL_FLOAT || result == ACL_INT32);
}

ops::Shape shape_of(bool fractal, int64_t rows, int64_t columns, int64_t width) {
  return fractal ? fractal_shape(rows, columns, width) : ops::Shape{rows, columns};
}

Sizes sizes_of(const OpView& v) {
  Sizes s{0, 0, 0, v.flag("transpose_a"), v.flag("transpose_b"), false, false, false};
  s.fractal_a = v.flag("fractal_a");
  s.fractal_b = v.flag("fractal_b");
  s.fractal_c = v.flag("fractal_c");
  const ops::Shape& a = v.shape(kA);
  const ops::Shape& b = v.shape(kB);
  if (const auto sizes = v.op.attrs.ints_or("sizes", {}); sizes.size() == 3) {
    s.rows = sizes[0], s.columns = sizes[1], s.depth = sizes[2];
  } else {
    for (const size_t i : {kA, kB, kC}) v.want_rank(i, 2);
    s.rows = a[s.turned_a ? 1 : 0];
    s.depth = a[s.turned_a ? 0 : 1];
    s.columns = b[s.turned_b ? 0 : 1];
  }
  const int64_t width = block_width(v.dtype(kA));
  const bool bytes = v.dtype(kB) == ACL_INT8;
  const ops::Shape wanted_a =
      s.turned_a ? ops::Shape{s.depth, s.rows} : shape_of(s.fractal_a, s.rows, s.depth, width);
  const ops::Shape wanted_b = s.turned_b || (s.fractal_b && bytes)
                                  ? shape_of(s.fractal_b, s.columns, s.depth, width)
                                  : shape_of(s.fractal_b, s.depth, s.columns, width);
  if (!(a == wanted_a) || !(b == wanted_b) ||
      !(v.shape(kC) == shape_of(s.fractal_c, s.rows, s.columns, kBlockRows))) {
    v.fail("shapes " + a.text() + ", " + b.text() + " and " + v.shape(kC).text() +
           " do not fit together");
  }
  s.turned_b = s.turned_b || (s.fractal_b && bytes);
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

// Factors as they lie in memory, without blocks.
template <class T>
std::vector<T> factor_a(const Sizes& s, aclDataType dtype, const ops::TensorView& x) {
  auto values = to<T>(dtype, x);
  if (s.fractal_a) values = plain(values, x.shape, s.rows, s.depth);
  if (!s.turned_a) return values;
  std::vector<T> out(values.size());
  ops::transpose_matrix(values.data(), s.depth, s.rows, out.data());
  return out;
}

template <class T>
std::vector<T> factor_b(const Sizes& s, aclDataType dtype, const ops::TensorView& x) {
  auto values = to<T>(dtype, x);
  if (!s.fractal_b) return values;
  return s.turned_b ? plain(values, x.shape, s.columns, s.depth)
                    : plain(values, x.shape, s.depth, s.columns);
}

std::vector<float> float_product(const Sizes& s, Inputs in, const ops::Exec& exec) {
  const auto a = factor_a<float>(s, ACL_FLOAT, in[kA]);
  const auto b = factor_b<float>(s, ACL_FLOAT, in[kB]);
  std::vector<float> y(static_cast<size_t>(s.rows * s.columns));
  const auto turned = s.turned_b ? ops::Transposed::kYes : ops::Transposed::kNo;
  ops::PackedMatrix(b.data(), s.depth, s.columns, turned)
      .multiply(a.data(), s.rows, nullptr, y.data(), exec);
  return y;
}

// Sums wrap around, as the unit's do.
std::vector<uint32_t> int_product(const Sizes& s, Inputs in, const ops::Exec& exec) {
  const auto a = factor_a<int32_t>(s, ACL_INT32, in[kA]);
  auto b = factor_b<int32_t>(s, ACL_INT32, in[kB]);
  if (s.turned_b) {
    std::vector<int32_t> straight(b.size());
    ops::transpose_matrix(b.data(), s.columns, s.depth, straight.data());
    b = std::move(straight);
  }
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

void run_plain(const Sizes& s, Inputs in, Outputs out, const ops::Exec& exec) {
  if (in[kA].dtype == ACL_FLOAT16) {
    return finish_floats(float_product(s, in, exec), in, out, exec);
  }
  const auto y = int_product(s, in, exec);
  if (out[0].dtype == ACL_INT32) return finish_ints(y, in, out);
  std::vector<float> floats;
  for (const uint32_t value : y) floats.push_back(static_cast<float>(static_cast<int32_t>(value)));
  finish_floats(std::move(floats), in, out, exec);
}

// c goes into a plain matrix and back; what pads the blocks of the result is zero.
template <class T>
void run_fractal(const Sizes& s, Inputs in, Outputs out, const ops::Exec& exec) {
  const ops::Shape blocks = in[kC].shape;
  const auto count = static_cast<size_t>(blocks.elements());
  const T* from = in[kC].as<const T>();
  std::vector<T> c = plain(std::vector<T>(from, from + count), blocks, s.rows, s.columns);
  std::vector<T> y(c.size());
  std::vector<ops::TensorView> inputs(in.begin(), in.end());
  const ops::Shape shape = {s.rows, s.columns};
  inputs[kC] = {c.data(), in[kC].dtype, shape};
  const ops::TensorView result = {y.data(), in[kC].dtype, shape};
  run_plain(s, inputs, {&result, 1}, exec);
  std::fill_n(out[0].as<T>(), count, T{});
  each_place(blocks, s.rows, s.columns,
             [&](int64_t to, int64_t at) { out[0].as<T>()[to] = y[static_cast<size_t>(at)]; });
}

void run(const Sizes& s, Inputs in, Outputs out, const ops::Exec& exec) {
  if (!s.fractal_c) return run_plain(s, in, out, exec);
  if (out[0].dtype == ACL_FLOAT16) return run_fractal<uint16_t>(s, in, out, exec);
  run_fractal<uint32_t>(s, in, out, exec);
}

Kernel build(const OpView& v, std::span<const TensorType>) {
  return make_kernel(
      [s = sizes_of(v)](Inputs in, Outputs out, const ops::Exec& exec) { run(s, in, out, exec); });
}

constexpr OpType kTable[] = {{"GEMM", infer, build, Halves::kNative}};

}  // namespace

std::span<const OpType> gemm_op_types() { return kTable; }

}  // namespace ascendrt::model
