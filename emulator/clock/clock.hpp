// Time. The sole user of chrono and of sleeping waits; everything else counts int64 nanoseconds.
// Must never: be bypassed. A later virtual clock replaces what stands behind these functions.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/mutex.hpp"

namespace ascendrt::clock {

inline constexpr int64_t kForever = -1;

// Monotonic time in nanoseconds.
int64_t now_ns();

// The host's CLOCK_MONOTONIC, whatever clock now_ns() follows.
int64_t monotonic_ns();

// Date and time of day: microseconds since 1970, UTC. For people only.
int64_t wall_us();

// A condition variable over a ranked mutex whose waits are bounded by this clock.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  // Waits until the predicate holds or deadline_ns (absolute, kForever = none) has passed.
  // Returns the predicate's value. The caller holds the lock; it is released while waiting.
  template <class Predicate>
  bool wait_until(std::unique_lock<base::RankedMutex>& lock, int64_t deadline_ns, Predicate ready) {
    while (!ready()) {
      if (!wait_once(lock, deadline_ns)) return ready();
    }
    return true;
  }

 private:
  // False when the deadline has passed.
  bool wait_once(std::unique_lock<base::RankedMutex>& lock, int64_t deadline_ns);

  std::condition_variable_any condition_;
};

// Absolute deadline for a time-out in milliseconds; -1 gives kForever. Saturates.
int64_t deadline_after_ms(int64_t timeout_ms);

// Sleeps this thread; only for tests and for pacing.
void sleep_ns(int64_t duration_ns);

}  // namespace ascendrt::clock
