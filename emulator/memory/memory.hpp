// Device and host memory as the layers above see it.
// Owns: the contract. Device memory of device d is one reserved address range; the client's view of
// it is PROT_NONE (a host dereference faults, as on a card), the engines work through an alias.
// Must never: know streams, contexts or models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gen/abi.h"

namespace ascendrt::memory {

// Where an address lies.
enum class Place : uint8_t {
  kPageable,  // ordinary host memory the runtime knows nothing of
  kPinned,    // aclrtMallocHost, or registered
  kDevice,    // inside a device's range (allocated or not)
};

struct Location {
  Place place = Place::kPageable;
  int32_t device = 0;  // index of the emulated device, for kDevice
};

struct Usage {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

Location locate(const void* address);

// Allocates size_bytes of device memory on a device (already padded by the caller).
// The start is at least 64-byte aligned. Contents are undefined (filled with a pattern).
// Raises 207001 when the device, or the host behind it, has no room: the text says which, how much
// was asked, how much is free, and which variable to change.
void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy);

// Raises 107000 for an address that is not the start of a live allocation (double free, foreign).
void free_device(void* address);

void* allocate_pinned(uint64_t size_bytes);
void free_pinned(void* address);

// Host address through which engines may read and write [address, address + size_bytes).
// Device addresses are translated to the alias, after a check that the whole range lies inside one
// live allocation (107000 otherwise, with a text naming the nearest allocation); host addresses are
// returned as they are.
void* view(const void* address, uint64_t size_bytes);

// Ledger of the device, shared by all processes of the emulated machine.
Usage usage(int32_t device);

// True with ASCENDRT_DEVICE_MEMORY=open (board mode): the client may dereference device pointers.
bool open_mode();

// For `ascendrt info`: "2 MiB huge pages" or "4 KiB pages".
std::string page_kind();

}  // namespace ascendrt::memory
