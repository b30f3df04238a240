// Host addresses that a client gave, tried before they are used. Must never: read what they hold.
#pragma once

#include <cstdint>

namespace ascendrt::memory {

// Raises 100000 that names `what` unless the host can read all of [address, address + size_bytes):
// a device pointer, or one to less memory, would end the process.
void check_readable(const void* address, uint64_t size_bytes, const char* what);

}  // namespace ascendrt::memory
