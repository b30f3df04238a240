#include "core/value.hpp"

#include <atomic>
#include <utility>

#include "core/executor.hpp"
#include "core/stream.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"
#include "memory/share.hpp"

namespace ascendrt::core {
namespace {

// The word may be written by engines and other processes at any time.
std::atomic_ref<uint64_t> word_at(void* address) {
  return std::atomic_ref<uint64_t>(
      *static_cast<uint64_t*>(memory::view(address, sizeof(uint64_t))));
}

base::Ref<ValueTask> make(int32_t type, void* address, uint64_t value, uint32_t flag) {
  auto task = base::make_ref<ValueTask>();
  task->type = type;
  task->address = address;
  task->value = value;
  task->flag = flag;
  return task;
}

}  // namespace

bool ValueTask::ready() {
  try {
    const uint64_t now = word_at(address).load(std::memory_order_acquire);
    switch (flag) {
      case ACL_STREAM_WAIT_VALUE_GEQ:
        return static_cast<int64_t>(now - value) >= 0;
      case ACL_STREAM_WAIT_VALUE_EQ:
        return now == value;
      case ACL_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
      default:
        return ~(now | value) != 0;
    }
  } catch (const base::Error& error) {  // the memory is gone
    failure = {ACL_ERROR_RT_SYS_DMA, "aclrtValueWait: " + error.text};
    return true;
  }
}

bool ValueTask::foreign() { return memory::ever_shared(); }

void ValueTask::write() const { word_at(address).store(value, std::memory_order_release); }

TaskBody value_body(const base::Ref<ValueTask>& task) {
  return [task]() -> base::Code {
    task->write();
    executor().poll_watches();
    return 0;
  };
}

void write_value(Stream& stream, void* address, uint64_t value) {
  const auto write = make(ACL_MODEL_RI_TASK_VALUE_WRITE, address, value, 0);
  Task task;
  task.name = "aclrtValueWrite";
  task.extra = write;
  task.body = value_body(write);
  stream.enqueue(std::move(task));
}

void wait_value(Stream& stream, void* address, uint64_t value, uint32_t flag) {
  Task task;
  task.kind = TaskKind::kWatch;
  task.name = "aclrtValueWait";
  task.extra = make(ACL_MODEL_RI_TASK_VALUE_WAIT, address, value, flag);
  stream.enqueue(std::move(task));
}

}  // namespace ascendrt::core
