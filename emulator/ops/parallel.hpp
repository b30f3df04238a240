// Work sharing between a few threads. Owns: Workers, Exec, parallel_for.
// Must never: decide what is computed. Items are independent and every item's result depends on its
// index alone, so results are the same bits for any number of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ascendrt::ops {

// Note [Workers]: a job is a range of items. The caller begins with all of them; a thread that has
// none left takes the upper half of the longest range of another one. So each walks upwards through
// neighbouring items, and the last ones are shared evenly. The caller returns when all items are
// done; it waits only for items that a helper has begun, never for a helper that was not scheduled.
// A second caller that finds the helpers busy simply does its own items; nothing waits for somebody
// else's job. Helpers look for the next job for a while (kLooks) before they sleep, since the steps
// of a model follow each other closely; a caller that waits yields, and nobody is bound to a core.
class Workers {
 public:
  explicit Workers(int threads = 1);  // threads counts the caller; helpers start at first use
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  // Calls body(ctx, i) for each i in [0, count), in any order, on any thread. body must not throw.
  using Body = void (*)(void* ctx, int64_t index);
  void run(int64_t count, Body body, void* ctx);

  static Workers& serial();  // one thread, for tests and for folding constants

 private:
  // Items of a thread that are not begun: the first one, and in the upper half the end.
  struct alignas(64) Range {
    std::atomic<uint64_t> left{0};
  };
  void share(uint32_t count, Body body, void* ctx);
  void start_helpers();
  void help(size_t self);
  uint64_t wait_for_job(uint64_t seen);
  void work(size_t self);
  bool steal(size_t self);

  int threads_;
  std::mutex use_;  // held by the one caller that has the helpers
  // The job; written by the caller while the gate is shut and nobody is inside.
  Body body_ = nullptr;
  void* ctx_ = nullptr;
  std::vector<Range> ranges_;  // by thread, the caller's first
  // How many jobs there were, whether the last one may be joined, how many helpers are inside.
  alignas(64) std::atomic<uint64_t> gate_{0};
  std::atomic<int> asleep_{0};  // helpers; changed under mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;  // guarded by mutex_
  std::vector<std::thread> helpers_;
};

// How a run is ended before it is done: by a flag that somebody else sets. Kernels leave the items
// that they have not begun; what takes turns looks between them.
class Stop {
 public:
  explicit Stop(const std::atomic<bool>* asked) : asked_(asked) {}
  virtual ~Stop() = default;
  // relaxed: who asks waits until the run is over.
  bool asked() const { return asked_ != nullptr && asked_->load(std::memory_order_relaxed); }
  virtual void look() const;  // throws when the run shall end

 private:
  const std::atomic<bool>* asked_;
};

// What a kernel may use while it runs: helpers and scratch memory of the size it asked for.
struct Exec {
  Workers& workers = Workers::serial();
  void* scratch = nullptr;  // 64-byte aligned; contents undefined
  const Stop* stop = nullptr;
};

// Throws when the run was ended meanwhile: then not all items are done.
template <class F>
void parallel_for(const Exec& exec, int64_t count, F&& body) {
  struct Job {
    std::remove_reference_t<F>* body;
    const Stop* stop;
  } job{&body, exec.stop};
  exec.workers.run(
      count,
      [](void* ctx, int64_t i) {
        const auto& own = *static_cast<const Job*>(ctx);
        if (own.stop == nullptr || !own.stop->asked()) (*own.body)(i);
      },
      &job);
  if (exec.stop != nullptr && exec.stop->asked()) exec.stop->look();
}

// Splits [0, total) into pieces of `grain` and calls body(begin, end) for each.
template <class F>
void parallel_ranges(const Exec& exec, int64_t total, int64_t grain, F&& body) {
  const int64_t pieces = (total + grain - 1) / grain;
  parallel_for(exec, pieces, [&](int64_t i) {
    const int64_t begin = i * grain;
    body(begin, begin + grain < total ? begin + grain : total);
  });
}

}  // namespace ascendrt::ops
