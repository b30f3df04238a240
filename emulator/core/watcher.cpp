// Executor: watches, and what else asks the scheduler rarely. Must never: ask a watch with the lock
// held.
#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "core/executor.hpp"
#include "core/graph.hpp"

namespace ascendrt::core {
namespace {

// How soon a change made outside this process, or by a task that tells nobody, is seen.
constexpr int64_t kWatchNs = 20'000;

}  // namespace

void Executor::set_track(StreamState& stream, Track* track) {
  with_scheduler([&](Scheduler&, int64_t) {
    // A track that plays stays: without it nobody would learn that it ended.
    if (track != nullptr || stream.track == nullptr || !stream.track->playing) stream.track = track;
  });
}

void Executor::abort(Graph& graph, Outcome outcome) {
  with_scheduler([&](Scheduler& scheduler, int64_t now_ns) {
    scheduler.abort(graph, std::move(outcome), now_ns);
  });
}

void Executor::retire(Graph& graph, Outcome outcome) {
  with_scheduler([&](Scheduler& scheduler, int64_t now_ns) {
    scheduler.retire(graph, std::move(outcome), now_ns);
  });
}

// One thread asks at a time; who comes meanwhile leaves the work to it.
void Executor::poll_watches() {
  ask_again_.store(true);
  while (ask_again_.load() && !asking_.exchange(true)) {
    ask_again_.store(false);
    std::vector<Scheduler::Watched> all;
    bool any = false;
    {
      const std::lock_guard lock(mutex_);
      all = scheduler_.watched();
      any = !all.empty();
      std::erase_if(all, [&](const auto& each) { return !may_ask(*each.stream); });
    }
    for (const auto& each : all) {
      if (!each.watch->ready()) continue;
      with_scheduler(
          [&](Scheduler& scheduler, int64_t now_ns) { scheduler.end_watch(each, now_ns); });
    }
    asking_.store(false);
    if (any) start_watcher();
  }
}

bool Executor::wait_shared(base::Function<bool()> done, int64_t deadline_ns) {
  while (!done()) {
    if (deadline_ns != clock::kForever && clock::now_ns() >= deadline_ns) return false;
    clock::sleep_ns(kWatchNs);
  }
  return true;
}

void Executor::start_watcher() {
  {
    const std::lock_guard lock(mutex_);
    if (scheduler_.watching() == 0) return;
    watches_.notify_one();
    if (std::exchange(watcher_started_, true)) return;
  }
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&all, signal);
  }
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    std::thread thread([this] { watch(); });
    pthread_setname_np(thread.native_handle(), "ascendrt-watch");
    thread.detach();
  } catch (const std::system_error&) {
    base::warn_once("executor.watch",
                    "could not start the thread that watches memory; streams that wait for another "
                    "process may not go on");
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

void Executor::watch() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      watches_.wait_until(lock, clock::kForever, [&] { return scheduler_.watching() > 0; });
    }
    poll_watches();
    clock::sleep_ns(kWatchNs);
  }
}

}  // namespace ascendrt::core
