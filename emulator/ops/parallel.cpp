// Owns: the helper threads of Workers. Must never: hold a lock while items run.
#include "ops/parallel.hpp"

#include <csignal>
#include <system_error>

#include "base/error.hpp"
#include "gen/abi.h"

namespace ascendrt::ops {
namespace {

constexpr int kLooks = 2000;            // of an idle helper: 30 to 100 microseconds
constexpr int kLooksBeforeYield = 200;  // of a caller whose last items are with helpers
constexpr int64_t kMostItems = INT32_MAX;

// Parts of Workers::gate_.
constexpr uint64_t kInside = (uint64_t{1} << 31U) - 1;
constexpr uint64_t kOpen = uint64_t{1} << 31U;
constexpr unsigned kJobShift = 32;

uint64_t jobs(uint64_t gate) { return gate >> kJobShift; }

uint64_t range(uint64_t first, uint64_t end) { return first | end << 32U; }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Stop::look() const {
  if (!asked()) return;
  base::fail(ACL_ERROR_GE_FAILURE,
             "stopped before it was done: its stream was aborted or destroyed, or its device was "
             "aborted or reset");
}

Workers::Workers(int threads)
    : threads_(threads < 1 ? 1 : threads), ranges_(static_cast<size_t>(threads_)) {}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

Workers& Workers::serial() {
  static Workers workers(1);
  return workers;
}

void Workers::start_helpers() {
  if (helpers_.size() + 1 >= static_cast<size_t>(threads_)) return;
  // Signals of the client go to its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    while (helpers_.size() + 1 < static_cast<size_t>(threads_)) {
      helpers_.emplace_back([this, self = helpers_.size() + 1] { help(self); });
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that there are work
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::run(int64_t count, Body body, void* ctx) {
  if (threads_ == 1 || count < 2 || count > kMostItems || !use_.try_lock()) {
    for (int64_t i = 0; i < count; ++i) body(ctx, i);
    return;
  }
  const std::lock_guard use(use_, std::adopt_lock);
  share(static_cast<uint32_t>(count), body, ctx);
}

void Workers::share(uint32_t count, Body body, void* ctx) {
  start_helpers();
  body_ = body;
  ctx_ = ctx;
  ranges_[0].left.store(range(0, count), std::memory_order_relaxed);
  // Sequentially consistent with asleep_: a helper that is not seen asleep sees this job.
  gate_.store((jobs(gate_.load(std::memory_order_relaxed)) + 1) << kJobShift | kOpen);
  if (asleep_.load() > 0) {
    {
      const std::lock_guard lock(mutex_);
    }  // it waits by now
    wake_.notify_all();
  }
  work(0);
  // Late helpers find the gate shut; only those inside are waited for.
  // acquire: pairs with their release in help().
  uint64_t gate = gate_.fetch_and(~kOpen, std::memory_order_acquire);
  for (int looks = 0; (gate & kInside) != 0; ++looks) {
    if (looks < kLooksBeforeYield) {
      pause();
    } else {
      std::this_thread::yield();
    }
    gate = gate_.load(std::memory_order_acquire);
  }
}

void Workers::work(size_t self) {
  // relaxed: items are independent; the end of the job is published through the gate.
  std::atomic<uint64_t>& own = ranges_[self].left;
  do {
    uint64_t seen = own.load(std::memory_order_relaxed);
    while (static_cast<uint32_t>(seen) < seen >> 32U) {
      if (!own.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) continue;
      body_(ctx_, static_cast<uint32_t>(seen));
      seen = own.load(std::memory_order_relaxed);
    }
  } while (steal(self));
}

// The upper half of the longest range, or the one item that is left of it.
bool Workers::steal(size_t self) {
  while (true) {
    std::atomic<uint64_t>* longest = nullptr;
    uint64_t seen = 0;
    uint64_t most = 0;
    for (Range& candidate : ranges_) {
      const uint64_t left = candidate.left.load(std::memory_order_relaxed);
      const uint64_t first = static_cast<uint32_t>(left);
      const uint64_t end = left >> 32U;
      if (first >= end || end - first <= most) continue;
      most = end - first;
      seen = left;
      longest = &candidate.left;
    }
    if (longest == nullptr) return false;
    const uint64_t end = seen >> 32U;
    const uint64_t middle = end - (most + 1) / 2;
    if (longest->compare_exchange_strong(seen, range(static_cast<uint32_t>(seen), middle),
                                         std::memory_order_relaxed)) {
      ranges_[self].left.store(range(middle, end), std::memory_order_relaxed);
      return true;
    }
  }
}

// The gate with a job that is not `seen`, or 0 when there will be none.
uint64_t Workers::wait_for_job(uint64_t seen) {
  for (int i = 0; i < kLooks; ++i) {
    const uint64_t gate = gate_.load(std::memory_order_acquire);
    if (jobs(gate) != seen) return gate;
    pause();
  }
  std::unique_lock lock(mutex_);
  asleep_.fetch_add(1);
  wake_.wait(lock, [&] { return closing_ || jobs(gate_.load()) != seen; });
  asleep_.fetch_sub(1);
  return closing_ ? 0 : gate_.load(std::memory_order_acquire);
}

void Workers::help(size_t self) {
  uint64_t seen = 0;
  while (uint64_t gate = wait_for_job(seen)) {
    seen = jobs(gate);
    while ((gate & kOpen) != 0 && jobs(gate) == seen) {
      // acquire: pairs with the store in share().
      if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) continue;
      work(self);
      gate_.fetch_sub(1, std::memory_order_release);
      break;
    }
  }
}

}  // namespace ascendrt::ops
