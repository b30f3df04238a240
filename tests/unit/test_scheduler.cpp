// The scheduler as a state machine: no threads, no clock, a driver of a few lines.
#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "core/scheduler.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

struct TestStream : base::Counted {
  StreamState state;
};

// A machine of two devices; tasks write their number in `log` when the test runs them.
struct Machine {
  Scheduler scheduler{2};
  base::Ref<FailureDomain> domain = base::make_ref<FailureDomain>();
  std::deque<base::Ref<TestStream>> streams;
  std::vector<int> log;
  int64_t now = 1000;

  StreamState& stream(int32_t device = 0, uint32_t priority = 0, uint32_t depth = 100) {
    auto made = base::make_ref<TestStream>();
    StreamState& state = made->state;
    state.device = device;
    state.id = static_cast<int32_t>(streams.size());
    state.serial = streams.size() + 1;
    state.priority = priority;
    state.depth = depth;
    state.owner = made.get();
    state.domain = domain;
    scheduler.attach(state);
    streams.push_back(made);
    return state;
  }
  Admission body(StreamState& s, int number, Engine engine = Engine::kCube, base::Code code = 0) {
    Task task;
    task.engine = engine;
    task.name = "body";
    task.body = [this, number, code]() -> base::Code {
      log.push_back(number);
      return code;
    };
    return scheduler.submit(s, task, now);
  }
  Admission bookkeeping(StreamState& s, const base::Ref<EventState>& event, TaskKind kind,
                        int64_t timeout_ns = 0) {
    Task task;
    task.kind = kind;
    task.event = event;
    task.timeout_ns = timeout_ns;
    if (kind == TaskKind::kRecord && event->rule != WaitRule::kLevel) {
      task.gate = base::make_ref<Gate>();
    }
    return scheduler.submit(s, task, now);
  }
  Admission record(StreamState& s, const base::Ref<EventState>& e) {
    return bookkeeping(s, e, TaskKind::kRecord);
  }
  Admission wait(StreamState& s, const base::Ref<EventState>& e, int64_t timeout_ns = 0) {
    return bookkeeping(s, e, TaskKind::kWait, timeout_ns);
  }
  Admission reset(StreamState& s, const base::Ref<EventState>& e) {
    return bookkeeping(s, e, TaskKind::kReset);
  }
  void finish(StreamState& s) {
    const base::Code code = s.current().body();
    s.current().body = {};
    scheduler.complete(s, {code, "broken"}, now);
  }
  // Runs one task; false when none may run.
  bool step() {
    StreamState* s = scheduler.take();
    if (s == nullptr) return false;
    finish(*s);
    return true;
  }
  void run_all() {
    while (step()) {
    }
  }
};

base::Ref<EventState> event_of(WaitRule rule) { return base::make_ref<EventState>(rule); }

bool idle(const StreamState& s) { return s.submitted == s.finished; }

TEST(scheduler_keeps_stream_order) {
  Machine m;
  auto& s = m.stream();
  for (int i = 0; i < 40; ++i) m.body(s, i, i % 2 == 0 ? Engine::kCube : Engine::kHostToDevice);
  CHECK_EQ(m.scheduler.runnable(), 1U);
  m.run_all();
  CHECK_EQ(m.log.size(), size_t{40});
  CHECK(std::is_sorted(m.log.begin(), m.log.end()));
  CHECK(idle(s));
  CHECK(s.phase == Phase::kIdle);
}

TEST(scheduler_one_task_per_engine_and_device) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream();
  auto& other = m.stream(1);
  m.body(a, 1);
  m.body(b, 2);
  m.body(b, 3, Engine::kHostToDevice);
  m.body(other, 4);
  CHECK_EQ(m.scheduler.runnable(), 2U);  // one compute task per device
  StreamState* first = m.scheduler.take();
  StreamState* second = m.scheduler.take();
  CHECK(first == &a && second == &other);
  CHECK(m.scheduler.take() == nullptr);  // b waits for the engine of device 0
  CHECK(!m.scheduler.take(b));
  m.finish(*first);
  CHECK(m.scheduler.take() == &b);
  m.finish(b);
  CHECK(m.scheduler.take() == &b);  // its copy, on another engine
  m.finish(b);
  m.finish(*second);
  CHECK_EQ(m.log, (std::vector<int>{1, 2, 3, 4}));
  CHECK_EQ(m.scheduler.runnable(), 0U);
}

TEST(scheduler_priority_then_arrival) {
  Machine m;
  auto& low = m.stream(0, 7);
  auto& high1 = m.stream(0, 0);
  auto& high2 = m.stream(0, 0);
  m.body(low, 1);
  m.body(high1, 2);
  m.body(high2, 3);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{2, 3, 1}));
}

TEST(scheduler_full_queue_is_refused) {
  Machine m;
  auto& s = m.stream(0, 0, 3);
  for (int i = 0; i < 3; ++i) CHECK(m.body(s, i) == Admission::kAccepted);
  CHECK(m.body(s, 3) == Admission::kFull);
  CHECK(m.step());
  CHECK(m.body(s, 4) == Admission::kAccepted);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{0, 1, 2, 4}));
}

TEST(scheduler_ex_event_orders_streams) {
  Machine m;
  auto& producer = m.stream(0);
  auto& consumer = m.stream(1);
  const auto event = event_of(WaitRule::kEx);
  m.body(producer, 1);
  m.record(producer, event);
  CHECK(m.wait(consumer, event) == Admission::kAccepted);
  m.body(consumer, 2);
  CHECK_EQ(event->pending_waits.load(), 1U);
  CHECK_EQ(m.scheduler.runnable(), 1U);
  CHECK(m.scheduler.blocker(consumer) == &producer);
  m.now = 5000;
  CHECK(m.step());
  CHECK_EQ(event->done.load(), 1U);
  CHECK_EQ(event->time_ns.load(), 5000);
  CHECK_EQ(event->pending_waits.load(), 0U);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{1, 2}));
}

TEST(scheduler_ex_event_needs_no_wait) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream();
  const auto event = event_of(WaitRule::kEx);
  CHECK(m.wait(b, event) == Admission::kNotNeeded);  // never recorded
  m.body(a, 1);
  m.record(a, event);
  CHECK(m.wait(a, event) == Admission::kNotNeeded);  // recorded on the same stream
  CHECK(m.wait(b, event) == Admission::kAccepted);
  m.run_all();
  CHECK(m.wait(b, event) == Admission::kNotNeeded);  // done
  CHECK(idle(b));
}

TEST(scheduler_wait_keeps_the_older_record) {
  Machine m;
  auto& a = m.stream(0);
  auto& b = m.stream(1);
  auto& waiting = m.stream();
  const auto event = event_of(WaitRule::kEx);
  m.body(a, 1);
  m.record(a, event);
  m.wait(waiting, event);  // stands for the record on a
  m.body(b, 2);
  m.record(b, event);
  CHECK(m.scheduler.take(a));
  m.finish(a);
  CHECK(idle(waiting));
  CHECK_EQ(event->done.load(), 1U);
  CHECK_EQ(event->latest.load(), 2U);  // the latest record is not done
  m.run_all();
  CHECK_EQ(event->done.load(), 2U);
}

TEST(scheduler_late_old_record_keeps_newer_time) {
  Machine m;
  auto& a = m.stream(0);
  auto& b = m.stream(1);
  const auto event = event_of(WaitRule::kPlain);
  m.body(a, 1);
  m.record(a, event);
  m.body(b, 2);
  m.record(b, event);
  m.now = 2000;
  CHECK(m.scheduler.take(b));
  m.finish(b);
  m.now = 3000;
  CHECK(m.scheduler.take(a));
  m.finish(a);
  CHECK_EQ(event->time_ns.load(), 2000);
  CHECK_EQ(event->done.load(), 2U);
}

TEST(scheduler_plain_event_must_be_recorded) {
  Machine m;
  auto& a = m.stream();
  const auto event = event_of(WaitRule::kPlain);
  CHECK(m.wait(a, event) == Admission::kNeverRecorded);
  m.record(a, event);  // idle stream: done at once
  CHECK_EQ(event->done.load(), 1U);
  CHECK(m.wait(a, event) == Admission::kNotNeeded);
}

TEST(scheduler_level_event) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream();
  auto& c = m.stream();
  const auto event = event_of(WaitRule::kLevel);
  CHECK(m.wait(b, event) == Admission::kAccepted);  // before any record
  CHECK(!idle(b));
  CHECK(m.scheduler.blocker(b) == nullptr);
  m.record(a, event);
  CHECK(idle(b));
  m.wait(c, event);  // still set
  CHECK(idle(c));
  m.reset(a, event);
  m.wait(c, event);
  CHECK(!idle(c));
  m.record(a, event);
  CHECK(idle(c));
}

TEST(scheduler_reset_between_two_waits_blocks_the_second) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream();
  const auto event = event_of(WaitRule::kLevel);
  m.body(b, 1);
  m.wait(b, event);
  m.record(a, event);
  m.reset(a, event);
  m.run_all();
  CHECK(!idle(b));
  m.record(a, event);
  CHECK(idle(b));
}

TEST(scheduler_wait_runs_out) {
  Machine m;
  auto& s = m.stream();
  const auto event = event_of(WaitRule::kLevel);
  m.wait(s, event, 500);
  m.body(s, 1);
  CHECK_EQ(m.scheduler.next_deadline(), 1500);
  m.scheduler.expire(1499);
  CHECK(s.phase == Phase::kWaiting);
  m.scheduler.expire(1500);
  CHECK_EQ(m.scheduler.next_deadline(), kNoDeadline);
  CHECK_EQ(s.error.load(), ACL_ERROR_RT_WAIT_TIMEOUT);
  CHECK_EQ(m.scheduler.effects().failures.size(), size_t{1});
  m.run_all();  // the stream goes on
  CHECK_EQ(m.log, (std::vector<int>{1}));
  m.record(s, event);  // nobody waits any more
  CHECK_EQ(event->pending_waits.load(), 0U);
}

TEST(scheduler_first_failure_is_kept_and_work_goes_on) {
  Machine m;
  auto& s = m.stream();
  m.body(s, 1, Engine::kCube, 507015);
  m.body(s, 2, Engine::kCube, 507014);
  m.body(s, 3);
  m.run_all();
  CHECK_EQ(s.error.load(), 507015);
  CHECK_EQ(s.error_text, std::string("broken"));
  CHECK_EQ(m.log, (std::vector<int>{1, 2, 3}));
}

TEST(scheduler_stop_on_failure_drops_all_streams_of_the_context) {
  Machine m;
  auto& a = m.stream(0);
  auto& b = m.stream(1);
  const auto event = event_of(WaitRule::kEx);
  m.scheduler.stop_on_failure(a);
  m.body(a, 1, Engine::kCube, 507015);
  m.body(a, 2);
  m.record(a, event);
  m.wait(b, event);
  m.body(b, 3);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{1}));
  CHECK(idle(a) && idle(b));
  CHECK_EQ(m.domain->error, 507015);
  CHECK(a.refusing.load() && b.refusing.load());
  CHECK_EQ(m.scheduler.effects().dropped.size(), size_t{2});
  CHECK_EQ(event->pending_waits.load(), 0U);
}

TEST(scheduler_drop_frees_who_waits_for_it) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream(1);
  const auto event = event_of(WaitRule::kEx);
  m.body(a, 1);
  m.body(a, 2);
  m.record(a, event);
  m.wait(b, event);
  m.body(b, 3);
  CHECK(m.scheduler.take() == &a);  // 1 runs
  m.scheduler.drop(a, m.now);
  CHECK_EQ(a.submitted - a.finished, 1U);  // only the running one is left
  m.finish(a);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{1, 3}));
  CHECK(idle(a) && idle(b));
}

TEST(scheduler_drop_ends_a_wait_for_ever) {
  Machine m;
  auto& s = m.stream();
  const auto event = event_of(WaitRule::kLevel);
  m.wait(s, event, 900);
  m.body(s, 1);
  m.scheduler.drop(s, m.now);
  CHECK(idle(s));
  CHECK_EQ(m.scheduler.next_deadline(), kNoDeadline);
  CHECK(event->gate->waiters.empty());
  m.body(s, 2);  // a dropped stream works on
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{2}));
}

TEST(scheduler_drop_of_a_ready_stream_frees_its_place) {
  Machine m;
  auto& a = m.stream();
  auto& b = m.stream();
  m.body(a, 1);
  m.body(b, 2);
  m.scheduler.drop(a, m.now);
  CHECK_EQ(m.scheduler.runnable(), 1U);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{2}));
}

TEST(scheduler_host_tasks_go_to_their_queue) {
  Machine m;
  auto& s = m.stream();
  const auto queue = base::make_ref<HostQueue>();
  const auto launch = [&](TaskKind kind, int number) {
    Task task;
    task.kind = kind;
    task.host = queue;
    task.body = [&m, number]() -> base::Code {
      m.log.push_back(number);
      return 0;
    };
    m.scheduler.submit(s, task, m.now);
  };
  launch(TaskKind::kHostDetached, 1);
  m.body(s, 2);
  launch(TaskKind::kHost, 3);
  m.body(s, 4);
  m.run_all();
  CHECK_EQ(queue->items.size(), size_t{2});  // 1 went on at once, 3 blocks the stream
  CHECK(s.phase == Phase::kHost);
  queue->items.front().detached();
  CHECK(queue->items.back().blocked == &s);
  queue->items.clear();
  m.finish(s);
  m.run_all();
  CHECK_EQ(m.log, (std::vector<int>{2, 1, 3, 4}));
  CHECK(idle(s));
}

TEST(scheduler_drop_takes_host_tasks_back) {
  Machine m;
  auto& s = m.stream();
  const auto queue = base::make_ref<HostQueue>();
  Task task;
  task.kind = TaskKind::kHost;
  task.host = queue;
  task.body = []() -> base::Code { return 0; };
  m.scheduler.submit(s, task, m.now);
  m.scheduler.drop(s, m.now);
  CHECK(queue->items.empty());
  CHECK(idle(s));
}

TEST(scheduler_shut_down_stream_lives_while_it_works) {
  Machine m;
  auto& s = m.stream();
  m.body(s, 1);
  m.scheduler.detach(s);  // shut down, and the task could not be waited for
  m.streams.clear();      // the owner let go
  m.run_all();            // a sanitizer would tell
  CHECK_EQ(m.scheduler.effects().released.size(), size_t{1});
  m.scheduler.effects().released.clear();
}

TEST(scheduler_event_id_is_free_after_record_and_waits) {
  Machine m;
  IdPool pool(1);
  auto& a = m.stream();
  auto& b = m.stream(1);
  const auto event = event_of(WaitRule::kEx);
  const auto record_with_id = [&] {
    Task task;
    task.kind = TaskKind::kRecord;
    task.event = event;
    task.gate = base::make_ref<Gate>();
    task.gate->lease = IdLease(pool);
    m.scheduler.submit(a, task, m.now);
  };
  m.body(a, 1);
  record_with_id();
  CHECK_EQ(pool.available(), 0U);
  m.body(b, 2);
  m.wait(b, event);
  CHECK(m.scheduler.take(a));
  m.finish(a);
  CHECK_EQ(pool.available(), 0U);  // the wait has not passed
  m.run_all();
  CHECK_EQ(pool.available(), 1U);
}

// Takes up to `limit` tasks at the head of `s` and runs them for as long as they go on; how many.
uint32_t run_batch(
    Machine& m, StreamState& s, uint64_t limit, const std::function<void()>& meanwhile = [] {}) {
  CHECK(m.scheduler.take(s, limit));
  uint32_t done = 0;
  for (Task* task = &s.current(); task != nullptr; task = Scheduler::goes_on(s, done)) {
    task->body();
    task->body = {};
    if (done++ == 0) meanwhile();
  }
  m.scheduler.complete(s, {}, m.now, done);
  return done;
}

TEST(scheduler_batch_ends_where_others_have_a_turn) {
  Machine m;
  auto& s = m.stream();
  for (int i = 0; i < 6; ++i) m.body(s, i);
  CHECK_EQ(run_batch(m, s, 2), 2U);  // the limit
  CHECK_EQ(s.finished.load(), 2U);
  m.body(s, 6, Engine::kHostToDevice);
  const auto event = event_of(WaitRule::kEx);
  m.record(s, event);
  auto& other = m.stream();
  CHECK_EQ(run_batch(m, s, kBatch, [&] { m.body(other, 100); }), 1U);  // another stream is ready
  CHECK_EQ(m.scheduler.take(), &other);
  m.finish(other);
  CHECK_EQ(run_batch(m, s, kBatch), 3U);  // the engine changes
  CHECK_EQ(event->done.load(), 0U);
  CHECK_EQ(run_batch(m, s, kBatch), 1U);
  CHECK_EQ(event->done.load(), 1U);  // the record had its turn
  CHECK_EQ(m.log.size(), size_t{8});
  CHECK(idle(s));
}

TEST(scheduler_batch_ends_for_who_waits) {
  Machine m;
  auto& s = m.stream();
  for (int i = 0; i < 6; ++i) m.body(s, i);
  CHECK_EQ(run_batch(m, s, kBatch, [&] { s.wanted = 3; }), 3U);
  CHECK_EQ(s.finished.load(), 3U);
  CHECK(m.scheduler.effects().awaited);
  CHECK_EQ(s.wanted.load(), kNobodyWaits);
  m.run_all();
  CHECK(idle(s));
}

TEST(scheduler_drop_ends_a_batch) {
  Machine m;
  auto& s = m.stream();
  for (int i = 0; i < 40; ++i) m.body(s, i);
  CHECK_EQ(run_batch(m, s, kBatch, [&] { m.scheduler.drop(s, m.now); }), 1U);
  CHECK_EQ(m.log.size(), size_t{1});
  CHECK_EQ(m.scheduler.effects().dropped.size(), size_t{39});
  CHECK(idle(s));
  m.scheduler.effects().dropped.clear();
  m.body(s, 100);  // works as before
  m.run_all();
  CHECK_EQ(m.log.back(), 100);
}

// A legal execution of random programs: per stream in order, no wait passed before its record.
TEST(scheduler_random_programs) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Machine m;
    constexpr int kStreams = 5;
    std::vector<StreamState*> streams;
    for (int i = 0; i < kStreams; ++i) streams.push_back(&m.stream(i % 2, random() % 8));
    std::vector<base::Ref<EventState>> events;
    for (int i = 0; i < 4; ++i) events.push_back(event_of(WaitRule::kEx));
    std::vector<int> last_record(4, -1);  // newest body before the latest record of the event
    std::vector<int> last_body(kStreams, -1);
    std::vector<std::pair<int, int>> before;  // must run before
    std::vector<std::vector<int>> pending(kStreams);
    int number = 0;
    for (int i = 0; i < 60; ++i) {
      const size_t s = random() % kStreams;
      const size_t e = random() % events.size();
      switch (random() % 4) {
        case 0:
          m.record(*streams[s], events[e]);
          last_record[e] = last_body[s];
          break;
        case 1:
          if (last_record[e] >= 0) pending[s].push_back(last_record[e]);
          m.wait(*streams[s], events[e]);
          break;
        default:
          m.body(*streams[s], number, static_cast<Engine>(1 + random() % 6));
          for (const int earlier : pending[s]) before.emplace_back(earlier, number);
          if (last_body[s] >= 0) before.emplace_back(last_body[s], number);
          last_body[s] = number++;
      }
      if (random() % 3 == 0) m.step();
    }
    m.run_all();
    CHECK_EQ(m.log.size(), static_cast<size_t>(number));
    std::vector<size_t> at(static_cast<size_t>(number));
    for (size_t i = 0; i < m.log.size(); ++i) at[static_cast<size_t>(m.log[i])] = i;
    for (const auto& [first, second] : before) {
      if (at[static_cast<size_t>(first)] > at[static_cast<size_t>(second)]) {
        test::report(__FILE__, __LINE__, "order broken with seed " + std::to_string(seed));
      }
    }
    for (const auto* s : streams) CHECK(idle(*s));
  }
}

}  // namespace
