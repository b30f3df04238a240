// Client functions waiting for the one thread that serves them: the thread of a context for host
// functions, the subscribed thread for callbacks. Owns: the items. Guarded by the executor's lock.
// Must never: outlive a stream it names (the scheduler takes the items of a dropped stream out).
#pragma once

#include <deque>

#include "base/ref.hpp"
#include "clock/clock.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

struct StreamState;

struct HostItem {
  StreamState* blocked =
      nullptr;        // goes on when the function has returned; its body is stream.current
  TaskBody detached;  // the function itself, when the stream went on already
};

struct HostQueue : base::Counted {
  std::deque<HostItem> items;
  bool owned = false;   // a thread of the runtime serves it
  bool closed = false;  // nothing will come any more: who serves it does not wait
  clock::Condition arrived;
};

}  // namespace ascendrt::core
