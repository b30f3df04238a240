// What the scheduler answers, and what it leaves to its driver. Owns: the data only.
// Must never: be kept beyond the call that made it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "core/task.hpp"

namespace ascendrt::core {

enum class Admission : uint8_t {
  kAccepted,
  kNotNeeded,      // a wait that is satisfied already: nothing was queued
  kNeverRecorded,  // a wait on a plain event that no record was issued for
  kFull,           // the stream has `depth` tasks in flight; try again when one has finished
};

struct Outcome {
  base::Code code = 0;
  std::string text;
};

struct TaskFailure {
  int32_t device = 0;
  int32_t stream = 0;
  uint32_t task = 0;
  uint32_t thread = 0;
  base::Code code = 0;
};

// What the driver owes after a call, once its lock is gone.
struct Effects {
  std::vector<Task> dropped;  // to destroy
  std::vector<base::Ref<const base::Counted>> released;
  std::vector<base::Ref<HostQueue>> arrivals;  // wake their threads
  std::vector<TaskFailure> failures;           // tell the exception callbacks
  bool awaited = false;                        // something a host thread waits for has happened
  bool deadline = false;                       // next_deadline() moved
  bool watch = false;                          // a watch began: ask whether it is ready

  bool any() const {
    return awaited || deadline || watch || !released.empty() || !arrivals.empty() ||
           !dropped.empty() || !failures.empty();
  }
};

}  // namespace ascendrt::core
