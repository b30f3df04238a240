#include "core/settings.hpp"

#include <algorithm>

namespace ascendrt::core {
namespace {

constexpr uint64_t kMicrosPerSecond = 1'000'000;
// 2^32 counts of a nanosecond, 254 of which are the 1091 s of the manual.
constexpr uint64_t kLongInterval = 4'294'967;

}  // namespace

Settings& settings() {
  static Settings all;
  return all;
}

uint64_t op_timeout_interval_us(const gen::Soc& soc) {
  if (soc.op_timeout_max_s == 0) return kLongInterval;
  return static_cast<uint64_t>(soc.op_timeout_max_s) * kMicrosPerSecond / kTimeoutIntervals;
}

uint64_t op_timeout_us(const gen::Soc& soc) {
  const Settings& all = settings();
  if (all.op_timeout_given) return all.op_timeout_us;
  return static_cast<uint64_t>(soc.op_timeout_s) * kMicrosPerSecond;
}

uint64_t actual_op_timeout_us(const gen::Soc& soc, uint64_t asked_us) {
  const uint64_t interval = op_timeout_interval_us(soc);
  if (asked_us == 0) return interval * kTimeoutIntervals;
  const uint64_t whole = asked_us / interval + (asked_us % interval != 0 ? 1 : 0);
  return std::min(whole, kTimeoutIntervals) * interval;
}

}  // namespace ascendrt::core
