// Entries: capturing streams into model instances. Must never: hold state of its own.
#include "abi/model_ri.hpp"

#include <mutex>
#include <string>

#include "abi/boundary.hpp"
#include "core/capture.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace ascendrt::abi {

void check_not_branch(const core::ModelInstance& instance) {
  if (instance.origin() != core::ModelInstance::Origin::kBranch) return;
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             "model instance " + std::to_string(instance.id()) +
                 " is a branch of a condition; it runs and goes with the instance it is part of",
             base::Layer::kRuntimeNotStored);
}

void check_recorded(const core::ModelInstance& instance) {
  const std::lock_guard lock(core::recording_mutex());
  if (!instance.capture) return;
  base::fail(ACL_ERROR_RT_MODEL_CAPTURED,
             "model instance " + std::to_string(instance.id()) +
                 " is still being captured; call aclmdlRICaptureEnd first");
}

void check_not_captured(const core::Stream& stream) {
  if (!stream.capturing()) return;
  base::fail(ACL_ERROR_RT_STREAM_CAPTURED,
             "stream " + std::to_string(stream.id()) + " is being captured; end the capture first");
}

}  // namespace ascendrt::abi

namespace {

constexpr uint32_t kMostBranches = 1024;  // of a SWITCH; ours
constexpr int32_t kLastMode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

// src: hicann/runtime config, the 910 and 310B tables lack the feature; 310 never had it
void check_chip() {
  const gen::Soc& soc = core::runtime().soc();
  const bool old = core::is_old_scheduler(soc) && !core::is_310p(soc);
  if (!old && !core::is_310b(soc)) return;
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, std::string(soc.name) + " cannot capture streams",
             base::Layer::kRuntimeNotStored);
}

base::Ref<core::Stream> live_stream(aclrtStream handle) {
  check_not_null(handle, "stream");
  return core::stream_behind(handle);
}

void check_mode(int32_t mode) {
  if (mode >= 0 && mode <= kLastMode) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "capture mode " + std::to_string(mode) +
                                             "; give 0 (GLOBAL), 1 (THREAD_LOCAL) or 2 "
                                             "(RELAXED)");
}

void check_stream_flags(const core::Stream& stream) {
  uint32_t refused = ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
  if (core::is_950(core::runtime().soc())) refused |= ACL_STREAM_PERSISTENT;
  if ((stream.flags() & refused) == 0) return;
  base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
             "stream " + std::to_string(stream.id()) + " was created with flags " +
                 std::to_string(stream.flags()) + ", such streams cannot be captured");
}

// Context, owner, bound and default stream, in this order.
void check_capturable(const base::Ref<core::Stream>& stream) {
  core::in_current_context(stream);
  if (stream->bound()) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL, "stream " + std::to_string(stream->id()) +
                                              " is bound to a model instance, it is not captured");
  }
  if (stream->is_default()) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the default stream cannot be captured; capture a stream of aclrtCreateStream");
  }
}

void begin(aclrtStream handle, core::ModelInstance* branch, int32_t mode) {
  const auto stream = core::stream_behind(handle);
  check_mode(mode);
  check_stream_flags(*stream);
  if (branch != nullptr && branch->origin() != core::ModelInstance::Origin::kBranch) {
    base::fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "model instance " + std::to_string(branch->id()) +
            " is no branch of a condition task; aclmdlRICaptureBegin makes its own instance");
  }
  check_capturable(stream);
  core::begin_capture(stream, mode, branch);
}

void check_updatable(const core::Stream& stream) {
  check_not_captured(stream);
  if (!stream.bound()) return;
  base::fail(ACL_ERROR_RT_STREAM_MODEL, "stream " + std::to_string(stream.id()) +
                                            " is bound to a model instance; update on another one");
}

base::Ref<core::Condition> condition_behind(aclmdlRICondHandle handle) {
  auto condition = base::handles().get<core::Condition>(handle);
  if (!condition) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               "the condition is none that lives: its model instance was destroyed, or it is the "
               "handle of something else");
  }
  return condition;
}

bool captures_branch(const core::Stream& stream) {
  const auto info = core::capture_info(stream);
  return info.instance && info.instance->origin() == core::ModelInstance::Origin::kBranch;
}

}  // namespace

extern "C" {

aclError art_emu_aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  return call<ApiId::aclmdlRICaptureBegin>([&] {
    check_not_null(stream, "stream");
    check_chip();
    begin(stream, nullptr, raw(mode));
  });
}

aclError art_emu_aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                               aclmdlRICaptureMode mode) {
  return call<ApiId::aclmdlRICaptureToModelRIBegin>([&] {
    check_not_null(stream, "stream");
    check_not_null(modelRI, "modelRI");
    check_chip();
    core::stream_behind(stream);
    const auto branch = core::instance_behind(modelRI);
    begin(stream, branch.get(), raw(mode));
  });
}

aclError art_emu_aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  return call<ApiId::aclmdlRICaptureEnd>([&] {
    check_not_null(stream, "stream");
    check_chip();
    const auto found = core::stream_behind(stream);
    check_stream_flags(*found);
    const bool branch = captures_branch(*found);
    if (modelRI == nullptr && found->capturing() && !branch) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument modelRI is a null pointer");
    }
    check_capturable(found);
    if (modelRI != nullptr && !branch) *modelRI = nullptr;
    const auto instance = core::end_capture(*found);
    if (modelRI != nullptr) *modelRI = instance->handle();
  });
}

aclError art_emu_aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status,
                                        aclmdlRI* modelRI) {
  return call<ApiId::aclmdlRICaptureGetInfo>([&] {
    check_not_null(stream, "stream");
    if (status == nullptr && modelRI == nullptr) {
      refuse_argument("arguments status and modelRI are both null pointers; ask for one at least");
    }
    const auto info = core::capture_info(*core::stream_behind(stream));
    if (status != nullptr) *status = static_cast<aclmdlRICaptureStatus>(info.status);
    if (modelRI != nullptr) *modelRI = info.instance ? info.instance->handle() : nullptr;
  });
}

aclError art_emu_aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  return call<ApiId::aclmdlRICaptureThreadExchangeMode>([&] {
    check_not_null(mode, "mode");
    check_chip();
    const int32_t wanted = raw(*mode);
    check_mode(wanted);
    const auto context = core::current_context();
    *mode = static_cast<aclmdlRICaptureMode>(core::exchange_capture_mode(wanted));
  });
}

aclError art_emu_aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  return call<ApiId::aclmdlRICaptureTaskGrpBegin>([&] {
    const auto found = live_stream(stream);
    if (found->capturing()) core::in_current_context(found);
    core::begin_task_group(*found);
  });
}

aclError art_emu_aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  return call<ApiId::aclmdlRICaptureTaskGrpEnd>([&] {
    check_not_null(stream, "stream");
    check_not_null(handle, "handle");
    const auto found = core::stream_behind(stream);
    if (found->capturing()) core::in_current_context(found);
    *handle = core::end_task_group(*found)->handle();
  });
}

aclError art_emu_aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  return call<ApiId::aclmdlRICaptureTaskUpdateBegin>([&] {
    check_not_null(stream, "stream");
    check_not_null(handle, "handle");
    const auto found = core::stream_behind(stream);
    const auto group = base::handles().get<core::TaskGroup>(handle);
    if (!group) {
      base::fail(
          ACL_ERROR_RT_INVALID_HANDLE,
          "the task group is none that lives: its model instance was destroyed, or it is the "
          "handle of something else");
    }
    check_updatable(*found);
    core::in_current_context(found);
    core::begin_task_update(*found, group);
  });
}

aclError art_emu_aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  return call<ApiId::aclmdlRICaptureTaskUpdateEnd>([&] {
    const auto found = live_stream(stream);
    check_updatable(*found);
    core::in_current_context(found);
    core::end_task_update(*found);
  });
}

aclError art_emu_aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
                                          aclmdlRICondHandleFlag flag, aclmdlRICondHandle* handle) {
  return call<ApiId::aclmdlRICondHandleCreate>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(handle, "handle");
    const auto instance = core::instance_behind(modelRI);
    const int32_t assign = raw(flag);
    if (assign != 0 && assign != ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "flag " + std::to_string(assign) + "; give 0 or 1 (ASSIGN_DEFAULT)");
    }
    if (instance->origin() == core::ModelInstance::Origin::kBuild) {
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "conditions need an instance made by capture");
    }
    core::instance_of_current(modelRI);
    *handle = core::create_condition(instance, defaultLaunchValue, assign != 0)->handle();
  });
}

aclError art_emu_aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** ptr) {
  return call<ApiId::aclmdlRICondHandleGetCondPtr>([&] {
    check_not_null(handle, "handle");
    check_not_null(ptr, "ptr");
    const auto condition = condition_behind(handle);
    const auto context = core::current_context();
    *ptr = static_cast<uint64_t*>(condition->value);
  });
}

aclError art_emu_aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream,
                                     uint32_t flags) {
  return call<ApiId::aclmdlRIAddCondTask>([&] {
    const auto found = live_stream(stream);
    const int32_t type = raw(params.type);
    const bool known = type >= ACL_MODEL_RI_COND_TYPE_IF && type <= ACL_MODEL_RI_COND_TYPE_SWITCH;
    const uint32_t most = type == ACL_MODEL_RI_COND_TYPE_IF      ? 2
                          : type == ACL_MODEL_RI_COND_TYPE_WHILE ? 1
                                                                 : kMostBranches;
    if (!known || flags != 0 || params.handle == nullptr || params.modelRIArray == nullptr ||
        params.size == 0 || params.size > most) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "a condition task needs a type of 0 (IF, 1 or 2 branches), 1 (WHILE, 1 branch) or "
                 "2 (SWITCH), a handle, an array for the branches and flags 0; here type " +
                     std::to_string(type) + ", " + std::to_string(params.size) +
                     " branches, flags " + std::to_string(flags));
    }
    const auto condition = condition_behind(params.handle);
    core::in_current_context(found);
    core::add_branches(condition, type, params.size, *found);
    for (uint32_t i = 0; i < params.size; ++i) {
      params.modelRIArray[i] = condition->branches[i]->handle();
    }
  });
}

}  // extern "C"
