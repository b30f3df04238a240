#include "core/scheduler.hpp"

#include <algorithm>
#include <utility>

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

void Scheduler::detach(StreamState& stream) { std::erase(stream.domain->streams, &stream); }

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
  return event.gate->open ? Admission::kNotNeeded : Admission::kAccepted;
}

void Scheduler::count_in(StreamState& stream, Task& task) {
  const uint64_t number = stream.submitted.load(std::memory_order_relaxed) + 1;
  stream.submitted.store(number, std::memory_order_relaxed);
  task.id = static_cast<uint32_t>(number);
  if (task.kind == TaskKind::kWait) {
    ++task.gate->pending_waits;
    task.event->pending_waits.fetch_add(1, std::memory_order_relaxed);
  } else if (task.kind == TaskKind::kRecord) {
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
  } else if (task.kind == TaskKind::kReset) {
    task.gate = task.event->rule == WaitRule::kLevel ? task.event->gate : nullptr;
  }
}

Admission Scheduler::submit(StreamState& stream, Task& task, int64_t now_ns) {
  if (task.kind == TaskKind::kWait) {
    const Admission admission = admit_wait(stream, task);
    if (admission == Admission::kNotNeeded && task.gate && task.gate->open) {
      resume_after(stream, *task.gate);
    }
    if (admission != Admission::kAccepted) return admission;
  }
  const uint64_t in_flight = stream.submitted.load(std::memory_order_relaxed) -
                             stream.finished.load(std::memory_order_relaxed);
  if (in_flight >= stream.depth) return Admission::kFull;
  count_in(stream, task);
  if (stream.phase != Phase::kIdle) {
    stream.queue.push(std::move(task));
    return Admission::kAccepted;
  }
  if (start(stream, std::move(task), now_ns)) {
    finish(stream);
  } else {
    stream.self = base::Ref<const base::Counted>(stream.owner);
  }
  settle(now_ns);
  return Admission::kAccepted;
}

// ---- the turn of a task

bool Scheduler::start(StreamState& stream, Task&& task, int64_t now_ns) {
  if (delay(stream, task, now_ns)) return false;
  switch (task.kind) {
    case TaskKind::kRecord:
      mark_recorded(stream, task, now_ns);
      open(*task.gate, now_ns);
      return true;
    case TaskKind::kReset:
      if (task.gate) task.gate->open = false;
      return true;
    case TaskKind::kWait:
      if (task.gate->open) {
        resume_after(stream, *task.gate);
        leave_wait(task);
        return true;
      }
      stream.current = std::move(task);
      park(stream, now_ns);
      return false;
    case TaskKind::kHostDetached:
      task.host->items.push_back({nullptr, std::move(task.body)});
      effects_.arrivals.push_back(std::move(task.host));
      return true;
    case TaskKind::kHost:
      stream.current = std::move(task);
      stream.phase = Phase::kHost;
      stream.current.host->items.push_back({&stream, {}});
      effects_.arrivals.push_back(stream.current.host);
      return false;
    case TaskKind::kBody:
      stream.current = std::move(task);
      enqueue(stream);
      return false;
  }
  return true;
}

// Takes up the queue of a stream of which nothing is under way.
void Scheduler::advance(StreamState& stream, int64_t now_ns) {
  if (stream.phase != Phase::kIdle) return;  // listed twice, taken up already
  while (!stream.queue.empty()) {
    if (!start(stream, stream.queue.pop(), now_ns)) return;
    finish(stream);
  }
  if (stream.self) effects_.released.push_back(std::move(stream.self));
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
  stream.current = std::move(task);
  releases_.emplace(std::pair(due, stream.current.timing.order), &stream);
  return true;
}

void Scheduler::release(int64_t now_ns) {
  while (!releases_.empty() && releases_.begin()->first.first <= now_ns) {
    StreamState& stream = *releases_.begin()->second;
    releases_.erase(releases_.begin());
    stream.phase = Phase::kIdle;
    Task task = std::move(stream.current);
    if (start(stream, std::move(task), now_ns)) finish(stream);
    unsettled_.push_back(&stream);
    settle(now_ns);
  }
}

void Scheduler::resume_after(StreamState& stream, const Gate& gate) const {
  if (event_latency_ns_ > 0) {
    stream.resume = std::max(stream.resume, gate.opened_ns + event_latency_ns_);
  }
}

int64_t Scheduler::next_release() const {
  return releases_.empty() ? kNoDeadline : releases_.begin()->first.first;
}

void Scheduler::lift_limits() {
  for (auto& lanes : devices_) {
    for (Lane& lane : lanes) lane.limit = kUnlimited;
  }
}

// ---- events

void Scheduler::park(StreamState& stream, int64_t now_ns) {
  stream.phase = Phase::kWaiting;
  stream.current.gate->waiters.push_back(&stream);
  if (stream.current.timeout_ns <= 0) return;
  stream.deadline = now_ns + stream.current.timeout_ns;
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
    Task done = std::move(stream->current);
    unpark(*stream);
    resume_after(*stream, gate);
    leave_wait(done);
    finish(*stream);
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
  task.event->pending_waits.fetch_sub(1, std::memory_order_release);
  if (--task.gate->pending_waits == 0 && task.gate->open) task.gate->lease.reset();
}

int64_t Scheduler::next_deadline() const {
  return deadlines_.empty() ? kNoDeadline : deadlines_.begin()->first;
}

void Scheduler::expire(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    StreamState& stream = *deadlines_.begin()->second;
    std::erase(stream.current.gate->waiters, &stream);
    Task task = std::move(stream.current);
    unpark(stream);
    leave_wait(task);
    effects_.failures.push_back(
        {stream.device, stream.id, task.id, task.thread_id, ACL_ERROR_RT_WAIT_TIMEOUT});
    const int64_t limit_ms = task.timeout_ns / 1'000'000;
    fail(stream,
         {ACL_ERROR_RT_WAIT_TIMEOUT, "the wait for an event ran out after " +
                                         std::to_string(limit_ms) +
                                         " ms: no record of that event ran in this time"},
         now_ns);
    finish(stream);
    unsettled_.push_back(&stream);
  }
  settle(now_ns);
}

StreamState* Scheduler::blocker(StreamState& stream) {
  StreamState* at = &stream;
  for (int steps = 0; at != nullptr && at->phase == Phase::kWaiting; ++steps) {
    if (steps == kMaxChain) return nullptr;
    at = at->current.gate->producer;
  }
  return at;
}

// ---- engines

void Scheduler::enqueue(StreamState& stream) {
  stream.phase = Phase::kReady;
  stream.lane =
      &devices_[static_cast<size_t>(stream.device)][static_cast<size_t>(stream.current.engine)];
  Lane::Queue& queue = stream.lane->queues[stream.priority];
  stream.previous = queue.last;
  stream.next = nullptr;
  (queue.last != nullptr ? queue.last->next : queue.first) = &stream;
  queue.last = &stream;
  ++stream.lane->ready;
  recount(*stream.lane);
}

void Scheduler::unlink(StreamState& stream) {
  Lane::Queue& queue = stream.lane->queues[stream.priority];
  (stream.previous != nullptr ? stream.previous->next : queue.first) = stream.next;
  (stream.next != nullptr ? stream.next->previous : queue.last) = stream.previous;
  stream.previous = stream.next = nullptr;
  --stream.lane->ready;
  recount(*stream.lane);
}

void Scheduler::recount(Lane& lane) {
  const uint32_t share = std::min(lane.ready, lane.limit - lane.running);
  runnable_ += share - lane.counted;
  lane.counted = share;
}

void Scheduler::set_priority(StreamState& stream, uint32_t priority) {
  const bool ready = stream.phase == Phase::kReady;
  if (ready) unlink(stream);
  stream.priority = priority;
  if (ready) enqueue(stream);
}

void Scheduler::run(StreamState& stream) {
  unlink(stream);
  stream.phase = Phase::kRunning;
  ++stream.lane->running;
  recount(*stream.lane);
}

StreamState* Scheduler::take() {
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
      run(*stream);
      return stream;
    }
  }
  return nullptr;
}

bool Scheduler::take(StreamState& stream) {
  if (stream.phase != Phase::kReady || stream.lane->running == stream.lane->limit) return false;
  run(stream);
  return true;
}

// ---- ends

void Scheduler::finish(StreamState& stream) {
  const uint64_t finished = stream.finished.load(std::memory_order_relaxed) + 1;
  stream.finished.store(finished, std::memory_order_release);
  if (finished < stream.wanted) return;
  effects_.awaited = true;
  stream.wanted = kNobodyWaits;  // who wakes and has not got enough says so again
}

void Scheduler::complete(StreamState& stream, Outcome outcome, int64_t now_ns) {
  const Task done = std::move(stream.current);
  if (stream.phase == Phase::kRunning) {
    --stream.lane->running;
    recount(*stream.lane);
    stream.lane = nullptr;
  }
  stream.phase = Phase::kIdle;
  if (outcome.code != 0) fail(stream, std::move(outcome), now_ns);
  finish(stream);
  unsettled_.push_back(&stream);
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
  if (stream.error.load(std::memory_order_relaxed) != 0) return;
  stream.error_text = std::move(outcome.text);
  stream.error.store(outcome.code, std::memory_order_relaxed);
}

// A dropped record counts as done, and opens its own gate: nobody shall wait for what cannot
// happen. The level of a flag event stays as it is.
void Scheduler::discard(const StreamState& stream, Task&& task, int64_t now_ns) {
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
    default:
      effects_.dropped.push_back(std::move(task));
  }
}

// False when `current` runs and cannot be dropped.
bool Scheduler::discard_current(StreamState& stream, int64_t now_ns) {
  if (stream.phase == Phase::kReady) {
    unlink(stream);
    stream.lane = nullptr;
  } else if (stream.phase == Phase::kWaiting) {
    std::erase(stream.current.gate->waiters, &stream);
    unpark(stream);
  } else if (stream.phase == Phase::kDelayed) {
    releases_.erase({stream.due, stream.current.timing.order});
  } else if (stream.phase == Phase::kHost) {
    auto& items = stream.current.host->items;
    const auto item = std::find_if(items.begin(), items.end(),
                                   [&](const HostItem& other) { return other.blocked == &stream; });
    if (item == items.end()) return false;
    items.erase(item);
  } else {
    return stream.phase == Phase::kIdle;
  }
  stream.phase = Phase::kIdle;
  discard(stream, std::move(stream.current), now_ns);
  finish(stream);
  return true;
}

void Scheduler::drop_queue(StreamState& stream, int64_t now_ns) {
  const bool idle = discard_current(stream, now_ns);
  while (!stream.queue.empty()) {
    discard(stream, stream.queue.pop(), now_ns);
    finish(stream);
  }
  if (idle) unsettled_.push_back(&stream);
}

void Scheduler::drop(StreamState& stream, int64_t now_ns) {
  drop_queue(stream, now_ns);
  settle(now_ns);
}

}  // namespace ascendrt::core
