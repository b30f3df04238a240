// Random numbers in the operator table: RandomStandardNormal(shape), RandomUniform(shape).
// Owns: the number of the run, so that every run of a model draws fresh numbers and a program as a
// whole repeats. Must never: depend on time or threads.
#include <atomic>

#include "model/op_set.hpp"
#include "ops/misc.hpp"

namespace ascendrt::model {
namespace {

std::vector<TensorType> infer_random(const OpView& v) {
  v.want_count(1, 1);
  return {{ACL_FLOAT, to_shape(v.constant_ints(0))}};
}

Kernel build_random(const OpView& v, std::span<const TensorType>) {
  const auto form = v.op.type == "RandomUniform" ? ops::Random::kUniform : ops::Random::kNormal;
  const auto seed = static_cast<uint64_t>(v.op.attrs.int_or("seed", 0));
  const auto runs = std::make_shared<std::atomic<uint64_t>>(0);
  return make_kernel([form, seed, runs](Inputs, Outputs out, const ops::Exec&) {
    ops::random(form, seed, runs->fetch_add(1, std::memory_order_relaxed), out[0]);
  });
}

std::vector<aclDataType> float_type(const OpView&) { return {ACL_FLOAT}; }

constexpr OpType kTable[] = {
    {"RandomStandardNormal", infer_random, build_random, Halves::kNative, float_type, nullptr,
     true},
    {"RandomUniform", infer_random, build_random, Halves::kNative, float_type, nullptr, true},
};

}  // namespace

std::span<const OpType> random_op_types() { return kTable; }

}  // namespace ascendrt::model
