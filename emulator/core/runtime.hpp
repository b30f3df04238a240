// The process-wide runtime: configuration, devices, init state.
// Leaked on purpose; exit only quiesces. Must never: be reached through static destructors.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "core/device.hpp"

namespace ascendrt::core {

class Runtime {
 public:
  // Devices the user sees after ASCEND_RT_VISIBLE_DEVICES. Raises 207004 when the variable is bad.
  uint32_t device_count() const;
  // User-visible id -> device. Raises 107001 when out of range.
  Device& device(int32_t user_id);
  Device& physical_device(int32_t index) { return *devices_[static_cast<size_t>(index)]; }
  uint32_t physical_device_count() const { return static_cast<uint32_t>(devices_.size()); }
  int32_t user_id(const Device& device) const;
  const gen::Soc& soc() const { return *soc_; }

  // aclInit, aclFinalize, aclFinalizeReference. init() gives 0, or 100002 when it was initialised
  // already (the count still rises); finalize_reference() gives the remaining count.
  base::Code init(const char* config_path);
  void finalize();
  uint64_t finalize_reference();
  // Text of the first aclInit's configuration.
  std::string config();
  bool initialised() const { return init_count_.load(std::memory_order_acquire) > 0; }
  // Device id of the JSON configuration, used by threads that have set none.
  std::optional<int32_t> default_device() const;

  // Process-wide aclSysParamOpt values; 0 when never set.
  int64_t parameter(int32_t option) const;
  void set_parameter(int32_t option, int64_t value);

 private:
  friend Runtime& runtime();
  Runtime();
  void read_visible_devices();
  void apply_config(const std::string& text);
  void run_init(const std::string& text, bool with_file);
  void run_finalize();

  const gen::Soc* soc_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<int32_t> visible_;  // user id -> physical index
  std::string visible_problem_;   // why ASCEND_RT_VISIBLE_DEVICES was refused, empty if fine
  mutable base::RankedMutex mutex_{base::Rank::kRegistry};
  std::atomic<uint64_t> init_count_{0};
  // Held through aclInit and aclFinalize with the functions registered for them, which may call
  // back; `busy_` tells such a call.
  std::recursive_mutex init_mutex_;
  bool busy_ = false;
  bool finalised_ = false;
  std::optional<std::string> first_config_;
  std::atomic<int32_t> default_device_{-1};
  std::map<int32_t, int64_t> parameters_;
};

// Made at first use. Raises when the environment is wrong (unknown SoC, bad number ...).
Runtime& runtime();

}  // namespace ascendrt::core
