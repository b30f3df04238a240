// Entries: the BLAS interface, on the operator GEMM. Must never: compute anything itself.
//
// src: hicann/ge api/acl/acl_cblas/single_op/blas/gemm_ops.cpp, gemv_ops.cpp
#include <string>

#include "abi/op_objects.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

struct Gemm {
  aclTransType turn_a, turn_b, turn_c;
  int m, n, k;
  aclDataType type_a, type_b, type_c;
  aclComputeType type;
};

// y of a * x, as a product with one column.
Gemm gemv(aclTransType turn_a, int m, int n, aclDataType type_a, aclDataType type_x,
          aclDataType type_y, aclComputeType type) {
  return {turn_a, ACL_TRANS_N, ACL_TRANS_N, m, 1, n, type_a, type_x, type_y, type};
}

void check_turn(const char* name, const aclTransType& turn, int32_t most) {
  const int32_t number = raw(turn);
  if (number < 0 || number > ACL_TRANS_NZ || (number > most && number != ACL_TRANS_NZ)) {
    refuse_argument(std::string("argument ") + name + " is " + std::to_string(number) +
                    "; it may be ACL_TRANS_N, " + (most > 0 ? "ACL_TRANS_T, " : "") +
                    "ACL_TRANS_NZ");
  }
}

void check_precision(const aclComputeType& type) {
  if (raw(type) == ACL_COMPUTE_HIGH_PRECISION) return;
  refuse_argument("argument type is " + std::to_string(raw(type)) +
                  ", only ACL_COMPUTE_HIGH_PRECISION is there");
}

void check_sizes(const Gemm& g) {
  if (g.m > 0 && g.n > 0 && g.k > 0) return;
  refuse_argument("m, n and k are " + std::to_string(g.m) + ", " + std::to_string(g.n) + " and " +
                  std::to_string(g.k) + "; all must be positive");
}

void check_turns(const Gemm& g) {
  check_turn("transA", g.turn_a, ACL_TRANS_T);
  check_turn("transB", g.turn_b, ACL_TRANS_T);
  check_turn("transC", g.turn_c, ACL_TRANS_N);
}

struct Scalars {
  std::shared_ptr<const model::Bytes> alpha;
  std::shared_ptr<const model::Bytes> beta;
};

// ACL_TRANS_NZ: blocks of 16 rows, see Note [Fractal matrices].
model::TensorType blocked(aclDataType type, int rows, int columns, int width) {
  return {type, {(columns + width - 1) / width, (rows + 15) / 16, 16, width}};
}

DescribedOp describe(const Gemm& g, const Scalars& scalars) {
  const bool turned_a = raw(g.turn_a) == ACL_TRANS_T;
  const bool turned_b = raw(g.turn_b) == ACL_TRANS_T;
  const bool blocks_a = raw(g.turn_a) == ACL_TRANS_NZ;
  const bool blocks_b = raw(g.turn_b) == ACL_TRANS_NZ;
  const bool blocks_c = raw(g.turn_c) == ACL_TRANS_NZ;
  model::AttrMap attrs;
  attrs.set("transpose_a", turned_a);
  attrs.set("transpose_b", turned_b);
  attrs.set("fractal_a", blocks_a);
  attrs.set("fractal_b", blocks_b);
  attrs.set("fractal_c", blocks_c);
  attrs.set("sizes", std::vector<int64_t>{g.m, g.n, g.k});
  const auto matrix = [](aclDataType type, bool turned, int rows, int columns) {
    return model::TensorType{type, turned ? ops::Shape{columns, rows} : ops::Shape{rows, columns}};
  };
  // Bytes of b lie in blocks of its columns.
  const int width = g.type_a == ACL_INT8 ? 32 : 16;
  const auto a =
      blocks_a ? blocked(g.type_a, g.m, g.k, width) : matrix(g.type_a, turned_a, g.m, g.k);
  const auto b = !blocks_b              ? matrix(g.type_b, turned_b, g.k, g.n)
                 : g.type_b == ACL_INT8 ? blocked(g.type_b, g.n, g.k, width)
                                        : blocked(g.type_b, g.k, g.n, width);
  const auto c = blocks_c ? blocked(g.type_c, g.m, g.n, 16) : matrix(g.type_c, false, g.m, g.n);
  return describe_op("GEMM", std::move(attrs),
                     {{a, true, nullptr},
                      {b, true, nullptr},
                      {c, true, nullptr},
                      {{g.type_c, {}}, true, scalars.alpha},
                      {{g.type_c, {}}, true, scalars.beta}},
                     {c});
}

struct Operands {
  const void* alpha;
  const void* a;
  int lda;
  const void* b;
  int ldb;
  const void* beta;
  void* c;
  int ldc;
};

// A device would only take device memory; a host pointer is plain to mean the value.
std::shared_ptr<const model::Bytes> host_scalar(const void* value, aclDataType type) {
  if (memory::locate(value).place == memory::Place::kDevice) return nullptr;
  model::Bytes bytes(ops::dtype_size(type));
  memory::copy(bytes.data(), value, bytes.size());
  return std::make_shared<const model::Bytes>(std::move(bytes));
}

void check_steps(const Operands& o) {
  if (o.lda == -1 && o.ldb == -1 && o.ldc == -1) return;
  refuse_argument("the leading dimensions (or steps) are " + std::to_string(o.lda) + ", " +
                  std::to_string(o.ldb) + " and " + std::to_string(o.ldc) +
                  "; only -1 is there, for matrices without gaps");
}

OpBuffer whole(const void* data) { return {const_cast<void*>(data), UINT64_MAX}; }

void execute(const Gemm& g, const Operands& o, aclrtStream stream) {
  check_not_null(o.alpha, "alpha");
  check_not_null(o.beta, "beta");
  check_not_null(o.a, "matrixA");
  check_not_null(o.b, "matrixB");
  check_not_null(o.c, "matrixC");
  check_sizes(g);
  check_turns(g);
  check_steps(o);
  check_precision(g.type);
  const DescribedOp op =
      describe(g, {host_scalar(o.alpha, g.type_c), host_scalar(o.beta, g.type_c)});
  submit_op(op, {whole(o.a), whole(o.b), whole(o.c), whole(o.alpha), whole(o.beta)}, {whole(o.c)},
            stream);
}

void create(const Gemm& g, aclopHandle** handle) {
  check_not_null(handle, "handle");
  check_sizes(g);
  check_turns(g);
  check_precision(g.type);
  *handle = new_op_handle(describe(g, {}));
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclblasGemmEx(aclTransType transA, aclTransType transB, aclTransType transC, int m,
                               int n, int k, const void* alpha, const void* matrixA, int lda,
                               aclDataType dataTypeA, const void* matrixB, int ldb,
                               aclDataType dataTypeB, const void* beta, void* matrixC, int ldc,
                               aclDataType dataTypeC, aclComputeType type, aclrtStream stream) {
  return call<ApiId::aclblasGemmEx>([&] {
    execute({transA, transB, transC, m, n, k, dataTypeA, dataTypeB, dataTypeC, type},
            {alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc}, stream);
  });
}

aclError art_emu_aclblasHgemm(aclTransType transA, aclTransType transB, aclTransType transC, int m,
                              int n, int k, const aclFloat16* alpha, const aclFloat16* matrixA,
                              int lda, const aclFloat16* matrixB, int ldb, const aclFloat16* beta,
                              aclFloat16* matrixC, int ldc, aclComputeType type,
                              aclrtStream stream) {
  return call<ApiId::aclblasHgemm>([&] {
    execute({transA, transB, transC, m, n, k, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, type},
            {alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc}, stream);
  });
}

aclError art_emu_aclblasS8gemm(aclTransType transA, aclTransType transB, aclTransType transC, int m,
                               int n, int k, const int32_t* alpha, const int8_t* matrixA, int lda,
                               const int8_t* matrixB, int ldb, const int32_t* beta,
                               int32_t* matrixC, int ldc, aclComputeType type, aclrtStream stream) {
  return call<ApiId::aclblasS8gemm>([&] {
    execute({transA, transB, transC, m, n, k, ACL_INT8, ACL_INT8, ACL_INT32, type},
            {alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc}, stream);
  });
}

aclError art_emu_aclblasGemvEx(aclTransType transA, int m, int n, const void* alpha, const void* a,
                               int lda, aclDataType dataTypeA, const void* x, int incx,
                               aclDataType dataTypeX, const void* beta, void* y, int incy,
                               aclDataType dataTypeY, aclComputeType type, aclrtStream stream) {
  return call<ApiId::aclblasGemvEx>([&] {
    execute(gemv(transA, m, n, dataTypeA, dataTypeX, dataTypeY, type),
            {alpha, a, lda, x, incx, beta, y, incy}, stream);
  });
}

aclError art_emu_aclblasHgemv(aclTransType transA, int m, int n, const aclFloat16* alpha,
                              const aclFloat16* a, int lda, const aclFloat16* x, int incx,
                              const aclFloat16* beta, aclFloat16* y, int incy, aclComputeType type,
                              aclrtStream stream) {
  return call<ApiId::aclblasHgemv>([&] {
    execute(gemv(transA, m, n, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, type),
            {alpha, a, lda, x, incx, beta, y, incy}, stream);
  });
}

aclError art_emu_aclblasS8gemv(aclTransType transA, int m, int n, const int32_t* alpha,
                               const int8_t* a, int lda, const int8_t* x, int incx,
                               const int32_t* beta, int32_t* y, int incy, aclComputeType type,
                               aclrtStream stream) {
  return call<ApiId::aclblasS8gemv>([&] {
    execute(gemv(transA, m, n, ACL_INT8, ACL_INT8, ACL_INT32, type),
            {alpha, a, lda, x, incx, beta, y, incy}, stream);
  });
}

aclError art_emu_aclblasCreateHandleForGemmEx(aclTransType transA, aclTransType transB,
                                              aclTransType transC, int m, int n, int k,
                                              aclDataType dataTypeA, aclDataType dataTypeB,
                                              aclDataType dataTypeC, aclComputeType type,
                                              aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForGemmEx>([&] {
    create({transA, transB, transC, m, n, k, dataTypeA, dataTypeB, dataTypeC, type}, handle);
  });
}

aclError art_emu_aclblasCreateHandleForHgemm(aclTransType transA, aclTransType transB,
                                             aclTransType transC, int m, int n, int k,
                                             aclComputeType type, aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForHgemm>([&] {
    create({transA, transB, transC, m, n, k, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, type}, handle);
  });
}

aclError art_emu_aclblasCreateHandleForS8gemm(aclTransType transA, aclTransType transB,
                                              aclTransType transC, int m, int n, int k,
                                              aclComputeType type, aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForS8gemm>([&] {
    create({transA, transB, transC, m, n, k, ACL_INT8, ACL_INT8, ACL_INT32, type}, handle);
  });
}

aclError art_emu_aclblasCreateHandleForGemvEx(aclTransType transA, int m, int n,
                                              aclDataType dataTypeA, aclDataType dataTypeX,
                                              aclDataType dataTypeY, aclComputeType type,
                                              aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForGemvEx>(
      [&] { create(gemv(transA, m, n, dataTypeA, dataTypeX, dataTypeY, type), handle); });
}

aclError art_emu_aclblasCreateHandleForHgemv(aclTransType transA, int m, int n, aclComputeType type,
                                             aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForHgemv>(
      [&] { create(gemv(transA, m, n, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, type), handle); });
}

aclError art_emu_aclblasCreateHandleForS8gemv(aclTransType transA, int m, int n,
                                              aclComputeType type, aclopHandle** handle) {
  return call<ApiId::aclblasCreateHandleForS8gemv>(
      [&] { create(gemv(transA, m, n, ACL_INT8, ACL_INT8, ACL_INT32, type), handle); });
}

}  // extern "C"
