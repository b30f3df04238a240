// The scheduler: which task of which stream may run when. A pure state machine.
// Owns: ready queues of the engines, waits on events, failure domains. Must never: start a thread,
// read a clock, run a task or a client's function. Its driver (executor.hpp) calls it under one
// lock, runs what take() hands out, and carries out effects() after the lock is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.hpp"
#include "core/effects.hpp"
#include "core/task.hpp"

namespace ascendrt::core {

inline constexpr int64_t kNoDeadline = -1;
inline constexpr uint32_t kPriorities = 8;  // 0 runs first
inline constexpr size_t kEngines = 8;

struct Graph;
struct GraphRun;
struct Lane;
struct Track;
struct Watch;

// Streams that fail together: those of one context.
struct FailureDomain : base::Counted {
  bool stop_on_failure = false;  // ACL_STOP_ON_FAILURE was set on one of the streams
  base::Code error = 0;          // the failure that stopped them; nothing is accepted any more
  std::string text;
  std::vector<StreamState*> streams;
};

enum class Phase : uint8_t {
  kIdle,     // nothing queued
  kDelayed,  // `current()` is not due yet (modelled time)
  kReady,    // the head may run, waits for an engine
  kRunning,  // `current()` runs, and then perhaps what follows it
  kWaiting,  // `current()` is a wait whose gate is shut, or a watch
  kHost,     // `current()` is with a host thread
  kPlaying,  // `current()` is a replay: its graph runs, or another replay of it does
};

// Note [Batches]
// A lock per task would cost more than a small task. take() hands out the tasks at the head of one
// stream, up to `claimed` of them; they stay in the queue. Who took them runs them in order without
// the lock, for as long as goes_on() allows, and gives all back with one complete(). A drop cannot
// take claimed tasks away: it sets `interrupted`, and complete() drops those that have not run.

inline constexpr uint64_t kNobodyWaits = UINT64_MAX;
inline constexpr uint32_t kBatch = 32;

// A stream as the scheduler sees it. Fields without a remark belong to the scheduler.
struct StreamState {
  int32_t device = 0;
  int32_t id = 0;
  uint64_t serial = 0;  // never reused
  uint32_t priority = 0;
  uint32_t depth = 0;                    // tasks in flight
  const base::Counted* owner = nullptr;  // kept alive when tasks outlive detach()
  base::Ref<FailureDomain> domain;
  // Totals; read without the lock. All submitted are finished = the stream is idle.
  std::atomic<uint64_t> submitted{0};
  uint64_t full_at = 0;               // no need to look at `finished` before so many are submitted
  std::atomic<bool> refusing{false};  // shut down, aborting or stopped by a failure
  bool closed = false;
  bool aborting = false;
  std::atomic<base::Code> error{0};  // first failure not delivered yet; written before `finished`
  std::string error_text;

  Phase phase = Phase::kIdle;
  TaskQueue queue;
  Task& current() { return queue.front(); }  // the task whose turn it is; not while idle
  const Task& current() const { return queue.front(); }
  // See Note [Batches].
  uint32_t claimed = 0;
  std::atomic<bool> interrupted{false};
  // Least `finished` that a sleeping host thread waits for. Written under the lock.
  std::atomic<uint64_t> wanted{kNobodyWaits};
  base::Ref<const base::Counted> self;
  Lane* lane = nullptr;  // while ready or running
  StreamState* previous = nullptr;
  StreamState* next = nullptr;
  int64_t deadline = kNoDeadline;
  Track* track = nullptr;  // makes the tasks of this stream while it plays
  int64_t due = 0;         // while delayed
  // Modelled: the event that let the stream go on needs time to arrive. Nothing starts before.
  int64_t resume = 0;

  // In a cache line of their own: who runs a batch writes them at each task.
  alignas(64) std::atomic<uint64_t> finished{0};  // what the tasks wrote is visible to who reads it
  uint32_t counted = 0;                           // of the claimed tasks, counted as finished
};

// One engine of one device.
struct Lane {
  uint32_t limit = 1;
  uint32_t running = 0;
  std::atomic<uint32_t> ready{0};  // streams; who runs a batch looks at it without the lock
  uint32_t counted = 0;            // its share of Scheduler::runnable()
  struct Queue {
    StreamState* first = nullptr;
    StreamState* last = nullptr;
  };
  std::array<Queue, kPriorities> queues;
};

class Scheduler {
 public:
  explicit Scheduler(size_t devices);

  void attach(StreamState& stream);
  // No task is accepted any more; one that still runs keeps the stream's owner alive.
  void detach(StreamState& stream);

  // Queues a task; moved from only when accepted. Bookkeeping tasks (record, wait, reset) whose
  // turn it is are done at once.
  Admission submit(StreamState& stream, Task& task, int64_t now_ns);

  // Records the event on an idle stream, in a few steps. False when that takes a task.
  bool record_now(StreamState& stream, EventState& event, int64_t now_ns);

  // Hands out the next task that an engine is free for, the most urgent stream first: it is
  // stream->current(), first of `claimed` (at most limit) ones. Null when there is none.
  // What is taken is completed.
  StreamState* take(uint64_t limit = 1);
  // The same for one stream only.
  bool take(StreamState& stream, uint64_t limit = 1);
  // Without the lock, by who took the stream and ran `done` of its tasks without a failure: counts
  // the last of them as finished and gives the next one; null when it is time for complete().
  static Task* goes_on(StreamState& stream, uint32_t done);
  // Ends `done` tasks, whose bodies are empty.
  void complete(StreamState& stream, Outcome outcome, int64_t now_ns, uint32_t done = 1);

  // The stream whose head has to run so that this one goes on: itself, or at the end of a chain of
  // waits; null when nothing that is queued will let it go on.
  StreamState* blocker(StreamState& stream);

  // Fails the waits whose limit has passed.
  void expire(int64_t now_ns);
  int64_t next_deadline() const;

  // Modelled time. Takes up the tasks that have become due.
  void release(int64_t now_ns);
  int64_t next_release() const;
  // The driver counts engines itself: take() hands out every task whose turn it is.
  void lift_limits();
  // Serials of streams whose records let others go on, since the driver emptied it last. Kept with
  // lifted limits only.
  std::vector<uint64_t>& passed() { return passed_; }
  // A failure of a task that was completed already.
  void fail_late(StreamState& stream, Outcome outcome, int64_t now_ns) {
    fail(stream, std::move(outcome), now_ns);
    settle(now_ns);
  }
  // From the record of an event to what waits for it.
  void set_event_latency(int64_t latency_ns) { event_latency_ns_ = latency_ns; }

  // Drops what is queued and a wait in progress. A task that runs goes on.
  void drop(StreamState& stream, int64_t now_ns);
  // Sets ACL_STOP_ON_FAILURE for the stream's context.
  void stop_on_failure(StreamState& stream) { stream.domain->stop_on_failure = true; }

  void set_priority(StreamState& stream, uint32_t priority);

  // The watches in progress. What became ready is ended; a stream that went on is left alone.
  struct Watched {
    StreamState* stream = nullptr;
    uint64_t serial = 0;  // of the stream
    base::Ref<Watch> watch;
  };
  std::vector<Watched> watched() const;
  size_t watching() const { return watching_.size(); }
  bool awaits_others() const;  // other processes
  void end_watch(const Watched& watched, int64_t now_ns);
  // Ends the replay of the graph that is under way with a failure; retire: all, now and later.
  void abort(Graph& graph, Outcome outcome, int64_t now_ns);
  void retire(Graph& graph, Outcome outcome, int64_t now_ns);

  // Number of take() calls that would succeed.
  uint32_t runnable() const { return runnable_; }
  Effects& effects() { return effects_; }

 private:
  // Deals with a task whose turn has come; true when that finished it.
  bool start(StreamState& stream, Task& task, int64_t now_ns);
  Admission admit_wait(const StreamState& stream, Task& task) const;
  void issue_record(StreamState& stream, Task& task);
  void count_in(StreamState& stream, Task& task);
  void advance(StreamState& stream, int64_t now_ns);
  void settle(int64_t now_ns);

  bool delay(StreamState& stream, Task& task, int64_t now_ns);
  int64_t pass(const Gate& gate);
  void park(StreamState& stream, int64_t now_ns);
  void limit_wait(StreamState& stream, int64_t now_ns);
  void unpark(StreamState& stream);
  void leave(StreamState& stream);
  void leave_with(StreamState& stream, Outcome outcome, int64_t now_ns);
  void open(Gate& gate, int64_t now_ns);
  void mark_recorded(const StreamState& stream, const Task& task, int64_t now_ns);
  void leave_wait(Task& task);

  static uint64_t finish(StreamState& stream);
  void tell_waiters(StreamState& stream);
  void fail(StreamState& stream, Outcome outcome, int64_t now_ns);
  void discard(const StreamState& stream, Task& task, int64_t now_ns);
  uint32_t release_current(StreamState& stream, int64_t now_ns);
  void drop_queue(StreamState& stream, int64_t now_ns);

  // Replays and watches, in replay.cpp.
  void issue(GraphRun& run);
  bool begin_replay(StreamState& stream, int64_t now_ns);
  void play(Graph& graph);
  void play(Track& track, size_t step);
  bool next_step(StreamState& stream);
  void end_track(StreamState& stream, int64_t now_ns);
  void end_replay(Graph& graph, int64_t now_ns);
  void abandon(GraphRun& run, int64_t now_ns);
  bool leave_replay(StreamState& stream, int64_t now_ns);
  StreamState* busy_lane(const StreamState& stream) const;
  void begin_watch(StreamState& stream, int64_t now_ns);
  void leave_gate(StreamState& stream);

  void enqueue(StreamState& stream);
  void unlink(StreamState& stream);
  void recount(Lane& lane);
  void run(StreamState& stream, uint64_t limit);

  std::vector<std::array<Lane, kEngines>> devices_;
  std::vector<StreamState*> unsettled_;  // idle streams whose next task is to be looked at
  std::set<std::pair<int64_t, StreamState*>> deadlines_;
  std::vector<StreamState*> watching_;
  std::map<std::pair<int64_t, uint64_t>, StreamState*> releases_;  // by time and order
  uint64_t step_order_ = uint64_t{1} << 63;                        // of tasks that replays make
  int64_t event_latency_ns_ = 0;
  bool lifted_ = false;
  std::vector<uint64_t> passed_;
  uint32_t runnable_ = 0;
  size_t next_lane_ = 0;
  Effects effects_;
};

}  // namespace ascendrt::core
