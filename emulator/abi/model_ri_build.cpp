// Entries: building, running and ending model instances. Must never: hold state of its own.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "abi/boundary.hpp"
#include "abi/model_ri.hpp"
#include "clock/clock.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

using core::ModelInstance;

constexpr size_t kNameMax = 512;             // src: manual of aclmdlRIGetName
constexpr int64_t kDestroyLimitMs = 10'000;  // src: hicann/runtime context.cc, polls of a destroy
constexpr int64_t kDestroyStepNs = 100'000;

std::string name_of(const ModelInstance& instance) {
  return "model instance " + std::to_string(instance.id());
}

void check_built(const ModelInstance& instance) {
  if (instance.origin() == ModelInstance::Origin::kBuild) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             name_of(instance) +
                 " was made by capture; this call takes instances of aclmdlRIBuildBegin only");
}

// The part of a stream that is bound to the instance; the recording lock is held.
core::Part& part_bound_to(ModelInstance& instance, const core::Stream& stream) {
  core::Part* part = instance.part_of(stream);
  if (part == nullptr) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL,
               "stream " + std::to_string(stream.id()) + " is not bound to " + name_of(instance));
  }
  return *part;
}

// Whether a missing end task is looked for, and a missing build end. src: hicann/runtime model.cc
bool finds_missing_end() { return !core::is_old_scheduler(core::runtime().soc()); }
bool finds_missing_build_end() {
  return finds_missing_end() && !core::is_310b(core::runtime().soc());
}

void check_end_task(const ModelInstance& instance) {
  if (instance.end_task || !finds_missing_end()) return;
  base::fail(ACL_ERROR_RT_MODEL_EXECUTE,
             name_of(instance) + " has no end task; call aclmdlRIEndTask on a bound stream");
}

void check_bindable(const core::Stream& stream) {
  check_not_captured(stream);
  if ((stream.flags() & ACL_STREAM_DEVICE_USE_ONLY) != 0) {
    base::fail(ACL_ERROR_RT_INTERNAL_ERROR, "a stream for device use only cannot be bound");
  }
  if (stream.failure_mode() == ACL_STOP_ON_FAILURE ||
      (stream.flags() & ACL_STREAM_FAST_LAUNCH) != 0) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "a stream that stops on failures or launches fast cannot be bound");
  }
  const bool persistent = (stream.flags() & (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE)) != 0;
  if (core::is_950(core::runtime().soc()) && !persistent) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "a stream to bind is made with aclrtCreateStreamWithConfig and "
               "ACL_STREAM_PERSISTENT");
  }
}

void bind(aclmdlRI handle, aclrtStream stream_handle, uint32_t flag) {
  check_not_null(handle, "modelRI");
  core::instance_behind(handle);
  const auto stream = core::stream_behind(stream_handle);
  if (!stream) base::fail(ACL_ERROR_RT_PARAM_INVALID, "the default stream cannot be bound");
  if (flag != ACL_MODEL_STREAM_FLAG_HEAD && flag != ACL_MODEL_STREAM_FLAG_DEFAULT) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, "flag " + std::to_string(flag) +
                                               " is neither ACL_MODEL_STREAM_FLAG_HEAD nor "
                                               "ACL_MODEL_STREAM_FLAG_DEFAULT");
  }
  check_built(*core::instance_behind(handle));
  check_bindable(*stream);
  const auto instance = core::instance_of_current(handle);
  core::in_current_context(stream);
  const std::lock_guard lock(core::recording_mutex());
  if (stream->recording() != nullptr || core::find_part(*stream).first != nullptr) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL,
               "stream " + std::to_string(stream->id()) + " is bound to a model instance already");
  }
  instance->add_part(stream, stream, flag == ACL_MODEL_STREAM_FLAG_HEAD);
}

// Makes what was recorded ready to run; an instance that is complete is.
void prepare(ModelInstance& instance) {
  if (instance.state == ModelInstance::State::kComplete || instance.running()) return;
  instance.compile();
}

void execute_async(aclmdlRI handle, aclrtStream stream_handle) {
  check_not_null(handle, "modelRI");
  const auto known = core::instance_behind(handle);
  const auto given = core::stream_behind(stream_handle);
  if (given && given->bound()) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "stream " + std::to_string(given->id()) +
                   " is bound to a model instance; run instances on another stream");
  }
  if (given) check_not_captured(*given);
  check_not_branch(*known);
  const auto instance = core::instance_of_current(handle);
  const auto stream = core::in_current_context(given);
  check_recorded(*instance);
  if (instance->origin() == ModelInstance::Origin::kBuild) {
    const std::lock_guard lock(core::recording_mutex());
    check_end_task(*instance);
    if (instance->state != ModelInstance::State::kComplete && finds_missing_build_end()) {
      base::fail(ACL_ERROR_RT_MODEL_EXECUTE,
                 name_of(*instance) + " is not built to the end; call aclmdlRIBuildEnd first");
    }
    prepare(*instance);
  }
  instance->submit(*stream);
}

void execute(aclmdlRI handle, int32_t timeout) {
  check_not_null(handle, "modelRI");
  core::instance_behind(handle);
  if (timeout == 0 || timeout < -1) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, "timeout " + std::to_string(timeout) +
                                               " ms; give -1 (no limit) or a positive number");
  }
  check_built(*core::instance_behind(handle));
  const auto instance = core::instance_of_current(handle);
  {
    const std::lock_guard lock(core::recording_mutex());
    check_end_task(*instance);
    prepare(*instance);
  }
  instance->execute(timeout);
}

void destroy(aclmdlRI handle) {
  check_not_null(handle, "modelRI");
  check_not_branch(*core::instance_behind(handle));
  const auto instance = core::instance_of_current(handle);
  check_recorded(*instance);
  const int64_t deadline = clock::deadline_after_ms(kDestroyLimitMs);
  while (!instance->retire()) {
    if (clock::now_ns() >= deadline) {
      base::fail(ACL_ERROR_RT_MODEL_RUNNING,
                 name_of(*instance) + " still runs; synchronize the stream that runs it first");
    }
    clock::sleep_ns(kDestroyStepNs);
  }
  if (!base::handles().remove<ModelInstance>(handle)) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE, "another thread destroys the instance");
  }
  for (const auto& [function, argument] : instance->on_destroy) function(argument);
  instance->close();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.flush();
  if (file) return;
  base::fail(ACL_ERROR_RT_FILE_OPEN,
             "cannot write '" + path + "'; its folder must exist and be writable");
}

}  // namespace

extern "C" {

aclError art_emu_aclmdlRIBuildBegin(aclmdlRI* modelRI, uint32_t flag) {
  return call<ApiId::aclmdlRIBuildBegin>([&] {
    check_not_null(modelRI, "modelRI");
    if (flag != 0) base::fail(ACL_ERROR_RT_PARAM_INVALID, "flag is reserved and must be 0");
    const auto context = core::current_context();
    const std::lock_guard lock(core::recording_mutex());
    *modelRI = ModelInstance::create(context, ModelInstance::Origin::kBuild)->handle();
  });
}

aclError art_emu_aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag) {
  return call<ApiId::aclmdlRIBindStream>([&] { bind(modelRI, stream, flag); });
}

aclError art_emu_aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream) {
  return call<ApiId::aclmdlRIEndTask>([&] {
    check_not_null(modelRI, "modelRI");
    check_built(*core::instance_behind(modelRI));
    const auto found = core::stream_behind(stream);
    if (found) check_not_captured(*found);
    const auto queue = core::in_current_context(found);
    const auto instance = core::instance_of_current(modelRI);
    const std::lock_guard lock(core::recording_mutex());
    part_bound_to(*instance, *queue);
    instance->end_task = true;
  });
}

aclError art_emu_aclmdlRIBuildEnd(aclmdlRI modelRI, void* reserve) {
  return call<ApiId::aclmdlRIBuildEnd>([&] {
    check_not_null(modelRI, "modelRI");
    if (reserve != nullptr) refuse_argument("argument reserve must be a null pointer");
    check_built(*core::instance_behind(modelRI));
    const auto instance = core::instance_of_current(modelRI);
    const std::lock_guard lock(core::recording_mutex());
    check_end_task(*instance);
    prepare(*instance);
    instance->state = ModelInstance::State::kComplete;
  });
}

aclError art_emu_aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream) {
  return call<ApiId::aclmdlRIUnbindStream>([&] {
    check_not_null(modelRI, "modelRI");
    check_built(*core::instance_behind(modelRI));
    const auto found = core::stream_behind(stream);
    if (!found) base::fail(ACL_ERROR_RT_PARAM_INVALID, "the default stream is never bound");
    const auto instance = core::instance_of_current(modelRI);
    std::vector<base::Ref<core::Record>> removed;
    {
      const std::lock_guard lock(core::recording_mutex());
      if (instance->running()) {
        base::fail(ACL_ERROR_RT_MODEL_RUNNING,
                   name_of(*instance) + " still runs; synchronize the stream that runs it first");
      }
      removed = instance->remove_part(part_bound_to(*instance, *found));
    }
    for (const auto& record : removed) base::handles().remove<core::Record>(record->handle());
  });
}

aclError art_emu_aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  return call<ApiId::aclmdlRIExecuteAsync>([&] { execute_async(modelRI, stream); });
}

aclError art_emu_aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  return call<ApiId::aclmdlRIExecute>([&] { execute(modelRI, timeout); });
}

aclError art_emu_aclmdlRIAbort(aclmdlRI modelRI) {
  return call<ApiId::aclmdlRIAbort>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_branch(*core::instance_behind(modelRI));
    core::instance_of_current(modelRI)->abort();
  });
}

aclError art_emu_aclmdlRIDestroy(aclmdlRI modelRI) {
  return call<ApiId::aclmdlRIDestroy>([&] { destroy(modelRI); });
}

aclError art_emu_aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func,
                                                 void* userData) {
  return call<ApiId::aclmdlRIDestroyRegisterCallback>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(reinterpret_cast<const void*>(func), "func");
    const auto instance = core::instance_behind(modelRI);
    check_not_branch(*instance);
    const std::lock_guard lock(core::recording_mutex());
    instance->on_destroy.emplace_back(func, userData);
  });
}

aclError art_emu_aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
  return call<ApiId::aclmdlRIDestroyUnregisterCallback>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(reinterpret_cast<const void*>(func), "func");
    const auto instance = core::instance_behind(modelRI);
    const std::lock_guard lock(core::recording_mutex());
    auto& all = instance->on_destroy;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == func; });
    if (found == all.end()) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "the function is not registered");
    }
    all.erase(found);
  });
}

aclError art_emu_aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  return call<ApiId::aclmdlRISetName>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(name, "name");
    const auto instance = core::instance_behind(modelRI);
    const std::lock_guard lock(core::recording_mutex());
    instance->name = name;
  });
}

aclError art_emu_aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  return call<ApiId::aclmdlRIGetName>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(name, "name");
    const auto instance = core::instance_behind(modelRI);
    if (maxLen == 0) base::fail(ACL_ERROR_RT_PARAM_INVALID, "maxLen is 0, no name fits");
    const std::lock_guard lock(core::recording_mutex());
    const size_t length =
        std::min({instance->name.size(), kNameMax - 1, static_cast<size_t>(maxLen) - 1});
    std::copy_n(instance->name.data(), length, name);
    name[length] = '\0';
  });
}

aclError art_emu_aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  return call<ApiId::aclmdlRIGetId>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(modelRIId, "modelRIId");
    *modelRIId = core::instance_behind(modelRI)->id();
  });
}

aclError art_emu_aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags) {
  return call<ApiId::aclmdlRIDebugJsonPrint>([&] {
    check_not_null(modelRI, "modelRI");
    check_not_null(path, "path");
    core::instance_behind(modelRI);
    if (flags > ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "flags " + std::to_string(flags) + "; give 0 (summary) or 1 (verbose)");
    }
    const auto instance = core::instance_of_current(modelRI);
    write_text(path, instance->json(flags == ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE));
  });
}

aclError art_emu_aclmdlRIDebugPrint(aclmdlRI modelRI) {
  return call<ApiId::aclmdlRIDebugPrint>([&] {
    check_not_null(modelRI, "modelRI");
    core::instance_behind(modelRI);
    std::fputs(core::instance_of_current(modelRI)->json(false).c_str(), stdout);
    std::fflush(stdout);
  });
}

}  // extern "C"
