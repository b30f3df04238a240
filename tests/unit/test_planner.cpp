// The memory planner: no overlap while alive, reuse, the same plan every time.
#include <algorithm>
#include <vector>

#include "gen/abi.h"
#include "model/planner.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using model::Lifetime;

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
