// What streams queue: tasks, the gates that order them across streams, and the state of events.
// Owns: the data only. All non-atomic fields belong to the scheduler and are touched under its
// driver's lock. Must never: run anything.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/cpu.hpp"
#include "base/ref.hpp"
#include "core/host_queue.hpp"
#include "core/id_pool.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

struct StreamState;

// Number of the task that the calling thread submitted last, within its stream; 0: none yet.
ART_FAST_THREAD_LOCAL inline uint32_t t_last_task = 0;

// Opens when a record task runs; streams whose head waits for it stand in `waiters`.
struct Gate : base::Counted {
  bool open = false;
  // The stream whose queue holds the (latest) record that will open it; null when none is queued.
  StreamState* producer = nullptr;
  int64_t opened_ns = 0;
  uint64_t opened_by = 0;      // serial of the stream of that record
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
  base::Ref<Gate> gate;          // of the latest record (plain, ex), or the level (flag with SYNC)
  uint64_t last_stream = 0;      // serial of the stream of the latest record
  uint32_t waiters = 0;          // host threads that wait for it
  const void* handle = nullptr;  // of the event, for who looks at recorded tasks
  uint32_t flags = 0;
  // Read without the lock by queries; written with release under the lock. Record numbers rise from
  // 1; done is the highest finished one, time belongs to the record `done`.
  std::atomic<uint64_t> latest{0};
  std::atomic<uint64_t> done{0};
  std::atomic<int64_t> time_ns{0};
  std::atomic<uint32_t> pending_waits{0};
};

// kReplay and kWatch: see graph.hpp.
enum class TaskKind : uint8_t {
  kBody,
  kHost,
  kHostDetached,
  kRecord,
  kWait,
  kReset,
  kReplay,
  kWatch,
};

// What the modelled clock knows of a task; all zero in real time.
struct Timing {
  int64_t release_ns = 0;   // not before: the moment of the submitting thread
  int64_t duration_ns = 0;  // on its engine
  uint64_t order = 0;       // of submission, between tasks that are due at one moment
  uint32_t cores = 0;
  bool cut = false;             // the kernel takes longer than it may
  const char* label = nullptr;  // name of the operator, lives as long as the process
};

// What a body needs stands in front: the processor that runs it fetches no more.
struct Task {
  TaskKind kind = TaskKind::kBody;
  Engine engine = Engine::kNone;
  const char* name = "";
  uint32_t id = 0;         // number within the stream
  uint32_t thread_id = 0;  // of the submitting thread
  base::Ref<EventState> event;
  base::Ref<Gate> gate;
  base::Ref<HostQueue> host;
  base::Ref<base::Counted> extra;  // kReplay: GraphRun, kWatch: Watch
  TaskBody body;
  int64_t timeout_ns = 0;  // kWait, kWatch: limit from the moment it reaches the head; 0 = none
  uint64_t record = 0;     // kRecord: its number
  Timing timing;
};

// First in, first out. Tasks stay where they are until they are popped, so whoever runs those at
// the head needs no lock for it; the other calls need it.
class TaskQueue {
 public:
  TaskQueue() = default;
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() {
    cut(0, [](Task&) {});
    delete head_;
    while (spare_ != nullptr) delete std::exchange(spare_, spare_->next);
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Task& front() { return head_->slots[first_].task; }
  const Task& front() const { return head_->slots[first_].task; }
  // The index-th from the head.
  Task& at(size_t index) {
    Block* block = head_;
    for (index += first_; index >= kBlock; index -= kBlock) block = block->next;
    return block->slots[index].task;
  }
  void push(Task&& task) {
    if (tail_ == nullptr || end_ == kBlock) extend();
    new (&tail_->slots[end_++].task) Task(std::move(task));
    ++size_;
    // Another processor ran the task that was in this slot before.
    base::prefetch_for_write(&tail_->slots[std::min(end_ + kAhead, kBlock - 1)]);
  }
  void pop() {
    front().~Task();
    if (--size_ == 0) {
      first_ = end_ = 0;  // head and tail are the same block: it is used again from its start
    } else if (++first_ == kBlock) {
      recycle(std::exchange(head_, head_->next));
      first_ = 0;
    }
  }
  // Takes all but the first `keep` out, the oldest first.
  template <class F>
  void cut(size_t keep, F&& f) {
    if (size_ <= keep) return;
    for (size_t i = keep; i < size_; ++i) {
      Task& task = at(i);
      f(task);
      task.~Task();
    }
    size_ = keep;
    if (keep == 0) first_ = 0;
    end_ = first_ + keep;
    for (tail_ = head_; end_ > kBlock; end_ -= kBlock) tail_ = tail_->next;
    while (tail_->next != nullptr) recycle(std::exchange(tail_->next, tail_->next->next));
  }

 private:
  static constexpr size_t kBlock = 32;
  static constexpr size_t kSpares = 4;
  static constexpr size_t kAhead = 4;
  union Slot {
    Slot() {}   // NOLINT(modernize-use-equals-default): the queue makes and ends the task
    ~Slot() {}  // NOLINT(modernize-use-equals-default)
    Task task;
  };
  struct Block {
    std::array<Slot, kBlock> slots;
    Block* next = nullptr;
  };

  void extend() {
    Block* block = nullptr;
    if (spare_ != nullptr) {
      block = std::exchange(spare_, spare_->next);
      block->next = nullptr;
      --spares_;
    } else {
      block = new Block;
    }
    (tail_ == nullptr ? head_ : tail_->next) = block;
    tail_ = block;
    end_ = 0;
  }
  void recycle(Block* block) {
    if (spares_ == kSpares) {
      delete block;
      return;
    }
    block->next = spare_;
    spare_ = block;
    ++spares_;
  }

  Block* head_ = nullptr;
  size_t first_ = 0;  // of the head task in its block
  // What a push changes lies apart from what the runner of the head tasks reads.
  alignas(base::kCacheLine) Block* tail_ = nullptr;
  size_t end_ = 0;  // behind the last task in its block
  size_t size_ = 0;
  Block* spare_ = nullptr;
  size_t spares_ = 0;
};

}  // namespace ascendrt::core
