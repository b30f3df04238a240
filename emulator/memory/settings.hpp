// The knobs of the memory tiers, from the environment and from the JSON of aclInit.
// Owns: their defaults, their ranges and the texts about wrong values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ascendrt::memory {

struct MemorySettings {
  // Capacity that a context reserves when it is made. ASCEND_RT_MEM_POOL_SIZE is a name from tuning
  // guides; the real runtime ignores it.
  uint64_t pool_bytes = 0;
  // Capacity is drawn from the device in such steps.
  uint64_t growth_bytes = 4ULL << 20;
  // What one thread may keep ready.
  uint64_t thread_cache_bytes = 1ULL << 30;
  // What all threads of a context and its pool may keep ready while little is live.
  uint64_t cache_bytes = 1ULL << 30;
  // The same in percent of what is live, above fragmentation_from live bytes.
  uint64_t fragmentation_percent = 3;
  static constexpr uint64_t kFragmentationFrom = 512ULL << 20;
  bool context_reclaim = false;  // a context that ends frees its live blocks
  bool trace = false;            // remember call stacks

  // Defaults, then the "memory" section of the configuration (name, value), then the environment.
  // Raises 100000.
  using Section = std::vector<std::pair<std::string, std::string>>;
  static MemorySettings read(const Section& section);
};

}  // namespace ascendrt::memory
