// An emulated device: its SoC, its id, its primary context and the references on it.
// Must never: own memory (memory/ does, per device index).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"
#include "base/ref.hpp"
#include "gen/soc.inc"

namespace ascendrt::core {

class Context;

inline constexpr uint32_t kAllCores = UINT32_MAX;

class Device {
 public:
  Device(int32_t index, const gen::Soc& soc);
  ~Device();

  int32_t index() const { return index_; }  // physical index on the emulated machine
  const gen::Soc& soc() const { return soc_; }

  // aclrtSetDevice: one more reference on the primary context, made at the first and revived (same
  // handle) after a teardown.
  base::Ref<Context> retain_primary();
  // aclrtResetDevice: one less. True when this was the last one and the primary context was torn
  // down. Raises 507007 when there is none.
  bool release_primary();
  // aclrtResetDeviceForce: all references at once; 507007 when there is none.
  void release_primary_forced();
  uint32_t references() const;
  // The primary context while it is active, else null.
  base::Ref<Context> primary() const;
  // The same without a reference; a primary context is never destroyed.
  Context* peek_primary() const { return active_.load(std::memory_order_acquire); }

  // Most cores of a kind (aclrtDevResLimitType) that this process uses; kAllCores: all there are.
  std::array<std::atomic<uint32_t>, 2> core_limits{kAllCores, kAllCores};

 private:
  // Tells that streams and the device end, when no more than so many references are left.
  void tell_last_release(uint32_t last) const;

  const int32_t index_;
  const gen::Soc& soc_;
  // change_ serialises making, reviving and tearing down, which wait for streams; mutex_ guards the
  // two fields and is never held while waiting.
  base::RankedMutex change_{base::Rank::kRegistry};
  mutable base::RankedMutex mutex_{base::Rank::kDevice};
  base::Ref<Context> kept_;  // stays after teardown
  uint32_t references_ = 0;
  std::atomic<Context*> active_{nullptr};  // kept_ while there are references
};

}  // namespace ascendrt::core
