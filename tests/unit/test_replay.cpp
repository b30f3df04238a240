// Replays and watches in the scheduler: no threads, no clock.
#include <memory>
#include <vector>

#include "core/graph.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

struct TestStream : base::Counted {
  StreamState state;
};

struct Flag : Watch {
  bool set = false;
  bool ready() override { return set; }
};

// One graph of some tracks, and streams that replay it; bodies write their number in `log`.
struct Machine {
  Scheduler scheduler{1};
  base::Ref<FailureDomain> domain = base::make_ref<FailureDomain>();
  base::Ref<Graph> graph = base::make_ref<Graph>();
  std::vector<base::Ref<TestStream>> streams;
  std::vector<std::unique_ptr<Track>> tracks;
  std::vector<int> log;
  int64_t now = 1000;

  StreamState& stream() {
    auto made = base::make_ref<TestStream>();
    StreamState& state = made->state;
    state.id = static_cast<int32_t>(streams.size());
    state.serial = streams.size() + 1;
    state.depth = 100;
    state.owner = made.get();
    state.domain = domain;
    scheduler.attach(state);
    streams.push_back(made);
    return state;
  }
  Track& track(bool head = true) {
    auto made = std::make_unique<Track>();
    made->graph = graph.get();
    made->lane = &stream();
    made->lane->track = made.get();
    made->head = head;
    graph->tracks.push_back(made.get());
    tracks.push_back(std::move(made));
    return *tracks.back();
  }
  Step& body(Track& track, int number, base::Code code = 0) {
    Step& step = track.steps.emplace_back();
    step.model.engine = Engine::kVector;
    step.model.name = "step";
    step.body = [this, number, code]() -> base::Code {
      log.push_back(number);
      return code;
    };
    return step;
  }
  void event(Track& track, const base::Ref<EventState>& event, TaskKind kind) {
    Step& step = track.steps.emplace_back();
    step.model.kind = kind;
    step.model.event = event;
    if (event->rule == WaitRule::kLevel) return;
    step.external = static_cast<int32_t>(graph->externals.size());
    graph->externals.emplace_back(&track, track.steps.size() - 1);
  }
  void replay(StreamState& s) {
    Task task;
    task.kind = TaskKind::kReplay;
    task.name = "replay";
    auto run = base::make_ref<GraphRun>();
    run->graph = graph;
    task.extra = run;
    CHECK(scheduler.submit(s, task, now) == Admission::kAccepted);
  }
  // Runs what may run; the number of tasks.
  int run() {
    int count = 0;
    while (StreamState* s = scheduler.take()) {
      Outcome outcome;
      outcome.code = s->current().body();
      s->current().body = {};
      scheduler.complete(*s, outcome, ++now);
      ++count;
    }
    scheduler.effects() = {};
    return count;
  }
  bool idle(const StreamState& s) const { return s.finished.load() == s.submitted.load(); }
};

TEST(replay_is_one_task_and_repeats) {
  Machine m;
  Track& first = m.track();
  m.body(first, 1);
  m.body(first, 2);
  StreamState& s = m.stream();
  for (int i = 0; i < 3; ++i) {
    m.replay(s);
    CHECK(s.submitted.load() - s.finished.load() == 1);
    CHECK(m.run() == 2);
    CHECK(m.idle(s));
  }
  CHECK((m.log == std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST(replay_orders_tracks_by_levels) {
  Machine m;
  auto level = base::make_ref<EventState>(WaitRule::kLevel);
  m.graph->inner.push_back(level);
  Track& late = m.track();
  Track& early = m.track();
  m.event(late, level, TaskKind::kWait);
  m.body(late, 2);
  m.body(early, 1);
  m.event(early, level, TaskKind::kRecord);
  StreamState& s = m.stream();
  m.replay(s);
  m.replay(s);
  m.run();
  CHECK((m.log == std::vector<int>{1, 2, 1, 2}));
  CHECK(m.idle(s));
}

TEST(replays_of_two_streams_take_turns) {
  Machine m;
  m.body(m.track(), 1);
  StreamState& a = m.stream();
  StreamState& b = m.stream();
  m.replay(a);
  m.replay(b);
  CHECK(m.graph->takers.size() == 2);
  StreamState* lane = m.scheduler.take();
  CHECK(lane == m.tracks[0]->lane);
  CHECK(m.scheduler.take() == nullptr);
  m.scheduler.complete(*lane, {}, m.now);
  CHECK(m.idle(a));
  CHECK(!m.idle(b));
  CHECK(m.run() == 1);
  CHECK(m.idle(b));
}

TEST(replay_failure_goes_to_who_asked) {
  Machine m;
  Track& track = m.track();
  m.body(track, 1, 42);
  m.body(track, 2);
  StreamState& s = m.stream();
  m.replay(s);
  m.run();
  CHECK((m.log == std::vector<int>{1, 2}));  // it goes on, as a stream does
  CHECK(s.error.load() == 42);
  CHECK(track.lane->error.load() == 0);
}

TEST(replay_stops_with_its_context) {
  Machine m;
  m.domain->stop_on_failure = true;
  Track& track = m.track();
  m.body(track, 1, 42);
  m.body(track, 2);
  StreamState& s = m.stream();
  m.replay(s);
  m.replay(s);
  m.run();
  CHECK((m.log == std::vector<int>{1}));
  CHECK(m.idle(s));
  CHECK(m.domain->error == 42);
  CHECK(m.graph->takers.empty());
}

TEST(replay_dropped_and_aborted) {
  Machine m;
  auto level = base::make_ref<EventState>(WaitRule::kLevel);
  m.graph->inner.push_back(level);
  Track& track = m.track();
  m.body(track, 1);
  m.event(track, level, TaskKind::kWait);
  m.body(track, 2);
  StreamState& s = m.stream();
  m.replay(s);
  m.run();
  CHECK(!m.idle(s));
  m.scheduler.drop(s, m.now);
  CHECK(m.idle(s));
  m.replay(s);
  m.run();
  m.scheduler.abort(*m.graph, {507023, "aborted"}, m.now);
  CHECK(m.idle(s));
  CHECK(s.error.load() == 507023);
  CHECK((m.log == std::vector<int>{1, 1}));
}

TEST(replay_that_is_aborted_stops_its_context) {
  Machine m;
  m.domain->stop_on_failure = true;
  auto level = base::make_ref<EventState>(WaitRule::kLevel);
  m.graph->inner.push_back(level);
  m.event(m.track(), level, TaskKind::kWait);
  StreamState& s = m.stream();
  StreamState& other = m.stream();
  for (StreamState* each : {&s, &other, &s}) m.replay(*each);
  m.scheduler.abort(*m.graph, {507023, "aborted"}, m.now);
  CHECK(m.idle(s));
  CHECK(m.idle(other));
  CHECK(m.domain->error == 507023);
  CHECK(m.graph->takers.empty());
}

// Whatever plays or waits for its turn when the instance ends, and what is queued behind.
TEST(replay_of_a_retired_graph_fails) {
  Machine m;
  Track& track = m.track();
  m.body(track, 1);
  StreamState& s = m.stream();
  StreamState& other = m.stream();
  for (StreamState* each : {&s, &other, &s}) m.replay(*each);
  StreamState* running = m.scheduler.take();
  CHECK(running == track.lane);
  m.scheduler.retire(*m.graph, {507023, "ended"}, m.now);
  CHECK(!m.idle(s));
  m.scheduler.complete(*running, {}, m.now);
  CHECK(m.idle(s));
  CHECK(m.idle(other));
  CHECK(s.error.load() == 507023);
  CHECK(other.error.load() == 507023);
  CHECK(track.lane->track == nullptr);
  m.replay(other);
  CHECK(m.idle(other));
  CHECK(m.run() == 0);
}

TEST(replay_issues_outside_records_when_submitted) {
  Machine m;
  auto outside = base::make_ref<EventState>(WaitRule::kEx);
  Track& track = m.track();
  m.body(track, 1);
  m.event(track, outside, TaskKind::kRecord);
  StreamState& s = m.stream();
  StreamState& other = m.stream();
  m.replay(s);
  Task wait;
  wait.kind = TaskKind::kWait;
  wait.event = outside;
  CHECK(m.scheduler.submit(other, wait, m.now) == Admission::kAccepted);
  CHECK(!m.idle(other));
  CHECK(m.scheduler.blocker(other) == track.lane);
  m.run();
  CHECK(m.idle(other));
  // One that is dropped with its replay lets go as well.
  m.replay(s);
  Task again;
  again.kind = TaskKind::kWait;
  again.event = outside;
  CHECK(m.scheduler.submit(other, again, m.now) == Admission::kAccepted);
  m.scheduler.drop(s, m.now);
  CHECK(m.idle(other));
}

TEST(replay_starts_other_tracks) {
  Machine m;
  Track& first = m.track();
  Track& second = m.track(false);
  m.body(second, 2);
  m.body(second, 3);
  Step& jump = m.body(first, 1);
  jump.body = [&]() -> base::Code {
    first.starts = &second;
    first.starts_at = 1;
    return 0;
  };
  StreamState& s = m.stream();
  m.replay(s);
  m.run();
  CHECK((m.log == std::vector<int>{3}));
  CHECK(m.idle(s));
}

TEST(watch_ends_expires_and_is_dropped) {
  Machine m;
  StreamState& s = m.stream();
  auto flag = base::make_ref<Flag>();
  const auto submit = [&](int64_t timeout_ns) {
    Task task;
    task.kind = TaskKind::kWatch;
    task.name = "watch";
    task.timeout_ns = timeout_ns;
    task.extra = flag;
    CHECK(m.scheduler.submit(s, task, m.now) == Admission::kAccepted);
  };
  submit(0);
  CHECK(m.scheduler.effects().watch);
  CHECK(m.scheduler.watched().size() == 1);
  CHECK(m.scheduler.blocker(s) == nullptr);
  const auto seen = m.scheduler.watched()[0];
  m.scheduler.end_watch(seen, m.now);
  CHECK(m.idle(s));
  m.scheduler.end_watch(seen, m.now);  // an answer that comes too late
  submit(50);
  m.scheduler.expire(m.now + 50);
  CHECK(m.idle(s));
  CHECK(s.error.load() == ACL_ERROR_RT_WAIT_TIMEOUT);
  submit(0);
  m.scheduler.drop(s, m.now);
  CHECK(m.idle(s));
  CHECK(m.scheduler.watching() == 0);
}

TEST(wait_that_expires_stops_its_context) {
  Machine m;
  m.domain->stop_on_failure = true;
  StreamState& s = m.stream();
  for (int i = 0; i < 2; ++i) {
    Task task;
    task.kind = TaskKind::kWatch;
    task.name = "watch";
    task.timeout_ns = 50;
    task.extra = base::make_ref<Flag>();
    CHECK(m.scheduler.submit(s, task, m.now) == Admission::kAccepted);
  }
  m.scheduler.expire(m.now + 50);
  CHECK(m.idle(s));
  CHECK(s.queue.empty());
  CHECK(s.finished.load() == 2);
  CHECK(m.domain->error == ACL_ERROR_RT_WAIT_TIMEOUT);
  CHECK(m.scheduler.watching() == 0);
}

}  // namespace
