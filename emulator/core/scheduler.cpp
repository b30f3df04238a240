#include "core/scheduler.hpp"

#include <algorithm>
#include <utility>

#include "core/graph.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

// Tasks of one engine of one device that run at the same time.
constexpr uint32_t kUnlimited = 1U << 30;
constexpr uint32_t limit_of(Engine engine) {
  switch (engine) {
    case Engine::kNone:
      return kUnlimited;
    case Engine::kAicpu:
      return 4;  // AI CPU cores that take tasks; guess, the figure differs by chip
    default:
      return 1;
  }
}

// Under the lock; others only look.
void count_ready(Lane& lane, int32_t change) {
  const uint32_t ready = lane.ready.load(std::memory_order_relaxed);
  lane.ready.store(ready + static_cast<uint32_t>(change), std::memory_order_relaxed);
}

// A chain of waits longer than this is not followed; workers run what the helper does not find.
constexpr int kMaxChain = 64;

}  // namespace

Scheduler::Scheduler(size_t devices) : devices_(devices) {
  for (auto& lanes : devices_) {
    for (size_t engine = 0; engine < kEngines; ++engine) {
      lanes[engine].limit = limit_of(static_cast<Engine>(engine));
    }
  }
}

void Scheduler::attach(StreamState& stream) { stream.domain->streams.push_back(&stream); }

void Scheduler::detach(StreamState& stream) {
  std::erase(stream.domain->streams, &stream);
  if (stream.phase != Phase::kIdle) stream.self = base::Ref<const base::Counted>(stream.owner);
}

// ---- submission

Admission Scheduler::admit_wait(const StreamState& stream, Task& task) const {
  const EventState& event = *task.event;
  task.gate = event.gate;
  if (event.rule == WaitRule::kLevel) return Admission::kAccepted;
  const bool recorded = event.latest.load(std::memory_order_relaxed) > 0;
  if (event.rule == WaitRule::kPlain) {
    if (!recorded) return Admission::kNeverRecorded;
  } else if (!recorded || event.last_stream == stream.serial) {
    return Admission::kNotNeeded;
  }
  // Modelled: how far the device has come in real time must not show in what is queued.
  return event.gate->open && !lifted_ ? Admission::kNotNeeded : Admission::kAccepted;
}

void Scheduler::issue_record(StreamState& stream, Task& task) {
  EventState& event = *task.event;
  task.record = event.latest.load(std::memory_order_relaxed) + 1;
  if (event.rule == WaitRule::kLevel) {
    task.gate = event.gate;
  } else {
    event.gate = task.gate;
  }
  task.gate->producer = &stream;
  event.last_stream = stream.serial;
  // release: a query that sees the number sees an older `done`.
  event.latest.store(task.record, std::memory_order_release);
}

void Scheduler::count_in(StreamState& stream, Task& task) {
  const uint64_t number = stream.submitted.load(std::memory_order_relaxed) + 1;
  stream.submitted.store(number, std::memory_order_relaxed);
  task.id = t_last_task = static_cast<uint32_t>(number);
  if (task.kind == TaskKind::kWait) {
    ++task.gate->pending_waits;
    task.event->pending_waits.fetch_add(1, std::memory_order_relaxed);
  } else if (task.kind == TaskKind::kRecord) {
    issue_record(stream, task);
  } else if (task.kind == TaskKind::kReset) {
    task.gate = task.event->rule == WaitRule::kLevel ? task.event->gate : nullptr;
  }
}

Admission Scheduler::submit(StreamState& stream, Task& task, int64_t now_ns) {
  if (task.kind == TaskKind::kWait) {
    const Admission admission = admit_wait(stream, task);
    if (admission != Admission::kAccepted) return admission;
  }
  const uint64_t submitted = stream.submitted.load(std::memory_order_relaxed);
  if (submitted >= stream.full_at) {
    stream.full_at = stream.finished.load(std::memory_order_relaxed) + stream.depth;
    if (submitted >= stream.full_at) return Admission::kFull;
  }
  count_in(stream, task);
  if (task.kind == TaskKind::kReplay) issue(static_cast<GraphRun&>(*task.extra));
  stream.queue.push(std::move(task));
  advance(stream, now_ns);
  settle(now_ns);
  return Admission::kAccepted;
}

// The event's gate serves again when nobody else knows it: it is open then, and stays open.
bool Scheduler::record_now(StreamState& stream, EventState& event, int64_t now_ns) {
  if (stream.phase != Phase::kIdle || event.rule == WaitRule::kLevel || stream.resume > now_ns ||
      !event.gate || event.gate->shared() || !event.gate->open) {
    return false;
  }
  const uint64_t number = stream.submitted.load(std::memory_order_relaxed) + 1;
  stream.submitted.store(number, std::memory_order_relaxed);
  stream.finished.store(number, std::memory_order_release);
  t_last_task = static_cast<uint32_t>(number);
  tell_waiters(stream);
  const uint64_t record = event.latest.load(std::memory_order_relaxed) + 1;
  event.last_stream = stream.serial;
  event.gate->opened_ns = now_ns;
  event.time_ns.store(now_ns, std::memory_order_relaxed);
  // Both as for a task: a query that sees the number sees an older `done`, or this one.
  event.latest.store(record, std::memory_order_release);
  event.done.store(record, std::memory_order_release);
  if (event.waiters > 0) effects_.awaited = true;
  return true;
}

// ---- the turn of a task

// The task stays at the head of the queue.
bool Scheduler::start(StreamState& stream, Task& task, int64_t now_ns) {
  if (delay(stream, task, now_ns)) return false;
  switch (task.kind) {
    case TaskKind::kRecord:
      mark_recorded(stream, task, now_ns);
      task.gate->opened_by = stream.serial;
      open(*task.gate, now_ns);
      return true;
    case TaskKind::kReset:
      if (task.gate) task.gate->open = false;
      return true;
    case TaskKind::kWait:
      if (task.gate->open) {
        stream.resume = std::max(stream.resume, pass(*task.gate));
        leave_wait(task);
        return true;
      }
      park(stream, now_ns);
      return false;
    case TaskKind::kHostDetached:
      task.host->items.push_back({nullptr, std::move(task.body)});
      effects_.arrivals.push_back(std::move(task.host));
      return true;
    case TaskKind::kHost:
      stream.phase = Phase::kHost;
      stream.claimed = 1;
      task.host->items.push_back({&stream, {}});
      effects_.arrivals.push_back(task.host);
      return false;
    case TaskKind::kBody:
      enqueue(stream);
      return false;
    case TaskKind::kReplay:
      return begin_replay(stream, now_ns);
    case TaskKind::kWatch:
      begin_watch(stream, now_ns);
      return false;
  }
  return true;
}

// Takes up the queue of a stream of which nothing is under way.
void Scheduler::advance(StreamState& stream, int64_t now_ns) {
  if (stream.phase != Phase::kIdle) return;  // under way already
  while (!stream.queue.empty() || next_step(stream)) {
    if (!start(stream, stream.current(), now_ns)) return;
    leave(stream);
  }
  if (stream.track != nullptr) end_track(stream, now_ns);
  if (stream.self) effects_.released.push_back(std::move(stream.self));
}

// The head task is over.
void Scheduler::leave(StreamState& stream) {
  stream.queue.pop();
  finish(stream);
  tell_waiters(stream);
}

// The head task is over, with a failure or none. It is out of the queue before the failure drops
// what is queued, and counts as finished after the failure is known.
void Scheduler::leave_with(StreamState& stream, Outcome outcome, int64_t now_ns) {
  stream.queue.pop();
  if (outcome.code != 0) fail(stream, std::move(outcome), now_ns);
  finish(stream);
  tell_waiters(stream);
}

void Scheduler::settle(int64_t now_ns) {
  while (!unsettled_.empty()) {
    StreamState* stream = unsettled_.back();
    unsettled_.pop_back();
    advance(*stream, now_ns);
  }
}

// ---- modelled time

bool Scheduler::delay(StreamState& stream, Task& task, int64_t now_ns) {
  const int64_t due = std::max(task.timing.release_ns, stream.resume);
  if (due <= now_ns) return false;
  stream.due = due;
  stream.phase = Phase::kDelayed;
  releases_.emplace(std::pair(due, task.timing.order), &stream);
  return true;
}

void Scheduler::release(int64_t now_ns) {
  while (!releases_.empty() && releases_.begin()->first.first <= now_ns) {
    StreamState& stream = *releases_.begin()->second;
    releases_.erase(releases_.begin());
    stream.phase = Phase::kIdle;
    if (start(stream, stream.current(), now_ns)) leave(stream);
    unsettled_.push_back(&stream);
    settle(now_ns);
  }
}

// A wait for the gate is over. When what follows may go on; 0 in real time.
int64_t Scheduler::pass(const Gate& gate) {
  if (lifted_) passed_.push_back(gate.opened_by);
  return event_latency_ns_ > 0 ? gate.opened_ns + event_latency_ns_ : 0;
}

int64_t Scheduler::next_release() const {
  return releases_.empty() ? kNoDeadline : releases_.begin()->first.first;
}

void Scheduler::lift_limits() {
  lifted_ = true;
  for (auto& lanes : devices_) {
    for (Lane& lane : lanes) lane.limit = kUnlimited;
  }
}

// ---- events

void Scheduler::park(StreamState& stream, int64_t now_ns) {
  stream.phase = Phase::kWaiting;
  stream.current().gate->waiters.push_back(&stream);
  limit_wait(stream, now_ns);
}

void Scheduler::limit_wait(StreamState& stream, int64_t now_ns) {
  if (stream.current().timeout_ns <= 0) return;
  stream.deadline = now_ns + stream.current().timeout_ns;
  deadlines_.emplace(stream.deadline, &stream);
  effects_.deadline = true;
}

// Ends the wait of a stream; the caller says how it ended.
void Scheduler::unpark(StreamState& stream) {
  if (stream.deadline != kNoDeadline) {
    deadlines_.erase({stream.deadline, &stream});
    stream.deadline = kNoDeadline;
  }
  stream.phase = Phase::kIdle;
}

void Scheduler::open(Gate& gate, int64_t now_ns) {
  gate.open = true;
  gate.opened_ns = now_ns;
  for (StreamState* stream : gate.waiters) {
    unpark(*stream);
    stream->resume = std::max(stream->resume, pass(gate));
    leave_wait(stream->current());
    leave(*stream);
    unsettled_.push_back(stream);
  }
  gate.waiters.clear();
  if (gate.pending_waits == 0) gate.lease.reset();
}

// The record of a task is over: it ran, or was dropped.
void Scheduler::mark_recorded(const StreamState& stream, const Task& task, int64_t now_ns) {
  EventState& event = *task.event;
  const bool latest = task.record == event.latest.load(std::memory_order_relaxed);
  if (task.gate->producer == &stream && (latest || event.rule != WaitRule::kLevel)) {
    task.gate->producer = nullptr;
  }
  if (task.record > event.done.load(std::memory_order_relaxed)) {
    event.time_ns.store(now_ns, std::memory_order_relaxed);
    // release: who reads `done` (acquire) sees the time, and what the tasks before the record
    // wrote.
    event.done.store(task.record, std::memory_order_release);
  }
  if (event.waiters > 0) effects_.awaited = true;
}

void Scheduler::leave_wait(Task& task) {
  if (task.kind == TaskKind::kWatch) return;
  task.event->pending_waits.fetch_sub(1, std::memory_order_release);
  if (--task.gate->pending_waits == 0 && task.gate->open) task.gate->lease.reset();
}

int64_t Scheduler::next_deadline() const {
  return deadlines_.empty() ? kNoDeadline : deadlines_.begin()->first;
}

void Scheduler::expire(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    StreamState& stream = *deadlines_.begin()->second;
    Task& task = stream.current();
    leave_gate(stream);
    unpark(stream);
    leave_wait(task);
    effects_.failures.push_back(
        {stream.device, stream.id, task.id, task.thread_id, ACL_ERROR_RT_WAIT_TIMEOUT});
    const int64_t limit_ms = task.timeout_ns / 1'000'000;
    leave_with(stream,
               {ACL_ERROR_RT_WAIT_TIMEOUT, std::string("the wait of ") + task.name +
                                               " ran out after " + std::to_string(limit_ms) +
                                               " ms: what it waits for did not come in this time"},
               now_ns);
    unsettled_.push_back(&stream);
  }
  settle(now_ns);
}

StreamState* Scheduler::blocker(StreamState& stream) {
  StreamState* at = &stream;
  for (int steps = 0; at != nullptr; ++steps) {
    if (steps == kMaxChain) return nullptr;
    if (at->phase == Phase::kPlaying) {
      at = busy_lane(*at);
    } else if (at->phase == Phase::kWaiting) {
      at = at->current().gate ? at->current().gate->producer : nullptr;
    } else {
      break;
    }
  }
  return at;
}

// ---- engines

void Scheduler::enqueue(StreamState& stream) {
  stream.phase = Phase::kReady;
  stream.lane =
      &devices_[static_cast<size_t>(stream.device)][static_cast<size_t>(stream.current().engine)];
  Lane::Queue& queue = stream.lane->queues[stream.priority];
  stream.previous = queue.last;
  stream.next = nullptr;
  (queue.last != nullptr ? queue.last->next : queue.first) = &stream;
  queue.last = &stream;
  count_ready(*stream.lane, 1);
  recount(*stream.lane);
}

void Scheduler::unlink(StreamState& stream) {
  Lane::Queue& queue = stream.lane->queues[stream.priority];
  (stream.previous != nullptr ? stream.previous->next : queue.first) = stream.next;
  (stream.next != nullptr ? stream.next->previous : queue.last) = stream.previous;
  stream.previous = stream.next = nullptr;
  count_ready(*stream.lane, -1);
  recount(*stream.lane);
}

void Scheduler::recount(Lane& lane) {
  const uint32_t ready = lane.ready.load(std::memory_order_relaxed);
  const uint32_t share = std::min(ready, lane.limit - lane.running);
  runnable_ += share - lane.counted;
  lane.counted = share;
}

void Scheduler::set_priority(StreamState& stream, uint32_t priority) {
  const bool ready = stream.phase == Phase::kReady;
  if (ready) unlink(stream);
  stream.priority = priority;
  if (ready) enqueue(stream);
}

void Scheduler::run(StreamState& stream, uint64_t limit) {
  unlink(stream);
  stream.phase = Phase::kRunning;
  ++stream.lane->running;
  recount(*stream.lane);
  limit = std::min({limit, uint64_t{kBatch}, uint64_t{stream.queue.size()}});
  stream.claimed = static_cast<uint32_t>(std::max<uint64_t>(limit, 1));
}

StreamState* Scheduler::take(uint64_t limit) {
  if (runnable_ == 0) return nullptr;
  const size_t lanes = devices_.size() * kEngines;
  for (size_t i = 0; i < lanes; ++i) {
    const size_t at = (next_lane_ + i) % lanes;
    Lane& lane = devices_[at / kEngines][at % kEngines];
    if (lane.counted == 0) continue;
    next_lane_ = at + 1;
    for (auto& queue : lane.queues) {
      if (queue.first == nullptr) continue;
      StreamState* stream = queue.first;
      run(*stream, limit);
      return stream;
    }
  }
  return nullptr;
}

bool Scheduler::take(StreamState& stream, uint64_t limit) {
  if (stream.phase != Phase::kReady || stream.lane->running == stream.lane->limit) return false;
  run(stream, limit);
  return true;
}

// Another stream that is ready for the engine has its turn after each task, whatever is claimed.
Task* Scheduler::goes_on(StreamState& stream, uint32_t done) {
  if (done == stream.claimed || stream.interrupted.load(std::memory_order_relaxed) ||
      stream.lane->ready.load(std::memory_order_relaxed) != 0) {
    return nullptr;
  }
  Task& next = stream.queue.at(done);
  if (next.kind != TaskKind::kBody || next.engine != stream.queue.at(done - 1).engine) {
    return nullptr;
  }
  ++stream.counted;
  // In this order, both sequentially consistent: who sleeps says so and looks at `finished` again.
  const bool awaited = finish(stream) >= stream.wanted.load();
  return awaited ? nullptr : &next;  // complete() tells it
}

// ---- ends

uint64_t Scheduler::finish(StreamState& stream) { return stream.finished.fetch_add(1) + 1; }

void Scheduler::tell_waiters(StreamState& stream) {
  if (stream.finished.load(std::memory_order_relaxed) < stream.wanted.load()) return;
  effects_.awaited = true;
  stream.wanted.store(kNobodyWaits);  // who wakes and has not got enough says so again
}

void Scheduler::complete(StreamState& stream, Outcome outcome, int64_t now_ns, uint32_t done) {
  if (stream.phase == Phase::kRunning) {
    --stream.lane->running;
    recount(*stream.lane);
    stream.lane = nullptr;
  }
  stream.phase = Phase::kIdle;
  const uint32_t claimed = std::exchange(stream.claimed, 0);
  for (uint32_t i = 0; i < done; ++i) stream.queue.pop();
  if (outcome.code != 0) fail(stream, std::move(outcome), now_ns);
  if (std::exchange(stream.counted, 0) < done) finish(stream);
  if (stream.interrupted.load(std::memory_order_relaxed)) {
    stream.interrupted.store(false, std::memory_order_relaxed);
    for (uint32_t i = done; i < claimed && !stream.queue.empty(); ++i) {
      discard(stream, stream.current(), now_ns);
      leave(stream);
    }
  }
  tell_waiters(stream);
  advance(stream, now_ns);
  settle(now_ns);
}

void Scheduler::fail(StreamState& stream, Outcome outcome, int64_t now_ns) {
  FailureDomain& domain = *stream.domain;
  if (domain.stop_on_failure && domain.error == 0) {
    domain.error = outcome.code;
    domain.text = outcome.text;
    for (StreamState* other : domain.streams) {
      // release: who sees it reads domain.error under the lock.
      other->refusing.store(true, std::memory_order_release);
      drop_queue(*other, now_ns);
    }
  }
  if (stream.track != nullptr && stream.track->playing) {  // the replay's failure
    Outcome& first = stream.track->graph->failure;
    if (first.code == 0) first = std::move(outcome);
    return;
  }
  if (stream.error.load(std::memory_order_relaxed) != 0) return;
  stream.error_text = std::move(outcome.text);
  stream.error.store(outcome.code, std::memory_order_relaxed);
}

// A dropped record counts as done, and opens its own gate: nobody shall wait for what cannot
// happen. The level of a flag event stays as it is.
void Scheduler::discard(const StreamState& stream, Task& task, int64_t now_ns) {
  switch (task.kind) {
    case TaskKind::kRecord:
      mark_recorded(stream, task, now_ns);
      if (task.event->rule != WaitRule::kLevel) open(*task.gate, now_ns);
      return;
    case TaskKind::kWait:
      leave_wait(task);
      return;
    case TaskKind::kReset:
      return;
    case TaskKind::kReplay:
      abandon(static_cast<GraphRun&>(*task.extra), now_ns);
      [[fallthrough]];
    default:
      effects_.dropped.push_back(std::move(task));
  }
}

// Takes the head back from where it waits. The number of tasks that run and cannot be dropped.
uint32_t Scheduler::release_current(StreamState& stream, int64_t now_ns) {
  if (stream.phase == Phase::kReady) {
    unlink(stream);
    stream.lane = nullptr;
  } else if (stream.phase == Phase::kWaiting) {
    leave_gate(stream);
    unpark(stream);
  } else if (stream.phase == Phase::kPlaying) {
    if (!leave_replay(stream, now_ns)) return 1;
  } else if (stream.phase == Phase::kDelayed) {
    releases_.erase({stream.due, stream.current().timing.order});
  } else if (stream.phase == Phase::kHost) {
    auto& items = stream.current().host->items;
    const auto item = std::find_if(items.begin(), items.end(),
                                   [&](const HostItem& other) { return other.blocked == &stream; });
    if (item == items.end()) return 1;
    items.erase(item);
    stream.claimed = 0;
  } else if (stream.phase == Phase::kRunning) {
    stream.interrupted.store(true, std::memory_order_relaxed);
    return stream.claimed;
  }
  stream.phase = Phase::kIdle;
  return 0;
}

void Scheduler::drop_queue(StreamState& stream, int64_t now_ns) {
  if (stream.track != nullptr) stream.track->next = SIZE_MAX;
  const uint32_t kept = release_current(stream, now_ns);
  stream.queue.cut(kept, [&](Task& task) {
    discard(stream, task, now_ns);
    finish(stream);
  });
  tell_waiters(stream);
  if (kept == 0) unsettled_.push_back(&stream);
}

void Scheduler::drop(StreamState& stream, int64_t now_ns) {
  drop_queue(stream, now_ns);
  settle(now_ns);
}

}  // namespace ascendrt::core
