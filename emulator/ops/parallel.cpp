// Owns: the helper threads of Workers. Must never: hold a lock while items run.
#include "ops/parallel.hpp"

#include <csignal>
#include <system_error>

namespace ascendrt::ops {

void Workers::Job::work() {
  // relaxed: items are independent; the end of the job is published through Workers::mutex_.
  for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
       i = next.fetch_add(1, std::memory_order_relaxed)) {
    body(ctx, i);
  }
}

Workers::Workers(int threads) : threads_(threads < 1 ? 1 : threads) {}

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
      helpers_.emplace_back([this] { help(); });
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that there are work
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::run(int64_t count, Body body, void* ctx) {
  Job job{body, ctx, count};
  if (threads_ == 1 || count < 2 || !use_.try_lock()) {
    job.work();
    return;
  }
  const std::lock_guard use(use_, std::adopt_lock);
  start_helpers();
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++round_;
  }
  wake_.notify_all();
  job.work();
  std::unique_lock lock(mutex_);
  job_ = nullptr;  // late helpers find nothing; only those that joined are waited for
  idle_.wait(lock, [this] { return active_ == 0; });
}

void Workers::help() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return closing_ || (job_ != nullptr && round_ != seen); });
    if (closing_) return;
    seen = round_;
    Job* job = job_;
    ++active_;
    lock.unlock();
    job->work();
    lock.lock();
    if (--active_ == 0) idle_.notify_all();
  }
}

}  // namespace ascendrt::ops
