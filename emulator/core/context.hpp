// A context: owner of streams on one device; threads make it current.
// Must never: own memory or be destroyed while its handle is still looked up (Ref keeps it).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "base/ref.hpp"

namespace ascendrt::core {

class Device;
class Stream;

class Context : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kContext;

  // Makes the context with its default stream and inserts its handle.
  static base::Ref<Context> create(Device& device, bool primary);

  Device& device() const { return device_; }
  bool primary() const { return primary_; }
  uint32_t id() const { return id_; }
  // False between teardown and revival (primary) or after destroy (explicit).
  bool alive() const { return alive_.load(std::memory_order_acquire); }

  base::Ref<Stream> default_stream() const;
  // All streams, the default one last (the order in which a device synchronize waits).
  std::vector<base::Ref<Stream>> streams() const;
  void add_stream(const base::Ref<Stream>& stream);
  void remove_stream(const Stream* stream);

  // Destroys all streams. wait = drain them first. The handle stays known for a primary context.
  void tear_down(bool wait);
  void revive();

 private:
  Context(Device& device, bool primary);

  Device& device_;
  const bool primary_;
  const uint32_t id_;
  std::atomic<bool> alive_{true};
  mutable base::RankedMutex mutex_{base::Rank::kContext};
  base::Ref<Stream> default_stream_;
  std::vector<base::Ref<Stream>> streams_;
};

// The calling thread's context: explicit, else primary of the device slot, else the JSON default device
// (set implicitly). Raises 107002 when there is none or it is dead; a dead one is dropped.
base::Ref<Context> current_context();
// The same without the JSON default device; null instead of raising.
base::Ref<Context> current_context_or_null();
// The context behind a handle, alive or not; null when the pointer is no context.
base::Ref<Context> find_context(const void* handle);

}  // namespace ascendrt::core
