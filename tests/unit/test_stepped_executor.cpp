// Modelled time on its own: the cost model, and the stepped executor over bare stream states. Each
// test runs on a thread of its own, since a thread has one clock.
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "core/cost.hpp"
#include "core/stepped_executor.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

constexpr int64_t kUs = 1'000;
constexpr int64_t kForever = -1;

const gen::Soc& soc(const char* name) { return *gen::find_soc(name); }

TEST(cost_of_copies) {
  const CostModel model(soc("Ascend910B1"), "h2d.latency_us=10,h2d.gbps=20,pageable.gbps=5");
  Load load;
  load.bytes = 1'000'000;
  CHECK_EQ(model.timing_of(Engine::kHostToDevice, "memcpy", load).duration_ns, 60 * kUs);
  load.pageable = true;
  CHECK_EQ(model.timing_of(Engine::kHostToDevice, "memcpy", load).duration_ns, 215 * kUs);
  CHECK_EQ(model.timing_of(Engine::kNone, "record", load).duration_ns, 0);
}

TEST(cost_of_kernels) {
  const CostModel model(soc("Ascend910B1"),
                        "cube.fp16_tflops=240,cube.efficiency=1,kernel.floor_us=4,"
                        "memory.gbps=1000,memory.efficiency=1,op.slow.us=7,op.slow.cores=3");
  Load load;
  load.rate = Rate::kFp16;
  load.flops = 2.4e9;  // 10 us on all 24 cores
  load.cores = 24;
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 14 * kUs);
  load.cores = 12;
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 24 * kUs);
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 12U);
  load.cores = 25;  // two waves, the second of one block
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, (4'000 + 19'200) * 1);
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 24U);
  load.cores = 0;  // as many as have a microsecond of work
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 24U);
  load.flops = 2.4e7;
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 3U);
  load.bytes = 50'000'000;
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 54 * kUs);
  load.label = "slow";
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 7 * kUs);
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 3U);
}

TEST(cost_under_limits) {
  const CostModel model(soc("Ascend910B1"),
                        "cube.fp16_tflops=240,cube.efficiency=1,kernel.floor_us=4,"
                        "memory.gbps=1000,memory.efficiency=1,op.own.us=7,op.own.cores=24");
  Load load;
  load.rate = Rate::kFp16;
  load.flops = 2.4e9;  // 10 us on all 24 cores
  load.cores = 24;
  load.most_cores = 6;  // four waves
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 44 * kUs);
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 6U);
  CHECK_EQ(model.timing_of(Engine::kCube, "own", load).duration_ns, 28 * kUs);
  load.cores = 0;
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 44 * kUs);
  load.most_cores = 0;  // one at least
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).cores, 1U);
  CHECK(!model.timing_of(Engine::kCube, "k", load).cut);
  load.limit_us = 20;
  CHECK(model.timing_of(Engine::kCube, "k", load).cut);
  CHECK_EQ(model.timing_of(Engine::kCube, "k", load).duration_ns, 20 * kUs);
  CHECK(!model.timing_of(Engine::kHostToDevice, "memcpy", load).cut);  // copies have no such limit
}

TEST(cost_engines_of_a_chip) {
  const CostModel split(soc("Ascend910B1"), "");
  CHECK_EQ(split.capacity(Engine::kVector), 48U);
  CHECK(split.engine_for(Engine::kVector) == Engine::kVector);
  const CostModel fused(soc("Ascend310P3"), "");
  CHECK(fused.engine_for(Engine::kVector) == Engine::kCube);
  CHECK_EQ(fused.capacity(Engine::kCube), 8U);
  CHECK_EQ(fused.capacity(Engine::kHostToDevice), 1U);
}

TEST(cost_settings_that_are_wrong) {
  for (const char* text : {"h2d.gbps", "=3", "h2d.gbps=", "h2d.gbps=-1", "h2d.gbps=1,nothing=2",
                           "op..us=1", "op.x.us=inf", "memory.efficiency=0"}) {
    CHECK_THROWS_CODE(CostModel(soc("Ascend910B1"), text), ACL_ERROR_INVALID_PARAM);
  }
  CHECK_EQ(CostModel(soc("Ascend910B1"), " d2h.gbps = inf , ").settings(), "d2h.gbps=inf");
}

struct Bare : base::Counted {
  StreamState state;
};

const char* const kNothing =
    "event.latency_us=0,host.sync_us=0,h2d.latency_us=100,h2d.gbps=inf,d2h.latency_us=50,"
    "d2h.gbps=inf,op.half.us=200,op.half.cores=12,op.all.us=80,op.all.cores=24";

struct Machine {
  explicit Machine(TimeSettings settings = fast())
      : executor(*new SteppedExecutor(1, CostModel(soc("Ascend910B1"), kNothing), settings, "")) {
    static auto* const kept = new std::vector<SteppedExecutor*>;  // executors end with the process
    kept->push_back(&executor);
  }
  static TimeSettings fast() {
    TimeSettings settings;
    settings.mode = ClockMode::kVirtual;
    settings.grace_ns = 2'000'000;
    return settings;
  }

  StreamState& stream(uint32_t priority = 0, uint32_t depth = 64) {
    const auto made = base::make_ref<Bare>();
    StreamState& state = made->state;
    state.id = static_cast<int32_t>(streams.size());
    state.serial = streams.size() + 1;
    state.priority = priority;
    state.depth = depth;
    state.owner = made.get();
    state.domain = domain;
    executor.attach(state);
    streams.push_back(made);
    return state;
  }
  void submit(StreamState& stream, Engine engine, const char* label = nullptr, TaskBody body = {}) {
    Task task;
    task.engine = engine;
    task.name = "task";
    task.body = body ? std::move(body) : TaskBody([]() -> base::Code { return 0; });
    Load load;
    load.label = label;
    executor.model_time(task, load);
    executor.submit(stream, std::move(task));
  }
  base::Ref<EventState> record(StreamState& stream) {
    Task task;
    task.kind = TaskKind::kRecord;
    task.event = base::make_ref<EventState>(WaitRule::kEx);
    task.gate = base::make_ref<Gate>();
    const auto event = task.event;
    executor.submit(stream, std::move(task));
    return event;
  }
  void wait(StreamState& stream, const base::Ref<EventState>& event, int64_t timeout_ns = 0) {
    Task task;
    task.kind = TaskKind::kWait;
    task.event = event;
    task.timeout_ns = timeout_ns;
    executor.submit(stream, std::move(task));
  }
  bool finish(StreamState& stream, int64_t deadline_ns = kForever) {
    return executor.wait_finished(stream, stream.submitted.load(), deadline_ns);
  }

  SteppedExecutor& executor;  // never destroyed, as in the product
  base::Ref<FailureDomain> domain = base::make_ref<FailureDomain>();
  std::vector<base::Ref<Bare>> streams;
};

void alone(const std::function<void()>& test) { std::thread(test).join(); }

TEST(stepped_copies_and_kernels_overlap) {
  alone([] {
    Machine machine;
    StreamState& a = machine.stream();
    StreamState& b = machine.stream();
    for (StreamState* stream : {&a, &b}) {
      machine.submit(*stream, Engine::kHostToDevice);
      machine.submit(*stream, Engine::kCube, "all");
      machine.submit(*stream, Engine::kDeviceToHost);
    }
    const auto end_a = machine.record(a);
    const auto end_b = machine.record(b);
    CHECK(machine.finish(a));
    CHECK(machine.finish(b));
    CHECK_EQ(end_a->time_ns.load(), 230 * kUs);
    CHECK_EQ(end_b->time_ns.load(), 330 * kUs);  // its copy in ends at 200
  });
}

TEST(stepped_kernels_share_cores) {
  alone([] {
    Machine machine;
    std::vector<base::Ref<EventState>> ends;
    for (const uint32_t priority : {1U, 1U, 1U, 0U}) {
      StreamState& stream = machine.stream(priority);
      machine.submit(stream, Engine::kCube, "half");
      ends.push_back(machine.record(stream));
    }
    for (const auto& made : machine.streams) CHECK(machine.finish(made->state));
    // All are ready at once: the urgent one first, then two at a time in the order they came.
    std::vector<int64_t> times;
    for (const auto& end : ends) times.push_back(end->time_ns.load() / kUs);
    CHECK((times == std::vector<int64_t>{200, 400, 400, 200}));
  });
}

TEST(stepped_limits_pass_at_once) {
  alone([] {
    Machine machine;
    StreamState& a = machine.stream();
    StreamState& b = machine.stream();
    const auto never = base::make_ref<EventState>(WaitRule::kLevel);
    machine.wait(a, never, 3'600'000'000'000);
    machine.submit(b, Engine::kHostToDevice);
    CHECK(!machine.finish(a, 50 * kUs));
    CHECK_EQ(machine.executor.host_now_ns(), 50 * kUs);
    CHECK(machine.finish(b));
    CHECK_EQ(machine.executor.host_now_ns(), 100 * kUs);
    CHECK(machine.finish(a));  // an hour later
    CHECK_EQ(machine.executor.host_now_ns(), 3'600'000'000'000);
    CHECK_EQ(machine.executor.take_failure(a).code, ACL_ERROR_RT_WAIT_TIMEOUT);
  });
}

TEST(stepped_signals_carry_the_moment_of_who_set_them) {
  alone([] {
    Machine machine;
    HostSignal signal;
    CHECK(machine.executor.wait_signal(signal, 70 * kUs, clock::kForever) == SignalWait::kDeadline);
    CHECK_EQ(machine.executor.host_now_ns(), 70 * kUs);
    machine.executor.set_signal(signal);
    CHECK(machine.executor.wait_signal(signal, 80 * kUs, clock::kForever) == SignalWait::kSet);
    CHECK_EQ(machine.executor.host_now_ns(), 70 * kUs);
    CHECK(!signal.set);
    std::thread setter([&] {
      machine.executor.host_sleep_until(500 * kUs);
      machine.executor.set_signal(signal);
    });
    CHECK(machine.executor.wait_signal(signal, clock::kForever, clock::kForever) ==
          SignalWait::kSet);
    setter.join();
    CHECK_EQ(machine.executor.host_now_ns(), 500 * kUs);
    // Nobody sets it: the caller gets its thread back after real time.
    CHECK(machine.executor.wait_signal(signal, clock::kForever, 2'000'000) == SignalWait::kNotYet);
    CHECK_EQ(machine.executor.host_now_ns(), 500 * kUs);
  });
}

// Each waited for the other one, until a thread that works for long in a call counts as stuck.
TEST(stepped_two_threads_look_at_the_moment_of_an_event) {
  alone([] {
    TimeSettings settings = Machine::fast();
    settings.grace_ns = 5'000'000'000;
    Machine machine(settings);
    StreamState& stream = machine.stream();
    machine.submit(stream, Engine::kHostToDevice);  // ends at 100
    std::atomic<int> known{0};
    std::atomic<int> seen{0};
    const auto look = [&] {
      machine.executor.host_now_ns();
      ++known;
      while (known.load() < 2) std::this_thread::yield();
      machine.executor.host_sleep_until(90 * kUs);
      machine.executor.enter("look", {10, true});
      seen += stream.finished.load() == 1 && machine.executor.host_now_ns() == 100 * kUs ? 1 : 0;
      machine.executor.leave();
    };
    const int64_t began_ns = clock::now_ns();
    std::thread other(look);
    look();
    other.join();
    CHECK_EQ(seen.load(), 2);
    CHECK(clock::now_ns() - began_ns < 4'000'000'000);
  });
}

TEST(stepped_failures_and_drops) {
  alone([] {
    Machine machine;
    StreamState& a = machine.stream();
    StreamState& b = machine.stream();
    std::atomic<int> ran{0};
    machine.submit(a, Engine::kCube, "all", []() -> base::Code { return 507000; });
    machine.submit(a, Engine::kCube, "all", [&]() -> base::Code { return ++ran, 0; });
    CHECK(machine.finish(a));
    CHECK_EQ(machine.executor.take_failure(a).code, 507000);
    CHECK_EQ(ran.load(), 1);
    // b's kernel is ready but has no cores when it is dropped.
    machine.submit(a, Engine::kCube, "all", [&]() -> base::Code { return ++ran, 0; });
    machine.submit(b, Engine::kCube, "all", [&]() -> base::Code { return ran += 100, 0; });
    const auto mark = machine.record(a);
    machine.submit(b, Engine::kCube, "all", [&]() -> base::Code { return ran += 100, 0; });
    machine.executor.drop(b);
    CHECK(machine.executor.wait_engines(b, kForever));
    CHECK(machine.finish(b));
    CHECK(machine.finish(a));
    CHECK(ran.load() == 2 || ran.load() == 102);  // the drop may come when b runs already
    CHECK(mark->done.load() > 0);
  });
}

TEST(stepped_stop_on_failure_stops_what_waits_for_an_engine) {
  alone([] {
    Machine machine;
    StreamState& a = machine.stream();
    StreamState& b = machine.stream();
    std::atomic<int> ran{0};
    machine.executor.stop_on_failure(a);
    machine.submit(a, Engine::kCube, "all", []() -> base::Code { return 507000; });
    machine.submit(b, Engine::kCube, "all", [&]() -> base::Code { return ++ran, 0; });
    CHECK(machine.finish(a));
    CHECK(machine.finish(b));
    CHECK_EQ(ran.load(), 0);
    CHECK_EQ(machine.executor.domain_failure(b).code, 507000);
  });
}

TEST(stepped_full_queue_waits_on_the_clock) {
  alone([] {
    Machine machine;
    StreamState& a = machine.stream(0, 2);
    for (int i = 0; i < 5; ++i) machine.submit(a, Engine::kHostToDevice);
    CHECK_EQ(machine.executor.host_now_ns(), 300 * kUs);
    CHECK(machine.finish(a));
    CHECK_EQ(machine.executor.host_now_ns(), 500 * kUs);
  });
}

// A chain over two streams, in order by events: no seed may break it, bodies late or not.
TEST(stepped_seeds_keep_what_is_ordered) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    alone([seed] {
      TimeSettings settings = Machine::fast();
      settings.seed = seed;
      settings.seeded = true;
      Machine machine(settings);
      StreamState& a = machine.stream();
      StreamState& b = machine.stream();
      int step = 0;
      bool right = true;
      const auto body = [&](int wanted) {
        return [&, wanted]() -> base::Code { return right &= step++ == wanted, 0; };
      };
      for (int i = 0; i < 12; i += 3) {
        machine.submit(a, Engine::kHostToDevice, nullptr, body(i));
        machine.submit(a, Engine::kCube, "half", body(i + 1));
        machine.wait(b, machine.record(a));
        machine.submit(b, Engine::kDeviceToHost, nullptr, body(i + 2));
        machine.wait(a, machine.record(b));
      }
      CHECK(machine.finish(b));
      CHECK(right);
      CHECK_EQ(step, 12);
    });
  }
}

TEST(stepped_many_threads) {
  alone([] {
    Machine machine;
    std::vector<StreamState*> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(&machine.stream(0, 16));
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        StreamState& own = *streams[static_cast<size_t>(t)];
        StreamState& other = *streams[static_cast<size_t>(t + 1) % 4];
        for (int i = 0; i < 60; ++i) {
          machine.submit(own, i % 2 == 0 ? Engine::kCube : Engine::kHostToDevice, "half",
                         [&]() -> base::Code { return ++ran, 0; });
          if (i % 7 == 0) machine.wait(other, machine.record(own));
          if (i % 5 == 0) machine.finish(own, machine.executor.deadline_after_ms(1));
          if (i % 11 == 0) CHECK(machine.finish(other));
        }
        CHECK(machine.finish(own));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (StreamState* stream : streams) CHECK(machine.finish(*stream));
    CHECK_EQ(ran.load(), 240);
  });
}

}  // namespace
