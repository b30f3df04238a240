// Bad addresses: a report when the host dereferences a device pointer or a handle, and copies that
// survive a bad host pointer. Owns: the SIGSEGV handler. Must never: allocate, lock or throw in the
// handler, or swallow a fault that is not its own.
#pragma once

#include <cstdint>

namespace ascendrt::memory {

// Note [Fault handler]
// Installed when the first arena or copy needs it. It looks only at faults of the kernel whose
// address lies in our own ranges (device windows, pinned memory, handles); it then says which
// allocation was touched and what to use instead. In any case the handler that was there before
// gets the signal; without one the default action is restored and the instruction faults again, so
// the process dies of SIGSEGV and the core shows the place. A handler installed later (a
// debugger's, a language runtime's) comes first and reaches ours by chaining.
void install_fault_handler();

// Calls body(argument). False when it faulted; *address is then the place. The body must be plain
// copying: it is left by a jump.
bool survive_fault(void (*body)(void*), void* argument, const void** address);

// Raises 100000 that names `what` unless the host can read all of [address, address + size_bytes):
// a device pointer, or one to less memory, would end the process.
void check_readable(const void* address, uint64_t size_bytes, const char* what);

}  // namespace ascendrt::memory
