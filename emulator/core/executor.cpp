#include "core/executor.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread_end.hpp"
#include "core/exception_info.hpp"
#include "core/runtime.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr int64_t kPollNs = 50'000;
constexpr int kLockTries = 100;
constexpr int64_t kQuiesceNs = 2'000'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t thread_number() {
  static thread_local const auto number = static_cast<uint32_t>(gettid());
  return number;
}

int cpu_count() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string name_of(const StreamState& stream) {
  return "stream " + std::to_string(stream.id) + " of device " + std::to_string(stream.device);
}

// Runs the body of the stream's current task and tells the exception callbacks of a failure.
Outcome execute(const StreamState& stream, Task& task) {
  Outcome outcome;
  try {
    outcome.code = task.body();
  } catch (base::EndOfThread&) {
    throw;
  } catch (const base::Error& error) {
    outcome = {error.code, error.text};
  } catch (const std::exception& error) {
    outcome = {ACL_ERROR_RT_INTERNAL_ERROR, error.what()};
  } catch (...) {
    outcome = {ACL_ERROR_RT_INTERNAL_ERROR, "an exception of an unknown kind left the task"};
  }
  if (outcome.code == 0) return outcome;
  outcome.text = "task " + std::to_string(task.id) + " (" + task.name + ") of " + name_of(stream) +
                 " failed with " + std::to_string(outcome.code) +
                 (outcome.text.empty() ? "" : ": " + outcome.text);
  notify_task_failure({stream.device, stream.id, task.id, task.thread_id, outcome.code});
  return outcome;
}

// Says, with the lock held, that a thread is about to sleep until so many tasks have finished. The
// threads share one condition: waking all of them at each task of each stream would stall hundreds.
void want(StreamState& stream, uint64_t number) { stream.wanted = std::min(stream.wanted, number); }

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
class Executor::Section {
 public:
  explicit Section(Executor& executor)
      : executor_(executor), lock_(executor.mutex_, std::defer_lock) {
    // The lock is held for nanoseconds: a few tries are cheaper than the sleep of a contended lock.
    for (int tries = 0; tries < kLockTries; ++tries) {
      if (lock_.try_lock()) return;
      relax();
    }
    lock_.lock();
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() {
    Scheduler& scheduler = executor_.scheduler_;
    executor_.runnable_.store(scheduler.runnable(), std::memory_order_relaxed);
    Effects owed;
    if (scheduler.effects().any()) std::swap(owed, scheduler.effects());
    const uint32_t wakes = executor_.wakes_owed();
    executor_.tokens_ += wakes;
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
  }

  std::unique_lock<base::RankedMutex>& lock() { return lock_; }

 private:
  Executor& executor_;
  std::unique_lock<base::RankedMutex> lock_;
};

Executor::Executor(size_t devices, uint32_t workers)
    : scheduler_(devices), wanted_workers_(workers), poll_ns_(cpu_count() > 1 ? kPollNs : 0) {}

void Executor::attach(StreamState& stream) {
  const Section section(*this);
  scheduler_.attach(stream);
}

void Executor::detach(StreamState& stream) {
  const Section section(*this);
  scheduler_.detach(stream);
}

// ---- workers

void Executor::start_workers() {
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

uint32_t Executor::wakes_owed() const {
  const uint32_t served = polling_ + tokens_;
  const uint32_t runnable = scheduler_.runnable();
  return std::min(runnable > served ? runnable - served : 0, sleeping_ - tokens_);
}

void Executor::work() {
  while (StreamState* stream = next_for_worker()) run(*stream);
}

// Null when the worker has to end.
StreamState* Executor::next_for_worker() {
  while (true) {
    {
      Section section(*this);
      if (scheduler_.next_deadline() != kNoDeadline) scheduler_.expire(clock::now_ns());
      if (stopping_.load(std::memory_order_relaxed)) {
        workers_.fetch_sub(1, std::memory_order_relaxed);
        progress_.notify_all();
        return nullptr;
      }
      if (StreamState* stream = scheduler_.take()) return stream;
      ++polling_;
    }
    Done found = [this] {
      return runnable_.load(std::memory_order_relaxed) > 0 ||
             stopping_.load(std::memory_order_relaxed);
    };
    poll(found, clock::kForever);
    Section section(*this);
    --polling_;
    if (!found()) sleep_until_woken(section.lock());
  }
}

void Executor::sleep_until_woken(std::unique_lock<base::RankedMutex>& lock) {
  const int64_t deadline = scheduler_.next_deadline();
  ++sleeping_;
  work_.wait_until(lock, deadline, [&] {
    return tokens_ > 0 || stopping_.load(std::memory_order_relaxed) ||
           scheduler_.next_deadline() != deadline;
  });
  --sleeping_;
  if (tokens_ > 0) --tokens_;
}

void Executor::run(StreamState& stream) {
  Outcome outcome;
  try {
    outcome = execute(stream, stream.current);
  } catch (base::EndOfThread&) {
    complete(stream, {ACL_ERROR_RT_INTERNAL_ERROR,
                      "the function of task " + std::to_string(stream.current.id) + " of " +
                          name_of(stream) + " ended its thread (pthread_exit or pthread_cancel)"});
    throw;
  }
  complete(stream, std::move(outcome));
}

void Executor::complete(StreamState& stream, Outcome outcome) {
  // What the task held is given back before it counts as done.
  stream.current.body = {};
  const Section section(*this);
  scheduler_.complete(stream, std::move(outcome), clock::now_ns());
}

// ---- submission

void Executor::refuse_if_closed(const StreamState& stream) const {
  if (!stream.refusing.load(std::memory_order_relaxed)) return;
  if (stream.closed) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               name_of(stream) + " was destroyed, or its device reset, by another thread");
  }
  if (stream.aborting) {
    base::fail(ACL_ERROR_RT_STREAM_ABORT, name_of(stream) + " is being aborted");
  }
  base::fail(stream.domain->error, name_of(stream) +
                                       " accepts no more work: ACL_STOP_ON_FAILURE is set and " +
                                       stream.domain->text);
}

Admission Executor::submit(StreamState& stream, Task task) {
  task.thread_id = thread_number();
  while (true) {
    {
      const Section section(*this);
      refuse_if_closed(stream);
      const Admission admission = scheduler_.submit(stream, task, clock::now_ns());
      if (admission != Admission::kFull) return admission;
    }
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

// ---- waits of host threads

bool Executor::poll(Done& done, int64_t deadline_ns) const {
  if (poll_ns_ == 0) return done();
  const int64_t end = clock::now_ns() + poll_ns_;
  int64_t now = 0;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
    now = clock::now_ns();
  } while (now < end && (deadline_ns == clock::kForever || now < deadline_ns));
  return false;
}

// Runs one task that brings the waiting thread nearer to its goal; false when there is none.
bool Executor::help(Awaited awaited) {
  StreamState* stream = awaited.stream;
  {
    const Section section(*this);
    if (stream == nullptr && awaited.event->gate) stream = awaited.event->gate->producer;
    if (stream != nullptr) stream = scheduler_.blocker(*stream);
    if (stream != nullptr && !scheduler_.take(*stream)) stream = nullptr;
    const bool alone = workers_.load(std::memory_order_relaxed) == 0;
    if (stream == nullptr && alone) stream = scheduler_.take();
  }
  if (stream == nullptr) return false;
  run(*stream);
  return true;
}

void Executor::expire_due() {
  const Section section(*this);
  if (scheduler_.next_deadline() != kNoDeadline) scheduler_.expire(clock::now_ns());
}

void Executor::sleep_until_progress(Done& done, Awaited awaited, int64_t deadline_ns) {
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

bool Executor::wait(Done done, Awaited awaited, int64_t deadline_ns) {
  if (done()) return true;
  const base::NoCancel uncancelled;  // what is waited for may use objects of the caller
  while (!done()) {
    const bool alone = workers_.load(std::memory_order_relaxed) == 0;
    if ((deadline_ns == clock::kForever || alone) && help(awaited)) continue;
    if (poll(done, deadline_ns)) return true;
    if (deadline_ns != clock::kForever && clock::now_ns() >= deadline_ns) return done();
    sleep_until_progress(done, awaited, deadline_ns);
    expire_due();
  }
  return true;
}

bool Executor::wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) {
  return wait(
      // acquire: pairs with the release of Scheduler::finish().
      [&, number] { return stream.finished.load(std::memory_order_acquire) >= number; },
      {&stream, nullptr, number}, deadline_ns);
}

bool Executor::wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) {
  return wait([&, record] { return event.done.load(std::memory_order_acquire) >= record; },
              {nullptr, &event, 0}, deadline_ns);
}

// ---- ends of streams

void Executor::close(StreamState& stream) {
  const Section section(*this);
  stream.closed = true;
  stream.refusing.store(true, std::memory_order_release);
  scheduler_.effects().awaited = true;
}

void Executor::set_aborting(StreamState& stream, bool aborting) {
  const Section section(*this);
  stream.aborting = aborting;
  stream.refusing.store(aborting || stream.closed || stream.domain->error != 0,
                        std::memory_order_release);
  scheduler_.effects().awaited = true;
}

void Executor::drop(StreamState& stream) {
  const Section section(*this);
  scheduler_.drop(stream, clock::now_ns());
}

bool Executor::wait_engines(StreamState& stream, int64_t deadline_ns) {
  const base::NoCancel uncancelled;
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool quiet = progress_.wait_until(lock, deadline_ns, [&] {
    want(stream, 0);
    return stream.phase != Phase::kRunning;
  });
  --waiting_;
  return quiet;
}

void Executor::stop_on_failure(StreamState& stream) {
  const Section section(*this);
  scheduler_.stop_on_failure(stream);
}

void Executor::set_priority(StreamState& stream, uint32_t priority) {
  const Section section(*this);
  scheduler_.set_priority(stream, priority);
}

// ---- failures

Outcome Executor::domain_failure(StreamState& stream) {
  const Section section(*this);
  return {stream.domain->error, stream.domain->text};
}

Outcome Executor::take_failure(StreamState& stream) {
  // Who has seen the tasks finish (acquire) sees their failures: without any, no lock is needed.
  if (stream.error.load(std::memory_order_relaxed) == 0 &&
      !stream.refusing.load(std::memory_order_acquire)) {
    return {};
  }
  const Section section(*this);
  if (stream.domain->error != 0) return {stream.domain->error, stream.domain->text};
  return {stream.error.exchange(0, std::memory_order_relaxed),
          std::exchange(stream.error_text, {})};
}

base::Code Executor::peek_failure(StreamState& stream) {
  const Section section(*this);
  return stream.domain->error != 0 ? stream.domain->error
                                   : stream.error.load(std::memory_order_relaxed);
}

std::string Executor::describe(StreamState& stream) {
  const Section section(*this);
  const uint64_t pending = stream.submitted.load(std::memory_order_relaxed) -
                           stream.finished.load(std::memory_order_relaxed);
  std::string text = name_of(stream) + " has " + std::to_string(pending) + " unfinished tasks";
  const std::string current =
      "task " + std::to_string(stream.current.id) + " (" + stream.current.name + ")";
  switch (stream.phase) {
    case Phase::kIdle:
      break;
    case Phase::kReady:
      return text + ", " + current + " waits for an engine";
    case Phase::kRunning:
      return text + ", " + current + " runs";
    case Phase::kHost:
      return text + ", " + current + " is with a host thread (does it call aclrtProcessReport?)";
    case Phase::kWaiting:
      return text + ", " + current + " waits for an event" +
             (stream.current.gate->producer != nullptr
                  ? " that " + name_of(*stream.current.gate->producer) + " has yet to record"
                  : " of which no record is queued");
  }
  return text;
}

// ---- host threads

void Executor::run_item(HostItem item) {
  if (item.blocked != nullptr) return run(*item.blocked);
  try {
    item.detached();
  } catch (base::EndOfThread&) {
    throw;
  } catch (...) {
    base::warn_once("executor.callback", "an exception left a callback function; it was ignored");
  }
}

size_t Executor::serve(HostQueue& queue, int64_t deadline_ns) {
  size_t pending = 0;
  {
    Section section(*this);
    queue.arrived.wait_until(section.lock(), deadline_ns,
                             [&] { return !queue.items.empty() || queue.closed; });
    pending = queue.items.size();
  }
  // One by one: a stream that is dropped meanwhile takes its item out.
  for (size_t done = 0; done < pending; ++done) {
    HostItem item;
    {
      const Section section(*this);
      if (queue.items.empty()) return done;
      item = std::move(queue.items.front());
      queue.items.pop_front();
    }
    run_item(std::move(item));
  }
  return pending;
}

void Executor::set_closed(HostQueue& queue, bool closed) {
  const Section section(*this);
  queue.closed = closed;
  queue.arrived.notify_all();
}

bool Executor::has_items(HostQueue& queue) {
  const Section section(*this);
  return !queue.items.empty();
}

// ---- process exit

void Executor::quiesce(int64_t limit_ns) {
  const int64_t deadline = clock::now_ns() + limit_ns;
  std::unique_lock lock(mutex_);
  stopping_.store(true, std::memory_order_relaxed);
  work_.notify_all();
  ++waiting_;
  progress_.wait_until(lock, deadline,
                       [&] { return workers_.load(std::memory_order_relaxed) == 0; });
  --waiting_;
}

namespace {

Executor* make_executor() {
  const int64_t workers = base::env_int("ASCENDRT_WORKERS", std::clamp(cpu_count(), 2, 8), 1, 256);
  return new Executor(runtime().physical_device_count(), static_cast<uint32_t>(workers));
}

}  // namespace

Executor& executor() {
  static Executor* const instance = [] {
    Executor* made = make_executor();
    std::atexit([] {
      if (!forked_child()) executor().quiesce(kQuiesceNs);
    });
    return made;
  }();
  return *instance;
}

}  // namespace ascendrt::core
