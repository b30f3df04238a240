// Events: marks in streams that other streams and host threads wait for.
// Owns: the three kinds and which call each kind refuses. Must never: hold a lock of its own; the
// state belongs to the scheduler.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/handle.hpp"
#include "base/ref.hpp"
#include "core/id_pool.hpp"
#include "core/task.hpp"
#include "memory/shared_words.hpp"

namespace ascendrt::core {

class Context;
class Device;
class ModelInstance;
class Stream;
struct Record;

// Note [Event kinds]
// plain  aclrtCreateEvent, or aclrtCreateEventWithFlag(0xE). A wait stands for the latest record
// issued
//        before it, and needs one. Takes an id per record.
// flag   aclrtCreateEventWithFlag with other bits. With SYNC or EXTERNAL it is a level: a record
// sets it,
//        aclrtResetEvent clears it, a wait blocks until it is set, whether or not a record was
//        issued. Without SYNC but with the inner sync bit 0x4 it waits like a plain one. Takes its
//        id at creation.
// ex     aclrtCreateEventExWithFlag. Like plain, but a wait without an unfinished record of another
// stream
//        is no wait at all.
enum class EventKind : uint8_t { kPlain, kFlag, kEx };

// Calls whose admission depends on the kind and flags.
enum class EventCall : uint8_t {
  kRecord,
  kWait,
  kReset,
  kQuery,
  kQueryStatus,
  kQueryWaitStatus,
  kSynchronize,
  kTime,
  kId,
};

class Event : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kEvent;

  // Tests of the flags that come before the context: 107000, 207000.
  static void check_flags(EventKind kind, uint32_t flags);
  // In the current context; inserts the handle. Raises 107002, 207000, 207007.
  static base::Ref<Event> create(EventKind kind, uint32_t flags);

  EventKind kind() const { return kind_; }
  uint32_t flags() const { return flags_; }

  // Raises what the call answers for such an event before it looks at context and stream.
  void check(EventCall call) const;
  // Raises 207000 for the kind that cannot be reset; asked after the context.
  void check_resettable() const;
  // Raises 207000 for a kind that the stream cannot record, 107028 while a capture records the
  // event, 107000 when it belongs to a model instance.
  void check_recordable(const Stream& stream) const;
  void check_not_recorded() const;
  // Whether a reset does nothing at all, not even look at the stream (undefined for plain events;
  // 950).
  bool reset_is_ignored() const;

  void record(Stream& stream);
  // Makes the stream wait; timeout_s 0 = for ever. Raises 107000 when a plain event was never
  // recorded.
  void wait(Stream& stream, uint32_t timeout_s);
  void reset(Stream& stream);

  // An event is recorded (waited for) either inside captures for the outside to see (EXTERNAL) or
  // in the usual way; the first call settles it. Raises 107000 for the other one, 207000 for a kind
  // that is never EXTERNAL.
  enum class Use : uint8_t { kRecord, kWait };
  void settle_use(Use use, bool external) {
    const uint8_t wanted = external ? 2 : 1;
    if (uses_[static_cast<size_t>(use)].load(std::memory_order_relaxed) != wanted) {
      settle_first_use(use, wanted);
    }
  }
  // Record and wait past the rules of captures: the task itself is recorded, and stands for the
  // event that the outside sees.
  void record_external(Stream& stream);
  void wait_external(Stream& stream, uint32_t timeout_s);

  // An event that another process exported; raises 107000. The token of one made with
  // ACL_EVENT_IPC, 0 of any other.
  static base::Ref<Event> open(uint64_t token);
  uint64_t token() const { return shared_ ? shared_->token() : 0; }

  // The capture that recorded the event, and its record (none of an EXTERNAL event); guarded by
  // recording_mutex().
  ModelInstance* capture() const { return capture_.load(std::memory_order_relaxed); }
  Record* captured_record() const { return captured_record_; }
  void set_capture(ModelInstance* instance, Record* record) {
    captured_record_ = record;
    capture_.store(instance, std::memory_order_release);
  }
  bool captured() const { return capture_.load(std::memory_order_acquire) != nullptr; }
  bool has_sync() const;

  bool recorded() const;  // a record was issued at some time
  bool finished() const;  // the latest record is done; false when there is none
  bool waits_pending() const;
  // Waits for the latest record. False when timeout_ms (-1 = forever) passed.
  bool synchronize(int64_t timeout_ms) const;

  // Milliseconds from start to end. Raises 507000, 107006.
  static float elapsed_ms(const Event& start, const Event& end);
  // Microseconds of the device clock. Raises 507000, 107006.
  uint64_t timestamp_us() const;
  // The hardware event id. Raises 507000 when it has none now.
  uint32_t id() const;

 private:
  Event(Device& device, EventKind kind, uint32_t flags);
  ~Event() override = default;
  bool waits_by_level() const;
  bool takes_id_at_creation() const;
  bool record_now(Stream& stream);
  bool nothing_to_wait_for(const Stream& stream) const;
  IdLease lease_for_record(Stream& stream) const;
  void check_recorded() const;
  void settle_first_use(Use use, uint8_t wanted);
  void record_shared(Stream& stream);
  void wait_shared(Stream& stream, uint32_t timeout_s);
  bool shared_done(uint64_t number) const;
  int64_t time_ns() const;

  Device& device_;
  IdPool& ids_;
  const EventKind kind_;
  const uint32_t flags_;
  const bool takes_id_per_record_;
  base::Ref<EventState> state_;
  IdLease lease_;                               // kFlag
  base::Ref<memory::SharedWords> shared_;       // of IPC events: records issued, records done
  std::atomic<int32_t> last_id_;                // -1: none
  std::array<std::atomic<uint8_t>, 2> uses_{};  // by Use; 1: as usual, 2: EXTERNAL
  std::atomic<ModelInstance*> capture_{nullptr};
  Record* captured_record_ = nullptr;
  std::atomic<bool> in_model_{false};  // recorded by a stream that is bound to a model instance
};

// The event behind a handle; raises 107017.
base::Ref<Event> event_behind(void* handle);
// The same without a reference, inside a base::Peek.
Event& peek_event(const void* handle);

// Limit for waits of aclrtStreamWaitEvent issued from now on; 0 = none.
void set_wait_timeout_s(uint32_t timeout_s);
uint32_t wait_timeout_s();

// Free event ids of a device.
uint32_t available_events(int32_t device);

}  // namespace ascendrt::core
