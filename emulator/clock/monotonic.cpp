// CLOCK_MONOTONIC at the price of a counter: where the kernel itself keeps time by the processor's
// time stamp counter, its value is carried on from a reading of the clock at most a millisecond
// old. Owns: the ratio of the two, and each thread's last reading. Must never: run away from the
// clock; a wrong ratio of 100 ppm is wrong by 100 ns.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>

#include "base/cpu.hpp"
#include "clock/clock.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ascendrt::clock {
namespace {

int64_t read_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if defined(__x86_64__)
constexpr int64_t kCalibrationNs = 10'000'000;
constexpr int64_t kLongestNs = 1'000'000;
constexpr unsigned kShift = 32;

struct Reading {
  uint64_t ticks = 0;
  int64_t ns = 0;
};

// Of a few tries the one that was disturbed least.
Reading read_both() {
  Reading best;
  uint64_t least = UINT64_MAX;
  for (int tries = 0; tries < 3; ++tries) {
    const uint64_t before = __rdtsc();
    const int64_t ns = read_clock();
    const uint64_t after = __rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, ns};
  }
  return best;
}

bool kernel_trusts_counter() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
}

std::atomic<uint64_t> g_scale{0};  // ns per tick << kShift; 0: not known yet
ART_FAST_THREAD_LOCAL Reading t_last;
ART_FAST_THREAD_LOCAL uint64_t t_longest = 0;  // ticks that t_last may be carried on for

int64_t read_anew(uint64_t scale) {
  static const Reading first = read_both();
  static const bool usable = kernel_trusts_counter();
  if (!usable) return read_clock();
  Reading now = read_both();
  if (scale == 0) {
    const uint64_t ticks = now.ticks - first.ticks;
    if (now.ns - first.ns < kCalibrationNs || ticks == 0) return now.ns;
    scale = static_cast<uint64_t>(static_cast<double>(now.ns - first.ns) /
                                  static_cast<double>(ticks) * (1ULL << kShift));
    g_scale.store(scale, std::memory_order_relaxed);
  }
  // A thread's time never goes back, not even by the error of the ratio.
  if (t_longest != 0) {
    now.ns = std::max(now.ns, t_last.ns + static_cast<int64_t>(t_longest * scale >> kShift));
  }
  t_last = now;
  t_longest = (static_cast<uint64_t>(kLongestNs) << kShift) / scale;
  return now.ns;
}
#endif

}  // namespace

int64_t monotonic_ns() {
#if defined(__x86_64__)
  const uint64_t scale = g_scale.load(std::memory_order_relaxed);
  const uint64_t ticks = __rdtsc() - t_last.ticks;
  if (ticks >= t_longest) return read_anew(scale);
  return t_last.ns + static_cast<int64_t>(ticks * scale >> kShift);
#else
  return read_clock();
#endif
}

}  // namespace ascendrt::clock
