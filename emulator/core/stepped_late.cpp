// Late bodies, Note [Late bodies]: which are put off, and when they are due.
// Must never: run one while another thread makes a step.
#include <utility>

#include "base/rng.hpp"
#include "core/graph.hpp"
#include "core/stepped_executor.hpp"

namespace ascendrt::core {

// Drawn once per task. A copy that a host thread waits for has no time to be late; what stops its
// context with a failure has to fail in time; bodies of a replay decide what it does next.
SteppedExecutor::Moment SteppedExecutor::body_moment(const StreamState& stream) const {
  const uint64_t draw = base::random_at(settings_.seed ^ stream.serial << 32U, stream.current().id);
  const bool may_be_late = settings_.seeded && stream.id >= 0 && stream.track == nullptr &&
                           !stream.domain->stop_on_failure;
  return static_cast<Moment>(draw % (may_be_late ? 3 : 2));
}

void SteppedExecutor::keep_for_later(Lock& lock, StreamState& stream) {
  run_late(lock, nullptr);  // what this body has to follow
  Late& late = late_[stream.serial];
  late.stream = &stream;
  late.owner = base::Ref<const base::Counted>(stream.owner);
  Task& task = late.tasks.emplace_back();
  task.name = stream.current().name;
  task.id = stream.current().id;
  task.thread_id = stream.current().thread_id;
  task.body = std::move(stream.current().body);
}

// Runs what is due before the next body of the stream. The lock is given up meanwhile.
void SteppedExecutor::run_late(Lock& lock, StreamState* stream) {
  if (late_.empty()) return scheduler_.passed().clear();
  std::vector<uint64_t> due = std::exchange(scheduler_.passed(), {});
  if (stream != nullptr) due.push_back(stream->serial);
  for (const uint64_t serial : due) {
    const auto found = late_.find(serial);
    if (found == late_.end()) continue;
    Late late = std::move(found->second);
    late_.erase(found);
    late_now_ = serial;
    for (Task& task : late.tasks) {
      lock.unlock();
      Outcome outcome = execute(*late.stream, task);
      task.body = {};
      lock.lock();
      if (outcome.code != 0) scheduler_.fail_late(*late.stream, std::move(outcome), now_ns_);
    }
    late_now_ = 0;
    scheduler_.effects().released.push_back(std::move(late.owner));
    if (scheduler_.watching() > 0) scheduler_.effects().watch = true;
  }
}

bool SteppedExecutor::may_ask(const StreamState& stream) const {
  return late_now_ != stream.serial && !late_.contains(stream.serial);
}

// Not while a step is under way: it does the same at its end.
void SteppedExecutor::run_late_of_watched(Lock& lock) {
  if (stepping_ || late_.empty()) return;
  std::vector<uint64_t>& due = scheduler_.passed();
  const size_t before = due.size();
  for (const auto& each : scheduler_.watched()) {
    if (late_.contains(each.serial)) due.push_back(each.serial);
  }
  if (due.size() == before) return;
  stepping_ = true;
  run_late(lock, nullptr);
  stepping_ = false;
  ++version_;
  changed_.notify_all();
}

// Before a host thread learns anything.
void SteppedExecutor::run_all_late(Lock& lock) {
  while (stepping_ && !late_.empty())
    changed_.wait_until(lock, clock::kForever, [&] { return !stepping_; });
  if (late_.empty()) return;
  stepping_ = true;
  for (const auto& [serial, late] : late_) scheduler_.passed().push_back(serial);
  run_late(lock, nullptr);
  stepping_ = false;
  ++version_;
  changed_.notify_all();
}

}  // namespace ascendrt::core
