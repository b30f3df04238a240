#include "memory/stamps.hpp"

#include <sched.h>

#include <mutex>

#include "base/barrier.hpp"
#include "memory/os.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint32_t kStamps = 1U << Stamps::kBits;

}  // namespace

Stamps::Stamps()
    : ended_(static_cast<std::atomic<uint8_t>*>(os::reserve_table(kStamps * sizeof(*ended_)))) {}

Stamps::~Stamps() { os::unmap(ended_, kStamps * sizeof(*ended_)); }

uint32_t Stamps::open(std::atomic<uint32_t>& stamp, const std::atomic<uint32_t>& busy) {
  const std::lock_guard lock(mutex_);
  if (next_ == kStamps) return 0;
  open_.emplace(next_, Cache{&stamp, &busy});
  stamp.store(next_, std::memory_order_relaxed);
  return next_++;
}

// With the lock held.
void Stamps::end(uint32_t stamp) {
  ended_[stamp].store(1, std::memory_order_release);
  open_.erase(stamp);
}

void Stamps::close(uint32_t stamp) {
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(stamp); found != open_.end()) {
    found->second.stamp->store(0, std::memory_order_relaxed);
    end(stamp);
  }
}

void Stamps::revoke(uint32_t stamp) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(stamp);
  if (found == open_.end()) return;  // somebody else was here
  found->second.stamp->store(0);
  base::make_others_pass();
  // A few instructions long, if its thread runs at all.
  while (found->second.busy->load(std::memory_order_acquire) != 0) sched_yield();
  end(stamp);
}

}  // namespace ascendrt::memory
