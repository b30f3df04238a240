// Functions that clients want called when streams and devices come and go.
// Owns: the lists. Must never: hold a lock while one of them runs.
#pragma once

#include <cstdint>

#include "gen/abi.h"

namespace ascendrt::core {

class Context;
class Device;
class Stream;

// A null function takes the name back, known or not; a name that is taken raises 107000.
void watch_streams(const char* name, aclrtStreamStateCallback function, void* data);
void watch_devices(const char* name, aclrtDeviceStateCallback function, void* data);

// The end of a stream is told once, and only of streams whose beginning was told: those of the
// client and default ones.
void tell_created(Stream& stream);
void tell_ending(Stream& stream);
// Of all streams of a context, the default one first; `between` is called after that.
void tell_ending(const Context& context, void (*between)(const Device&) = nullptr);

void tell_device(const Device& device, aclrtDeviceState state);
// ACL_RT_DEVICE_STATE_SET_PRE, when the device has no context yet.
void tell_opening(const Device& device);

}  // namespace ascendrt::core
