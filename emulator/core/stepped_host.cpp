// The stepped executor towards the host: clocks of threads, copies they wait for, functions of the
// client, and the ticker. Must never: move the device's clock but through a step.
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/thread_end.hpp"
#include "core/stepped_executor.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

// Paced: what a host thread may lag behind before it counts as its own time.
constexpr int64_t kPaceSlackNs = 10'000'000;
constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

// ---- host threads

// With the lock held.
HostThread& SteppedExecutor::self() {
  base::Ref<HostThread>& mine = thread_state().host;
  if (!mine) {
    mine = base::make_ref<HostThread>();
    mine->number = numbers_++;
    mine->t_ns = now_ns_;
    mine->since_ns = clock::now_ns();
    threads_.push_back(mine);
  }
  return *mine;
}

void SteppedExecutor::change(HostThread& thread, HostThread::State state) {
  thread.state = state;
  thread.since_ns = clock::now_ns();
  ++version_;
  if (!waiters_.empty() || stepping_) changed_.notify_all();
}

int64_t SteppedExecutor::real_elapsed_ns() const { return clock::now_ns() - origin_ns_; }

void SteppedExecutor::enter(const char* name, const CallCost& cost) {
  Section section(*this);
  HostThread& thread = self();
  if (thread.depth++ > 0) return;
  if (thread.overtaken && now_ns_ > thread.t_ns) ++overtaken_;
  thread.overtaken = false;
  thread.t_ns = std::max(thread.t_ns, now_ns_);
  if (settings_.mode == ClockMode::kPaced) {
    const int64_t real = real_elapsed_ns();
    if (real - thread.t_ns > kPaceSlackNs) thread.t_ns = real;
  }
  thread.call = name;
  thread.call_ns = thread.t_ns;
  thread.t_ns += CostModel::to_ns(cost.us);
  change(thread, HostThread::State::kInside);
  if (cost.looks) catch_up(section.lock(), thread);
}

void SteppedExecutor::leave() {
  probe::CallSpan span;
  {
    const Section section(*this);
    HostThread& thread = self();
    if (--thread.depth > 0) return;
    span = {thread.call, thread.number, thread.call_ns, thread.t_ns};
    change(thread, HostThread::State::kOutside);
  }
  if (sink_ != nullptr) sink_->call(span);
}

void SteppedExecutor::charge(double us) {
  const Section section(*this);
  self().t_ns += CostModel::to_ns(us);
}

void SteppedExecutor::thread_ended(HostThread& thread) {
  const Section section(*this);
  thread.ended.store(true, std::memory_order_relaxed);
  ++version_;
  changed_.notify_all();
}

int64_t SteppedExecutor::host_now_ns() {
  const Section section(*this);
  return std::max(self().t_ns, now_ns_);
}

void SteppedExecutor::host_sleep_until(int64_t deadline_ns) {
  wait([] { return false; }, deadline_ns, 0);
}

void SteppedExecutor::set_signal(HostSignal& signal) {
  const Section section(*this);
  signal.set = true;
  signal.t_ns = std::max(self().t_ns, now_ns_);
}

SignalWait SteppedExecutor::wait_signal(HostSignal& signal, int64_t deadline_ns,
                                        int64_t patience_ns) {
  const bool patient = patience_ns == clock::kForever;
  wait([&] { return signal.set; }, deadline_ns, 0, By::kDevice,
       patient ? clock::kForever : clock::now_ns() + patience_ns);
  const Section section(*this);
  HostThread& thread = self();
  if (signal.set) {
    signal.set = false;
    thread.t_ns = std::max(thread.t_ns, signal.t_ns);
    return SignalWait::kSet;
  }
  const bool passed = deadline_ns != clock::kForever && thread.t_ns >= deadline_ns;
  return passed ? SignalWait::kDeadline : SignalWait::kNotYet;
}

int64_t SteppedExecutor::deadline_after_ms(int64_t timeout_ms) {
  if (timeout_ms < 0) return clock::kForever;
  const Section section(*this);
  const int64_t now = self().t_ns;
  if (timeout_ms > (kNoEvent - 1 - now) / kNsPerMs) return clock::kForever;
  return now + timeout_ms * kNsPerMs;
}

void SteppedExecutor::model_time(Task& task, const Load& load) {
  task.timing = model_.timing_of(task.engine, task.name, load);
}

namespace {

// Not a stream of the client: the place of a copy that a host thread waits for.
struct TransferStream : base::Counted {
  StreamState state;
};

}  // namespace

void SteppedExecutor::transfer(int32_t device, Engine engine, const char* name, const Load& load,
                               base::Function<void()> body) {
  const auto place = base::make_ref<TransferStream>();
  StreamState& stream = place->state;
  stream.device = device;
  stream.id = -1;
  stream.depth = 1;
  stream.owner = place.get();
  stream.domain = base::make_ref<FailureDomain>();
  std::exception_ptr raised;
  Task task;
  task.engine = engine;
  task.name = name;
  task.body = [&]() -> base::Code {
    try {
      body();
    } catch (...) {
      raised = std::current_exception();
    }
    return 0;
  };
  model_time(task, load);
  submit(stream, std::move(task));
  wait([&] { return stream.finished.load(std::memory_order_acquire) > 0; }, clock::kForever, 0);
  if (raised) std::rethrow_exception(raised);
}

// ---- functions of the client

// The clock waits for the function as for a host thread that is outside the ABI.
void SteppedExecutor::run_item(HostItem item) {
  uint32_t depth = 0;
  int64_t start = 0;
  {
    Section section(*this);
    HostThread& thread = self();
    depth = std::exchange(thread.depth, 0);
    start = thread.t_ns;
    thread.t_ns += CostModel::to_ns(model_.row().host_callback_us);
    change(thread, HostThread::State::kOutside);
    run_all_late(section.lock());
  }
  const auto back = [&](Outcome outcome) {
    if (item.blocked != nullptr) item.blocked->current().body = {};
    const Section section(*this);
    HostThread& thread = self();
    thread.depth = depth;
    thread.t_ns = std::max(thread.t_ns, now_ns_);
    if (item.blocked != nullptr) {
      running_.emplace(std::pair(thread.t_ns, order_++),
                       Running{item.blocked, nullptr, start, true, std::move(outcome)});
    }
    change(thread, HostThread::State::kInside);
  };
  try {
    if (item.blocked == nullptr) {
      run_detached(item);
      return back({});
    }
    back(execute(*item.blocked, item.blocked->current()));
  } catch (base::EndOfThread&) {
    back({ACL_ERROR_RT_INTERNAL_ERROR,
          "a function of the client ended its thread (pthread_exit or pthread_cancel)"});
    throw;
  }
}

size_t SteppedExecutor::serve(HostQueue& queue, int64_t deadline_ns) {
  {
    const Section section(*this);
    HostThread& thread = self();
    if (thread.depth == 0) thread.owned = true;
  }
  HostItem item;
  size_t pending = 0;
  while (pending == 0) {
    const bool arrived = wait([&] { return !queue.items.empty() || queue.closed; }, deadline_ns, 0);
    const Section section(*this);
    pending = queue.items.size();
    if (!take_item(queue, item) && (!arrived || queue.closed)) return 0;
  }
  // One by one: a stream that is dropped meanwhile takes its item out.
  for (size_t done = 1;; ++done) {
    run_item(std::move(item));
    const Section section(*this);
    if (done == pending || !take_item(queue, item)) return done;
  }
}

// ---- the ticker

// With the lock held.
void SteppedExecutor::start_ticker() {
  if (ticker_idle_) tick_.notify_one();
  if (ticking_ || stopping_) return;
  ticking_ = true;
  sigset_t blocked;
  sigset_t previous;
  sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, signal);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  try {
    std::thread thread([this] { tick(); });
    pthread_setname_np(thread.native_handle(), "ascendrt-clock");
    thread.detach();
  } catch (const std::system_error&) {
    ticking_ = false;
    base::warn_once("executor.threads",
                    "could not start the thread of the clock (limit of threads reached?); the "
                    "clock goes on in the threads that synchronize");
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

void SteppedExecutor::tick() {
  Lock lock(mutex_);
  while (!stopping_) {
    const int64_t real = clock::now_ns();
    int64_t wake = clock::kForever;
    bool gone = false;
    const int64_t next = next_event();
    const bool may =
        next != kNoEvent && waiters_.empty() && !stepping_ && next <= limit(real, wake, gone);
    const int64_t patient = may ? patient_until(next) : 0;
    if (real < patient) {
      wake = earlier(wake, patient);
    } else if (may) {
      advance(lock, next);
      continue;
    }
    ticker_idle_ = next == kNoEvent;
    if (ticker_idle_ && !late_.empty()) {
      run_all_late(lock);
      flush(lock);
      lock.lock();
      continue;
    }
    if (wake == clock::kForever) wake = real + settings_.grace_ns;
    tick_.wait_until(lock, ticker_idle_ ? clock::kForever : wake,
                     [&] { return stopping_ || (ticker_idle_ && next_event() != kNoEvent); });
    ticker_idle_ = false;
  }
  ticking_ = false;
  changed_.notify_all();
}

void SteppedExecutor::quiesce(int64_t limit_ns) {
  {
    Lock lock(mutex_);
    stopping_ = true;
    tick_.notify_all();
    changed_.wait_until(lock, clock::now_ns() + limit_ns, [&] { return !ticking_; });
  }
  write_trace();
}

void SteppedExecutor::write_trace() {
  if (sink_ == nullptr) return;
  probe::RunFacts facts;
  {
    Section section(*this);
    if (settings_.seeded) facts.seed = settings_.seed;
    facts.host_threads = numbers_;
    facts.overtaken = overtaken_;
  }
  facts.clock = settings_.mode == ClockMode::kPaced ? "paced" : "virtual";
  facts.soc = soc_name_;
  facts.timing = model_.settings();
  sink_->write(facts);
}

// ---- doors of the ABI

void enter_host_call(const char* name, const CallCost& cost) {
  stepped_executor()->enter(name, cost);
}

void leave_host_call() { stepped_executor()->leave(); }

void charge_host_call(double us) {
  if (SteppedExecutor* stepped = stepped_executor()) stepped->charge(us);
}

void end_host_thread(HostThread& thread) { stepped_executor()->thread_ended(thread); }

}  // namespace ascendrt::core
