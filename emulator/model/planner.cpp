// Owns: placing buffers. Must never: depend on anything but its input.
#include "model/planner.hpp"

#include <algorithm>
#include <numeric>

#include "ops/tensor.hpp"

namespace ascendrt::model {
namespace {

// Above this many buffers the search would be slow; they are then put one behind the other.
constexpr size_t kSearchLimit = 8192;
constexpr int64_t kLimitBytes = int64_t{1} << 48;

int64_t rounded(int64_t bytes) {
  if (bytes < 0 || bytes > kLimitBytes) ops::fail("memory plan", "a tensor of impossible size");
  return (bytes + kPlanAlign - 1) / kPlanAlign * kPlanAlign;
}

struct Placed {
  int64_t begin, end;
  size_t index;
};

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lowest gap of `bytes` between neighbours, which are sorted by begin.
int64_t lowest_gap(const std::vector<Placed>& placed, std::span<const Lifetime> lifetimes,
                   const Lifetime& buffer, int64_t bytes) {
  int64_t offset = 0;
  for (const Placed& other : placed) {
    if (!overlap(lifetimes[other.index], buffer)) continue;
    if (other.begin >= offset + bytes) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

MemoryPlan plan_in_a_row(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  for (const Lifetime& buffer : lifetimes) {
    plan.offsets.push_back(plan.total_bytes);
    plan.total_bytes += rounded(buffer.bytes);
    if (plan.total_bytes > kLimitBytes) ops::fail("memory plan", "the tensors fit no memory");
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  if (lifetimes.size() > kSearchLimit) return plan_in_a_row(lifetimes);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<Placed> placed;
  for (const size_t index : order) {
    const int64_t bytes = rounded(lifetimes[index].bytes);
    const int64_t offset = lowest_gap(placed, lifetimes, lifetimes[index], bytes);
    plan.offsets[index] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + bytes);
    if (plan.total_bytes > kLimitBytes) ops::fail("memory plan", "the tensors fit no memory");
    const Placed entry{offset, offset + bytes, index};
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    placed.insert(at, entry);
  }
  return plan;
}

}  // namespace ascendrt::model
