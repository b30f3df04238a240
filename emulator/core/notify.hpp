// Notifies: a flag, or a count, that streams set and wait for; flags also across processes.
// Owns: the values. Must never: block anything but the waiting stream.
#pragma once

#include <cstdint>

#include "base/function.hpp"
#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "core/id_pool.hpp"
#include "memory/shared_words.hpp"

namespace ascendrt::core {

class Device;
class Stream;

// A task that holds the stream until the condition holds; asked outside all locks, by one thread at
// a time. 0 s: no limit. The second function says whether other processes have a hand in it; empty:
// they have not.
void wait_until(Stream& stream, const char* name, base::Function<bool()> ready, uint32_t timeout_s,
                base::Function<bool()> foreign);
// A task that changes what others may wait for so.
void change_watched(Stream& stream, const char* name, base::Function<void()> change);

class Notify : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kNotify;

  // Inserts the handle; raises 207009.
  static base::Ref<Notify> create(Device& device);
  // One that another process exported; raises 107000.
  static base::Ref<Notify> open(Device& device, uint64_t token);

  uint32_t id() const { return static_cast<uint32_t>(lease_.id()); }
  Device& device() const { return device_; }
  bool imported() const { return shared_ && shared_->imported(); }
  void record(Stream& stream);
  void wait_and_reset(Stream& stream, uint32_t timeout_s);
  void reset();
  // Shares it; the token, which stays the same.
  uint64_t share(memory::Pids pids);
  // Lets processes import it; raises 107000 when it is not shared.
  void allow(const int32_t* pids, size_t count);

 private:
  explicit Notify(Device& device) : device_(device) {}
  uint64_t exchange(uint64_t value);
  bool shared();

  Device& device_;
  IdLease lease_;
  base::RankedMutex mutex_{base::Rank::kLeaf};
  uint64_t own_ = 0;  // until it is shared
  base::Ref<memory::SharedWords> shared_;
};

class CntNotify : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kCntNotify;
  // Inserts the handle; raises 207009.
  static base::Ref<CntNotify> create(Device& device);

  uint32_t id() const { return static_cast<uint32_t>(lease_.id()); }
  void record(Stream& stream, int32_t mode, uint32_t value);
  void wait(Stream& stream, int32_t mode, uint32_t value, bool clear, uint32_t timeout_s);

 private:
  IdLease lease_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace ascendrt::core
