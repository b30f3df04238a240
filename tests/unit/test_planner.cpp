// The memory planner: no overlap while alive, reuse, the same plan every time.
#include <algorithm>
#include <vector>

#include "gen/abi.h"
#include "model/convert.hpp"
#include "model/planner.hpp"
#include "model/program.hpp"
#include "onnx_bytes.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using model::Lifetime;
using test::OnnxBytes;

namespace {

std::vector<Lifetime> random_lifetimes(uint64_t seed, size_t count) {
  test::Random random(seed);
  std::vector<Lifetime> out;
  for (size_t i = 0; i < count; ++i) {
    const int64_t first = random.between(0, 100);
    out.push_back({random.between(0, 5000), first, first + random.between(0, 20)});
  }
  return out;
}

}  // namespace

TEST(planner_keeps_live_buffers_apart) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto lives = random_lifetimes(seed, 120);
    const model::MemoryPlan plan = model::plan_memory(lives);
    int64_t sum = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      const int64_t begin = plan.offsets[i];
      const int64_t end = begin + lives[i].bytes;
      sum += lives[i].bytes + model::kPlanAlign;
      CHECK(begin >= 0 && end <= plan.total_bytes && begin % model::kPlanAlign == 0);
      for (size_t k = 0; k < i; ++k) {
        const bool together = lives[i].first <= lives[k].last && lives[k].first <= lives[i].last;
        const bool overlap = begin < plan.offsets[k] + lives[k].bytes && plan.offsets[k] < end;
        CHECK(!(together && overlap));
      }
    }
    CHECK(plan.total_bytes < sum / 2);  // memory is used again
    CHECK(plan.bound_bytes <= plan.total_bytes);
    CHECK(plan.total_bytes * 10 <= plan.bound_bytes * 11);
    CHECK(model::plan_memory(lives).offsets == plan.offsets);
  }
}

TEST(planner_chain_needs_two_buffers) {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 10; ++i) chain.push_back({1000, i, i + 1});
  CHECK_EQ(model::plan_memory(chain).total_bytes, 2 * 1024);
}

TEST(planner_refuses_impossible_sizes) {
  const std::vector<Lifetime> huge = {{int64_t{1} << 60, 0, 1}};
  CHECK_THROWS_CODE(model::plan_memory(huge), ACL_ERROR_GE_FAILURE);
  const std::vector<Lifetime> negative = {{-1, 0, 1}};
  CHECK_THROWS_CODE(model::plan_memory(negative), ACL_ERROR_GE_FAILURE);
  const std::vector<Lifetime> many(10000, {int64_t{1} << 40, 0, 1});
  CHECK_THROWS_CODE(model::plan_memory(many), ACL_ERROR_GE_FAILURE);
}

// A small buffer in the middle of the block must not keep a large one above it.
TEST(planner_finds_the_least_place_where_the_first_order_does_not) {
  std::vector<Lifetime> lives;
  for (int64_t i = 0; i < 60; ++i) {
    lives.push_back({(i % 7 + 1) * 64 * 1024, i, i + 1 + i % 3});
    lives.push_back({(i % 5) * 640, i, i + 9});
  }
  const model::MemoryPlan plan = model::plan_memory(lives);
  CHECK(plan.bound_bytes > 0);
  CHECK(plan.total_bytes * 100 <= plan.bound_bytes * 105);
}

namespace {

// What the plan lets a result lie on: `in_place` bytes of `activations`.
model::PlanFacts plan_of(OnnxBytes& onnx) {
  model::ConvertOptions options;
  options.fuses = false;  // every operator a step of its own
  const model::Model made = model::convert_onnx(onnx.file(), options);
  const model::Program program = model::Program::compile(made);
  CHECK(program.missing().empty());
  return program.plan();
}

}  // namespace

TEST(results_lie_on_operands_that_nobody_reads_later) {
  OnnxBytes chain;
  chain.input("x", {256}).node("Neg", {"x"}, {"a"}).node("Abs", {"a"}, {"b"});
  chain.node("Add", {"b", "x"}, {"c"}).node("Sqrt", {"c"}, {"y"}).output("y");
  const model::PlanFacts facts = plan_of(chain);
  CHECK_EQ(facts.activations, 4 * 1024);
  CHECK_EQ(facts.in_place, 3 * 1024);  // the first reads the caller's input
  CHECK_EQ(facts.planned, 2 * 1024);   // with the room for a copy of the input
  CHECK_EQ(facts.bound, facts.planned);
}

TEST(results_never_lie_on_what_is_read_again) {
  OnnxBytes twice;  // a is read by c as well, b is an output
  twice.input("x", {256}).node("Neg", {"x"}, {"a"}).node("Abs", {"a"}, {"b"});
  twice.node("Mul", {"a", "b"}, {"c"}).shaped_output("b", {256}).shaped_output("c", {256});
  CHECK_EQ(plan_of(twice).in_place, 1024);  // c on a
  OnnxBytes spread;                         // an operand that is repeated is read more than once
  spread.input("x", {16, 16}).node("Neg", {"x"}, {"a"}).node("Transpose", {"a"}, {"b"});
  spread.node("ReduceMax", {"b"}, {"r"}, "", {OnnxBytes::ints("axes", {0})});
  spread.node("Add", {"r", "x"}, {"y"}).shaped_output("y", {16, 16});
  CHECK_EQ(plan_of(spread).in_place, 0);
}
