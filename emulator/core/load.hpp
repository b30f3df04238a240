// What a task asks of its engine, as far as the modelled clock needs to know (core/cost.hpp turns
// it into a duration). Owns: the data only. Must never: cost anything in real time.
#pragma once

#include <atomic>
#include <cstdint>

namespace ascendrt::core {

enum class Rate : uint8_t { kFp16, kFp32, kInt8, kVector };

struct Load {
  uint64_t bytes = 0;  // moved by a copy, or read and written by a kernel
  double flops = 0;    // of a kernel; of Rate::kVector: element operations
  Rate rate = Rate::kVector;
  bool pageable = false;             // a copy from or to host memory that is not pinned
  uint32_t cores = 0;                // blocks of a kernel; 0: as many as its work fills
  uint32_t most_cores = UINT32_MAX;  // that it may take, of the engine's
  int64_t limit_us = INT64_MAX;      // a kernel that takes longer fails then
  const char* label = nullptr;       // name of the operator, for settings and traces; copied
};

// Known once the executor is made, or when the environment does not ask for modelled time.
// kForked: in the child of a fork, which is refused.
enum class Clock : uint8_t { kUnknown, kReal, kModelled, kForked };
inline std::atomic<Clock> g_clock{Clock::kUnknown};
// True when this process is the child of a fork of a process that used the runtime. Makes nothing.
inline bool forked_child() { return g_clock.load(std::memory_order_relaxed) == Clock::kForked; }
inline bool time_is_modelled() {
  return g_clock.load(std::memory_order_relaxed) == Clock::kModelled;
}

}  // namespace ascendrt::core
