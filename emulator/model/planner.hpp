// Memory planning: buffers with lifetimes become offsets in one block.
// Owns: the placement rule. Must never: know graphs or allocate memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ascendrt::model {

// A buffer in use from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of kPlanAlign
  int64_t total_bytes = 0;
  int64_t bound_bytes = 0;  // no plan can be smaller: the most bytes alive at one step
};

inline constexpr int64_t kPlanAlign = 64;

// One buffer after the other, each at the lowest place free during its whole life; of several
// orders (largest first, longest first ...) the one that needs least. Buffers that are alive at the
// same step never overlap. The same input gives the same plan everywhere, because a file records
// the size that a later load must agree with. Fails when the sizes overflow.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace ascendrt::model
