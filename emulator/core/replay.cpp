// The part of the scheduler that plays graphs, Note [Replay], and knows watches.
// Must never: evaluate a watch; its driver does that without the lock.
#include <algorithm>
#include <utility>

#include "core/graph.hpp"
#include "core/scheduler.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

Graph& graph_of(const StreamState& stream) {
  return *static_cast<const GraphRun&>(*stream.current().extra).graph;
}

Task task_of(Step& step) {
  Task task;
  task.kind = step.model.kind;
  task.engine = step.model.engine;
  task.name = step.model.name;
  task.thread_id = step.model.thread_id;
  task.timeout_ns = step.model.timeout_ns;
  task.event = step.model.event;
  task.host = step.model.host;
  task.extra = step.model.extra;
  task.timing = step.model.timing;
  if (step.body) task.body = [&step] { return step.body(); };
  if (task.kind == TaskKind::kRecord && task.event->rule != WaitRule::kLevel) {
    task.gate = base::make_ref<Gate>();
  }
  return task;
}

}  // namespace

// ---- replays

// Records and waits that the outside sees stand for the moment of the submission.
void Scheduler::issue(GraphRun& run) {
  for (const auto& [track, at] : run.graph->externals) {
    Issued& issued = run.issued.emplace_back();
    Task task = task_of(track->steps[at]);
    if (task.kind == TaskKind::kWait) {
      if (admit_wait(*track->lane, task) != Admission::kAccepted) continue;
      ++task.gate->pending_waits;
      task.event->pending_waits.fetch_add(1, std::memory_order_relaxed);
    } else {
      issue_record(*track->lane, task);
    }
    issued = {task.gate, task.record};
  }
}

bool Scheduler::begin_replay(StreamState& stream, int64_t now_ns) {
  Graph& graph = graph_of(stream);
  if (graph.retired.code != 0) {
    auto& run = static_cast<GraphRun&>(*stream.current().extra);
    effects_.released.emplace_back(&run);
    abandon(run, now_ns);
    leave_with(stream, graph.retired, now_ns);
    unsettled_.push_back(&stream);
    return false;
  }
  const bool any = std::any_of(graph.tracks.begin(), graph.tracks.end(),
                               [](const Track* track) { return track->head; });
  if (!any) {
    abandon(static_cast<GraphRun&>(*stream.current().extra), now_ns);
    return true;
  }
  stream.phase = Phase::kPlaying;
  graph.takers.push_back(&stream);
  if (graph.takers.size() == 1) play(graph);
  return false;
}

void Scheduler::play(Graph& graph) {
  for (const auto& level : graph.inner) level->gate->open = false;
  for (Track* track : graph.tracks) {
    if (track->head) play(*track, 0);
  }
}

void Scheduler::play(Track& track, size_t step) {
  if (track.playing) return;
  track.playing = true;
  track.next = step;
  track.resume = 0;
  track.starts = nullptr;
  ++track.graph->playing;
  unsettled_.push_back(track.lane);
}

// Queues what the track does next; false when there is nothing.
bool Scheduler::next_step(StreamState& stream) {
  Track* track = stream.track;
  if (track == nullptr || !track->playing) return false;
  if (track->starts != nullptr) play(*std::exchange(track->starts, nullptr), track->starts_at);
  while (track->next < track->steps.size()) {
    Step& step = track->steps[track->next++];
    if (step.go_to >= 0) {
      track->next = static_cast<size_t>(step.go_to);
      continue;
    }
    Task task = task_of(step);
    auto& run = static_cast<GraphRun&>(*track->graph->takers.front()->current().extra);
    if (step.external >= 0 && !run.issued.empty()) {
      Issued issued = std::exchange(run.issued[static_cast<size_t>(step.external)], {});
      if (!issued.gate) continue;
      task.gate = std::move(issued.gate);
      task.record = issued.record;
      stream.submitted.fetch_add(1, std::memory_order_relaxed);
    } else {
      if (task.kind == TaskKind::kWait && admit_wait(stream, task) != Admission::kAccepted) {
        continue;
      }
      count_in(stream, task);
    }
    task.id = step.model.id;
    task.timing.order = step_order_++;
    stream.queue.push(std::move(task));
    return true;
  }
  return false;
}

void Scheduler::end_track(StreamState& stream, int64_t now_ns) {
  Track& track = *stream.track;
  if (!track.playing) return;
  track.playing = false;
  Graph& graph = *track.graph;
  if (graph.retired.code != 0) stream.track = nullptr;
  if (--graph.playing == 0) end_replay(graph, now_ns);
}

void Scheduler::end_replay(Graph& graph, int64_t now_ns) {
  StreamState& taker = *graph.takers.front();
  auto& run = static_cast<GraphRun&>(*taker.current().extra);
  effects_.released.emplace_back(&run);  // the graph may go with it
  abandon(run, now_ns);
  taker.phase = Phase::kIdle;
  Outcome failure = std::exchange(graph.failure, {});
  leave_with(taker, std::move(failure), now_ns);
  graph.takers.pop_front();  // first until here: a failure may drop those behind it
  unsettled_.push_back(&taker);
  if (graph.takers.empty()) return;
  if (graph.retired.code == 0) return play(graph);
  graph.failure = graph.retired;
  end_replay(graph, now_ns);
}

// What a run issued and did not come to counts as done, as for any dropped task.
void Scheduler::abandon(GraphRun& run, int64_t now_ns) {
  for (size_t i = 0; i < run.issued.size(); ++i) {
    Issued issued = std::exchange(run.issued[i], {});
    if (!issued.gate) continue;
    const auto& [track, at] = run.graph->externals[i];
    Task task;
    task.kind = track->steps[at].model.kind;
    task.event = track->steps[at].model.event;
    task.gate = std::move(issued.gate);
    task.record = issued.record;
    discard(*track->lane, task, now_ns);
  }
}

// A replay is dropped: true when it had not begun. One that runs drops what its tracks would do.
bool Scheduler::leave_replay(StreamState& stream, int64_t now_ns) {
  Graph& graph = graph_of(stream);
  if (graph.takers.front() == &stream) {
    for (Track* track : graph.tracks) {
      if (track->playing) drop_queue(*track->lane, now_ns);
    }
    return false;
  }
  std::erase(graph.takers, &stream);
  return true;
}

void Scheduler::abort(Graph& graph, Outcome outcome, int64_t now_ns) {
  if (graph.takers.empty()) return;
  if (graph.failure.code == 0) graph.failure = std::move(outcome);
  leave_replay(*graph.takers.front(), now_ns);
  settle(now_ns);
}

void Scheduler::retire(Graph& graph, Outcome outcome, int64_t now_ns) {
  graph.retired = outcome;
  abort(graph, std::move(outcome), now_ns);
}

// A track's stream that can go on, else one that is held up.
StreamState* Scheduler::busy_lane(const StreamState& stream) const {
  StreamState* waiting = nullptr;
  for (const Track* track : graph_of(stream).tracks) {
    if (!track->playing) continue;
    if (track->lane->phase == Phase::kReady) return track->lane;
    if (waiting == nullptr || track->lane->phase == Phase::kPlaying) waiting = track->lane;
  }
  return waiting;
}

// ---- watches

void Scheduler::begin_watch(StreamState& stream, int64_t now_ns) {
  stream.phase = Phase::kWaiting;
  watching_.push_back(&stream);
  effects_.watch = true;
  limit_wait(stream, now_ns);
}

// Takes a waiting stream from the list of those that wait for the same.
void Scheduler::leave_gate(StreamState& stream) {
  if (stream.current().kind == TaskKind::kWatch) {
    std::erase(watching_, &stream);
  } else {
    std::erase(stream.current().gate->waiters, &stream);
  }
}

std::vector<Scheduler::Watched> Scheduler::watched() const {
  std::vector<Watched> all;
  for (StreamState* stream : watching_) {
    all.push_back({stream, stream->serial,
                   base::Ref<Watch>(static_cast<Watch*>(stream->current().extra.get()))});
  }
  return all;
}

bool Scheduler::awaits_others() const {
  return std::any_of(watching_.begin(), watching_.end(), [](StreamState* stream) {
    return static_cast<Watch*>(stream->current().extra.get())->foreign();
  });
}

void Scheduler::end_watch(const Watched& watched, int64_t now_ns) {
  const auto found = std::find_if(watching_.begin(), watching_.end(), [&](StreamState* stream) {
    return stream == watched.stream && stream->serial == watched.serial &&
           stream->current().extra.get() == watched.watch.get();
  });
  if (found == watching_.end()) return;
  StreamState& stream = **found;
  watching_.erase(found);
  unpark(stream);
  leave_with(stream, std::move(watched.watch->failure), now_ns);
  unsettled_.push_back(&stream);
  settle(now_ns);
}

}  // namespace ascendrt::core
