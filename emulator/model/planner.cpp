// Owns: placing buffers. Must never: depend on anything but its input.
#include "model/planner.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/tensor.hpp"

namespace ascendrt::model {
namespace {

// Above this many buffers the search would be slow; they are then put one behind the other.
constexpr size_t kSearchLimit = 8192;
constexpr int64_t kLimitBytes = int64_t{1} << 48;

int64_t rounded(int64_t bytes) {
  if (bytes < 0 || bytes > kLimitBytes) {
    ops::fail("memory plan", "a tensor of " + std::to_string(bytes) + " bytes, at most " +
                                 std::to_string(kLimitBytes) + " can be planned");
  }
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

// The most bytes that are alive at one step.
int64_t most_alive(std::span<const Lifetime> lifetimes) {
  std::map<int64_t, int64_t> changes;  // by step; the end of a life counts at the step behind it
  for (const Lifetime& buffer : lifetimes) {
    changes[buffer.first] += rounded(buffer.bytes);
    if (buffer.last < INT64_MAX) changes[buffer.last + 1] -= rounded(buffer.bytes);
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& [step, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return most;
}

MemoryPlan plan_in_order(std::span<const Lifetime> lifetimes, const std::vector<size_t>& order) {
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

// What a buffer is sorted by, in descending order.
using Key = double (*)(const Lifetime&);
double length(const Lifetime& buffer) {
  return static_cast<double>(buffer.last) - static_cast<double>(buffer.first) + 1;
}
constexpr Key kKeys[] = {
    [](const Lifetime& buffer) { return static_cast<double>(buffer.bytes); },
    [](const Lifetime& buffer) { return static_cast<double>(buffer.bytes) * length(buffer); },
    [](const Lifetime& buffer) { return length(buffer); },
    [](const Lifetime& buffer) { return -static_cast<double>(buffer.first); },
    [](const Lifetime& buffer) { return static_cast<double>(buffer.last); },
};

// How many tries fit into about 20 ms.
size_t tries_for(size_t buffers) {
  constexpr size_t kWork = 20'000'000;
  return std::clamp<size_t>(kWork / (buffers * buffers + 1), 1, 64);
}

// Moves the buffer that ends highest to the front of the order: placed first, it gets a low place.
void promote_highest(std::span<const Lifetime> lifetimes, const MemoryPlan& plan,
                     std::vector<size_t>& order) {
  const auto highest = std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) {
    return plan.offsets[a] + lifetimes[a].bytes < plan.offsets[b] + lifetimes[b].bytes;
  });
  std::rotate(order.begin(), highest, highest + 1);
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  const int64_t bound = most_alive(lifetimes);
  if (lifetimes.size() > kSearchLimit) {
    MemoryPlan plan = plan_in_a_row(lifetimes);
    plan.bound_bytes = bound;
    return plan;
  }
  MemoryPlan best;
  best.total_bytes = INT64_MAX;
  for (const Key key : kKeys) {
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(lifetimes[a]) > key(lifetimes[b]); });
    for (size_t i = 0; i < tries_for(lifetimes.size()) && best.total_bytes > bound; ++i) {
      MemoryPlan plan = plan_in_order(lifetimes, order);
      if (!order.empty()) promote_highest(lifetimes, plan, order);
      if (plan.total_bytes < best.total_bytes) best = std::move(plan);
    }
  }
  best.bound_bytes = bound;
  return best;
}

}  // namespace ascendrt::model
