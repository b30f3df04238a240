// The executor: runs what the scheduler says may run, and holds every wait of a host thread for
// device work. Owns: the contract, the one instance, and what its two forms share: the lock around
// the scheduler and the texts about it. Must never: hold its lock while running a task or a
// client's function, or wait without a way out.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "clock/clock.hpp"
#include "core/host_queue.hpp"
#include "core/scheduler.hpp"

namespace ascendrt::core {

class Executor {
 public:
  void attach(StreamState& stream);
  void detach(StreamState& stream);

  // Queues a task; blocks while the stream is full. Raises 107017 when the stream was shut down,
  // 107023 while it is being aborted, the first failure when its context stopped. Gives the
  // scheduler's answer. The caller may be inside a base::Peek, see hold().
  virtual Admission submit(StreamState& stream, Task&& task) = 0;

  // Records the event at once when nothing is under way on the stream. False: submit it. Raises
  // like submit().
  virtual bool record_now(StreamState& /*stream*/, EventState& /*event*/) { return false; }

  // Waits until `finished` of the stream has reached the number; false when the deadline passed.
  virtual bool wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) = 0;
  // Waits until a record of the event is done.
  virtual bool wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) = 0;
  // Waits for a condition on memory that other processes change as well.
  virtual bool wait_shared(base::Function<bool()> done, int64_t deadline_ns);

  // No task is accepted any more; submitters that wait are refused.
  void close(StreamState& stream);
  // Refuses tasks with 107023 while on.
  void set_aborting(StreamState& stream, bool aborting);
  virtual void drop(StreamState& stream) = 0;
  // Waits until no engine runs a task of the stream. Host functions are not waited for.
  virtual bool wait_engines(StreamState& stream, int64_t deadline_ns) = 0;
  void stop_on_failure(StreamState& stream);
  void set_priority(StreamState& stream, uint32_t priority);

  // The context's failure, else the stream's undelivered one; the latter is delivered by this. In
  // the text: which task failed and why. Code 0 when there is none.
  Outcome take_failure(StreamState& stream);
  Outcome domain_failure(StreamState& stream);
  base::Code peek_failure(StreamState& stream);
  // What the stream is doing, for texts.
  std::string describe(StreamState& stream);

  // Runs the items that are in the queue, on this thread; waits for the first one. The number run:
  // 0 when the deadline passed or the queue was closed.
  virtual size_t serve(HostQueue& queue, int64_t deadline_ns) = 0;
  void set_closed(HostQueue& queue, bool closed);
  bool has_items(HostQueue& queue);

  // Asks the watches in progress whether they are ready. To be called without any lock by who has
  // changed what may be watched in this process; a thread of its own looks for other changes.
  void poll_watches();
  // Says which track makes the stream's tasks; null: none, once the one that plays has ended.
  void set_track(StreamState& stream, Track* track);
  // Ends the replay of the graph that is under way with this failure.
  void abort(Graph& graph, Outcome outcome);
  // The graph is not played any more: every replay of it ends with this failure.
  void retire(Graph& graph, Outcome outcome);

  // Gives a task its duration, when time is modelled.
  virtual void model_time(Task& task, const Load& load);
  // Runs a copy the calling thread waits for; it takes its turn on the engine when time is
  // modelled. What the body raises passes.
  virtual void transfer(int32_t device, Engine engine, const char* name, const Load& load,
                        base::Function<void()> body);
  // Absolute deadline on the clock that waits go by; -1 ms gives kForever.
  virtual int64_t deadline_after_ms(int64_t timeout_ms);

  // Lets the running tasks end (for at most limit_ns) and the workers with them.
  virtual void quiesce(int64_t limit_ns) = 0;

 protected:
  explicit Executor(size_t devices) : scheduler_(devices) {}
  ~Executor() = default;  // leaked on purpose

  // Runs the function under the lock, with the time, and carries out what the scheduler owes then.
  virtual void with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) = 0;

  // With the lock held: why the stream takes no task; returns when it takes them.
  static void refuse_if_closed(const StreamState& stream) {
    if (stream.refusing.load(std::memory_order_relaxed)) [[unlikely]]
      refuse(stream);
  }
  [[noreturn]] static void refuse(const StreamState& stream);
  // Before a wait: turns what the caller has by a base::Peek into a reference.
  static base::Ref<const base::Counted> hold(const StreamState& stream) {
    base::Ref<const base::Counted> held(stream.owner);
    base::Peek::end();
    return held;
  }
  static std::string describe_locked(const StreamState& stream);
  // Without the lock: runs the body of the stream's current task and tells the exception callbacks
  // of a failure.
  static Outcome execute(const StreamState& stream, Task& task);
  // Runs a client's function whose stream went on already.
  static void run_detached(HostItem& item);
  // Takes the first item out, with the lock held; false when there is none.
  static bool take_item(HostQueue& queue, HostItem& item);

  // With the lock held: whether the stream's watch may be asked; what the stream ran before it is
  // done.
  virtual bool may_ask(const StreamState& /*stream*/) const { return true; }

  base::RankedMutex mutex_{base::Rank::kScheduler};
  Scheduler scheduler_;

 private:
  void start_watcher();
  void watch();

  clock::Condition watches_;
  bool watcher_started_ = false;
  std::atomic<bool> asking_{false};     // a thread is in poll_watches()
  std::atomic<bool> ask_again_{false};  // it shall not leave yet
};

// Set when the task that the calling thread runs shall end early: its stream was aborted or
// destroyed, or its device reset. Null outside of tasks. Valid while the task runs.
const std::atomic<bool>* task_interruption();

// True inside of a function that the stream waits for: a wait for the stream would never end.
bool runs_function_of(const StreamState& stream);

// "stream 3 of device 0", for texts.
std::string name_of(const StreamState& stream);
// Cores that this process may use.
int usable_cores();

// Made at first use, never destroyed; quiesced at process exit.
inline std::atomic<Executor*> g_executor{nullptr};
Executor& make_executor_once();
inline Executor& executor() {
  Executor* made = g_executor.load(std::memory_order_acquire);
  return made != nullptr ? *made : make_executor_once();
}

}  // namespace ascendrt::core
