// Differences between chip families that the runtime shows. Must never: hold figures; those are
// rows of gen/soc.inc.
#pragma once

#include <string_view>

#include "gen/soc.inc"

namespace ascendrt::core {

inline bool is_950(const gen::Soc& soc) { return std::string_view(soc.family) == "950"; }
inline bool is_a3(const gen::Soc& soc) { return std::string_view(soc.family) == "910_93"; }
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

}  // namespace ascendrt::core
