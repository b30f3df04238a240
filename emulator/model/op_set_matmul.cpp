// Matrix products of the operator table. Owns: batches, transposed operands, packing of constants.
// Must never: hold arithmetic; that is in ops/.
#include "model/op_set_matmul.hpp"

#include <cstring>

#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

constexpr size_t kOperands = 4;  // a, b, bias, offset_w

bool either_flag(const OpView& v, std::string_view first, std::string_view second) {
  return v.flag(v.op.attrs.find(first) != nullptr ? first : second);
}

void want_bias(const OpView& v, int64_t columns) {
  if (!v.has(2)) return;
  if (v.dtype(2) != v.dtype(0)) v.fail("the bias has another type than the operands");
  if (v.shape(2).elements() != columns) {
    v.fail("the bias has " + v.shape(2).text() + " values, " + std::to_string(columns) +
           " are needed");
  }
}

}  // namespace

const float* aligned_floats(const Operand& operand, std::vector<float>& copy) {
  const uint8_t* bytes = operand.constant.data();
  if (reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(bytes);
  }
  copy.resize(operand.constant.size() / sizeof(float));
  std::memcpy(copy.data(), bytes, copy.size() * sizeof(float));
  return copy.data();
}

MatmulShape matmul_shape(const OpView& v, size_t most) {
  if (most == kOperands) v.want_count(2, most);
  if (v.dtype(0) != ACL_DOUBLE) v.want_float(0);
  if (v.dtype(1) != v.dtype(0)) v.fail("the operands have different types");
  const ops::Shape& a = v.shape(0);
  const ops::Shape& b = v.shape(1);
  if (a.rank() < 2 || b.rank() < 2) v.fail("operands need rank 2 or more");
  MatmulShape s;
  s.transposed_a = either_flag(v, "transpose_x1", "adj_x1");
  const bool turned_b = either_flag(v, "transpose_x2", "adj_x2");
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
  s.batch_b = s.b_batch.elements();
  if (most == kOperands && v.has(3)) v.fail("offset_w is not computed");
  want_bias(v, s.columns);
  s.has_bias = v.has(2);
  return s;
}

// One product of the batch; the left matrix is turned into `turned` when it needs to be.
void Matmul::run_one(int64_t index, Inputs in, Outputs out, float* turned, const ops::Exec& exec,
                     const ops::FinishTile* finish, float* room) const {
  const MatmulShape& s = shape;
  ops::MatrixOperand left =
      ops::MatrixOperand(in[0], room).at(batch_index(s.a_batch, s.batch, index) * s.rows * s.depth);
  if (s.transposed_a) {
    ops::transpose_matrix(left.floats, s.depth, s.rows, turned);
    left = turned;
  }
  const float* bias = s.has_bias ? in[2].as<const float>() : nullptr;
  const int64_t which = batch_index(s.b_batch, s.batch, index);
  const ops::MatrixTarget y = ops::MatrixTarget(out[0]).at(index * s.rows * s.columns);
  // Rows count through the whole batch for who finishes tiles.
  const ops::FinishTile shifted = [&](const ops::ResultTile& tile) {
    ops::ResultTile whole = tile;
    whole.first_row += index * s.rows;
    (*finish)(whole);
  };
  const ops::FinishTile* last = finish == nullptr ? nullptr : &shifted;
  if (!packed->empty()) {
    return (*packed)[static_cast<size_t>(which)].multiply(left, s.rows, bias, y, exec, last);
  }
  const ops::PackedMatrix right(in[1].as<const float>() + which * s.depth * s.columns, s.depth,
                                s.columns, s.transposed_b);
  right.multiply(left, s.rows, bias, y, exec, last);
}

// Several products are shared out as they are, a single one in pieces. With one right-hand side the
// rows of all left-hand sides are those of one product.
void Matmul::run(Inputs in, Outputs out, const ops::Exec& exec, const ops::FinishTile* finish,
                 float* room) const {
  const int64_t count = shape.batch.elements();
  if (count == 0) return;
  auto* turned = static_cast<float*>(exec.scratch);
  std::vector<ops::TensorView> wide;
  // Read in another order, or by several products: widened before.
  const bool shared = count > 1 && shape.batch_b > 1;
  if (in[0].dtype != ACL_FLOAT && (shape.transposed_a || shared)) {
    wide.assign(in.begin(), in.end());
    wide[0] = {room, ACL_FLOAT, in[0].shape};
    ops::cast(in[0], wide[0], exec);
    in = wide;
  }
  if (count > 1 && shape.batch_b == 1 && !shape.transposed_a) {
    Matmul whole = *this;
    whole.shape.rows = shape.rows * count;
    whole.shape.batch = whole.shape.a_batch = {};
    return whole.run_one(0, in, out, turned, exec, finish, room);
  }
  if (count == 1) return run_one(0, in, out, turned, exec, finish, room);
  const int64_t step = shape.transposed_a ? shape.rows * shape.depth : 0;
  ops::parallel_for(exec, count,
                    [&](int64_t i) { run_one(i, in, out, turned + i * step, {}, finish, room); });
}

Matmul make_matmul(const OpView& v, size_t most) {
  Matmul made{matmul_shape(v, most), nullptr};
  const MatmulShape& s = made.shape;
  auto packed = std::make_shared<std::vector<ops::PackedMatrix>>();
  if (v.inputs[1].is_constant) {
    std::vector<float> copy;
    const float* b = aligned_floats(v.inputs[1], copy);
    for (int64_t i = 0; i < s.batch_b; ++i) {
      packed->emplace_back(b + i * s.depth * s.columns, s.depth, s.columns, s.transposed_b);
    }
  }
  made.packed = std::move(packed);
  if (s.transposed_a) made.scratch_bytes = s.batch.elements() * s.rows * s.depth * 4;
  return made;
}

namespace {

std::vector<TensorType> infer_matmul(const OpView& v) {
  const MatmulShape s = matmul_shape(v, kOperands);
  ops::Shape y = s.batch;
  y.push_back(s.rows);
  y.push_back(s.columns);
  return {{v.dtype(0), y}};
}

void run_doubles(const MatmulShape& s, Inputs in, Outputs out, const ops::Exec& exec) {
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
  if (v.dtype(0) == ACL_DOUBLE) {
    const MatmulShape s = matmul_shape(v, kOperands);
    return {[s](Inputs in, Outputs out, const ops::Exec& exec) { run_doubles(s, in, out, exec); },
            s.transposed_a ? s.rows * s.depth * 8 : 0, false};
  }
  const Matmul matmul = make_matmul(v, kOperands);
  Kernel kernel = make_kernel(
      [matmul](Inputs in, Outputs out, const ops::Exec& exec) { matmul.run(in, out, exec); });
  kernel.run_halves = [matmul](Inputs in, Outputs out, const ops::Exec& exec, float* room) {
    matmul.run(in, out, exec, nullptr, room);
  };
  kernel.scratch_bytes = matmul.scratch_bytes;
  kernel.unread = matmul.unread();
  return kernel;
}

constexpr OpType kTable[] = {
    {"MatMulV2", infer_matmul, build_matmul},
    {"MatMul", infer_matmul, build_matmul},
    {"BatchMatMulV2", infer_matmul, build_matmul},
    {"BatchMatMul", infer_matmul, build_matmul},
};

}  // namespace

std::span<const OpType> matmul_op_types() { return kTable; }

}  // namespace ascendrt::model
