// The threaded executor: runs what the scheduler says may run, in real time.
// Owns: the lock around the scheduler, a small pool of workers shared by all streams and devices,
// and every wait of a host thread for device work. Must never: hold its lock while running a task
// or a client's function, or wait without a way out.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/function.hpp"
#include "base/mutex.hpp"
#include "clock/clock.hpp"
#include "core/scheduler.hpp"

namespace ascendrt::core {

// Note [Who runs tasks]
// Workers take any task that may run. They poll briefly after their last task and then sleep. A
// host thread that waits without a time limit helps: it runs the tasks of the stream it waits for,
// or of the stream that this one waits for, so submit + synchronize costs no thread wake. It never
// takes unrelated tasks, whose length would delay its return; with a time limit it does not help,
// since a task cannot be interrupted. Without workers (no thread could be made, or the process
// exits) the waiting threads run everything.
class Executor {
 public:
  explicit Executor(size_t devices, uint32_t workers);

  void attach(StreamState& stream);
  void detach(StreamState& stream);

  // Queues a task; blocks while the stream is full. Raises 107017 when the stream was shut down,
  // 107023 while it is being aborted, the first failure when its context stopped. Gives the
  // scheduler's answer.
  Admission submit(StreamState& stream, Task task);

  // Waits until `finished` of the stream has reached the number; false when the deadline passed.
  bool wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns);
  // Waits until a record of the event is done.
  bool wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns);

  // No task is accepted any more; submitters that wait are refused.
  void close(StreamState& stream);
  // Refuses tasks with 107023 while on.
  void set_aborting(StreamState& stream, bool aborting);
  void drop(StreamState& stream);
  // Waits until no engine runs a task of the stream. Host functions are not waited for.
  bool wait_engines(StreamState& stream, int64_t deadline_ns);
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
  size_t serve(HostQueue& queue, int64_t deadline_ns);
  void set_closed(HostQueue& queue, bool closed);
  bool has_items(HostQueue& queue);

  // Lets the running tasks end (for at most limit_ns) and the workers with them.
  void quiesce(int64_t limit_ns);

 private:
  class Section;
  using Done = base::Function<bool()>;
  // What a waiting thread waits for, to know which tasks help it.
  struct Awaited {
    StreamState* stream = nullptr;
    EventState* event = nullptr;
    uint64_t number = 0;  // of tasks finished; less does not wake the thread
  };

  void start_workers();
  void work();
  StreamState* next_for_worker();
  void sleep_until_woken(std::unique_lock<base::RankedMutex>& lock);
  uint32_t wakes_owed() const;

  void run(StreamState& stream);
  void complete(StreamState& stream, Outcome outcome);
  void run_item(HostItem item);
  bool wait(Done done, Awaited awaited, int64_t deadline_ns);
  void sleep_until_progress(Done& done, Awaited awaited, int64_t deadline_ns);
  bool help(Awaited awaited);
  void expire_due();
  bool poll(Done& done, int64_t deadline_ns) const;
  void refuse_if_closed(const StreamState& stream) const;

  base::RankedMutex mutex_{base::Rank::kScheduler};
  Scheduler scheduler_;
  clock::Condition work_;
  clock::Condition progress_;
  std::atomic<uint32_t> runnable_{0};  // copy of scheduler_.runnable() for pollers
  std::atomic<uint32_t> workers_{0};   // threads that exist
  const uint32_t wanted_workers_;
  const int64_t poll_ns_;
  bool started_ = false;
  std::atomic<bool> stopping_{false};
  uint32_t polling_ = 0;   // workers looking for work without the lock
  uint32_t sleeping_ = 0;  // workers asleep
  uint32_t tokens_ = 0;    // of them, notified but not awake yet
  uint32_t waiting_ = 0;   // host threads asleep in wait()
};

// Made at first use, never destroyed; quiesced at process exit.
Executor& executor();

}  // namespace ascendrt::core
