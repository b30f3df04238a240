// Differences between chip families that the runtime shows. Must never: hold figures; those are
// rows of gen/soc.inc.
#pragma once

#include <cstdint>
#include <string_view>

#include "gen/soc.inc"

namespace ascendrt::core {

inline bool is_950(const gen::Soc& soc) { return std::string_view(soc.family) == "950"; }
inline bool is_310b(const gen::Soc& soc) { return std::string_view(soc.family) == "310B"; }
inline bool is_310p(const gen::Soc& soc) { return std::string_view(soc.family) == "310P"; }
// The 310 family has LPDDR4X, all others have HBM.
inline bool has_hbm(const gen::Soc& soc) {
  return !std::string_view(soc.family).starts_with("310");
}
// 310P, 910A and 310: the task scheduler before STARS.
inline bool is_old_scheduler(const gen::Soc& soc) {
  const std::string_view family = soc.family;
  return family == "310P" || family == "910A" || family == "310";
}

// Kinds of chips, as bits.
enum Chip : uint32_t { kA2 = 1, kA3 = 2, k950 = 4, k310B = 8, k310P = 16, k910 = 32 };
inline constexpr uint32_t kA2A3950 = kA2 | kA3 | k950;

inline uint32_t chip_of(const gen::Soc& soc) {
  const std::string_view family = soc.family;
  if (family == "910B") return kA2;
  if (family == "910_93") return kA3;
  if (family == "950") return k950;
  if (family == "310B") return k310B;
  return family == "310P" ? k310P : k910;
}

}  // namespace ascendrt::core
