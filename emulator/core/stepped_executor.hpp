// The stepped executor: modelled time. Owns: the virtual clock, the engines with their queues, and
// every wait of a host thread. Must never: sleep in virtual mode but for a host thread that may
// still call, or hold its lock while running a task or a client's function.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/cost.hpp"
#include "core/executor.hpp"
#include "core/host_clock.hpp"
#include "probe/probe.hpp"

namespace ascendrt::core {

// Note [Modelled time]
// Every host thread that has called the ABI has a clock of its own: calls add their cost to it. The
// device clock `now` moves from event to event (a task is due, a task ends, a limit passes). The
// next event may happen when no thread could still act before it: its time is not later than the
// clocks of all threads that are neither blocked in a wait nor have been outside the ABI (or stuck
// in a call) for the grace time. There is no thread that simulates: whoever waits makes the steps,
// one at a time; a ticker does when nobody waits and all have been outside for the grace time.
// Bodies run in the step, at the start or the end of their interval as the seed has it. With
// ASCENDRT_SCHED_SEED set they may also run later, Note [Late bodies].

// Note [Late bodies]
// What keeps two tasks in order is their stream, an event or the host. Without one of these any
// order is legal, also one that the modelled durations would never bring about; so that a missing
// one shows, a body may run later than its task ends, as late as nobody can have seen it. It is
// due before the next body of its stream, before a watch of its stream is asked, before the next
// body anywhere once a wait for a record of its stream has passed, and before a host thread learns
// anything.
class SteppedExecutor final : public Executor {
 public:
  SteppedExecutor(size_t devices, CostModel model, const TimeSettings& settings,
                  std::string soc_name);
  Admission submit(StreamState& stream, Task&& task) override;
  bool wait_finished(StreamState& stream, uint64_t number, int64_t deadline_ns) override;
  bool wait_recorded(EventState& event, uint64_t record, int64_t deadline_ns) override;
  void drop(StreamState& stream) override;
  bool wait_shared(base::Function<bool()> done, int64_t deadline_ns) override;
  bool wait_engines(StreamState& stream, int64_t deadline_ns) override;
  size_t serve(HostQueue& queue, int64_t deadline_ns) override;
  void quiesce(int64_t limit_ns) override;
  void with_scheduler(base::Function<void(Scheduler&, int64_t now_ns)> function) override;
  void model_time(Task& task, const Load& load) override;
  void transfer(int32_t device, Engine engine, const char* name, const Load& load,
                base::Function<void()> body) override;
  int64_t deadline_after_ms(int64_t timeout_ms) override;

  // Doors of host_clock.hpp.
  void enter(const char* name, const CallCost& cost);
  void leave();
  void charge(double us);
  void thread_ended(HostThread& thread);
  // The calling thread's clock, and a wait of it on that clock.
  int64_t host_now_ns();
  void host_sleep_until(int64_t deadline_ns);
  // Lets one thread that waits for the signal go on at this thread's moment.
  void set_signal(HostSignal& signal);
  // Waits and takes the signal back. kNotYet after patience_ns of real time, so that the caller can
  // see to something else (kForever: never).
  SignalWait wait_signal(HostSignal& signal, int64_t deadline_ns, int64_t patience_ns);
  bool is_virtual() const { return settings_.mode == ClockMode::kVirtual; }
  const gen::TimingRow& figures() const { return model_.row(); }
  // Writes the trace as it is now.
  void write_trace();

 private:
  class Section;
  using Lock = std::unique_lock<base::RankedMutex>;
  using Done = base::Function<bool()>;
  static constexpr int64_t kNoEvent = std::numeric_limits<int64_t>::max();
  // The earlier of two moments, of which kForever is none.
  static int64_t earlier(int64_t moment, int64_t other) {
    return moment == clock::kForever ? other : std::min(moment, other);
  }

  struct Queued {
    StreamState* stream = nullptr;
    int64_t ready_ns = 0;
  };
  // Bodies of a stream that run later than their tasks, in order; Note [Late bodies].
  struct Late {
    StreamState* stream = nullptr;
    base::Ref<const base::Counted> owner;  // keeps the stream
    std::vector<Task> tasks;
  };
  struct EngineState {
    uint32_t capacity = 1;
    uint32_t used = 0;
    std::vector<Queued> queue;
  };
  struct Running {
    StreamState* stream = nullptr;
    EngineState* engine = nullptr;  // null: a host function that returned
    int64_t start_ns = 0;
    bool body_done = false;
    Outcome outcome;
  };
  // Who may end a wait.
  enum class By : uint8_t { kDevice, kOthers };  // kOthers: other processes as well
  // A thread in a wait; lives on its stack.
  struct Waiter {
    HostThread& thread;
    Done& done;
    int64_t deadline_ns;
    int64_t cost_ns;  // from the end of the work to the return
    By by;
    bool over = false;
  };

  HostThread& self();
  void change(HostThread& thread, HostThread::State state);
  // patient_ns: real time when the wait ends without result.
  bool wait(Done done, int64_t deadline_ns, double cost_us, By by = By::kDevice,
            int64_t patient_ns = clock::kForever);
  void catch_up(Lock& lock, HostThread& thread);
  void step_or_wait(Lock& lock, const bool& over, int64_t wake_ns = clock::kForever);
  void settle_waiters();
  void flush(Lock& lock);

  bool host_awaits_others() const;
  int64_t next_work() const;
  int64_t next_event() const;
  int64_t patient_until(int64_t next_ns) const;
  int64_t limit(int64_t real_ns, int64_t& wake_ns, bool& somebody_gone);
  void note_overtaken(int64_t at_ns);
  bool pace(Lock& lock, int64_t at_ns);
  void advance(Lock& lock, int64_t at_ns);
  void step(Lock& lock, int64_t at_ns);
  bool end_one(Lock& lock);
  bool start_one(Lock& lock);
  size_t choose(const EngineState& engine);
  void start(Lock& lock, EngineState& engine, size_t index);
  Outcome run_body(Lock& lock, StreamState& stream);
  enum class Moment : uint8_t { kStart, kEnd, kLate };
  Moment body_moment(const StreamState& stream) const;
  void keep_for_later(Lock& lock, StreamState& stream);
  void run_late(Lock& lock, StreamState* stream);
  void run_late_of_watched(Lock& lock);
  bool may_ask(const StreamState& stream) const override;
  void run_all_late(Lock& lock);
  void finish(Running&& ended, int64_t end_ns);
  void run_item(HostItem item);

  void start_ticker();
  void tick();
  EngineState& engine_of(const StreamState& stream);
  int64_t real_elapsed_ns() const;

  const CostModel model_;
  const TimeSettings settings_;
  const std::string soc_name_;
  const int64_t origin_ns_;  // real time of virtual 0, in paced mode
  probe::Sink* const sink_;

  clock::Condition changed_;  // something a waiting thread looks at
  clock::Condition tick_;
  uint64_t version_ = 0;  // of what changed_ stands for
  int64_t now_ns_ = 0;
  // Real time of the last wait that ran out with a thread outside, or of the last watch or step of
  // the clock while memory is watched.
  int64_t jumped_ns_ = 0;
  bool stepping_ = false;
  bool ticking_ = false;
  bool ticker_idle_ = false;
  bool stopping_ = false;
  uint64_t order_ = 0;
  uint64_t draws_ = 0;
  uint64_t overtaken_ = 0;
  uint32_t numbers_ = 0;
  std::vector<base::Ref<HostThread>> threads_;
  std::vector<Waiter*> waiters_;
  // Functions that a thread of the runtime will take any moment, and since when (real time).
  std::vector<std::pair<base::Ref<HostQueue>, int64_t>> arrivals_;
  std::vector<EngineState> engines_;  // by device and engine
  std::map<std::pair<int64_t, uint64_t>, Running> running_;
  std::map<uint64_t, Late> late_;       // by serial of the stream
  uint64_t late_now_ = 0;               // serial of the stream whose late bodies run
  std::vector<probe::TaskSpan> spans_;  // to be told once the lock is gone
};

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

// Null in real time.
SteppedExecutor* stepped_executor();
// 1 once there is one.
extern std::atomic<int32_t> g_looks_wait;

}  // namespace ascendrt::core
