// The executor on its own: without workers, after quiesce, and many waiters. Streams are bare
// states here.
#include <atomic>
#include <thread>
#include <vector>

#include "clock/clock.hpp"
#include "core/threaded_executor.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

constexpr int64_t kMs = 1'000'000;

struct Bare : base::Counted {
  StreamState state;
};

// An executor is never destroyed: its threads may still be on their way out.
std::vector<ThreadedExecutor*>& leaked() {
  static auto* const all = new std::vector<ThreadedExecutor*>;
  return *all;
}

struct Bench {
  explicit Bench(uint32_t workers) : executor(*new ThreadedExecutor(1, workers)) {
    leaked().push_back(&executor);
  }
  ~Bench() { executor.quiesce(10'000 * kMs); }
  StreamState& stream() {
    const auto made = base::make_ref<Bare>();
    StreamState& state = made->state;
    state.id = static_cast<int32_t>(streams.size());
    state.serial = streams.size() + 1;
    state.depth = 64;
    state.owner = made.get();
    state.domain = domain;
    executor.attach(state);
    streams.push_back(made);
    return state;
  }
  void submit(StreamState& stream, TaskBody body, Engine engine = Engine::kCube) {
    Task task;
    task.engine = engine;
    task.name = "task";
    task.body = std::move(body);
    executor.submit(stream, std::move(task));
  }
  void record(StreamState& stream, const base::Ref<EventState>& event) {
    Task task;
    task.kind = TaskKind::kRecord;
    task.event = event;
    if (event->rule != WaitRule::kLevel) task.gate = base::make_ref<Gate>();
    executor.submit(stream, std::move(task));
  }
  void wait(StreamState& stream, const base::Ref<EventState>& event, int64_t timeout_ns = 0) {
    Task task;
    task.kind = TaskKind::kWait;
    task.event = event;
    task.timeout_ns = timeout_ns;
    executor.submit(stream, std::move(task));
  }
  bool finish(StreamState& stream, int64_t deadline = clock::kForever) {
    return executor.wait_finished(stream, stream.submitted, deadline);
  }

  ThreadedExecutor& executor;
  base::Ref<FailureDomain> domain = base::make_ref<FailureDomain>();
  std::vector<base::Ref<Bare>> streams;
};

TaskBody pushing(std::vector<int>& log, int value) {
  return [&log, value]() -> base::Code {
    log.push_back(value);
    return 0;
  };
}

TEST(scheduler_executor_waiting_thread_runs_everything) {
  Bench bench(0);
  auto& a = bench.stream();
  auto& b = bench.stream();
  std::vector<int> log;
  const auto event = base::make_ref<EventState>(WaitRule::kEx);
  const auto back = base::make_ref<EventState>(WaitRule::kEx);
  bench.submit(a, pushing(log, 1));
  bench.record(a, event);
  bench.wait(b, event);
  bench.submit(b, pushing(log, 2), Engine::kHostToDevice);
  bench.record(b, back);
  bench.wait(a, back);
  bench.submit(a, pushing(log, 3));
  CHECK(bench.finish(a));  // runs b's part too
  CHECK_EQ(log, (std::vector<int>{1, 2, 3}));
  bench.submit(a, pushing(log, 4));
  CHECK(bench.finish(a, clock::now_ns() + 1000 * kMs));  // alone it helps under a limit too
}

TEST(scheduler_executor_event_wait_without_workers) {
  Bench bench(0);
  auto& a = bench.stream();
  std::vector<int> log;
  const auto event = base::make_ref<EventState>(WaitRule::kLevel);
  bench.submit(a, pushing(log, 1));
  bench.record(a, event);
  CHECK(bench.executor.wait_recorded(*event, 1, clock::kForever));
  CHECK_EQ(log.size(), size_t{1});
  CHECK(!bench.executor.wait_recorded(*event, 2, clock::now_ns() + 5 * kMs));
}

TEST(scheduler_executor_wait_for_nothing_ends_at_its_limit) {
  for (const uint32_t workers : {0U, 2U}) {
    Bench bench(workers);
    auto& a = bench.stream();
    const auto event = base::make_ref<EventState>(WaitRule::kLevel);
    bench.wait(a, event);
    CHECK(!bench.finish(a, clock::now_ns() + 5 * kMs));
    bench.wait(a, event, 20 * kMs);  // behind the first: its time has not begun
    bench.record(bench.stream(), event);
    CHECK(bench.finish(a));
    const auto never = base::make_ref<EventState>(WaitRule::kLevel);
    bench.wait(a, never, 20 * kMs);
    CHECK(bench.finish(a));
    CHECK_EQ(bench.executor.take_failure(a).code, ACL_ERROR_RT_WAIT_TIMEOUT);
  }
}

TEST(scheduler_executor_full_stream_without_workers) {
  Bench bench(0);
  auto& a = bench.stream();
  std::vector<int> log;
  for (int i = 0; i < 500; ++i) bench.submit(a, pushing(log, i));  // depth is 64
  CHECK(bench.finish(a));
  CHECK_EQ(log.size(), size_t{500});
}

TEST(scheduler_executor_works_after_quiesce) {
  Bench bench(2);
  auto& a = bench.stream();
  std::vector<int> log;
  bench.submit(a, pushing(log, 1));
  CHECK(bench.finish(a));
  bench.executor.quiesce(10'000 * kMs);
  bench.submit(a, pushing(log, 2));
  CHECK(bench.finish(a));
  CHECK_EQ(log, (std::vector<int>{1, 2}));
}

TEST(scheduler_executor_wakes_sleeping_workers) {
  Bench bench(2);
  auto& a = bench.stream();
  auto& b = bench.stream();
  std::atomic<int> ran{0};
  for (int round = 0; round < 30; ++round) {
    if (round % 3 == 0) clock::sleep_ns(kMs);  // workers fall asleep
    for (auto* stream : {&a, &b}) {
      bench.submit(
          *stream,
          [&ran]() -> base::Code {
            ++ran;
            return 0;
          },
          stream == &a ? Engine::kCube : Engine::kVector);
    }
    CHECK(bench.finish(a, clock::now_ns() + 10'000 * kMs));
    CHECK(bench.finish(b, clock::now_ns() + 10'000 * kMs));
  }
  CHECK_EQ(ran.load(), 60);
}

TEST(scheduler_executor_many_waiters_of_one_stream) {
  Bench bench(1);
  auto& a = bench.stream();
  const auto event = base::make_ref<EventState>(WaitRule::kLevel);
  bench.wait(a, event);
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const bool ok = i % 2 == 0 ? bench.finish(a) : bench.executor.wait_recorded(*event, 1, -1);
      if (ok) ++done;
    });
  }
  clock::sleep_ns(2 * kMs);
  bench.record(bench.stream(), event);
  for (auto& thread : threads) thread.join();
  CHECK_EQ(done.load(), 8);
}

}  // namespace
