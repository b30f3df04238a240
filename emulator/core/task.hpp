// What streams queue: tasks, the gates that order them across streams, and the state of events.
// Owns: the data only. All non-atomic fields belong to the scheduler and are touched under its
// driver's lock. Must never: run anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/ref.hpp"
#include "core/host_queue.hpp"
#include "core/id_pool.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

struct StreamState;

// Opens when a record task runs; streams whose head waits for it stand in `waiters`.
struct Gate : base::Counted {
  bool open = false;
  // The stream whose queue holds the (latest) record that will open it; null when none is queued.
  StreamState* producer = nullptr;
  int64_t opened_ns = 0;
  uint32_t pending_waits = 0;  // wait tasks queued on it
  IdLease lease;               // hardware event id, while the record or a wait is in flight
  std::vector<StreamState*> waiters;
};

// How aclrtStreamWaitEvent treats an event, see Note [Event kinds] in event.hpp.
enum class WaitRule : uint8_t { kLevel, kPlain, kEx };

struct EventState : base::Counted {
  explicit EventState(WaitRule wait_rule) : rule(wait_rule) {
    if (rule == WaitRule::kLevel) gate = base::make_ref<Gate>();
  }

  const WaitRule rule;
  base::Ref<Gate> gate;      // of the latest record (plain, ex), or the level (flag with SYNC)
  uint64_t last_stream = 0;  // serial of the stream of the latest record
  uint32_t waiters = 0;      // host threads that wait for it
  // Read without the lock by queries; written with release under the lock. Record numbers rise from
  // 1; done is the highest finished one, time belongs to the record `done`.
  std::atomic<uint64_t> latest{0};
  std::atomic<uint64_t> done{0};
  std::atomic<int64_t> time_ns{0};
  std::atomic<uint32_t> pending_waits{0};
};

enum class TaskKind : uint8_t { kBody, kHost, kHostDetached, kRecord, kWait, kReset };

// What the modelled clock knows of a task; all zero in real time.
struct Timing {
  int64_t release_ns = 0;   // not before: the moment of the submitting thread
  int64_t duration_ns = 0;  // on its engine
  uint64_t order = 0;       // of submission, between tasks that are due at one moment
  uint32_t cores = 0;
  const char* label = nullptr;  // name of the operator, lives as long as the process
};

struct Task {
  TaskKind kind = TaskKind::kBody;
  Engine engine = Engine::kNone;
  const char* name = "";
  uint32_t id = 0;         // number within the stream
  uint32_t thread_id = 0;  // of the submitting thread
  int64_t timeout_ns = 0;  // kWait: limit from the moment the wait reaches the head; 0 = none
  uint64_t record = 0;     // kRecord: its number
  base::Ref<EventState> event;
  base::Ref<Gate> gate;
  base::Ref<HostQueue> host;
  TaskBody body;
  Timing timing;
};

// First in, first out; grows to the power of two that holds what is queued.
class TaskRing {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  Task& front() { return slots_[head_]; }
  Task pop() {
    Task task = std::move(slots_[head_]);
    head_ = (head_ + 1) & (capacity_ - 1);
    --count_;
    return task;
  }
  void push(Task&& task) {
    if (count_ == capacity_) grow();
    slots_[(head_ + count_) & (capacity_ - 1)] = std::move(task);
    ++count_;
  }

 private:
  void grow() {
    const size_t wider = capacity_ == 0 ? 16 : capacity_ * 2;
    auto slots = std::make_unique<Task[]>(wider);
    for (size_t i = 0; i < count_; ++i) slots[i] = std::move(slots_[(head_ + i) & (capacity_ - 1)]);
    slots_ = std::move(slots);
    capacity_ = wider;
    head_ = 0;
  }

  std::unique_ptr<Task[]> slots_;
  size_t capacity_ = 0;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace ascendrt::core
