// The cost model: how long tasks take on the modelled clock. Owns: the chip's figures
// (gen/timing.inc), what ASCENDRT_TIMING changes in them, and the settings of modelled time.
// Must never: read a clock or know of streams; the same load always takes the same time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/load.hpp"
#include "core/task.hpp"
#include "gen/soc.inc"
#include "gen/timing.inc"

namespace ascendrt::core {

class CostModel {
 public:
  // settings: "key=value,..." or the path of a file with one such setting per line. Raises 100000
  // that names the key or file.
  CostModel(const gen::Soc& soc, const std::string& settings);

  // Duration and cores of a task; release time and order are the executor's.
  Timing timing_of(Engine engine, const char* name, const Load& load) const;
  // Cores of a compute engine, places of another. Kernels of fused chips share one engine.
  uint32_t capacity(Engine engine) const;
  Engine engine_for(Engine engine) const;

  const gen::TimingRow& row() const { return row_; }
  int64_t event_latency_ns() const { return to_ns(row_.event_latency_us); }
  // The settings as they were taken, sorted; for the header of a trace.
  std::string settings() const;

  static int64_t to_ns(double us);

 private:
  struct Operator {
    std::optional<double> us;
    uint32_t cores = 0;
  };

  void set(const std::string& key, const std::string& value);
  void set_operator(const std::string& key, const std::string& value);
  const Operator* find(const char* name) const;
  double kernel_us(Engine engine, const Load& load, uint32_t& cores) const;
  double waves(Engine engine, const Load& load, uint32_t blocks) const;
  double copy_us(Engine engine, const Load& load) const;

  const gen::Soc& soc_;
  gen::TimingRow row_;
  std::map<std::string, Operator, std::less<>> operators_;
  std::map<std::string, std::string> taken_;
};

enum class ClockMode : uint8_t { kReal, kVirtual, kPaced };

struct TimeSettings {
  ClockMode mode = ClockMode::kReal;
  std::string timing;  // ASCENDRT_TIMING
  uint64_t seed = 0;
  bool seeded = false;  // ASCENDRT_SCHED_SEED is set: the order of equals is drawn as well
  int64_t grace_ns = 0;
};

// From the environment. Raises 100000.
TimeSettings read_time_settings();

// The same text at an address that stays; null for null.
const char* interned(const char* text);

}  // namespace ascendrt::core
