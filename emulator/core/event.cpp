#include "core/event.hpp"

#include <string>
#include <utility>

#include "base/error.hpp"
#include "core/capture.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/notify.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

// The sync bit that only plain events carry. src: hicann/runtime event.hpp, RT_EVENT_DDSYNC
constexpr uint32_t kInnerSync = 0x4;
constexpr uint32_t kPlainFlags =
    ACL_EVENT_CAPTURE_STREAM_PROGRESS | kInnerSync | ACL_EVENT_TIME_LINE;
constexpr uint32_t kFlagMask = 0x3F;
constexpr uint32_t kExMask = 0x4F;
constexpr int64_t kNsPerSecond = 1'000'000'000;

// Words of an IPC event.
constexpr size_t kIssued = 0;
constexpr size_t kDone = 1;

std::atomic<uint32_t> g_wait_timeout_s{0};

std::string hex(uint32_t flags) {
  constexpr const char* kDigits = "0123456789abcdef";
  return std::string("0x") + kDigits[flags >> 4 & 15] + kDigits[flags & 15];
}

[[noreturn]] void refuse_flags(uint32_t flags, const std::string& why) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "event flag " + std::to_string(flags) + " " + why);
}

[[noreturn]] void refuse_kind(const std::string& text) {
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text, base::Layer::kRuntimeNotStored);
}

// These stand alone in the flags.
void check_alone(uint32_t flags, uint32_t bit, const char* name) {
  if ((flags & bit) != 0 && (flags & ~bit) != 0) {
    refuse_flags(flags, std::string("combines ") + name + " with other bits; it must stand alone");
  }
}

}  // namespace

void Event::check_flags(EventKind kind, uint32_t flags) {
  const bool ex = kind == EventKind::kEx;
  const uint32_t mask = ex ? kExMask : kFlagMask;
  const auto check_mask = [&] {
    if ((flags & mask) == 0 || flags > mask) {
      refuse_flags(flags, "is not made of the bits this call takes (" + hex(mask) + ")");
    }
  };
  // src: hicann/runtime api_error.cc EventCreate, EventCreateEx; the two test in different orders
  if (!ex) check_mask();
  check_alone(flags, ACL_EVENT_DEVICE_USE_ONLY, "ACL_EVENT_DEVICE_USE_ONLY");
  check_alone(flags, ACL_EVENT_EXTERNAL, "ACL_EVENT_EXTERNAL");
  if (!ex) return;
  check_alone(flags, ACL_EVENT_IPC, "ACL_EVENT_IPC");
  const gen::Soc& soc = runtime().soc();
  if (flags == ACL_EVENT_IPC && (is_old_scheduler(soc) || is_310b(soc))) {
    refuse_kind(std::string(soc.name) + " has no events that processes share (ACL_EVENT_IPC)");
  }
  check_mask();
}

Event::Event(Device& device, EventKind kind, uint32_t flags)
    : device_(device),
      ids_(event_ids(device.index())),
      kind_(kind),
      flags_(flags),
      takes_id_per_record_(kind != EventKind::kFlag &&
                           (has_sync() || is_old_scheduler(device.soc()))),
      last_id_(-1) {
  WaitRule rule = WaitRule::kPlain;
  if (kind == EventKind::kEx) rule = WaitRule::kEx;
  if (kind == EventKind::kFlag && waits_by_level()) rule = WaitRule::kLevel;
  state_ = base::make_ref<EventState>(rule);
}

bool Event::has_sync() const {
  return (flags_ & (ACL_EVENT_SYNC | kInnerSync | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC)) != 0;
}

bool Event::waits_by_level() const { return (flags_ & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL)) != 0; }

// src: hicann/runtime event.cc InitEventAllocFlag
bool Event::takes_id_at_creation() const {
  if (kind_ != EventKind::kFlag) return false;
  return has_sync() || flags_ == ACL_EVENT_DEVICE_USE_ONLY || is_old_scheduler(device_.soc());
}

base::Ref<Event> Event::create(EventKind kind, uint32_t flags) {
  const auto context = current_context();
  Device& device = context->device();
  const gen::Soc& soc = device.soc();
  if (flags == ACL_EVENT_DEVICE_USE_ONLY &&
      (is_310b(soc) || (is_old_scheduler(soc) && !is_310p(soc)))) {
    refuse_kind(std::string(soc.name) + " has no events for the device alone (DEVICE_USE_ONLY)");
  }
  if (flags == kPlainFlags && kind == EventKind::kFlag) kind = EventKind::kPlain;
  base::Ref<Event> event(new Event(device, kind, flags));
  if (event->takes_id_at_creation()) {
    event->lease_ = IdLease(event->ids_);
    if (!event->lease_) {
      base::fail(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                 "event ids of device " + std::to_string(device.index()) + " (" + soc.name +
                     "): " + event->ids_.all_taken() + "; destroy events that are no longer used");
    }
    event->last_id_.store(event->lease_.id(), std::memory_order_relaxed);
  }
  if (flags == ACL_EVENT_IPC) event->shared_ = memory::SharedWords::make(memory::Pids::kAny);
  event->state_->handle = base::handles().insert(event);
  event->state_->flags = flags;
  return event;
}

void Event::check(EventCall call) const {
  const bool external = flags_ == ACL_EVENT_EXTERNAL;
  const bool ipc = flags_ == ACL_EVENT_IPC;
  switch (call) {
    case EventCall::kRecord:
    case EventCall::kWait:
    case EventCall::kReset:
      if (flags_ == ACL_EVENT_DEVICE_USE_ONLY) {
        base::fail(ACL_ERROR_RT_PARAM_INVALID,
                   "the event was created with ACL_EVENT_DEVICE_USE_ONLY: only the device uses it");
      }
      if (call == EventCall::kReset && ipc) refuse_kind("an IPC event cannot be reset");
      if (call != EventCall::kRecord && !has_sync()) {
        refuse_kind("the event was created without ACL_EVENT_SYNC: it marks time only");
      }
      return;
    case EventCall::kQuery:
    case EventCall::kQueryWaitStatus:
      if (kind_ == EventKind::kEx || external || ipc) {
        refuse_kind(
            "this query takes no EXTERNAL event and no event of aclrtCreateEventExWithFlag; "
            "use aclrtQueryEventStatus");
      }
      return;
    case EventCall::kQueryStatus:
    case EventCall::kSynchronize:
      if (external) refuse_kind("the host cannot wait for or query an EXTERNAL event");
      return;
    case EventCall::kTime:
      if (external || ipc) refuse_kind("EXTERNAL and IPC events carry no time");
      return;
    case EventCall::kId:
      if (ipc) refuse_kind("an IPC event has no event id");
      return;
  }
}

void Event::check_resettable() const {
  if (kind_ == EventKind::kEx) {
    refuse_kind("an event of aclrtCreateEventExWithFlag needs no reset: record it again");
  }
}

// A record of a plain or ex event takes an id for as long as it or a wait on it is in flight. With
// all ids taken the call waits. src: hicann/runtime event.cc AllocEventIdResource
IdLease Event::lease_for_record(Stream& stream) const {
  if (!takes_id_per_record_) return {};
  IdLease lease(ids_);
  if (!lease) base::Peek::end();  // record() holds both
  while (!lease && !stream.state().refusing.load(std::memory_order_acquire)) {
    StreamState& state = stream.state();
    const uint64_t next = state.finished.load(std::memory_order_relaxed) + 1;
    executor().wait_finished(state, next, executor().deadline_after_ms(1));
    lease = IdLease(ids_);
  }
  return lease;
}

void Event::check_recordable(const Stream& stream) const {
  if (stream.recording() == nullptr) return;
  const bool external = flags_ == ACL_EVENT_EXTERNAL;
  if (stream.capturing() && ((kind_ != EventKind::kEx && !external) || flags_ == ACL_EVENT_IPC)) {
    refuse_kind(
        "a captured stream takes events of aclrtCreateEventExWithFlag and EXTERNAL ones only");
  }
  if (stream.bound() && kind_ != EventKind::kFlag) {
    refuse_kind("a stream bound to a model instance takes events of aclrtCreateEventWithFlag only");
  }
}

void Event::check_not_recorded() const {
  if (captured() && captured_record_ != nullptr) {
    base::fail(ACL_ERROR_RT_EVENT_CAPTURED,
               "the event is part of a capture that is under way; end the capture first");
  }
}

// A record that is done at once gives its id back at once.
bool Event::record_now(Stream& stream) {
  if (stream.recording() != nullptr || shared_) return false;
  const int32_t id = takes_id_per_record_ ? ids_.glance() : -1;
  if (takes_id_per_record_ && id < 0) return false;
  if (!executor().record_now(stream.state(), *state_)) return false;
  if (kind_ != EventKind::kFlag) last_id_.store(id, std::memory_order_relaxed);
  return true;
}

void Event::settle_first_use(Use use, uint8_t wanted) {
  if (wanted == 2 && (kind_ != EventKind::kEx || flags_ != ACL_EVENT_SYNC)) {
    refuse_kind("only events of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC can be EXTERNAL");
  }
  uint8_t before = 0;
  auto& settled = uses_[static_cast<size_t>(use)];
  if (settled.compare_exchange_strong(before, wanted) || before == wanted) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             std::string("the event was used ") + (before == 2 ? "with" : "without") +
                 " the EXTERNAL flag before; one event takes one of the two");
}

void Event::record(Stream& stream) {
  if (stream.recording() == nullptr) return record_external(stream);
  const base::Ref<Stream> held_stream(&stream);
  const base::Ref<Event> held(this);
  base::Peek::end();
  if (capture_record(*this, stream)) return;
  if (stream.bound()) in_model_.store(true, std::memory_order_relaxed);
  record_external(stream);
}

void Event::record_external(Stream& stream) {
  if (record_now(stream)) return;
  const base::Ref<Stream> held_stream(&stream);
  const base::Ref<Event> held(this);
  if (shared_) record_shared(stream);
  Task task;
  task.kind = TaskKind::kRecord;
  task.name = "aclrtRecordEvent";
  task.event = state_;
  if (state_->rule != WaitRule::kLevel) {
    task.gate = base::make_ref<Gate>();
    if (kind_ != EventKind::kFlag) {
      task.gate->lease = lease_for_record(stream);
      last_id_.store(task.gate->lease.id(), std::memory_order_relaxed);
    }
  }
  stream.enqueue(std::move(task));
}

// Without the lock: whether a wait issued now would find its record done.
bool Event::nothing_to_wait_for(const Stream& stream) const {
  return state_->rule != WaitRule::kLevel && finished() && !time_is_modelled() &&
         stream.recording() == nullptr && !stream.state().refusing.load(std::memory_order_relaxed);
}

void Event::wait(Stream& stream, uint32_t timeout_s) {
  if (!captured() && stream.recording() == nullptr) return wait_external(stream, timeout_s);
  const base::Ref<Stream> held_stream(&stream);
  const base::Ref<Event> held(this);
  base::Peek::end();
  if (!capture_wait(*this, stream)) wait_external(stream, timeout_s);
}

void Event::wait_external(Stream& stream, uint32_t timeout_s) {
  if (shared_) return wait_shared(stream, timeout_s);
  if (nothing_to_wait_for(stream)) return;
  Task task;
  task.kind = TaskKind::kWait;
  task.name = "aclrtStreamWaitEvent";
  task.event = state_;
  task.timeout_ns = timeout_s * kNsPerSecond;
  if (!stream.enqueue(std::move(task))) {
    base::fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "the event was never recorded: call aclrtRecordEvent on some stream first (an event of "
        "aclrtCreateEventWithFlag with ACL_EVENT_SYNC can be waited for before)");
  }
}

// ---- events that processes share

base::Ref<Event> Event::open(uint64_t token) {
  const auto context = current_context();
  base::Ref<Event> event(new Event(context->device(), EventKind::kEx, ACL_EVENT_IPC));
  event->shared_ = memory::SharedWords::open(token);
  base::handles().insert(event);
  return event;
}

bool Event::shared_done(uint64_t number) const {
  return shared_->word(kDone).load(std::memory_order_acquire) >= number;
}

namespace {

// Says that a record is done: when its task runs, or is dropped.
struct SharedRecord {
  base::Ref<memory::SharedWords> words;
  uint64_t number;
  ~SharedRecord() { tell(); }
  void tell() const {
    const auto done = words->word(kDone);
    uint64_t seen = done.load(std::memory_order_relaxed);
    while (seen < number && !done.compare_exchange_weak(seen, number, std::memory_order_release)) {
    }
  }
};

}  // namespace

void Event::record_shared(Stream& stream) {
  const uint64_t number = shared_->word(kIssued).fetch_add(1) + 1;
  const std::shared_ptr<SharedRecord> record(new SharedRecord{shared_, number});
  change_watched(stream, "aclrtRecordEvent", [record] { record->tell(); });
}

void Event::wait_shared(Stream& stream, uint32_t timeout_s) {
  const uint64_t number = shared_->word(kIssued).load(std::memory_order_acquire);
  if (shared_done(number)) return;
  wait_until(
      stream, "aclrtStreamWaitEvent",
      [words = shared_, number] {
        return words->word(kDone).load(std::memory_order_acquire) >= number;
      },
      timeout_s, [] { return true; });
}

// src: hicann/runtime api_impl_david.cc
bool Event::reset_is_ignored() const { return kind_ == EventKind::kPlain && is_950(device_.soc()); }

void Event::reset(Stream& stream) {
  Task task;
  task.kind = TaskKind::kReset;
  task.name = "aclrtResetEvent";
  task.event = state_;
  stream.enqueue(std::move(task));
}

bool Event::recorded() const {
  if (shared_) return shared_->word(kIssued).load(std::memory_order_acquire) > 0;
  return state_->latest.load(std::memory_order_acquire) > 0;
}

bool Event::finished() const {
  if (shared_) return recorded() && shared_done(shared_->word(kIssued).load());
  const uint64_t latest = state_->latest.load(std::memory_order_acquire);
  return latest > 0 && state_->done.load(std::memory_order_acquire) >= latest;
}

bool Event::waits_pending() const {
  return has_sync() && state_->pending_waits.load(std::memory_order_acquire) > 0;
}

bool Event::synchronize(int64_t timeout_ms) const {
  if (in_model_.load(std::memory_order_relaxed)) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the event belongs to a model instance; synchronize the stream that runs it");
  }
  const uint64_t latest = state_->latest.load(std::memory_order_acquire);
  const int64_t deadline = executor().deadline_after_ms(timeout_ms);
  if (!executor().wait_recorded(*state_, latest, deadline)) return false;
  if (!shared_) return true;
  const uint64_t number = shared_->word(kIssued).load(std::memory_order_acquire);
  return executor().wait_shared([&] { return shared_done(number); }, deadline);
}

void Event::check_recorded() const {
  if (recorded()) return;
  base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
             "the event was never recorded, it has no time; call aclrtRecordEvent first");
}

namespace {

[[noreturn]] void refuse_time(const char* why) {
  base::fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, why);
}

constexpr const char* kNotFinished =
    "the event is recorded but not finished, it has no time yet; synchronize it or its stream "
    "first";
constexpr const char* kNoTimeLine =
    "the event was created without ACL_EVENT_TIME_LINE, it has no time";

}  // namespace

// The device stamps in ticks of its own clock.
int64_t Event::time_ns() const {
  const int64_t ns = state_->time_ns.load(std::memory_order_relaxed);
  const int64_t hz = device_.soc().timestamp_hz;
  const int64_t seconds = ns / kNsPerSecond;
  const int64_t ticks = ns % kNsPerSecond * hz / kNsPerSecond;
  return seconds * kNsPerSecond + ticks * kNsPerSecond / hz;
}

// Without TIME_LINE the old scheduler answers 107006; the others succeed with a meaningless figure,
// 0 here. src: hicann/runtime event_task.cc, semantics of aclrtEventElapsedTime (guess)
float Event::elapsed_ms(const Event& start, const Event& end) {
  start.check_recorded();
  end.check_recorded();
  const gen::Soc& soc = end.device_.soc();
  const bool timed = (start.flags_ & end.flags_ & ACL_EVENT_TIME_LINE) != 0;
  const bool unsigned_difference = is_950(soc);
  if (!unsigned_difference && (!start.finished() || !end.finished())) refuse_time(kNotFinished);
  if (!timed && is_old_scheduler(soc)) refuse_time(kNoTimeLine);
  if (!timed) return 0.0F;
  const auto stamp = [](const Event& event) {
    return event.finished() ? static_cast<uint64_t>(event.time_ns()) : UINT64_MAX;
  };
  const uint64_t difference = stamp(end) - stamp(start);
  const double ns = unsigned_difference ? static_cast<double>(difference)
                                        : static_cast<double>(static_cast<int64_t>(difference));
  return static_cast<float>(ns / 1e6);
}

uint64_t Event::timestamp_us() const {
  check_recorded();
  if (!finished()) refuse_time(kNotFinished);
  const bool timed = (flags_ & ACL_EVENT_TIME_LINE) != 0;
  if (!timed && is_old_scheduler(device_.soc())) refuse_time(kNoTimeLine);
  if (!timed) return 0;
  return static_cast<uint64_t>(time_ns()) / 1000;
}

uint32_t Event::id() const {
  const int32_t id = last_id_.load(std::memory_order_relaxed);
  if (id < 0) {
    base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
               "the event has no event id: it was never recorded, or its flags need none");
  }
  return static_cast<uint32_t>(id);
}

namespace {

[[noreturn]] void refuse_handle() {
  base::fail(ACL_ERROR_RT_INVALID_HANDLE,
             "the event handle is no live event: it was destroyed or is the handle of something "
             "else");
}

}  // namespace

base::Ref<Event> event_behind(void* handle) {
  auto event = base::handles().get<Event>(handle);
  if (!event) refuse_handle();
  return event;
}

Event& peek_event(const void* handle) {
  auto* event = base::handles().peek<Event>(handle);
  if (event == nullptr) refuse_handle();
  return *event;
}

void set_wait_timeout_s(uint32_t timeout_s) {
  g_wait_timeout_s.store(timeout_s, std::memory_order_relaxed);
}

uint32_t wait_timeout_s() { return g_wait_timeout_s.load(std::memory_order_relaxed); }

uint32_t available_events(int32_t device) { return event_ids(device).available(); }

}  // namespace ascendrt::core
