// What a model instance plays: tracks of steps that the scheduler runs again at every replay.
// Owns: the data only; touched under the scheduler's driver's lock once a replay was submitted.
// Must never: be played by two streams at once (the others wait their turn in `takers`).
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/scheduler.hpp"

namespace ascendrt::core {

struct Graph;

// Note [Replay]
// A replay is one task of the stream that asked for it. When its turn comes the scheduler starts
// the graph's head tracks; each track makes one task after the other from its steps on a stream of
// its own (its lane), so that tracks overlap, engines are shared and gates order them as usual. The
// asking stream goes on when the last track has ended. Records and waits of events that the outside
// sees are issued when the replay is submitted, as those of any other task.

// A task that is made anew each time the track comes by.
struct Step {
  Task model;             // without its body
  TaskBody body;          // run in place, by one replay at a time
  int32_t go_to = -1;     // no task: the track goes on at this step
  int32_t external = -1;  // place in GraphRun::issued
};

struct Track {
  Graph* graph = nullptr;
  StreamState* lane = nullptr;
  bool head = true;  // starts with the replay; else when another track starts it
  std::vector<Step> steps;
  // While it plays. A step's body may set `next`, and `starts` with `starts_at`: nobody else looks
  // at them while it runs.
  bool playing = false;
  size_t next = 0;
  size_t resume = 0;  // for the body of a step that is played again
  Track* starts = nullptr;
  size_t starts_at = 0;
};

struct Graph : base::Counted {
  std::vector<Track*> tracks;                        // of the instance that owns the graph
  std::vector<base::Ref<EventState>> inner;          // levels that are down when a replay begins
  std::vector<std::pair<Track*, size_t>> externals;  // steps on events that the outside sees
  uint32_t playing = 0;                              // tracks
  std::deque<StreamState*> takers;                   // replays; the first one runs
  Outcome failure;                                   // first one of this run
  Outcome retired;  // its instance ended: why replays of it fail, those that wait as well
};

struct Issued {
  base::Ref<Gate> gate;  // null: nothing to wait for, or used already
  uint64_t record = 0;
};

struct GraphRun : base::Counted {
  base::Ref<Graph> graph;
  base::Ref<const base::Counted> owner;  // what keeps the tracks
  std::vector<Issued> issued;            // one for each of Graph::externals; empty: not issued
};

// A condition on memory that a stream waits for. ready() is called outside all locks by one thread
// at a time; true ends the wait (and may take what it waited for).
struct Watch : base::Counted {
  virtual bool ready() = 0;
  // Whether another process may make it ready; asked under the scheduler's lock.
  virtual bool foreign() { return false; }
  int32_t type = 0;  // aclmdlRITaskType of a task with this watch
  Outcome failure;   // why the condition cannot come about; set by ready()
};

}  // namespace ascendrt::core
