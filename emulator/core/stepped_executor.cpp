#include "core/stepped_executor.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <limits>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/thread_end.hpp"
#include "core/exception_info.hpp"
#include "core/runtime.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr int64_t kNoEvent = std::numeric_limits<int64_t>::max();
constexpr int64_t kNsPerMs = 1'000'000;
// A thread that works in a call for longer than this is taken to be stuck behind another one's.
constexpr int64_t kStuckNs = 1'000'000'000;
// With one host thread nothing but a look at memory outside of the ABI needs the clock to go on.
constexpr int64_t kLoneFactor = 10;
// Paced: what a host thread may lag behind before it counts as its own time.
constexpr int64_t kPaceSlackNs = 10'000'000;
// So many streams of one engine and moment are drawn from; with more the first ones are.
constexpr size_t kMostDrawn = 64;

std::atomic<SteppedExecutor*> g_stepped{nullptr};

int64_t or_none(int64_t deadline_ns) { return deadline_ns == kNoDeadline ? kNoEvent : deadline_ns; }

}  // namespace

// Holds the lock; at its end carries out what is owed, without the lock.
class SteppedExecutor::Section {
 public:
  explicit Section(SteppedExecutor& executor) : executor_(executor), lock_(executor.mutex_) {}
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() {
    executor_.settle_waiters();
    executor_.flush(lock_);
  }
  Lock& lock() { return lock_; }

 private:
  SteppedExecutor& executor_;
  Lock lock_;
};

SteppedExecutor::SteppedExecutor(size_t devices, CostModel model, const TimeSettings& settings,
                                 std::string soc_name)
    : Executor(devices),
      model_(std::move(model)),
      settings_(settings),
      soc_name_(std::move(soc_name)),
      origin_ns_(clock::now_ns()),
      sink_(probe::g_maker != nullptr ? probe::g_maker() : nullptr),
      engines_(devices * kEngines) {
  scheduler_.lift_limits();
  scheduler_.set_event_latency(model_.event_latency_ns());
  for (size_t i = 0; i < engines_.size(); ++i) {
    engines_[i].capacity = model_.capacity(static_cast<Engine>(i % kEngines));
  }
  if (settings_.seeded) {
    base::log_line("tasks run in the order of ASCENDRT_SCHED_SEED=" +
                   std::to_string(settings_.seed));
  }
  g_stepped.store(this, std::memory_order_release);
}

SteppedExecutor* stepped_executor() { return g_stepped.load(std::memory_order_acquire); }

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

int64_t SteppedExecutor::deadline_after_ms(int64_t timeout_ms) {
  if (timeout_ms < 0) return clock::kForever;
  const Section section(*this);
  const int64_t now = self().t_ns;
  if (timeout_ms > (kNoEvent - 1 - now) / kNsPerMs) return clock::kForever;
  return now + timeout_ms * kNsPerMs;
}

// ---- waits

// With the lock held. Ends the waits whose time has come; their threads go on at this moment of the
// clock, whenever the system lets them run.
void SteppedExecutor::settle_waiters() {
  for (Waiter* waiter : waiters_) {
    if (waiter->over) continue;
    HostThread& thread = waiter->thread;
    if (waiter->done()) {
      thread.t_ns = std::max(thread.t_ns, now_ns_) + waiter->cost_ns;
    } else if (waiter->deadline_ns != clock::kForever && now_ns_ >= waiter->deadline_ns) {
      thread.t_ns = std::max(thread.t_ns, waiter->deadline_ns);
    } else {
      continue;
    }
    waiter->over = true;
    change(thread, HostThread::State::kInside);
  }
}

bool SteppedExecutor::wait(Done done, int64_t deadline_ns, double cost_us) {
  const base::NoCancel uncancelled;  // what is waited for may use objects of the caller
  Section section(*this);
  HostThread& thread = self();
  const HostThread::State before = thread.state;
  Waiter waiter{thread, done, deadline_ns, CostModel::to_ns(cost_us)};
  waiters_.push_back(&waiter);
  change(thread, HostThread::State::kBlocked);
  settle_waiters();
  while (!waiter.over) step_or_wait(section.lock(), waiter.over);
  run_all_late(section.lock());
  std::erase(waiters_, &waiter);
  change(thread, before);
  return done();
}

// What the device did until the thread's moment is done when this returns.
void SteppedExecutor::catch_up(Lock& lock, HostThread& thread) {
  const base::NoCancel uncancelled;
  while (stepping_ || next_event() <= thread.t_ns) step_or_wait(lock, false);
  run_all_late(lock);
}

// Makes one step, or waits for what keeps the clock from the next one.
void SteppedExecutor::step_or_wait(Lock& lock, const bool& over) {
  const uint64_t seen = version_;
  int64_t wake = clock::kForever;
  if (!stepping_) {
    const int64_t next = next_event();
    const int64_t real = clock::now_ns();
    bool gone = false;
    bool may = next <= limit(real, wake, gone) && next != kNoEvent;
    if (next == kNoEvent) run_all_late(lock);
    // Only a time limit is left while a thread is outside: it gets the time to come back.
    const bool device_idle =
        scheduler_.runnable() == 0 && running_.empty() && scheduler_.next_release() == kNoDeadline;
    if (may && gone && device_idle && real < jumped_ns_ + settings_.grace_ns) {
      wake = jumped_ns_ + settings_.grace_ns;
      may = false;
    }
    if (may) {
      if (gone && device_idle) jumped_ns_ = real;
      note_overtaken(next);
      step(lock, next);
      flush(lock);
      lock.lock();
      return;
    }
  }
  changed_.wait_until(lock, wake, [&] { return over || version_ != seen; });
}

bool SteppedExecutor::wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) {
  return wait(
      // acquire: pairs with the release of Scheduler::finish().
      [&, number] { return stream.finished.load(std::memory_order_acquire) >= number; },
      deadline_ns, model_.row().host_sync_us);
}

bool SteppedExecutor::wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) {
  return wait([&, record] { return event.done.load(std::memory_order_acquire) >= record; },
              deadline_ns, model_.row().host_sync_us);
}

bool SteppedExecutor::wait_engines(StreamState& stream, int64_t deadline_ns) {
  return wait([&] { return stream.phase != Phase::kRunning && stream.phase != Phase::kPlaying; },
              deadline_ns, 0);
}

// ---- the clock

int64_t SteppedExecutor::next_event() const {
  if (scheduler_.runnable() > 0) return now_ns_;
  int64_t next = or_none(scheduler_.next_release());
  next = std::min(next, or_none(scheduler_.next_deadline()));
  if (!running_.empty()) next = std::min(next, running_.begin()->first.first);
  for (const Waiter* waiter : waiters_) {
    if (!waiter->over && waiter->deadline_ns != clock::kForever) {
      next = std::min(next, waiter->deadline_ns);
    }
  }
  return next;
}

// How far the clock may go without a thread that could still act before. wake_ns: real time when
// that may change by itself.
int64_t SteppedExecutor::limit(int64_t real_ns, int64_t& wake_ns, bool& somebody_gone) {
  std::erase_if(threads_,
                [](const auto& thread) { return thread->ended.load(std::memory_order_relaxed); });
  const auto own = std::count_if(threads_.begin(), threads_.end(),
                                 [](const auto& thread) { return !thread->owned; });
  const int64_t grace = settings_.grace_ns * (own > 1 ? 1 : kLoneFactor);
  int64_t least = kNoEvent;
  std::erase_if(arrivals_, [&](const auto& each) {
    return each.first->items.empty() || real_ns >= each.second + grace;
  });
  for (const auto& [queue, since] : arrivals_) {
    least = now_ns_;
    wake_ns = wake_ns == clock::kForever ? since + grace : std::min(wake_ns, since + grace);
  }
  for (const auto& thread : threads_) {
    const bool outside = thread->state == HostThread::State::kOutside;
    if (thread->state == HostThread::State::kBlocked) continue;
    if (outside && settings_.mode == ClockMode::kPaced) continue;  // real time goes on for it
    const int64_t until = thread->since_ns + (outside ? grace : std::max(grace, kStuckNs));
    if (real_ns >= until) {
      somebody_gone = true;
      continue;
    }
    least = std::min(least, thread->t_ns);
    wake_ns = wake_ns == clock::kForever ? until : std::min(wake_ns, until);
  }
  return least;
}

void SteppedExecutor::note_overtaken(int64_t at_ns) {
  for (const auto& thread : threads_) {
    if (thread->state != HostThread::State::kBlocked && thread->t_ns < at_ns) {
      thread->overtaken = true;
    }
  }
}

// Paced: sleeps until the moment has come. False when something earlier turned up meanwhile.
bool SteppedExecutor::pace(Lock& lock, int64_t at_ns) {
  if (settings_.mode != ClockMode::kPaced) return true;
  changed_.wait_until(lock, origin_ns_ + at_ns, [&] { return stopping_ || next_event() < at_ns; });
  return next_event() >= at_ns;
}

void SteppedExecutor::step(Lock& lock, int64_t at_ns) {
  stepping_ = true;
  if (pace(lock, at_ns)) {
    now_ns_ = std::max(now_ns_, at_ns);
    while (end_one(lock)) {
    }
    scheduler_.release(now_ns_);
    scheduler_.expire(now_ns_);
    while (start_one(lock)) {
    }
  }
  stepping_ = false;
  ++version_;
  settle_waiters();
  changed_.notify_all();
}

// ---- engines

SteppedExecutor::EngineState& SteppedExecutor::engine_of(const StreamState& stream) {
  const auto engine = static_cast<size_t>(model_.engine_for(stream.current().engine));
  return engines_[static_cast<size_t>(stream.device) * kEngines + engine];
}

bool SteppedExecutor::end_one(Lock& lock) {
  if (running_.empty() || running_.begin()->first.first > now_ns_) return false;
  auto node = running_.extract(running_.begin());
  Running& ended = node.mapped();
  if (!ended.body_done && body_moment(*ended.stream) == Moment::kLate) {
    keep_for_later(lock, *ended.stream);
  } else if (!ended.body_done) {
    ended.outcome = run_body(lock, *ended.stream);
  }
  finish(std::move(ended), node.key().first);
  return true;
}

void SteppedExecutor::finish(Running&& ended, int64_t end_ns) {
  StreamState& stream = *ended.stream;
  const Task& task = stream.current();
  if (ended.engine != nullptr) {
    ended.engine->used -= std::min(std::max(1U, task.timing.cores), ended.engine->capacity);
  }
  if (sink_ != nullptr) {
    constexpr const char* kNames[] = {"none", "cube", "vector", "h2d",
                                      "d2h",  "d2d",  "aicpu",  "host"};
    const Engine engine = ended.engine == nullptr ? Engine::kHost : model_.engine_for(task.engine);
    spans_.push_back({task.name, task.timing.label, kNames[static_cast<size_t>(engine)],
                      stream.device, stream.id, task.id, task.timing.cores, ended.start_ns,
                      end_ns});
  }
  scheduler_.complete(stream, std::move(ended.outcome), now_ns_);
}

// Starts a task for which its engine has room; false when there is none.
bool SteppedExecutor::start_one(Lock& lock) {
  while (StreamState* stream = scheduler_.take()) {
    engine_of(*stream).queue.push_back({stream, now_ns_});
  }
  for (EngineState& engine : engines_) {
    if (engine.queue.empty() || engine.used >= engine.capacity) continue;
    const size_t index = choose(engine);
    const uint32_t cores = std::max(1U, engine.queue[index].stream->current().timing.cores);
    // The one whose turn it is does not fit: smaller ones behind it wait as well.
    if (std::min(cores, engine.capacity) > engine.capacity - engine.used) continue;
    start(lock, engine, index);
    return true;
  }
  return false;
}

// The most urgent stream, then the one that is ready longest, then the first or a drawn one.
size_t SteppedExecutor::choose(const EngineState& engine) {
  size_t best = 0;
  size_t equals[kMostDrawn] = {};
  size_t count = 0;
  for (size_t i = 0; i < engine.queue.size(); ++i) {
    const Queued& mine = engine.queue[i];
    const Queued& other = engine.queue[best];
    const auto key = [](const Queued& queued) {
      return std::pair(queued.stream->priority, queued.ready_ns);
    };
    if (i > 0 && key(mine) > key(other)) continue;
    if (i == 0 || key(mine) < key(other)) {
      best = i;
      count = 0;
    }
    if (count < kMostDrawn) equals[count++] = i;
  }
  if (!settings_.seeded || count < 2) return best;
  return equals[base::random_at(settings_.seed, draws_++) % count];
}

void SteppedExecutor::start(Lock& lock, EngineState& engine, size_t index) {
  StreamState& stream = *engine.queue[index].stream;
  engine.queue.erase(engine.queue.begin() + static_cast<ptrdiff_t>(index));
  if (stream.interrupted.load(std::memory_order_relaxed)) {  // dropped before it could begin
    scheduler_.complete(stream, {}, now_ns_, 0);
    return;
  }
  const Timing& timing = stream.current().timing;
  engine.used += std::min(std::max(1U, timing.cores), engine.capacity);
  Running& slot = running_
                      .emplace(std::pair(now_ns_ + timing.duration_ns, order_++),
                               Running{&stream, &engine, now_ns_, false, {}})
                      .first->second;
  if (body_moment(stream) != Moment::kStart) return;
  slot.outcome = run_body(lock, stream);
  slot.body_done = true;
}

// Drawn once per task. A copy that a host thread waits for has no time to be late; what stops its
// context with a failure has to fail in time.
SteppedExecutor::Moment SteppedExecutor::body_moment(const StreamState& stream) const {
  const uint64_t draw = base::random_at(settings_.seed ^ stream.serial << 32U, stream.current().id);
  const bool may_be_late = settings_.seeded && stream.id >= 0 && !stream.domain->stop_on_failure;
  return static_cast<Moment>(draw % (may_be_late ? 3 : 2));
}

void SteppedExecutor::keep_for_later(Lock& lock, StreamState& stream) {
  run_late(lock, nullptr);  // what this body has to follow
  Late& late = late_[stream.serial];
  late.stream = &stream;
  late.owner = base::Ref<const base::Counted>(stream.owner);
  Task& task = late.tasks.emplace_back();
  task.name = stream.current().name;
  task.id = stream.current().id;
  task.thread_id = stream.current().thread_id;
  task.body = std::move(stream.current().body);
}

// Runs what is due before the next body of the stream. The lock is given up meanwhile.
void SteppedExecutor::run_late(Lock& lock, StreamState* stream) {
  if (late_.empty()) return scheduler_.passed().clear();
  std::vector<uint64_t> due = std::exchange(scheduler_.passed(), {});
  if (stream != nullptr) due.push_back(stream->serial);
  for (const uint64_t serial : due) {
    const auto found = late_.find(serial);
    if (found == late_.end()) continue;
    Late late = std::move(found->second);
    late_.erase(found);
    for (Task& task : late.tasks) {
      lock.unlock();
      Outcome outcome = execute(*late.stream, task);
      task.body = {};
      lock.lock();
      if (outcome.code != 0) scheduler_.fail_late(*late.stream, std::move(outcome), now_ns_);
    }
    scheduler_.effects().released.push_back(std::move(late.owner));
  }
}

// Before a host thread learns anything.
void SteppedExecutor::run_all_late(Lock& lock) {
  while (stepping_ && !late_.empty())
    changed_.wait_until(lock, clock::kForever, [&] { return !stepping_; });
  if (late_.empty()) return;
  stepping_ = true;
  for (const auto& [serial, late] : late_) scheduler_.passed().push_back(serial);
  run_late(lock, nullptr);
  stepping_ = false;
  ++version_;
  changed_.notify_all();
}

Outcome SteppedExecutor::run_body(Lock& lock, StreamState& stream) {
  run_late(lock, &stream);
  lock.unlock();
  Outcome outcome = execute(stream, stream.current());
  stream.current().body = {};  // what the task held is given back before it counts as done
  lock.lock();
  return outcome;
}

// Carries out what the scheduler owes; the lock is open when this returns.
void SteppedExecutor::flush(Lock& lock) {
  Effects owed;
  if (scheduler_.effects().any()) std::swap(owed, scheduler_.effects());
  for (auto& queue : owed.arrivals) {
    if (queue->owned) arrivals_.emplace_back(std::move(queue), clock::now_ns());
  }
  std::vector<probe::TaskSpan> spans;
  spans.swap(spans_);
  lock.unlock();
  for (const auto& span : spans) sink_->task(span);
  for (const auto& failure : owed.failures) notify_task_failure(failure);
  if (owed.watch) poll_watches();
}

// ---- submission

Admission SteppedExecutor::submit(StreamState& stream, Task&& task) {
  task.thread_id = static_cast<uint32_t>(gettid());
  while (true) {
    {
      const Section section(*this);
      refuse_if_closed(stream);
      task.timing.release_ns = self().t_ns;
      task.timing.order = order_++;
      const Admission admission = scheduler_.submit(stream, task, now_ns_);
      if (admission != Admission::kFull) {
        ++version_;
        if (!waiters_.empty() || stepping_) changed_.notify_all();
        start_ticker();
        return admission;
      }
    }
    const auto held = hold(stream);
    wait(
        [&] {
          return stream.refusing.load(std::memory_order_acquire) ||
                 stream.submitted.load(std::memory_order_relaxed) -
                         stream.finished.load(std::memory_order_acquire) <
                     stream.depth;
        },
        clock::kForever, 0);
  }
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

// ---- streams

void SteppedExecutor::attach(StreamState& stream) {
  const Section section(*this);
  scheduler_.attach(stream);
}

void SteppedExecutor::detach(StreamState& stream) {
  const Section section(*this);
  scheduler_.detach(stream);
}

void SteppedExecutor::close(StreamState& stream) {
  const Section section(*this);
  stream.closed = true;
  stream.refusing.store(true, std::memory_order_release);
}

void SteppedExecutor::set_aborting(StreamState& stream, bool aborting) {
  const Section section(*this);
  stream.aborting = aborting;
  stream.refusing.store(aborting || stream.closed || stream.domain->error != 0,
                        std::memory_order_release);
}

void SteppedExecutor::drop(StreamState& stream) {
  const Section section(*this);
  scheduler_.drop(stream, now_ns_);
  if (stream.phase != Phase::kRunning) return;
  // Handed out by the scheduler, but no engine has begun it.
  auto& queue = engine_of(stream).queue;
  if (std::erase_if(queue, [&](const Queued& queued) { return queued.stream == &stream; }) == 0) {
    return;
  }
  scheduler_.complete(stream, {}, now_ns_, 0);
}

void SteppedExecutor::stop_on_failure(StreamState& stream) {
  const Section section(*this);
  scheduler_.stop_on_failure(stream);
}

void SteppedExecutor::set_priority(StreamState& stream, uint32_t priority) {
  const Section section(*this);
  scheduler_.set_priority(stream, priority);
}

void SteppedExecutor::with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) {
  const Section section(*this);
  function(scheduler_, now_ns_);
  ++version_;
  if (!waiters_.empty() || stepping_) changed_.notify_all();
  start_ticker();
}

Outcome SteppedExecutor::domain_failure(StreamState& stream) {
  const Section section(*this);
  return {stream.domain->error, stream.domain->text};
}

Outcome SteppedExecutor::take_failure(StreamState& stream) {
  const Section section(*this);
  if (stream.domain->error != 0) return {stream.domain->error, stream.domain->text};
  return {stream.error.exchange(0, std::memory_order_relaxed),
          std::exchange(stream.error_text, {})};
}

base::Code SteppedExecutor::peek_failure(StreamState& stream) {
  const Section section(*this);
  return stream.domain->error != 0 ? stream.domain->error
                                   : stream.error.load(std::memory_order_relaxed);
}

std::string SteppedExecutor::describe(StreamState& stream) {
  const Section section(*this);
  return describe_locked(stream);
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
  wait([&] { return !queue.items.empty() || queue.closed; }, deadline_ns, 0);
  size_t pending = 0;
  {
    const Section section(*this);
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

void SteppedExecutor::set_closed(HostQueue& queue, bool closed) {
  const Section section(*this);
  queue.closed = closed;
}

bool SteppedExecutor::has_items(HostQueue& queue) {
  const Section section(*this);
  return !queue.items.empty();
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
    if (may) {
      note_overtaken(next);
      step(lock, next);
      flush(lock);
      lock.lock();
      continue;
    }
    ticker_idle_ = next == kNoEvent;
    if (ticker_idle_ && !late_.empty()) {
      run_all_late(lock);
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
    facts.seed = settings_.seed;
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
