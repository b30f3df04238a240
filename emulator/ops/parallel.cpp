// Owns: the helper threads of Workers. Must never: hold a lock while items run.
#include "ops/parallel.hpp"

#include <csignal>
#include <system_error>

namespace ascendrt::ops {
namespace {

constexpr int kLooks = 2000;            // of an idle helper, some tens of microseconds
constexpr int kLooksBeforeYield = 200;  // of a caller whose last items are with helpers
constexpr int64_t kMostItems = INT32_MAX;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Workers::Job::work(Side side) {
  // relaxed: items are independent; the end of the job is published through Workers::active_.
  uint64_t seen = left.load(std::memory_order_relaxed);
  while (true) {
    const auto first = static_cast<uint32_t>(seen);
    const auto end = static_cast<uint32_t>(seen >> 32U);
    if (first >= end) return;
    const bool front = side == Side::kFront;
    const uint64_t rest = front ? seen + 1 : seen - (uint64_t{1} << 32U);
    if (!left.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) continue;
    body(ctx, front ? first : end - 1);
    seen = left.load(std::memory_order_relaxed);
  }
}

Workers::Workers(int threads) : threads_(threads < 1 ? 1 : threads) {}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    round_.fetch_add(1, std::memory_order_relaxed);
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
      helpers_.emplace_back([this] { help(); });
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
  Job job{body, ctx, {uint64_t{count} << 32U}};
  start_helpers();
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    round_.fetch_add(1, std::memory_order_relaxed);
  }
  wake_.notify_all();
  job.work(Side::kFront);
  {
    const std::lock_guard lock(mutex_);
    job_ = nullptr;  // late helpers find nothing; only those that joined are waited for
  }
  // acquire: pairs with the helpers' release in help().
  for (int looks = 0; active_.load(std::memory_order_acquire) != 0; ++looks) {
    if (looks < kLooksBeforeYield) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void Workers::help() {
  uint64_t seen = 0;
  while (true) {
    for (int i = 0; i < kLooks && round_.load(std::memory_order_relaxed) == seen; ++i) pause();
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
      if (closing_) return;
      seen = round_.load(std::memory_order_relaxed);
      job = job_;
      if (job != nullptr) active_.fetch_add(1, std::memory_order_relaxed);
    }
    if (job == nullptr) continue;
    job->work(Side::kBack);
    active_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace ascendrt::ops
