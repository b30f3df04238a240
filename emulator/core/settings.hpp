// Settings of the process: overflow mode, operator time limit, limits of device resources.
// Must never: decide what a kernel does with them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "gen/abi.h"
#include "gen/soc.inc"

namespace ascendrt::core {

// Note [Operator time limits]
// The hardware counts whole intervals, at most 254 of them. A limit is rounded up to that; 0 asks
// for the most. src: hicann/runtime docs aclrtGetOpTimeOutInterval; the interval of A2 and later is
// inferred from their default of 1091 s
inline constexpr uint64_t kTimeoutIntervals = 254;

struct Settings {
  std::atomic<int32_t> overflow_mode{-1};  // -1: as the chip has it
  std::atomic<uint64_t> op_timeout_us{0};  // what is in force
  std::atomic<bool> op_timeout_given{false};
  std::array<std::atomic<uint32_t>, 5> device_limits{1152, 1024, 32768, 32768, 2097152};
};
Settings& settings();

// Length of an interval in microseconds.
uint64_t op_timeout_interval_us(const gen::Soc& soc);
// The limit in force, in microseconds.
uint64_t op_timeout_us(const gen::Soc& soc);
// The limit that is in force after asking for one, in microseconds.
uint64_t actual_op_timeout_us(const gen::Soc& soc, uint64_t asked_us);

}  // namespace ascendrt::core
