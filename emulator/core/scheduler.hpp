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
#include "core/task.hpp"

namespace ascendrt::core {

inline constexpr int64_t kNoDeadline = -1;
inline constexpr uint32_t kPriorities = 8;  // 0 runs first
inline constexpr size_t kEngines = 8;

struct Lane;

// Streams that fail together: those of one context.
struct FailureDomain : base::Counted {
  bool stop_on_failure = false;  // ACL_STOP_ON_FAILURE was set on one of the streams
  base::Code error = 0;          // the failure that stopped them; nothing is accepted any more
  std::string text;
  std::vector<StreamState*> streams;
};

enum class Phase : uint8_t {
  kIdle,     // nothing queued
  kDelayed,  // `current` is not due yet (modelled time)
  kReady,    // the head may run, waits for an engine
  kRunning,  // `current` runs
  kWaiting,  // `current` is a wait whose gate is shut
  kHost,     // `current` is with a host thread
};

inline constexpr uint64_t kNobodyWaits = UINT64_MAX;

// A stream as the scheduler sees it. Fields without a remark belong to the scheduler.
struct StreamState {
  int32_t device = 0;
  int32_t id = 0;
  uint64_t serial = 0;  // never reused
  uint32_t priority = 0;
  uint32_t depth = 0;                    // tasks in flight
  const base::Counted* owner = nullptr;  // kept alive while tasks are queued
  base::Ref<FailureDomain> domain;
  // Totals; read without the lock. All submitted are finished = the stream is idle.
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> finished{0};  // release: what the tasks wrote is visible to who reads it
  std::atomic<bool> refusing{false};  // shut down, aborting or stopped by a failure
  bool closed = false;
  bool aborting = false;
  uint64_t wanted = kNobodyWaits;    // least `finished` that a sleeping host thread waits for
  std::atomic<base::Code> error{0};  // first failure not delivered yet; written before `finished`
  std::string error_text;

  Phase phase = Phase::kIdle;
  TaskRing queue;
  Task current;
  base::Ref<const base::Counted> self;
  Lane* lane = nullptr;  // while ready or running
  StreamState* previous = nullptr;
  StreamState* next = nullptr;
  int64_t deadline = kNoDeadline;
  int64_t due = 0;     // while delayed
  int64_t resume = 0;  // nothing starts before: the event that let it go on needs time to arrive
};

// One engine of one device.
struct Lane {
  uint32_t limit = 1;
  uint32_t running = 0;
  uint32_t ready = 0;
  uint32_t counted = 0;  // its share of Scheduler::runnable()
  struct Queue {
    StreamState* first = nullptr;
    StreamState* last = nullptr;
  };
  std::array<Queue, kPriorities> queues;
};

enum class Admission : uint8_t {
  kAccepted,
  kNotNeeded,      // a wait that is satisfied already: nothing was queued
  kNeverRecorded,  // a wait on a plain event that no record was issued for
  kFull,           // the stream has `depth` tasks in flight; try again when one has finished
};

struct Outcome {
  base::Code code = 0;
  std::string text;
};

struct TaskFailure {
  int32_t device = 0;
  int32_t stream = 0;
  uint32_t task = 0;
  uint32_t thread = 0;
  base::Code code = 0;
};

// What the driver owes after a call, once its lock is gone.
struct Effects {
  std::vector<Task> dropped;  // to destroy
  std::vector<base::Ref<const base::Counted>> released;
  std::vector<base::Ref<HostQueue>> arrivals;  // wake their threads
  std::vector<TaskFailure> failures;           // tell the exception callbacks
  bool awaited = false;                        // something a host thread waits for has happened
  bool deadline = false;                       // next_deadline() moved

  bool any() const {
    return awaited || deadline || !released.empty() || !arrivals.empty() || !dropped.empty() ||
           !failures.empty();
  }
};

class Scheduler {
 public:
  explicit Scheduler(size_t devices);

  void attach(StreamState& stream);
  // The stream is idle.
  void detach(StreamState& stream);

  // Queues a task; moved from only when accepted. Bookkeeping tasks (record, wait, reset) whose
  // turn it is are done at once.
  Admission submit(StreamState& stream, Task& task, int64_t now_ns);

  // Hands out the next task that an engine is free for, the most urgent stream first: it is
  // stream->current. Null when there is none. Every taken task is completed.
  StreamState* take();
  // The same for one stream only.
  bool take(StreamState& stream);
  void complete(StreamState& stream, Outcome outcome, int64_t now_ns);

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
  // From the record of an event to what waits for it.
  void set_event_latency(int64_t latency_ns) { event_latency_ns_ = latency_ns; }

  // Drops what is queued and a wait in progress. A task that runs goes on.
  void drop(StreamState& stream, int64_t now_ns);
  // Sets ACL_STOP_ON_FAILURE for the stream's context.
  void stop_on_failure(StreamState& stream) { stream.domain->stop_on_failure = true; }

  void set_priority(StreamState& stream, uint32_t priority);

  // Number of take() calls that would succeed.
  uint32_t runnable() const { return runnable_; }
  Effects& effects() { return effects_; }

 private:
  // Deals with a task whose turn has come; true when that finished it.
  bool start(StreamState& stream, Task&& task, int64_t now_ns);
  Admission admit_wait(const StreamState& stream, Task& task) const;
  void count_in(StreamState& stream, Task& task);
  void advance(StreamState& stream, int64_t now_ns);
  void settle(int64_t now_ns);

  bool delay(StreamState& stream, Task& task, int64_t now_ns);
  void resume_after(StreamState& stream, const Gate& gate) const;
  void park(StreamState& stream, int64_t now_ns);
  void unpark(StreamState& stream);
  void open(Gate& gate, int64_t now_ns);
  void mark_recorded(const StreamState& stream, const Task& task, int64_t now_ns);
  void leave_wait(Task& task);

  void finish(StreamState& stream);
  void fail(StreamState& stream, Outcome outcome, int64_t now_ns);
  void discard(const StreamState& stream, Task&& task, int64_t now_ns);
  bool discard_current(StreamState& stream, int64_t now_ns);
  void drop_queue(StreamState& stream, int64_t now_ns);

  void enqueue(StreamState& stream);
  void unlink(StreamState& stream);
  void recount(Lane& lane);
  void run(StreamState& stream);

  std::vector<std::array<Lane, kEngines>> devices_;
  std::vector<StreamState*> unsettled_;  // idle streams whose next task is to be looked at
  std::set<std::pair<int64_t, StreamState*>> deadlines_;
  std::map<std::pair<int64_t, uint64_t>, StreamState*> releases_;  // by time and order
  int64_t event_latency_ns_ = 0;
  uint32_t runnable_ = 0;
  size_t next_lane_ = 0;
  Effects effects_;
};

}  // namespace ascendrt::core
