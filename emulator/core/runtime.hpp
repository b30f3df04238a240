// The process-wide runtime: configuration, devices, init state.
// Leaked on purpose; exit only quiesces. Must never: be reached through static destructors.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "core/device.hpp"

namespace ascendrt::core {

class Runtime {
 public:
  // Devices the user sees after ASCEND_RT_VISIBLE_DEVICES. Raises 207004 when the variable is bad.
  uint32_t device_count() const;
  // User-visible id -> device. Raises 107001 when out of range.
  Device& device(int32_t user_id);
  int32_t user_id(const Device& device) const;
  const gen::Soc& soc() const { return *soc_; }
  uint32_t physical_device_count() const { return static_cast<uint32_t>(devices_.size()); }

  // aclInit / aclFinalize state (reference count, first configuration text).
  bool initialised() const { return init_count_.load(std::memory_order_acquire) > 0; }
  void init(const char* config_path);
  void finalize();
  uint64_t finalize_reference();
  std::optional<int32_t> default_device() const;

  // True in the child of a fork: every call answers with a clear error instead of hanging.
  bool forked() const;

 private:
  friend Runtime& runtime();
  Runtime();
  void parse_visible_devices();

  const gen::Soc* soc_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<int32_t> visible_;
  bool visible_ok_ = true;
  mutable base::RankedMutex mutex_{base::Rank::kRegistry};
  std::atomic<uint64_t> init_count_{0};
  bool finalised_ = false;
  std::optional<std::string> first_config_;
  std::optional<int32_t> default_device_;
  int pid_ = 0;
};

// Made at first use. Raises when the environment is wrong (unknown SoC, bad number ...).
Runtime& runtime();

}  // namespace ascendrt::core
