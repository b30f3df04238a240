#include "core/threaded_executor.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread_end.hpp"
#include "core/exception_info.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr int64_t kPollNs = 50'000;
// See Note [Patience].
constexpr int64_t kPatienceNs = 3'000;
constexpr int64_t kLongPatienceNs = 20'000;
constexpr int64_t kNotPolling = -1;
constexpr int kLookEvery = 64;  // pauses, about a microsecond

uint32_t thread_number() {
  static thread_local uint32_t number = 0;
  if (number == 0) number = static_cast<uint32_t>(gettid());
  return number;
}

// Says, with the lock held, that a thread is about to sleep until so many tasks have finished. The
// threads share one condition: waking all of them at each task of each stream would stall hundreds.
void want(StreamState& stream, uint64_t number) {
  stream.wanted.store(std::min(stream.wanted.load(std::memory_order_relaxed), number));
}

// Signals of the client are handled on its own threads; only faults of the thread itself stay open.
void block_signals(sigset_t& previous) {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, signal);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
}

}  // namespace

// Holds the lock; at its end carries out what the scheduler owes, without the lock.
class ThreadedExecutor::Section {
 public:
  explicit Section(ThreadedExecutor& executor)
      : Section(executor, std::unique_lock(executor.mutex_)) {}
  Section(ThreadedExecutor& executor, std::unique_lock<base::RankedMutex> lock)
      : executor_(executor), lock_(std::move(lock)) {}
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() {
    executor_.publish();
    Scheduler& scheduler = executor_.scheduler_;
    const uint32_t wakes = executor_.wakes_owed();
    const bool settled = executor_.started_ || scheduler.runnable() == 0;
    if (wakes > 0 || !settled || scheduler.effects().any()) carry_out(wakes);
  }

  std::unique_lock<base::RankedMutex>& lock() { return lock_; }

 private:
  void carry_out(uint32_t wakes) {
    Scheduler& scheduler = executor_.scheduler_;
    const Effects owed = std::exchange(scheduler.effects(), {});
    executor_.tokens_ += wakes;
    if (wakes > 0) executor_.takes_at_wake_ = executor_.takes_;
    const bool start = !executor_.started_ && scheduler.runnable() > 0 &&
                       !executor_.stopping_.load(std::memory_order_relaxed);
    executor_.started_ |= start;
    const bool none = executor_.workers_.load(std::memory_order_relaxed) == 0;
    const bool progress = executor_.waiting_ > 0 && (owed.awaited || none);
    lock_.unlock();

    if (start) executor_.start_workers();
    for (uint32_t i = 0; i < wakes; ++i) executor_.work_.notify_one();
    if (owed.deadline) executor_.work_.notify_all();
    if (progress || owed.deadline) executor_.progress_.notify_all();
    for (const auto& queue : owed.arrivals) queue->arrived.notify_all();
    for (const auto& failure : owed.failures) notify_task_failure(failure);
    if (owed.watch) executor_.poll_watches();
  }

  ThreadedExecutor& executor_;
  std::unique_lock<base::RankedMutex> lock_;
};

ThreadedExecutor::ThreadedExecutor(size_t devices, uint32_t workers)
    : Executor(devices), wanted_workers_(workers), poll_ns_(usable_cores() > 1 ? kPollNs : 0) {}

// ---- workers

void ThreadedExecutor::start_workers() {
  sigset_t previous;
  block_signals(previous);
  for (uint32_t i = 0; i < wanted_workers_; ++i) {
    // Counted before it runs, so that it cannot end uncounted.
    workers_.fetch_add(1, std::memory_order_relaxed);
    try {
      std::thread thread([this] { work(); });
      pthread_setname_np(thread.native_handle(), "ascendrt-work");
      thread.detach();
    } catch (const std::system_error&) {
      workers_.fetch_sub(1, std::memory_order_relaxed);
      base::warn_once(
          "executor.threads",
          "could not start a worker thread (limit of threads reached?); device work runs "
          "in the threads that synchronize");
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

uint32_t ThreadedExecutor::wakes_owed() const {
  const uint32_t served = polling_ + tokens_;
  const uint32_t runnable = scheduler_.runnable();
  return std::min(runnable > served ? runnable - served : 0, sleeping_ - tokens_);
}

void ThreadedExecutor::publish() {
  const uint64_t pulse = uint64_t{takes_} << 32 | scheduler_.runnable();
  if (pulse != pulse_.load(std::memory_order_relaxed)) {
    pulse_.store(pulse, std::memory_order_relaxed);
  }
}

void ThreadedExecutor::work() {
  StreamState* stream = nullptr;
  {
    const Section section(*this);
    stream = take_or_look_out(Then::kTake);
  }
  while (true) {
    if (stream != nullptr) {
      stream = run(*stream, Then::kTake);
      continue;
    }
    poll_for_work();
    Section section(*this);
    --polling_;
    if (stopping_.load(std::memory_order_relaxed)) {
      workers_.fetch_sub(1, std::memory_order_relaxed);
      progress_.notify_all();
      return;
    }
    Then then = Then::kTake;
    if (scheduler_.runnable() == 0) {
      sleep_until_woken(section.lock());
      // Whoever caused the wake may run its tasks itself.
      if (takes_ != takes_at_wake_) then = Then::kLookOut;
    }
    stream = take_or_look_out(then);
  }
}

// With the lock held, by a worker: null when it is counted among those that look out for work.
StreamState* ThreadedExecutor::take_or_look_out(Then then) {
  if (scheduler_.next_deadline() != kNoDeadline) scheduler_.expire(clock::now_ns());
  StreamState* stream = nullptr;
  if (then == Then::kTake && !stopping_.load(std::memory_order_relaxed)) {
    stream = scheduler_.take(kBatch);
  }
  ++(stream != nullptr ? takes_ : polling_);
  return stream;
}

// Returns when there is something to take, or when it is time to sleep.
void ThreadedExecutor::poll_for_work() const {
  const int64_t begin = clock::now_ns();
  int64_t idle = begin;   // nothing was runnable
  int64_t still = begin;  // nothing was runnable, or something was taken
  uint64_t seen = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const uint64_t pulse = pulse_.load(std::memory_order_relaxed);
    const bool runnable = static_cast<uint32_t>(pulse) != 0;
    const int64_t now = clock::now_ns();
    if (!runnable) idle = now;
    if (!runnable || pulse >> 32 != seen >> 32) still = now;
    seen = pulse;
    if (!runnable && now - begin >= poll_ns_) return;
    if (poll_ns_ == 0 || now - still >= kPatienceNs || now - idle >= kLongPatienceNs) {
      if (runnable) return;
    }
    for (int i = 0; i < kLookEvery; ++i) base::relax();
  }
}

void ThreadedExecutor::sleep_until_woken(std::unique_lock<base::RankedMutex>& lock) {
  const int64_t deadline = scheduler_.next_deadline();
  ++sleeping_;
  work_.wait_until(lock, deadline, [&] {
    return tokens_ > 0 || stopping_.load(std::memory_order_relaxed) ||
           scheduler_.next_deadline() != deadline;
  });
  --sleeping_;
  if (tokens_ > 0) --tokens_;
}

// Runs what was taken of the stream.
StreamState* ThreadedExecutor::run(StreamState& stream, Then then) {
  const int64_t begin = then == Then::kTake ? clock::now_ns() : 0;
  Outcome outcome;
  uint32_t done = 0;
  for (Task* task = &stream.current(); task != nullptr;) {
    try {
      outcome = execute(stream, *task);
    } catch (base::EndOfThread&) {
      outcome = {ACL_ERROR_RT_INTERNAL_ERROR,
                 "the function of task " + std::to_string(task->id) + " of " + name_of(stream) +
                     " ended its thread (pthread_exit or pthread_cancel)"};
      task->body = {};
      complete(stream, std::move(outcome), done + 1, Then::kReturn);
      throw;
    }
    task->body = {};  // what it held is given back before it counts as done
    ++done;
    const bool over = outcome.code != 0 || stopping_.load(std::memory_order_relaxed);
    task = over ? nullptr : Scheduler::goes_on(stream, done);
  }
  // Tiny tasks of a host thread that submits more: better to let some gather than to meet it at the
  // lock for each.
  if (then == Then::kTake && done < kBatch && clock::now_ns() - begin < kPatienceNs) {
    then = Then::kLookOut;
  }
  return complete(stream, std::move(outcome), done, then);
}

StreamState* ThreadedExecutor::complete(StreamState& stream, Outcome outcome, uint32_t done,
                                        Then then) {
  const Section section(*this);
  // Only what comes after these tasks, and failures, ask for the time.
  const bool timed = outcome.code != 0 || stream.queue.size() != done || stream.track != nullptr;
  scheduler_.complete(stream, std::move(outcome), timed ? clock::now_ns() : 0, done);
  return then == Then::kReturn ? nullptr : take_or_look_out(then);
}

// ---- submission

Admission ThreadedExecutor::submit(StreamState& stream, Task&& task) {
  task.thread_id = thread_number();
  const bool timed = task.kind != TaskKind::kBody;
  while (true) {
    {
      const Section section(*this);
      refuse_if_closed(stream);
      const Admission admission = scheduler_.submit(stream, task, timed ? clock::now_ns() : 0);
      if (admission != Admission::kFull) return admission;
    }
    const auto held = hold(stream);
    wait(
        [&] {
          return stream.refusing.load(std::memory_order_acquire) ||
                 stream.submitted.load(std::memory_order_relaxed) -
                         stream.finished.load(std::memory_order_acquire) <
                     stream.depth;
        },
        {&stream, nullptr, 0}, clock::kForever);
  }
}

bool ThreadedExecutor::record_now(StreamState& stream, EventState& event) {
  const int64_t now = clock::now_ns();
  std::unique_lock lock(mutex_);
  refuse_if_closed(stream);
  if (!scheduler_.record_now(stream, event, now)) return false;
  if (scheduler_.effects().awaited) Section(*this, std::move(lock));  // nothing else is owed
  return true;
}

// ---- waits of host threads

// Until done, until a deadline has passed, or until there may be something to help with.
void ThreadedExecutor::poll(Done& done, int64_t end_ns, bool helps) const {
  do {
    for (int i = 0; i < kLookEvery; ++i) {
      if (done()) return;
      base::relax();
    }
    if (helps && static_cast<uint32_t>(pulse_.load(std::memory_order_relaxed)) != 0) return;
  } while (clock::now_ns() < end_ns);
}

// Runs tasks that bring the waiting thread nearer to its goal; false when there is none.
bool ThreadedExecutor::help(Awaited awaited) {
  StreamState* stream = awaited.stream;
  {
    const Section section(*this);
    if (stream == nullptr && awaited.event->gate) stream = awaited.event->gate->producer;
    if (stream != nullptr) stream = scheduler_.blocker(*stream);
    uint64_t limit = kBatch;
    if (stream == awaited.stream && awaited.number != 0 && stream != nullptr) {
      limit = awaited.number - stream->finished.load(std::memory_order_relaxed);
    }
    if (stream != nullptr && !scheduler_.take(*stream, limit)) stream = nullptr;
    const bool alone = workers_.load(std::memory_order_relaxed) == 0;
    if (stream == nullptr && alone) stream = scheduler_.take(kBatch);
    if (stream == nullptr) return false;
    ++takes_;
  }
  run(*stream, Then::kReturn);
  return true;
}

void ThreadedExecutor::expire_due() {
  const Section section(*this);
  if (scheduler_.next_deadline() != kNoDeadline) scheduler_.expire(clock::now_ns());
}

void ThreadedExecutor::sleep_until_progress(Done& done, Awaited awaited, int64_t deadline_ns) {
  Section section(*this);
  const int64_t expiry = scheduler_.next_deadline();
  const bool expires_first =
      expiry != kNoDeadline && (deadline_ns == clock::kForever || expiry < deadline_ns);
  if (awaited.event != nullptr) ++awaited.event->waiters;
  ++waiting_;
  progress_.wait_until(section.lock(), expires_first ? expiry : deadline_ns, [&] {
    if (awaited.stream != nullptr) want(*awaited.stream, awaited.number);
    return done() || scheduler_.next_deadline() != expiry ||
           (workers_.load(std::memory_order_relaxed) == 0 && scheduler_.runnable() > 0);
  });
  --waiting_;
  if (awaited.event != nullptr) --awaited.event->waiters;
}

bool ThreadedExecutor::wait(Done done, Awaited awaited, int64_t deadline_ns) {
  if (done()) return true;
  const base::NoCancel uncancelled;  // what is waited for may use objects of the caller
  int64_t tired = kNotPolling;
  while (!done()) {
    const bool alone = workers_.load(std::memory_order_relaxed) == 0;
    const bool helps = deadline_ns == clock::kForever || alone;
    if (helps && help(awaited)) {
      tired = kNotPolling;
      continue;
    }
    const int64_t now = clock::now_ns();
    if (tired == kNotPolling) tired = now + poll_ns_;
    if (deadline_ns != clock::kForever && now >= deadline_ns) return done();
    if (now < tired) {
      poll(done, deadline_ns == clock::kForever ? tired : std::min(tired, deadline_ns), helps);
      continue;
    }
    sleep_until_progress(done, awaited, deadline_ns);
    tired = kNotPolling;
    expire_due();
  }
  return true;
}

bool ThreadedExecutor::wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) {
  return wait(
      // pairs with Scheduler::finish(); sequentially consistent, see goes_on().
      [&, number] { return stream.finished.load() >= number; }, {&stream, nullptr, number},
      deadline_ns);
}

bool ThreadedExecutor::wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) {
  return wait([&, record] { return event.done.load(std::memory_order_acquire) >= record; },
              {nullptr, &event, 0}, deadline_ns);
}

// ---- ends of streams

void ThreadedExecutor::drop(StreamState& stream) {
  const Section section(*this);
  scheduler_.drop(stream, clock::now_ns());
}

bool ThreadedExecutor::wait_engines(StreamState& stream, int64_t deadline_ns) {
  const base::NoCancel uncancelled;
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool quiet = progress_.wait_until(lock, deadline_ns, [&] {
    want(stream, 0);
    return stream.phase != Phase::kRunning && stream.phase != Phase::kPlaying;
  });
  --waiting_;
  return quiet;
}

void ThreadedExecutor::with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) {
  const Section section(*this);
  function(scheduler_, clock::now_ns());
}

// ---- failures

// ---- host threads

void ThreadedExecutor::run_item(HostItem item) {
  if (item.blocked == nullptr) return run_detached(item);
  run(*item.blocked, Then::kReturn);
}

size_t ThreadedExecutor::serve(HostQueue& queue, int64_t deadline_ns) {
  HostItem item;
  size_t pending = 0;
  {
    Section section(*this);
    queue.arrived.wait_until(section.lock(), deadline_ns,
                             [&] { return !queue.items.empty() || queue.closed; });
    pending = queue.items.size();
    if (!take_item(queue, item)) return 0;
  }
  // One by one: a stream that is dropped meanwhile takes its item out.
  for (size_t done = 1;; ++done) {
    run_item(std::move(item));
    const Section section(*this);
    if (done == pending || !take_item(queue, item)) return done;
  }
}

// ---- process exit

void ThreadedExecutor::quiesce(int64_t limit_ns) {
  const int64_t deadline = clock::now_ns() + limit_ns;
  std::unique_lock lock(mutex_);
  stopping_.store(true, std::memory_order_relaxed);
  work_.notify_all();
  ++waiting_;
  progress_.wait_until(lock, deadline,
                       [&] { return workers_.load(std::memory_order_relaxed) == 0; });
  --waiting_;
}

}  // namespace ascendrt::core
