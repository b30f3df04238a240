#include "core/exception_info.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "core/failed_op.hpp"
#include "core/runtime.hpp"

namespace ascendrt::core {
namespace {

struct Registry {
  base::RankedMutex mutex{base::Rank::kLeaf};
  aclrtExceptionInfoCallback slot = nullptr;
  std::vector<aclrtExceptionInfoCallback> list;
};

Registry& registry() {
  static auto* const instance = new Registry;  // leaked: tasks may fail during process exit
  return *instance;
}

std::vector<aclrtExceptionInfoCallback> callbacks() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<aclrtExceptionInfoCallback> found;
  if (all.slot != nullptr) found.push_back(all.slot);
  found.insert(found.end(), all.list.begin(), all.list.end());
  return found;
}

}  // namespace

void set_exception_callback(aclrtExceptionInfoCallback callback) {
  const std::lock_guard lock(registry().mutex);
  registry().slot = callback;
}

void add_exception_callback(aclrtExceptionInfoCallback callback) {
  auto& list = registry().list;
  const std::lock_guard lock(registry().mutex);
  if (std::find(list.begin(), list.end(), callback) == list.end()) list.push_back(callback);
}

void remove_exception_callback(aclrtExceptionInfoCallback callback) {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().list, callback);
}

void notify_task_failure(const TaskFailure& failure) noexcept {
  try {
    rtExceptionInfo info{};
    info.taskid = failure.task;
    info.streamid = static_cast<uint32_t>(failure.stream);
    info.tid = failure.thread;
    info.deviceid =
        static_cast<uint32_t>(runtime().user_id(runtime().physical_device(failure.device)));
    info.retcode = static_cast<uint32_t>(failure.code);
    keep_failed_op({info.deviceid, info.streamid, info.taskid});
    for (const auto callback : callbacks()) callback(&info);
  } catch (...) {
    base::warn_once("exception.callback", "an exception left an exception-info callback");
  }
}

}  // namespace ascendrt::core
