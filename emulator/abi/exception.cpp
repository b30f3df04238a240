// Entries: exception callbacks and what they can ask, numbers of tasks. Must never: hold state of
// its own.
#include "abi/boundary.hpp"
#include "core/exception_info.hpp"
#include "core/task.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kNoInfo = 0xFFFFFFFF;

void check_callback(aclrtExceptionInfoCallback callback) {
  if (callback != nullptr) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument callback is a null pointer", base::Layer::kAcl);
}

template <ApiId id>
uint32_t field(const aclrtExceptionInfo* info, uint32_t rtExceptionInfo::* member) {
  return value<id>(kNoInfo, [&] {
    check_not_null(info, "info");
    return info->*member;
  });
}

}  // namespace

extern "C" {

aclError art_emu_aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  return call<ApiId::aclrtSetExceptionInfoCallback>(
      [&] { core::set_exception_callback(callback); });
}

aclError art_emu_aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback) {
  return call<ApiId::aclrtExceptionInfoCallbackRegister>([&] {
    check_callback(callback);
    core::add_exception_callback(callback);
  });
}

aclError art_emu_aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback) {
  return call<ApiId::aclrtExceptionInfoCallbackUnregister>([&] {
    check_callback(callback);
    core::remove_exception_callback(callback);
  });
}

uint32_t art_emu_aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return field<ApiId::aclrtGetTaskIdFromExceptionInfo>(info, &rtExceptionInfo::taskid);
}

uint32_t art_emu_aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return field<ApiId::aclrtGetStreamIdFromExceptionInfo>(info, &rtExceptionInfo::streamid);
}

uint32_t art_emu_aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return field<ApiId::aclrtGetThreadIdFromExceptionInfo>(info, &rtExceptionInfo::tid);
}

uint32_t art_emu_aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return field<ApiId::aclrtGetDeviceIdFromExceptionInfo>(info, &rtExceptionInfo::deviceid);
}

uint32_t art_emu_aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) {
  return field<ApiId::aclrtGetErrorCodeFromExceptionInfo>(info, &rtExceptionInfo::retcode);
}

aclError art_emu_aclrtGetThreadLastTaskId(uint32_t* taskId) {
  return call<ApiId::aclrtGetThreadLastTaskId>([&] {
    check_not_null(taskId, "taskId");
    *taskId = core::t_last_task;
  });
}

}  // extern "C"
