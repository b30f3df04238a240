// Entries: callbacks and host functions. Must never: hold state of its own, or let an exception of
// the client's function change the result of an entry.
#include "core/callback.hpp"

#include <string>

#include "abi/boundary.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/runtime.hpp"
#include "core/state_callback.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

void check_function(const void* function) {
  if (function != nullptr) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "the function is a null pointer");
}

core::TaskBody body_of(void (*function)(void*), void* argument) {
  return [function, argument]() -> base::Code {
    function(argument);
    return 0;
  };
}

// The stream, or the current context's default one; a context of some kind is needed with STARS,
// where the real call makes a helper event first. src: hicann/runtime api_impl.cc SubscribeReport
base::Ref<core::Stream> stream_to_subscribe(aclrtStream handle) {
  auto stream = core::stream_behind(handle);
  if (stream) core::check_subscribable(*stream);
  if (!stream) return core::in_current_context(nullptr);
  if (!core::is_old_scheduler(core::runtime().soc())) core::current_context();
  return stream;
}

}  // namespace

extern "C" {

aclError art_emu_aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return call<ApiId::aclrtSubscribeReport>(
      [&] { core::subscribe(threadId, *stream_to_subscribe(stream)); });
}

aclError art_emu_aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return call<ApiId::aclrtUnSubscribeReport>(
      [&] { core::unsubscribe(threadId, *core::resolve_stream(stream)); });
}

aclError art_emu_aclrtLaunchCallback(aclrtCallback fn, void* userData,
                                     aclrtCallbackBlockType blockType, aclrtStream stream) {
  return call<ApiId::aclrtLaunchCallback>([&] {
    const int32_t type = raw(blockType);
    if (type != ACL_CALLBACK_NO_BLOCK && type != ACL_CALLBACK_BLOCK) {
      refuse_argument("argument blockType is " + std::to_string(type) +
                      ", it must be ACL_CALLBACK_NO_BLOCK or ACL_CALLBACK_BLOCK");
    }
    const auto found = core::stream_behind(stream);
    check_function(reinterpret_cast<const void*>(fn));
    if (found) core::check_subscribable(*found);
    core::launch_callback(
        *core::in_current_context(found), body_of(fn, userData),
        type == ACL_CALLBACK_BLOCK ? core::Blocking::kStreamWaits : core::Blocking::kStreamGoesOn);
  });
}

aclError art_emu_aclrtRegStreamStateCallback(const char* regName, aclrtStreamStateCallback callback,
                                             void* args) {
  return call<ApiId::aclrtRegStreamStateCallback>([&] {
    check_not_null(regName, "regName");
    core::watch_streams(regName, callback, args);
  });
}

aclError art_emu_aclrtRegDeviceStateCallback(const char* regName, aclrtDeviceStateCallback callback,
                                             void* args) {
  return call<ApiId::aclrtRegDeviceStateCallback>([&] {
    check_not_null(regName, "regName");
    core::watch_devices(regName, callback, args);
  });
}

aclError art_emu_aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return call<ApiId::aclrtLaunchHostFunc>([&] {
    const auto found = core::stream_behind(stream);
    check_function(reinterpret_cast<const void*>(fn));
    if (found) core::check_host_functions_allowed(*found);
    core::launch_host_function(*core::in_current_context(found), "aclrtLaunchHostFunc",
                               body_of(fn, args));
  });
}

aclError art_emu_aclrtProcessReport(int32_t timeout) {
  return call<ApiId::aclrtProcessReport>([&] {
    if (timeout == 0 || timeout < -1) {
      refuse_argument("argument timeout is " + std::to_string(timeout) +
                      " ms, it must be -1 (no limit) or positive");
    }
    if (core::process_reports(timeout) > 0) return;
    base::fail(ACL_ERROR_RT_REPORT_TIMEOUT,
               "no callback came within " + std::to_string(timeout) + " ms");
  });
}

}  // extern "C"
