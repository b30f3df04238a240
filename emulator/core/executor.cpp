#include "core/executor.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread_end.hpp"
#include "core/exception_info.hpp"
#include "core/runtime.hpp"
#include "core/stepped_executor.hpp"
#include "core/threaded_executor.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

constexpr int64_t kQuiesceNs = 2'000'000'000;

thread_local const std::atomic<bool>* t_interruption = nullptr;
thread_local const StreamState* t_held = nullptr;

// Tasks nest: a client's function that waits runs others.
class Interruptible {
 public:
  Interruptible(const StreamState& stream, TaskKind kind)
      : before_(std::exchange(t_interruption, &stream.interrupted)),
        held_(std::exchange(t_held, kind == TaskKind::kHost ? &stream : nullptr)) {}
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() {
    t_interruption = before_;
    t_held = held_;
  }

 private:
  const std::atomic<bool>* before_;
  const StreamState* held_;
};

Executor* make_executor() {
  const TimeSettings settings = read_time_settings();
  if (settings.mode != ClockMode::kReal) {
    const gen::Soc& soc = runtime().soc();
    auto* stepped = new SteppedExecutor(runtime().physical_device_count(),
                                        CostModel(soc, settings.timing), settings, soc.name);
    g_clock.store(Clock::kModelled, std::memory_order_relaxed);
    memory::g_all_calls_seen.store(true, std::memory_order_relaxed);
    if (settings.seeded) {
      base::log_line("tasks run in the order of ASCENDRT_SCHED_SEED=" +
                     std::to_string(settings.seed));
    }
    return stepped;
  }
  g_clock.store(Clock::kReal, std::memory_order_relaxed);
  if (base::env("ASCENDRT_TRACE").value_or("").size() > 0) {
    base::warn_once("trace.clock",
                    "ASCENDRT_TRACE shows modelled time; set ASCENDRT_CLOCK=virtual or paced");
  }
  const int64_t workers =
      base::env_int("ASCENDRT_WORKERS", std::clamp(usable_cores(), 2, 8), 1, 256);
  return new ThreadedExecutor(runtime().physical_device_count(), static_cast<uint32_t>(workers));
}

}  // namespace

const std::atomic<bool>* task_interruption() { return t_interruption; }

bool runs_function_of(const StreamState& stream) { return t_held == &stream; }

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string name_of(const StreamState& stream) {
  return "stream " + std::to_string(stream.id) + " of device " + std::to_string(stream.device);
}

void Executor::model_time(Task& /*task*/, const Load& /*load*/) {}

void Executor::transfer(int32_t /*device*/, Engine /*engine*/, const char* /*name*/,
                        const Load& /*load*/, base::Function<void()> body) {
  body();
}

int64_t Executor::deadline_after_ms(int64_t timeout_ms) {
  return clock::deadline_after_ms(timeout_ms);
}

Outcome Executor::execute(const StreamState& stream, Task& task) {
  Outcome outcome;
  const Interruptible here(stream, task.kind);
  try {
    outcome.code = task.body();
  } catch (base::EndOfThread&) {
    throw;
  } catch (const base::Error& error) {
    outcome = {error.code, error.text};
  } catch (const std::exception& error) {
    outcome = {ACL_ERROR_RT_INTERNAL_ERROR, error.what()};
  } catch (...) {
    outcome = {ACL_ERROR_RT_INTERNAL_ERROR, "an exception of an unknown kind left the task"};
  }
  if (outcome.code == 0) return outcome;
  outcome.text = "task " + std::to_string(task.id) + " (" + task.name + ") of " + name_of(stream) +
                 " failed with " + std::to_string(outcome.code) +
                 (outcome.text.empty() ? "" : ": " + outcome.text);
  notify_task_failure({stream.device, stream.id, task.id, task.thread_id, outcome.code});
  return outcome;
}

void Executor::refuse(const StreamState& stream) {
  if (stream.closed) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               name_of(stream) + " was destroyed, or its device reset, by another thread");
  }
  if (stream.aborting) {
    base::fail(ACL_ERROR_RT_STREAM_ABORT, name_of(stream) + " is being aborted");
  }
  base::fail(stream.domain->error, name_of(stream) +
                                       " accepts no more work: ACL_STOP_ON_FAILURE is set and " +
                                       stream.domain->text);
}

std::string Executor::describe_locked(const StreamState& stream) {
  const uint64_t pending = stream.submitted.load(std::memory_order_relaxed) -
                           stream.finished.load(std::memory_order_relaxed);
  std::string text = name_of(stream) + " has " + std::to_string(pending) + " unfinished tasks";
  if (stream.phase == Phase::kIdle) return text;
  const std::string current =
      "task " + std::to_string(stream.current().id) + " (" + stream.current().name + ")";
  switch (stream.phase) {
    case Phase::kIdle:
      break;
    case Phase::kDelayed:
      return text + ", " + current + " is not due yet";
    case Phase::kReady:
      return text + ", " + current + " waits for an engine";
    case Phase::kRunning:
      return text + ", " + current + " runs";
    case Phase::kHost:
      return text + ", " + current + " is with a host thread (does it call aclrtProcessReport?)";
    case Phase::kPlaying:
      return text + ", " + current + " replays a model instance";
    case Phase::kWaiting:
      if (!stream.current().gate) return text + ", " + current + " waits for its condition";
      return text + ", " + current + " waits for an event" +
             (stream.current().gate->producer != nullptr
                  ? " that " + name_of(*stream.current().gate->producer) + " has yet to record"
                  : " of which no record is queued");
  }
  return text;
}

// ---- streams

void Executor::attach(StreamState& stream) {
  with_scheduler([&](Scheduler& scheduler, int64_t) { scheduler.attach(stream); });
}

void Executor::detach(StreamState& stream) {
  with_scheduler([&](Scheduler& scheduler, int64_t) { scheduler.detach(stream); });
}

void Executor::close(StreamState& stream) {
  with_scheduler([&](Scheduler& scheduler, int64_t) {
    stream.closed = true;
    stream.refusing.store(true, std::memory_order_release);
    scheduler.effects().awaited = true;
  });
}

void Executor::set_aborting(StreamState& stream, bool aborting) {
  with_scheduler([&](Scheduler& scheduler, int64_t) {
    stream.aborting = aborting;
    stream.refusing.store(aborting || stream.closed || stream.domain->error != 0,
                          std::memory_order_release);
    scheduler.effects().awaited = true;
  });
}

void Executor::stop_on_failure(StreamState& stream) {
  with_scheduler([&](Scheduler& scheduler, int64_t) { scheduler.stop_on_failure(stream); });
}

void Executor::set_priority(StreamState& stream, uint32_t priority) {
  with_scheduler([&](Scheduler& scheduler, int64_t) { scheduler.set_priority(stream, priority); });
}

Outcome Executor::domain_failure(StreamState& stream) {
  Outcome found;
  with_scheduler([&](Scheduler&, int64_t) { found = {stream.domain->error, stream.domain->text}; });
  return found;
}

Outcome Executor::take_failure(StreamState& stream) {
  // Who has seen the tasks finish (acquire) sees their failures: without any, no lock is needed.
  if (stream.error.load(std::memory_order_relaxed) == 0 &&
      !stream.refusing.load(std::memory_order_acquire)) {
    return {};
  }
  Outcome found;
  with_scheduler([&](Scheduler&, int64_t) {
    if (stream.domain->error != 0) {
      found = {stream.domain->error, stream.domain->text};
    } else {
      found = {stream.error.exchange(0, std::memory_order_relaxed),
               std::exchange(stream.error_text, {})};
    }
  });
  return found;
}

base::Code Executor::peek_failure(StreamState& stream) {
  const Outcome stopped = domain_failure(stream);
  return stopped.code != 0 ? stopped.code : stream.error.load(std::memory_order_relaxed);
}

std::string Executor::describe(StreamState& stream) {
  std::string text;
  with_scheduler([&](Scheduler&, int64_t) { text = describe_locked(stream); });
  return text;
}

void Executor::set_closed(HostQueue& queue, bool closed) {
  with_scheduler([&](Scheduler&, int64_t) {
    queue.closed = closed;
    queue.arrived.notify_all();
  });
}

bool Executor::has_items(HostQueue& queue) {
  bool found = false;
  with_scheduler([&](Scheduler&, int64_t) { found = !queue.items.empty(); });
  return found;
}

bool Executor::take_item(HostQueue& queue, HostItem& item) {
  if (queue.items.empty()) return false;
  item = std::move(queue.items.front());
  queue.items.pop_front();
  return true;
}

void Executor::run_detached(HostItem& item) {
  try {
    item.detached();
  } catch (base::EndOfThread&) {
    throw;
  } catch (...) {
    base::warn_once("executor.callback", "an exception left a callback function; it was ignored");
  }
}

Executor& make_executor_once() {
  static Executor* const instance = [] {
    Executor* made = make_executor();
    g_executor.store(made, std::memory_order_release);
    std::atexit([] {
      if (!forked_child()) executor().quiesce(kQuiesceNs);
    });
    return made;
  }();
  return *instance;
}

}  // namespace ascendrt::core
