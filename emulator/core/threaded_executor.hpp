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
#include "core/executor.hpp"

namespace ascendrt::core {

// Note [Who runs tasks]
// Workers take any task that may run. They poll briefly after their last task and then sleep. A
// host thread that waits without a time limit helps: it runs the tasks of the stream it waits for,
// or of the stream that this one waits for, so submit + synchronize costs no thread wake. It never
// takes unrelated tasks, whose length would delay its return; with a time limit it does not help,
// since a task cannot be interrupted. Without workers (no thread could be made, or the process
// exits) the waiting threads run everything.
//
// Note [Patience]
// A worker that polls leaves a task alone that a host thread is about to run: the two would only
// pass cache lines to and fro. It looks at one word at intervals and takes something when nothing
// was taken for kPatienceNs although something may run, or when something may run for
// kLongPatienceNs on end, whoever takes the others. A worker that was woken is patient if tasks
// were taken since.
class ThreadedExecutor final : public Executor {
 public:
  explicit ThreadedExecutor(size_t devices, uint32_t workers);
  Admission submit(StreamState& stream, Task&& task) override;
  bool record_now(StreamState& stream, EventState& event) override;
  bool wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) override;
  bool wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) override;
  void drop(StreamState& stream) override;
  bool wait_engines(StreamState& stream, int64_t deadline_ns) override;
  size_t serve(HostQueue& queue, int64_t deadline_ns) override;
  void quiesce(int64_t limit_ns) override;
  void with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) override;

 private:
  class Section;
  using Done = base::Function<bool()>;
  // What a waiting thread waits for, to know which tasks help it.
  struct Awaited {
    StreamState* stream = nullptr;
    EventState* event = nullptr;
    uint64_t number = 0;  // of tasks finished; less does not wake the thread
  };

  // What follows the end of tasks; the latter two are for workers.
  enum class Then : uint8_t { kReturn, kTake, kLookOut };

  void start_workers();
  void work();
  StreamState* take_or_look_out(Then then);
  void poll_for_work() const;
  void publish();
  void sleep_until_woken(std::unique_lock<base::RankedMutex>& lock);
  uint32_t wakes_owed() const;

  StreamState* run(StreamState& stream, Then then);
  StreamState* complete(StreamState& stream, Outcome outcome, uint32_t done, Then then);
  void run_item(HostItem item);
  bool wait(Done done, Awaited awaited, int64_t deadline_ns);
  void sleep_until_progress(Done& done, Awaited awaited, int64_t deadline_ns);
  bool help(Awaited awaited);
  void expire_due();
  void poll(Done& done, int64_t end_ns, bool helps) const;

  clock::Condition work_;
  clock::Condition progress_;
  std::atomic<uint32_t> workers_{0};  // threads that exist
  const uint32_t wanted_workers_;
  const int64_t poll_ns_;
  bool started_ = false;
  std::atomic<bool> stopping_{false};
  uint32_t polling_ = 0;   // workers looking for work without the lock
  uint32_t sleeping_ = 0;  // workers asleep
  uint32_t tokens_ = 0;    // of them, notified but not awake yet
  uint32_t waiting_ = 0;   // host threads asleep in wait()
  uint32_t takes_ = 0;
  uint32_t takes_at_wake_ = 0;
  // For pollers: takes_ << 32 | scheduler_.runnable(). Alone in its cache line.
  alignas(64) std::atomic<uint64_t> pulse_{0};
};

}  // namespace ascendrt::core
