// Convolution, matrix product and pooling of the operator table.
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

// Inputs 2 and 3 of convolutions and matrix products.
void want_bias(const OpView& v, int64_t outputs) {
  if (v.has(3)) v.fail("offset_w is not computed");
  if (!v.has(2)) return;
  if (v.dtype(2) != v.dtype(0)) v.fail("the bias has another type than the operands");
  if (v.shape(2).elements() != outputs) {
    v.fail("the bias has " + v.shape(2).text() + " values, " + std::to_string(outputs) +
           " are needed");
  }
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
  want_bias(v, s.out_channels);
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
  if (v.dtype(0) != ACL_DOUBLE) v.want_float(0);
  if (v.dtype(1) != v.dtype(0)) v.fail("the operands have different types");
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
  want_bias(v, s.columns);
  s.has_bias = v.has(2);
  return s;
}

std::vector<TensorType> infer_matmul(const OpView& v) {
  const MatmulShape s = matmul_shape(v);
  ops::Shape y = s.batch;
  y.push_back(s.rows);
  y.push_back(s.columns);
  return {{v.dtype(0), y}};
}

// One product of the batch; the left matrix is turned into `turned` when it needs to be.
void multiply_one(const MatmulShape& s, const std::vector<ops::PackedMatrix>& packed, int64_t i,
                  Inputs in, Outputs out, float* turned, const ops::Exec& exec) {
  const float* left =
      in[0].as<const float>() + batch_index(s.a_batch, s.batch, i) * s.rows * s.depth;
  if (s.transposed_a) {
    ops::transpose_matrix(left, s.depth, s.rows, turned);
    left = turned;
  }
  const float* bias = s.has_bias ? in[2].as<const float>() : nullptr;
  const int64_t which = batch_index(s.b_batch, s.batch, i);
  float* y = out[0].as<float>() + i * s.rows * s.columns;
  if (!packed.empty()) {
    return packed[static_cast<size_t>(which)].multiply(left, s.rows, bias, y, exec);
  }
  const ops::PackedMatrix right(in[1].as<const float>() + which * s.depth * s.columns, s.depth,
                                s.columns, s.transposed_b);
  right.multiply(left, s.rows, bias, y, exec);
}

// Several products are shared out as they are, a single one in pieces.
void run_matmul(const MatmulShape& s, const std::vector<ops::PackedMatrix>& packed, Inputs in,
                Outputs out, const ops::Exec& exec) {
  const int64_t count = s.batch.elements();
  auto* turned = static_cast<float*>(exec.scratch);
  if (count == 1) return multiply_one(s, packed, 0, in, out, turned, exec);
  const int64_t step = s.transposed_a ? s.rows * s.depth : 0;
  ops::parallel_for(exec, count,
                    [&](int64_t i) { multiply_one(s, packed, i, in, out, turned + i * step, {}); });
}

void run_double_matmul(const MatmulShape& s, Inputs in, Outputs out, const ops::Exec& exec) {
  const double* bias = s.has_bias ? in[2].as<const double>() : nullptr;
  for (int64_t i = 0; i < s.batch.elements(); ++i) {
    const double* left =
        in[0].as<const double>() + batch_index(s.a_batch, s.batch, i) * s.rows * s.depth;
    if (s.transposed_a) {
      ops::transpose_matrix(left, s.depth, s.rows, static_cast<double*>(exec.scratch));
      left = static_cast<const double*>(exec.scratch);
    }
    const double* right =
        in[1].as<const double>() + batch_index(s.b_batch, s.batch, i) * s.depth * s.columns;
    ops::multiply_doubles(left, s.rows, s.depth, right, s.columns, s.transposed_b, bias,
                          out[0].as<double>() + i * s.rows * s.columns, exec);
  }
}

Kernel build_matmul(const OpView& v, std::span<const TensorType>) {
  const MatmulShape s = matmul_shape(v);
  if (v.dtype(0) == ACL_DOUBLE) {
    return {
        [s](Inputs in, Outputs out, const ops::Exec& exec) { run_double_matmul(s, in, out, exec); },
        s.transposed_a ? s.rows * s.depth * 8 : 0, false};
  }
  auto packed = std::make_shared<std::vector<ops::PackedMatrix>>();
  if (v.inputs[1].is_constant) {
    const std::vector<float> b = floats_of(v.inputs[1]);
    for (int64_t i = 0; i < s.batch_b; ++i) {
      packed->emplace_back(b.data() + i * s.depth * s.columns, s.depth, s.columns, s.transposed_b);
    }
  }
  const int64_t scratch = s.transposed_a ? s.batch.elements() * s.rows * s.depth * 4 : 0;
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

constexpr OpType kTable[] = {
    {"Conv2D", infer_conv, build_conv},
    {"MatMulV2", infer_matmul, build_matmul},
    {"MatMul", infer_matmul, build_matmul},
    {"BatchMatMulV2", infer_matmul, build_matmul},
    {"BatchMatMul", infer_matmul, build_matmul},
    {"MaxPoolV3", infer_pool, build_max_pool},
    {"AvgPoolV2", infer_pool, build_average_pool},
};

}  // namespace

std::span<const OpType> compute_op_types() { return kTable; }

}  // namespace ascendrt::model
