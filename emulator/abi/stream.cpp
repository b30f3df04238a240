// Entries: streams, and waiting for streams and devices. Must never: hold state of its own.
#include "core/stream.hpp"

#include <string>

#include "abi/boundary.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/mem_pool.hpp"
#include "core/model_instance.hpp"
#include "core/runtime.hpp"
#include "core/state_callback.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kKnownFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC |
                                 ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE |
                                 ACL_STREAM_DEVICE_USE_ONLY;
// Streams that the device drives: the host neither waits for them nor queries them.
constexpr uint32_t kDeviceDriven =
    ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
constexpr int32_t kLeastPriority = 7;
constexpr int32_t kGreatestPriority = 0;

void check_flags(uint32_t flags) {
  const gen::Soc& soc = core::runtime().soc();
  if ((flags & ACL_STREAM_HUGE) != 0 && core::is_310p(soc)) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               std::string(soc.name) + " has no streams with more tasks (ACL_STREAM_HUGE)",
               base::Layer::kRuntimeNotStored);
  }
  if ((flags & ACL_STREAM_DEVICE_USE_ONLY) != 0 && flags != ACL_STREAM_DEVICE_USE_ONLY) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "ACL_STREAM_DEVICE_USE_ONLY is combined with other flags; it must stand alone");
  }
}

void check_not_capturing(const core::Stream* stream) {
  if (stream == nullptr || !stream->capturing()) return;
  base::fail(ACL_ERROR_RT_STREAM_CAPTURED,
             "stream " + std::to_string(stream->id()) +
                 " is being captured; end the capture before this call");
}

// A time limit of the acl layer: -1 or more. 0 is found later, by the runtime layer.
void check_timeout_range(int32_t timeout) {
  if (timeout >= -1) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "timeout " + std::to_string(timeout) + " ms; give -1 (no limit) or a positive number",
             base::Layer::kAcl);
}

void check_timeout_not_zero(int32_t timeout) {
  if (timeout != 0) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "timeout 0 ms; give -1 (no limit) or a positive number");
}

void synchronize(aclrtStream handle, int32_t timeout_ms) {
  const base::Peek inside;
  core::Stream* found = core::peek_stream(handle);
  check_timeout_not_zero(timeout_ms);
  check_not_capturing(found);
  if (found != nullptr && (found->flags() & kDeviceDriven) != 0) return;
  core::borrow_current_context();  // asked for even when the stream has its own
  const base::Ref<core::Stream> stream(found != nullptr ? found
                                                        : &core::peek_in_current_context(nullptr));
  base::Peek::end();
  stream->check_context_failure();
  stream->synchronize_or_raise(timeout_ms);
  core::trim_pools();
}

void create(aclrtStream* handle, uint32_t priority, uint32_t flags) {
  const auto stream = core::Stream::create(core::current_context(), priority, flags);
  *handle = stream->handle();
  core::tell_created(*stream);
}

void destroy(aclrtStream handle, bool wait) {
  check_not_null(handle, "stream");
  const auto stream = core::stream_behind(handle);
  check_not_capturing(stream.get());
  core::in_current_context(stream);
  if (stream->is_default()) {
    base::fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "the default stream of a context lives as long as the context; it cannot be destroyed");
  }
  if (core::in_instance(*stream)) {
    base::fail(ACL_ERROR_RT_STREAM_MODEL,
               "stream " + std::to_string(stream->id()) +
                   " belongs to a model instance; unbind it or destroy the instance first");
  }
  core::tell_ending(*stream);
  // Another thread, or a callback, may have been faster.
  if (!base::handles().remove<core::Stream>(handle)) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed by another thread");
  }
  stream->shut_down(wait);
}

// The stream, or the default one of the calling thread's context; 107000 without a context.
base::Ref<core::Stream> stream_or_current(aclrtStream handle) {
  if (auto stream = core::stream_behind(handle)) return stream;
  const auto context = core::current_context_or_null();
  auto stream = context ? context->default_stream() : nullptr;
  if (!stream) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the stream is null and the calling thread has no context with a default stream");
  }
  return stream;
}

void set_failure_mode(aclrtStream handle, uint64_t mode) {
  const auto stream = stream_or_current(handle);
  if ((stream->flags() & ACL_STREAM_DEVICE_USE_ONLY) != 0) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "a stream of ACL_STREAM_DEVICE_USE_ONLY has no failure mode");
  }
  const auto context = core::current_context();
  if ((mode & 1) == stream->failure_mode()) return;
  if ((mode & 1) == ACL_STOP_ON_FAILURE) core::in_current_context(stream);
  stream->set_failure_mode(mode);
}

uint64_t failure_mode(aclrtStream handle) { return stream_or_current(handle)->failure_mode(); }

void set_overflow_switch(aclrtStream handle, uint32_t flag) {
  const auto stream = core::stream_behind(handle);
  if (flag > 1) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "overflow switch " + std::to_string(flag) + "; give 0 or 1");
  }
  check_not_capturing(stream.get());
  core::in_current_context(stream)->overflow_switch.store(flag, std::memory_order_relaxed);
}

uint32_t overflow_switch(aclrtStream handle) {
  const auto stream = core::resolve_stream_of_current(handle);
  // src: hicann/runtime api_impl.cc GetStreamOverflowSwitch
  if (core::is_old_scheduler(stream->context().device().soc())) return 1;
  return stream->overflow_switch.load(std::memory_order_relaxed);
}

// The stream whose priority is asked for or set. src: hicann/runtime api_error.cc
// SetStreamPriorityValue
base::Ref<core::Stream> stream_with_priority(aclrtStream handle) {
  const auto stream = core::stream_behind(handle);
  if (!stream) base::fail(ACL_ERROR_RT_PARAM_INVALID, "this attribute needs a stream, not null");
  if ((stream->flags() & ACL_STREAM_CPU_SCHEDULE) != 0) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "a stream of ACL_STREAM_CPU_SCHEDULE has no priority");
  }
  const auto context = core::current_context();
  return stream;
}

[[noreturn]] void refuse_attribute(int32_t attribute) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "stream attribute " + std::to_string(attribute) +
                 " is unknown; known are 1 (failure mode) to 5 (priority)");
}

bool has_custom_tags() {
  const gen::Soc& soc = core::runtime().soc();
  return !core::is_old_scheduler(soc) && !core::is_310b(soc);
}

void set_attribute(aclrtStream handle, int32_t attribute, const aclrtStreamAttrValue& value) {
  switch (attribute) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      set_failure_mode(handle, value.failureMode);
      return;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      if (has_custom_tags()) set_overflow_switch(handle, value.overflowSwitch);
      return;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      if (has_custom_tags()) {
        core::resolve_stream_of_current(handle)->custom_tag.store(value.userCustomTag,
                                                                  std::memory_order_relaxed);
      }
      return;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      core::resolve_stream_of_current(handle)->cache_op_info.store(value.cacheOpInfoSwitch,
                                                                   std::memory_order_relaxed);
      return;
    case ACL_STREAM_ATTR_PRIORITY:
      stream_with_priority(handle)->set_priority(
          value.streamPriority > INT32_MAX ? 0 : value.streamPriority);
      return;
    default:
      refuse_attribute(attribute);
  }
}

void get_attribute(aclrtStream handle, int32_t attribute, aclrtStreamAttrValue& value) {
  switch (attribute) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value.failureMode = failure_mode(handle);
      return;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value.overflowSwitch = overflow_switch(handle);
      return;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      if (has_custom_tags()) {
        value.userCustomTag =
            core::resolve_stream_of_current(handle)->custom_tag.load(std::memory_order_relaxed);
      }
      return;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value.cacheOpInfoSwitch =
          core::resolve_stream_of_current(handle)->cache_op_info.load(std::memory_order_relaxed);
      return;
    case ACL_STREAM_ATTR_PRIORITY:
      value.streamPriority = stream_with_priority(handle)->priority();
      return;
    default:
      refuse_attribute(attribute);
  }
}

}  // namespace

extern "C" {

aclError art_emu_aclrtCreateStream(aclrtStream* stream) {
  return call<ApiId::aclrtCreateStream>([&] {
    check_not_null(stream, "stream");
    create(stream, kGreatestPriority, 0);
  });
}

aclError art_emu_aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority,
                                             uint32_t flag) {
  return call<ApiId::aclrtCreateStreamWithConfig>([&] {
    check_not_null(stream, "stream");
    const uint32_t flags = flag & kKnownFlags;
    check_flags(flags);
    // The runtime takes a signed number: what is negative there is the greatest priority.
    const uint32_t wanted = priority > INT32_MAX ? kGreatestPriority : priority;
    create(stream, wanted, flags);
  });
}

aclError art_emu_aclrtDestroyStream(aclrtStream stream) {
  return call<ApiId::aclrtDestroyStream>([&] { destroy(stream, true); });
}

aclError art_emu_aclrtDestroyStreamForce(aclrtStream stream) {
  return call<ApiId::aclrtDestroyStreamForce>([&] { destroy(stream, false); });
}

aclError art_emu_aclrtSynchronizeStream(aclrtStream stream) {
  return call<ApiId::aclrtSynchronizeStream>([&] { synchronize(stream, -1); });
}

aclError art_emu_aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return call<ApiId::aclrtSynchronizeStreamWithTimeout>([&] {
    check_timeout_range(timeout);
    synchronize(stream, timeout);
  });
}

aclError art_emu_aclrtSynchronizeDevice(void) {
  return call<ApiId::aclrtSynchronizeDevice>([] { core::synchronize_context(-1); });
}

aclError art_emu_aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return call<ApiId::aclrtSynchronizeDeviceWithTimeout>([&] {
    check_timeout_range(timeout);
    check_timeout_not_zero(timeout);
    core::synchronize_context(timeout);
  });
}

aclError art_emu_aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return call<ApiId::aclrtStreamQuery>([&] {
    check_not_null(status, "status");
    const base::Peek inside;
    core::Stream* found = core::peek_stream(stream);
    check_not_capturing(found);
    if (found != nullptr && (found->flags() & kDeviceDriven) != 0) {
      *status = ACL_STREAM_STATUS_COMPLETE;
      return;
    }
    core::borrow_current_context();
    if (found == nullptr) found = &core::peek_in_current_context(nullptr);
    found->check_context_failure();
    *status = found->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  });
}

aclError art_emu_aclrtStreamAbort(aclrtStream stream) {
  return call<ApiId::aclrtStreamAbort>(
      [&] { core::in_current_context(stream_or_current(stream))->abort(); });
}

aclError art_emu_aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  return call<ApiId::aclrtStreamGetId>([&] {
    check_not_null(streamId, "streamId");
    *streamId = core::resolve_stream(stream)->id();
  });
}

aclError art_emu_aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
  return call<ApiId::aclrtStreamGetPriority>([&] {
    check_not_null(priority, "priority");
    const auto found = core::stream_behind(stream);
    const auto context = core::current_context();
    *priority = found ? found->priority() : core::in_current_context(nullptr)->priority();
  });
}

aclError art_emu_aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
  return call<ApiId::aclrtStreamGetFlags>([&] {
    check_not_null(flags, "flags");
    const auto found = core::stream_behind(stream);
    const auto context = core::current_context();
    *flags = found ? found->flags() : core::in_current_context(nullptr)->flags();
  });
}

aclError art_emu_aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority,
                                                   int32_t* greatestPriority) {
  return call<ApiId::aclrtDeviceGetStreamPriorityRange>([&] {
    if (leastPriority != nullptr) *leastPriority = kLeastPriority;
    if (greatestPriority != nullptr) *greatestPriority = kGreatestPriority;
  });
}

aclError art_emu_aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  return call<ApiId::aclrtGetStreamAvailableNum>([&] {
    check_not_null(streamCount, "streamCount");
    *streamCount = core::available_streams(core::current_context()->device().index());
  });
}

aclError art_emu_aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return call<ApiId::aclrtSetStreamFailureMode>([&] { set_failure_mode(stream, mode); });
}

aclError art_emu_aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return call<ApiId::aclrtSetStreamOverflowSwitch>([&] {
    if (flag > 1)
      refuse_argument("argument flag is " + std::to_string(flag) + ", it must be 0 or 1");
    set_overflow_switch(stream, flag);
  });
}

aclError art_emu_aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return call<ApiId::aclrtGetStreamOverflowSwitch>([&] {
    check_not_null(flag, "flag");
    *flag = overflow_switch(stream);
  });
}

aclError art_emu_aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                         aclrtStreamAttrValue* value) {
  return call<ApiId::aclrtSetStreamAttribute>([&] {
    check_not_null(value, "value");
    set_attribute(stream, raw(stmAttrType), *value);
  });
}

aclError art_emu_aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                         aclrtStreamAttrValue* value) {
  return call<ApiId::aclrtGetStreamAttribute>([&] {
    check_not_null(value, "value");
    get_attribute(stream, raw(stmAttrType), *value);
  });
}

aclError art_emu_aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return call<ApiId::aclrtStreamWaitEvent>([&] {
    check_not_null(event, "event");
    const base::Peek inside;
    core::Stream* found = core::peek_stream(stream);
    core::Event& awaited = core::peek_event(event);
    awaited.check(core::EventCall::kWait);
    if (found != nullptr) awaited.check_recordable(*found);
    awaited.settle_use(core::Event::Use::kWait, false);
    awaited.wait(core::peek_in_current_context(found), core::wait_timeout_s());
  });
}

aclError art_emu_aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event,
                                                 int32_t timeout) {
  return call<ApiId::aclrtStreamWaitEventWithTimeout>([&] {
    if (timeout < 0) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "timeout " + std::to_string(timeout) + " s; give 0 (no limit) or more",
                 base::Layer::kAcl);
    }
    const auto found = core::stream_behind(stream);
    if (event == nullptr)
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument event is a null pointer");
    const auto awaited = core::event_behind(event);
    awaited->check(core::EventCall::kWait);
    if (found) awaited->check_recordable(*found);
    awaited->settle_use(core::Event::Use::kWait, false);
    const auto target = core::in_current_context(found);
    // The old scheduler drops the value. src: hicann/runtime config/{dc,cloud}/dev_info_reg.cc
    const bool dropped = core::is_old_scheduler(target->context().device().soc());
    awaited->wait(*target, dropped ? 0 : static_cast<uint32_t>(timeout));
  });
}

}  // extern "C"
