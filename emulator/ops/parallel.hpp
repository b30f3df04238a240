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

// Note [Workers]: the caller takes items too and returns when all are done. A second caller that
// finds the helpers busy simply does its own items; nothing waits for somebody else's job.
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
  struct Job {
    Body body;
    void* ctx;
    int64_t count;
    std::atomic<int64_t> next{0};
    void work();
  };
  void start_helpers();
  void help();

  int threads_;
  std::mutex use_;  // held by the one caller that has the helpers
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Job* job_ = nullptr;    // guarded by mutex_
  uint64_t round_ = 0;    // guarded by mutex_; counts jobs, so that a helper joins each job once
  int active_ = 0;        // guarded by mutex_; helpers inside the current job
  bool closing_ = false;  // guarded by mutex_
  std::vector<std::thread> helpers_;
};

// What a kernel may use while it runs: helpers and scratch memory of the size it asked for.
struct Exec {
  Workers& workers = Workers::serial();
  void* scratch = nullptr;  // 64-byte aligned; contents undefined
};

template <class F>
void parallel_for(const Exec& exec, int64_t count, F&& body) {
  exec.workers.run(
      count, [](void* ctx, int64_t i) { (*static_cast<std::remove_reference_t<F>*>(ctx))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
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
