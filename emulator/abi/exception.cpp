// Entries: exception callbacks and what they can ask, numbers of tasks. Must never: hold state of
// its own.
#include <string>
#include <vector>

#include "abi/boundary.hpp"
#include "abi/model_objects.hpp"
#include "core/exception_info.hpp"
#include "core/failed_op.hpp"
#include "core/task.hpp"
#include "gen/prototypes.h"
#include "memory/fault.hpp"

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
    memory::check_readable(info, sizeof *info, "info");
    return info->*member;
  });
}

aclTensorDesc* new_descs(const std::vector<core::OpTensor>& tensors) {
  std::vector<base::Ref<TensorDesc>> made;
  for (const core::OpTensor& tensor : tensors) {
    made.push_back(base::make_ref<TensorDesc>());
    made.back()->fields.dtype = tensor.dtype;
    made.back()->fields.format = ACL_FORMAT_ND;
    made.back()->fields.dims = tensor.dims;
    made.back()->fields.address = tensor.address;
  }
  if (made.empty()) return nullptr;
  for (const auto& desc : made) base::handles().insert(desc);
  made[0]->behind.assign(made.begin() + 1, made.end());
  return static_cast<aclTensorDesc*>(made[0]->handle());
}

void describe_failed_op(const core::TaskIds& ids, char* name, size_t name_bytes,
                        aclTensorDesc** inputs, size_t* input_count, aclTensorDesc** outputs,
                        size_t* output_count) {
  const auto op = core::find_failed_op(ids);
  if (op == nullptr) {
    base::fail(ACL_ERROR_GE_FAILURE,
               "no operator of a model failed in task " + std::to_string(ids.task) + " of stream " +
                   std::to_string(ids.stream) + " of device " + std::to_string(ids.device) +
                   "; take the ids from the exception info",
               base::Layer::kAcl);
  }
  if (name_bytes <= op->name.size()) {
    refuse_argument("argument opNameLen is " + std::to_string(name_bytes) + ", the name '" +
                    op->name + "' needs " + std::to_string(op->name.size() + 1));
  }
  op->name.copy(name, op->name.size());
  name[op->name.size()] = '\0';
  *inputs = new_descs(op->inputs);
  *outputs = new_descs(op->outputs);
  *input_count = op->inputs.size();
  *output_count = op->outputs.size();
}

}  // namespace

extern "C" {

// src: hicann/ge api/acl/acl_model/model/model.cpp (order of the checks, code of an unknown task)
aclError art_emu_aclmdlCreateAndGetOpDesc(uint32_t deviceId, uint32_t streamId, uint32_t taskId,
                                          char* opName, size_t opNameLen, aclTensorDesc** inputDesc,
                                          size_t* numInputs, aclTensorDesc** outputDesc,
                                          size_t* numOutputs) {
  return call<ApiId::aclmdlCreateAndGetOpDesc>([&] {
    check_not_null(opName, "opName");
    check_not_null(inputDesc, "inputDesc");
    check_not_null(outputDesc, "outputDesc");
    check_not_null(numInputs, "numInputs");
    check_not_null(numOutputs, "numOutputs");
    describe_failed_op({deviceId, streamId, taskId}, opName, opNameLen, inputDesc, numInputs,
                       outputDesc, numOutputs);
  });
}

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
