#include "core/stepped_executor.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/rng.hpp"
#include "base/thread_end.hpp"
#include "core/exception_info.hpp"
#include "core/thread_state.hpp"

namespace ascendrt::core {
namespace {

// A thread that works in a call for longer than this is taken to be stuck behind another one's.
constexpr int64_t kStuckNs = 1'000'000'000;
// With one host thread nothing but a look at memory outside of the ABI needs the clock to go on.
constexpr int64_t kLoneFactor = 10;
// Other processes get at most this many grace times (10 s by default) before a wait for them ends.
constexpr int64_t kOthersFactor = 100;
// How soon what another process did is seen by a host thread that waits for it.
constexpr int64_t kOthersNs = 20'000;
// So many streams of one engine and moment are drawn from; with more the first ones are.
constexpr size_t kMostDrawn = 64;

std::atomic<SteppedExecutor*> g_stepped{nullptr};

}  // namespace

std::atomic<int32_t> g_looks_wait{0};

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
  g_stepped.store(this, std::memory_order_release);
  g_looks_wait.store(1, std::memory_order_relaxed);  // who looks has a runtime already
}

SteppedExecutor* stepped_executor() { return g_stepped.load(std::memory_order_acquire); }

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

bool SteppedExecutor::wait(Done done, int64_t deadline_ns, double cost_us, By by,
                           int64_t patient_ns) {
  const base::NoCancel uncancelled;  // what is waited for may use objects of the caller
  Section section(*this);
  HostThread& thread = self();
  const HostThread::State before = thread.state;
  Waiter waiter{thread, done, deadline_ns, CostModel::to_ns(cost_us), by};
  waiters_.push_back(&waiter);
  change(thread, HostThread::State::kBlocked);
  settle_waiters();
  while (!waiter.over && (patient_ns == clock::kForever || clock::now_ns() < patient_ns)) {
    step_or_wait(section.lock(), waiter.over, patient_ns);
  }
  run_all_late(section.lock());
  std::erase(waiters_, &waiter);
  change(thread, before);
  return done();
}

// What the device did until the thread's moment is done when this returns.
void SteppedExecutor::catch_up(Lock& lock, HostThread& thread) {
  const base::NoCancel uncancelled;
  thread.looks = true;  // under the lock since change(): who is woken by that sees it
  while (stepping_ || next_event() <= thread.t_ns) step_or_wait(lock, false);
  thread.looks = false;
  run_all_late(lock);
}

// Makes one step, or waits for what keeps the clock from the next one.
void SteppedExecutor::step_or_wait(Lock& lock, const bool& over, int64_t wake) {
  const uint64_t seen = version_;
  if (!stepping_) {
    const int64_t next = next_event();
    const int64_t real = clock::now_ns();
    bool gone = false;
    bool may = next <= limit(real, wake, gone) && next != kNoEvent;
    // Only a time limit is left: what was put off must not be missed. While a thread is outside, or
    // memory is watched that another process may write, there is time for it to come.
    const bool device_idle =
        scheduler_.runnable() == 0 && running_.empty() && scheduler_.next_release() == kNoDeadline;
    if (device_idle && !late_.empty()) {
      run_all_late(lock);
      if (scheduler_.watching() > 0) scheduler_.effects().watch = true;
      flush(lock);
      lock.lock();
      return;
    }
    gone = gone || scheduler_.watching() > 0;
    if (may && gone && device_idle && real < jumped_ns_ + settings_.grace_ns) {
      wake = earlier(wake, jumped_ns_ + settings_.grace_ns);
      may = false;
    }
    const int64_t patient = may ? patient_until(next) : 0;
    if (real < patient) {
      wake = earlier(wake, patient);
      may = false;
    }
    if (may) {
      if (gone && device_idle) jumped_ns_ = real;
      advance(lock, next);
      return;
    }
  }
  const bool looks = host_awaits_others();
  if (looks) wake = earlier(wake, clock::now_ns() + kOthersNs);
  changed_.wait_until(lock, wake, [&] { return over || version_ != seen; });
  if (looks) settle_waiters();
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

bool SteppedExecutor::wait_shared(base::Function<bool()> done, int64_t deadline_ns) {
  return wait([&] { return done(); }, deadline_ns, model_.row().host_sync_us, By::kOthers);
}

bool SteppedExecutor::wait_engines(StreamState& stream, int64_t deadline_ns) {
  return wait([&] { return stream.phase != Phase::kRunning && stream.phase != Phase::kPlaying; },
              deadline_ns, 0);
}

// ---- the clock

// Of what the device does, without time limits.
int64_t SteppedExecutor::next_work() const {
  if (scheduler_.runnable() > 0) return now_ns_;
  int64_t next = kNoEvent;
  if (const int64_t at = scheduler_.next_release(); at != kNoDeadline) next = at;
  if (!running_.empty()) next = std::min(next, running_.begin()->first.first);
  return next;
}

int64_t SteppedExecutor::next_event() const {
  int64_t next = next_work();
  if (const int64_t at = scheduler_.next_deadline(); at != kNoDeadline) next = std::min(next, at);
  for (const Waiter* waiter : waiters_) {
    if (!waiter->over && waiter->deadline_ns != clock::kForever) {
      next = std::min(next, waiter->deadline_ns);
    }
  }
  return next;
}

bool SteppedExecutor::host_awaits_others() const {
  return std::any_of(waiters_.begin(), waiters_.end(), [](const Waiter* waiter) {
    return !waiter->over && waiter->by == By::kOthers;
  });
}

// What another process does takes real time: while a wait depends on one, a time limit passes as
// slowly as on the wall, up to a bound. Gives the real time before which the clock may not go to
// `next_ns`; 0 when nothing depends on others, or the device has work until then.
int64_t SteppedExecutor::patient_until(int64_t next_ns) const {
  if (settings_.mode == ClockMode::kPaced || next_ns >= next_work()) return 0;
  if (!scheduler_.awaits_others() && !host_awaits_others()) return 0;
  int64_t since = jumped_ns_;
  for (const Waiter* waiter : waiters_) {
    if (!waiter->over) since = std::max(since, waiter->thread.since_ns);
  }
  return since + std::min(next_ns - now_ns_, kOthersFactor * settings_.grace_ns);
}

// How far the clock may go without a thread that could still act before. wake_ns: real time when
// that may change by itself.
int64_t SteppedExecutor::limit(int64_t real_ns, int64_t& wake_ns, bool& somebody_gone) {
  std::erase_if(threads_,
                [](const auto& thread) { return thread->ended.load(std::memory_order_relaxed); });
  const auto own = std::count_if(threads_.begin(), threads_.end(),
                                 [](const auto& thread) { return !thread->owned; });
  const int64_t grace = settings_.grace_ns * (own > 1 ? 1 : kLoneFactor);
  const HostThread* mine = thread_state().host.get();
  int64_t least = kNoEvent;
  std::erase_if(arrivals_, [&](const auto& each) {
    return each.first->items.empty() || real_ns >= each.second + grace;
  });
  for (const auto& [queue, since] : arrivals_) {
    least = now_ns_;
    wake_ns = earlier(wake_ns, since + grace);
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
    // What happens at the very moment of another thread comes after what that one does, unless it
    // waits for just that.
    const bool acts_first = thread.get() != mine && !thread->looks;
    least = std::min(least, thread->t_ns - (acts_first ? 1 : 0));
    wake_ns = earlier(wake_ns, until);
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

// One step, and what is owed after it. Streams that watch memory are asked at once, so that they go
// on at the moment of the clock that changed it.
void SteppedExecutor::advance(Lock& lock, int64_t at_ns) {
  note_overtaken(at_ns);
  step(lock, at_ns);
  if (scheduler_.watching() > 0) scheduler_.effects().watch = true;
  flush(lock);
  lock.lock();
  if (scheduler_.watching() > 0 || host_awaits_others()) jumped_ns_ = clock::now_ns();
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
  if (scheduler_.effects().watch) run_late_of_watched(lock);
  Effects owed;
  if (scheduler_.effects().any()) std::swap(owed, scheduler_.effects());
  for (auto& queue : owed.arrivals) {
    if (queue->owned) arrivals_.emplace_back(std::move(queue), clock::now_ns());
  }
  if (owed.watch) jumped_ns_ = clock::now_ns();
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

// ---- streams

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

void SteppedExecutor::with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) {
  const Section section(*this);
  function(scheduler_, now_ns_);
  ++version_;
  if (!waiters_.empty() || stepping_) changed_.notify_all();
  start_ticker();
}

}  // namespace ascendrt::core
