#include "base/mutex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ascendrt::base {
namespace {

constexpr int kTries = 100;

// The kernel compares and queues under a lock of its own, so no wake between the two is lost.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  static_assert(sizeof word == sizeof value && std::atomic<uint32_t>::is_always_lock_free);
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

void RankedMutex::wait() {
  for (int tries = 0; tries < kTries; ++tries) {
    relax();
    if (word_.load(std::memory_order_relaxed) == kFree && take()) return;
  }
  sleepers_.fetch_add(1);
  // From here on, who gives the lock sees a sleeper, or this thread sees the lock given.
  make_others_pass();
  while (!take()) futex(word_, FUTEX_WAIT, kTaken);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void RankedMutex::wake() { futex(word_, FUTEX_WAKE, 1); }

}  // namespace ascendrt::base
