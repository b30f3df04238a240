// Functions that clients want called by aclInit and aclFinalize.
// Owns: the lists. Must never: hold its lock while one of them runs.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "gen/abi.h"

namespace ascendrt::core {

// One function per type, any number of ACL_REG_TYPE_OTHER. Raise 100000 for a null function, 500000
// for a type that has one already, or when the function to be removed is not there.
void add_init_callback(aclRegisterCallbackType type, aclInitCallbackFunc function, void* data);
void remove_init_callback(aclRegisterCallbackType type, aclInitCallbackFunc function);
void add_finalize_callback(aclRegisterCallbackType type, aclFinalizeCallbackFunc function,
                           void* data);
void remove_finalize_callback(aclRegisterCallbackType type, aclFinalizeCallbackFunc function);

// Call the functions of a type in the order of registration; the first code other than 0 ends that
// and is raised.
void notify_init(aclRegisterCallbackType type, const std::string& config);
void notify_finalize(aclRegisterCallbackType type);

}  // namespace ascendrt::core
