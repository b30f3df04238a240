#include "core/failed_op.hpp"

#include <deque>
#include <mutex>
#include <utility>

#include "base/mutex.hpp"

namespace ascendrt::core {
namespace {

constexpr size_t kKept = 64;

thread_local std::shared_ptr<const FailedOp> t_noted;

struct Kept {
  base::RankedMutex mutex{base::Rank::kLeaf};
  std::deque<std::pair<TaskIds, std::shared_ptr<const FailedOp>>> newest;  // first
};

Kept& kept() {
  static auto* const instance = new Kept;  // leaked: tasks may fail during process exit
  return *instance;
}

}  // namespace

void note_failed_op(std::shared_ptr<const FailedOp> op) { t_noted = std::move(op); }

void keep_failed_op(const TaskIds& ids) {
  auto op = std::exchange(t_noted, nullptr);
  if (op == nullptr) return;
  const std::lock_guard lock(kept().mutex);
  kept().newest.emplace_front(ids, std::move(op));
  if (kept().newest.size() > kKept) kept().newest.pop_back();
}

std::shared_ptr<const FailedOp> find_failed_op(const TaskIds& ids) {
  const std::lock_guard lock(kept().mutex);
  for (const auto& [of, op] : kept().newest) {
    if (of == ids) return op;
  }
  return nullptr;
}

}  // namespace ascendrt::core
