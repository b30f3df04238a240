// Entries: stopping the work of a device, and emptying streams for new work.
// Must never: hold a lock while it waits.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/model_instance.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kTimeoutMaxMs = 36 * 60 * 1000;  // src: manual of aclrtDeviceTaskAbort

struct Listener {
  aclrtDeviceTaskAbortCallback function = nullptr;
  void* argument = nullptr;
};

struct Listeners {
  base::RankedMutex mutex{base::Rank::kLeaf};
  std::map<std::string, Listener> by_name;
};

Listeners& listeners() {
  static auto* const made = new Listeners;
  return *made;
}

void tell(int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t timeout) {
  std::map<std::string, Listener> all;
  {
    const std::lock_guard lock(listeners().mutex);
    all = listeners().by_name;
  }
  for (const auto& [name, each] : all) {
    const int32_t code = each.function(device, stage, timeout, each.argument);
    if (code == 0) continue;
    base::fail(ACL_ERROR_RT_TASK_ABORT_STOP,
               "the callback '" + name + "' answered " + std::to_string(code) + " " +
                   (stage == ACL_RT_DEVICE_TASK_ABORT_PRE ? "before" : "after") + " the abort");
  }
}

// Drops what waits and waits for what runs; the name of a stream that went on too long.
std::string stop_all(const core::Device& device, int64_t timeout_ms) {
  core::Executor& executor = core::executor();
  std::vector<base::Ref<core::Stream>> streams;
  for (const auto& context : core::Context::on_device(device)) {
    for (auto& stream : context->streams()) streams.push_back(std::move(stream));
  }
  for (const auto& stream : streams) executor.set_aborting(stream->state(), true);
  for (const auto& stream : streams) executor.drop(stream->state());
  const int64_t deadline = executor.deadline_after_ms(timeout_ms);
  std::string late;
  for (const auto& stream : streams) {
    if (!executor.wait_engines(stream->state(), deadline))
      late = executor.describe(stream->state());
  }
  for (const auto& stream : streams) executor.set_aborting(stream->state(), false);
  return late;
}

}  // namespace

extern "C" {

aclError art_emu_aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  return call<ApiId::aclrtDeviceTaskAbort>([&] {
    require_chip(core::kA2A3950);
    if (timeout > kTimeoutMaxMs) {
      refuse_value("argument timeout is " + std::to_string(timeout) +
                   " ms, it is at most 36 minutes; 0 is no limit");
    }
    core::Device& device = core::runtime().device(deviceId);
    tell(deviceId, ACL_RT_DEVICE_TASK_ABORT_PRE, timeout);
    const std::string late = stop_all(device, timeout == 0 ? -1 : int64_t{timeout});
    if (!late.empty()) {
      base::fail(ACL_ERROR_RT_WAIT_TIMEOUT,
                 "the device did not stop within " + std::to_string(timeout) + " ms: " + late);
    }
    tell(deviceId, ACL_RT_DEVICE_TASK_ABORT_POST, timeout);
  });
}

aclError art_emu_aclrtSetDeviceTaskAbortCallback(const char* regName,
                                                 aclrtDeviceTaskAbortCallback callback,
                                                 void* args) {
  return call<ApiId::aclrtSetDeviceTaskAbortCallback>([&] {
    check_not_null(regName, "regName");
    require_chip(core::kA2A3950);
    const std::lock_guard lock(listeners().mutex);
    auto& known = listeners().by_name;
    if (*regName == '\0' || (callback != nullptr) == known.contains(regName)) {
      refuse_value("argument regName is '" + std::string(regName) +
                   "': a name is not empty, is registered once, and taken back with a null "
                   "callback");
    }
    if (callback == nullptr) {
      known.erase(regName);
    } else {
      known[regName] = {callback, args};
    }
  });
}

aclError art_emu_aclrtPersistentTaskClean(aclrtStream stream) {
  return call<ApiId::aclrtPersistentTaskClean>([&] {
    const auto found = core::stream_behind(stream);
    if (!found || (found->flags() & ACL_STREAM_PERSISTENT) == 0) {
      refuse_value("the stream was not created with ACL_STREAM_PERSISTENT");
    }
    core::in_current_context(found);
    std::vector<base::Ref<core::Record>> removed;
    {
      const std::lock_guard lock(core::recording_mutex());
      const auto [instance, part] = core::find_part(*found);
      if (instance != nullptr && instance->running()) {
        base::fail(ACL_ERROR_RT_MODEL_RUNNING,
                   "the model instance of the stream runs; synchronize what runs it first");
      }
      if (part != nullptr) {
        removed.swap(part->records);
        for (const auto& record : removed) {
          if (record->label) record->label->instance = nullptr;
        }
        instance->state = core::ModelInstance::State::kOpen;
        instance->compile();
      }
    }
    for (const auto& record : removed) base::handles().remove<core::Record>(record->handle());
    if (removed.empty()) found->abort();
  });
}

}  // extern "C"
