// Checks that many entries share, with the runtime layer's codes.
// Must never: look at anything but its arguments and the chip.
#pragma once

#include <cstdint>
#include <string>

#include "abi/boundary.hpp"
#include "core/chip.hpp"
#include "core/runtime.hpp"

namespace ascendrt::abi {

// 107000: found by the runtime layer, stored as last error.
[[noreturn]] inline void refuse_value(const std::string& text) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID, text);
}
// Null pointers that only the runtime layer finds.
inline void check_given(const void* argument, const char* name) {
  if (argument == nullptr) refuse_value("argument " + std::string(name) + " is a null pointer");
}
// 100000 unless a reserved argument is 0.
inline void check_reserved(uint64_t value, const char* name) {
  if (value == 0) return;
  refuse_argument("argument " + std::string(name) + " is " + std::to_string(value) +
                  ", it is reserved and must be 0");
}

// 207000 unless the chip is one of those (bits of core::Chip).
inline void require_chip(uint32_t chips) {
  const gen::Soc& soc = core::runtime().soc();
  if ((chips & core::chip_of(soc)) != 0) return;
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             std::string(soc.name) + " does not have this function; ASCENDRT_SOC chooses the chip",
             base::Layer::kRuntimeNotStored);
}

}  // namespace ascendrt::abi
