// Exception callbacks: client functions told of each failed task.
// Owns: the registered functions and the layout behind aclrtExceptionInfo. Must never: call one
// with a lock held.
#pragma once

#include <cstdint>

#include "core/scheduler.hpp"
#include "gen/abi.h"

// What aclrtExceptionInfo points to; clients read it through getters.
// src: layout of hicann/runtime pkg_inc/runtime/rt_external_base.h. Valid during the callback only.
struct rtExceptionInfo {
  uint32_t taskid;
  uint32_t streamid;
  uint32_t tid;
  uint32_t deviceid;
  uint32_t retcode;
  uint32_t reserved;
  unsigned char expandInfo[2088];  // details of AI Core faults: all zero here
};
static_assert(sizeof(rtExceptionInfo) == 2112);

namespace ascendrt::core {

// The one slot of aclrtSetExceptionInfoCallback; null empties it.
void set_exception_callback(aclrtExceptionInfoCallback callback);
// The list of aclrtExceptionInfoCallbackRegister: the same function twice counts once; removing an
// unknown one does nothing.
void add_exception_callback(aclrtExceptionInfoCallback callback);
void remove_exception_callback(aclrtExceptionInfoCallback callback);

// Calls them all, the slot first, on this thread. Called by who runs tasks, before the failure can
// be seen at a synchronize (time-outs of waits: right after).
void notify_task_failure(const TaskFailure& failure) noexcept;

}  // namespace ascendrt::core
