// Entries: events. Must never: hold state of its own.
#include "core/event.hpp"

#include <string>

#include "abi/boundary.hpp"
#include "core/capture.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

using core::Event;
using core::EventCall;
using core::EventKind;

namespace {

// aclrtCreateEvent: time line, progress and the inner sync bit.
constexpr uint32_t kPlainFlags = 0xE;

void create(aclrtEvent* out, EventKind kind, uint32_t flags) {
  check_not_null(out, "event");
  core::Event::check_flags(kind, flags);
  *out = core::Event::create(kind, flags)->handle();
}

// Inside a base::Peek.
const core::Event& event_for(aclrtEvent handle, EventCall what) {
  const core::Event& event = core::peek_event(handle);
  event.check(what);
  event.check_not_recorded();
  return event;
}

void check_external(uint32_t flag) {
  if (flag == ACL_EVENT_RECORD_EXTERNAL) return;
  refuse_argument("argument flag is " + std::to_string(flag) + ", not 0 or 1 (EXTERNAL)");
}

// The stream of an EXTERNAL record or wait: one that is captured, into no branch.
base::Ref<core::Stream> captured_stream(const base::Ref<core::Stream>& stream) {
  const auto queue = core::in_current_context(stream);
  const auto info = core::capture_info(*queue);
  if (!info.instance) {
    base::fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               "the EXTERNAL flag is for streams that are captured; stream " +
                   std::to_string(queue->id()) + " is not");
  }
  if (info.instance->origin() == core::ModelInstance::Origin::kBranch) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the branches of a condition have no EXTERNAL "
               "events");
  }
  return queue;
}

void synchronize(aclrtEvent handle, int32_t timeout_ms) {
  check_not_null(handle, "event");
  const auto event = core::event_behind(handle);
  if (timeout_ms == 0) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, "timeout 0 ms; give -1 (no limit) or a positive number");
  }
  event->check(EventCall::kSynchronize);
  event->check_not_recorded();
  if (event->synchronize(timeout_ms)) return;
  base::fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the record of the event is not done within " +
                                                  std::to_string(timeout_ms) +
                                                  " ms; the work goes on, synchronize again");
}

}  // namespace

extern "C" {

aclError art_emu_aclrtCreateEvent(aclrtEvent* event) {
  return call<ApiId::aclrtCreateEvent>([&] { create(event, EventKind::kPlain, kPlainFlags); });
}

aclError art_emu_aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return call<ApiId::aclrtCreateEventWithFlag>([&] { create(event, EventKind::kFlag, flag); });
}

aclError art_emu_aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return call<ApiId::aclrtCreateEventExWithFlag>([&] { create(event, EventKind::kEx, flag); });
}

aclError art_emu_aclrtDestroyEvent(aclrtEvent event) {
  return call<ApiId::aclrtDestroyEvent>([&] {
    check_not_null(event, "event");
    core::event_behind(event);
    // Queued records and waits keep what they need.
    base::handles().remove<core::Event>(event);
  });
}

aclError art_emu_aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return call<ApiId::aclrtRecordEvent>([&] {
    check_not_null(event, "event");
    const base::Peek inside;
    core::Event& recorded = core::peek_event(event);
    core::Stream* found = core::peek_stream(stream);
    recorded.check(EventCall::kRecord);
    if (found != nullptr) recorded.check_recordable(*found);
    recorded.settle_use(Event::Use::kRecord, false);
    recorded.record(core::peek_in_current_context(found));
  });
}

aclError art_emu_aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  if (flag == ACL_EVENT_RECORD_DEFAULT) return art_emu_aclrtRecordEvent(event, stream);
  return call<ApiId::aclrtRecordEventWithFlag>([&] {
    check_not_null(event, "event");
    check_external(flag);
    const auto recorded = core::event_behind(event);
    const auto found = core::stream_behind(stream);
    recorded->check(EventCall::kRecord);
    recorded->settle_use(Event::Use::kRecord, true);
    recorded->record_external(*captured_stream(found));
  });
}

aclError art_emu_aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event,
                                              uint32_t timeout, uint32_t flag) {
  return call<ApiId::aclrtStreamWaitEventWithFlag>([&] {
    check_not_null(event, "event");
    if (flag != ACL_EVENT_WAIT_DEFAULT) check_external(flag);
    const auto found = core::stream_behind(stream);
    const auto awaited = core::event_behind(event);
    awaited->check(EventCall::kWait);
    awaited->settle_use(Event::Use::kWait, flag != ACL_EVENT_WAIT_DEFAULT);
    if (flag == ACL_EVENT_WAIT_DEFAULT) {
      if (found) awaited->check_recordable(*found);
      return awaited->wait(*core::in_current_context(found), timeout);
    }
    if (timeout != 0) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "an EXTERNAL wait has no time limit; give timeout 0");
    }
    awaited->wait_external(*captured_stream(found), 0);
  });
}

aclError art_emu_aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return call<ApiId::aclrtResetEvent>([&] {
    check_not_null(event, "event");
    const auto target = core::event_behind(event);
    const auto found = core::stream_behind(stream);
    target->check(EventCall::kReset);
    const auto context = core::current_context();
    target->check_resettable();
    if (target->reset_is_ignored()) return;
    const auto queue = core::in_current_context(found);
    core::check_not_captured(*target, *queue);
    target->reset(*queue);
  });
}

aclError art_emu_aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return call<ApiId::aclrtQueryEvent>([&] {
    check_not_null(event, "event");
    check_not_null(status, "status");
    const base::Peek inside;
    const core::Event& asked = event_for(event, EventCall::kQuery);
    const bool complete = !asked.recorded() || asked.finished();
    *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError art_emu_aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return call<ApiId::aclrtQueryEventStatus>([&] {
    check_not_null(event, "event");
    check_not_null(status, "status");
    const base::Peek inside;
    const core::Event& asked = event_for(event, EventCall::kQueryStatus);
    const bool complete = asked.finished() || (!asked.recorded() && asked.kind() == EventKind::kEx);
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError art_emu_aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return call<ApiId::aclrtQueryEventWaitStatus>([&] {
    check_not_null(event, "event");
    check_not_null(status, "status");
    const base::Peek inside;
    const core::Event& asked = event_for(event, EventCall::kQueryWaitStatus);
    *status =
        asked.waits_pending() ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE;
  });
}

aclError art_emu_aclrtSynchronizeEvent(aclrtEvent event) {
  return call<ApiId::aclrtSynchronizeEvent>([&] { synchronize(event, -1); });
}

aclError art_emu_aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return call<ApiId::aclrtSynchronizeEventWithTimeout>([&] {
    if (timeout < -1) {
      base::fail(
          ACL_ERROR_RT_PARAM_INVALID,
          "timeout " + std::to_string(timeout) + " ms; give -1 (no limit) or a positive number",
          base::Layer::kAcl);
    }
    synchronize(event, timeout);
  });
}

aclError art_emu_aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return call<ApiId::aclrtEventElapsedTime>([&] {
    check_not_null(ms, "ms");
    check_not_null(startEvent, "startEvent");
    check_not_null(endEvent, "endEvent");
    const auto start = core::event_behind(startEvent);
    const auto end = core::event_behind(endEvent);
    start->check(EventCall::kTime);
    end->check(EventCall::kTime);
    start->check_not_recorded();
    end->check_not_recorded();
    *ms = core::Event::elapsed_ms(*start, *end);
  });
}

aclError art_emu_aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return call<ApiId::aclrtEventGetTimestamp>([&] {
    check_not_null(event, "event");
    check_not_null(timestamp, "timestamp");
    const base::Peek inside;
    *timestamp = event_for(event, EventCall::kTime).timestamp_us();
  });
}

aclError art_emu_aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  return call<ApiId::aclrtGetEventId>([&] {
    check_not_null(event, "event");
    check_not_null(eventId, "eventId");
    const base::Peek inside;
    *eventId = event_for(event, EventCall::kId).id();
  });
}

aclError art_emu_aclrtGetEventAvailNum(uint32_t* eventCount) {
  return call<ApiId::aclrtGetEventAvailNum>([&] {
    check_not_null(eventCount, "eventCount");
    *eventCount = core::available_events(core::current_context()->device().index());
  });
}

aclError art_emu_aclrtSetOpWaitTimeout(uint32_t timeout) {
  return call<ApiId::aclrtSetOpWaitTimeout>([&] { core::set_wait_timeout_s(timeout); });
}

}  // extern "C"
