// The real clock: CLOCK_MONOTONIC.
#include <chrono>
#include <limits>
#include <thread>

#include "clock/clock.hpp"

namespace ascendrt::clock {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

int64_t now_ns() { return monotonic_ns(); }

bool Condition::wait_once(std::unique_lock<base::RankedMutex>& lock, int64_t deadline_ns) {
  if (deadline_ns == kForever) {
    condition_.wait(lock);
    return true;
  }
  const std::chrono::time_point<std::chrono::steady_clock> deadline{
      std::chrono::nanoseconds(deadline_ns)};
  return condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
}

int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t deadline_after_ms(int64_t timeout_ms) {
  if (timeout_ms < 0) return kForever;
  const int64_t now = now_ns();
  if (timeout_ms > (std::numeric_limits<int64_t>::max() - now) / kNsPerMs) return kForever;
  return now + timeout_ms * kNsPerMs;
}

void sleep_ns(int64_t duration_ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
}

}  // namespace ascendrt::clock
