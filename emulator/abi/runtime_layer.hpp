// The runtime layer's view of what the acl layer answers. Must never: hold state.
#pragma once

#include "base/error.hpp"

namespace ascendrt::abi {

// The runtime layer has one code for wrong arguments, 107000, and stores it as last error; checks
// that the shared bodies make as the acl layer (100000, not stored) are told so.
base::Code runtime_code(base::Code code) noexcept;

}  // namespace ascendrt::abi
