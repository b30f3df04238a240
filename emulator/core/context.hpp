// A context: owner of streams on one device; threads make it current.
// Must never: own memory, or vanish while a thread has it current.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "base/ref.hpp"

namespace ascendrt::memory {
class Pool;
}

namespace ascendrt::core {

class Device;
class Stream;

class Context : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kContext;

  // Makes the context with its default stream and inserts its handle.
  static base::Ref<Context> create(Device& device, bool primary);
  ~Context() override;

  // Those of a device that live.
  static std::vector<base::Ref<Context>> on_device(const Device& device);

  Device& device() const { return device_; }
  bool primary() const { return primary_; }
  uint32_t id() const { return id_; }
  // Device memory for this context's threads; null between teardown and revival.
  memory::Pool* pool() const { return pool_.load(std::memory_order_acquire); }
  // False between teardown and revival (primary) or from destroy on (explicit).
  bool alive() const { return state_.load(std::memory_order_acquire) == State::kAlive; }

  base::Ref<Stream> default_stream() const;
  // The same without a reference, inside a base::Peek.
  Stream* peek_default_stream() const { return peeked_.load(std::memory_order_acquire); }
  // All streams, the default one last (the order in which a device synchronize waits).
  std::vector<base::Ref<Stream>> streams() const;
  void add_stream(const base::Ref<Stream>& stream);
  void remove_stream(const Stream* stream);

  // Marks an explicit context dead and tears it down. Raises 107002 when it was dead already,
  // 507007 when it is being torn down or a thread still has the dead context current.
  void destroy();
  // Ends all streams (waiting for their work or dropping it). The handle of a primary context
  // stays.
  void tear_down(bool wait);
  // Gives a torn-down primary context a new default stream.
  void revive();

  // Threads that have this context in their explicit slot. A destroyed context stays known (so that
  // a second destroy can be told from a foreign pointer) until the last of them lets go.
  void attach_thread();
  void detach_thread();

  // aclSysParamOpt values set in this context.
  std::optional<int64_t> parameter(int32_t option) const;
  void set_parameter(int32_t option, int64_t value);

 private:
  enum class State : uint8_t { kAlive, kTearingDown, kDead };
  Context(Device& device, bool primary);
  void open_pool();

  Device& device_;
  const bool primary_;
  const uint32_t id_;
  mutable base::RankedMutex mutex_{base::Rank::kContext};
  std::atomic<State> state_{State::kAlive};  // written under the lock
  uint32_t threads_ = 0;
  base::Ref<Stream> default_stream_;
  std::atomic<Stream*> peeked_{nullptr};  // the same; null before its handle is removed
  std::vector<base::Ref<Stream>> streams_;
  std::map<int32_t, int64_t> parameters_;
  std::atomic<memory::Pool*> pool_{nullptr};
};

// The calling thread's context: explicit, else primary of the device slot, else the JSON default
// device (set implicitly, one reference per thread). Raises 107002 when there is none, or when it
// is dead (then the thread's slot is emptied too).
base::Ref<Context> current_context();
// The same without a reference: lives for as long as the thread has it current.
Context& borrow_current_context();
// The same without the JSON default device and without emptying a slot; null instead of raising.
base::Ref<Context> current_context_or_null();
// The context behind a handle, alive or not; null when the pointer is no context.
base::Ref<Context> find_context(const void* handle);

}  // namespace ascendrt::core
