// Device and host memory as the layers above see it.
// Owns: the contract. Device memory of device d is one reserved address range; the client's view of
// it is PROT_NONE (a host dereference faults, as on a card), the engines work through an alias.
// Must never: know streams, contexts or models.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gen/abi.h"

namespace ascendrt::memory {

// Where an address lies.
enum class Place : uint8_t {
  kPageable,  // ordinary host memory the runtime knows nothing of
  kPinned,    // aclrtMallocHost, or registered
  kDevice,    // inside a device's range (allocated or not)
  kManaged,   // aclrtMemAllocManaged: host and devices use it
};

struct Location {
  Place place = Place::kPageable;
  int32_t device = 0;  // index of the emulated device, for kDevice
};

// Kinds of device pages: normal ones of 4 KiB, huge ones of 2 MiB (and 1 GiB).
enum class Pages : uint8_t { kNormal, kHuge };

// Tells the layer what machine to emulate; the first call counts, the runtime makes it before
// anything else. device_bytes is the SoC's memory, ASCENDRT_HBM_SIZE overrides it. Also reads
// ASCENDRT_DEVICE_MEMORY, ASCENDRT_FILL, ASCENDRT_HOST_MEMORY and ASCENDRT_MACHINE; raises 100000
// when one of them is wrong. Maps nothing.
void configure(uint32_t devices, uint64_t device_bytes);

// Called when memory is used before that, and has to see to it: set while the library is loaded.
inline void (*g_first_use)() = nullptr;
// The "memory" section of aclInit's configuration, as names and values; counts for devices opened
// later. Raises 100000.
void configure_knobs(const std::vector<std::pair<std::string, std::string>>& section);

// Reserves the device's addresses and joins the machine's ledger; free when that was done before.
// Raises 507033 with the host's reason when the host refuses.
void open_device(int32_t device);

struct Usage {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

Location locate(const void* address);

// Allocates size_bytes of device memory on a device (already padded by the caller). The policy
// chooses the pages: huge ones above 1 MiB, or as it says; unknown policies count as the default. A
// block takes whole pages, its bounds are those of size_bytes. The start is at least 64-byte
// aligned. Contents are undefined (docs/memory.md says what to expect). Raises 207001 when the
// device, or the host behind it, has no room: the text says which, how much was asked, how much is
// free, and which variable to change.
void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy);

// The same with an owner's number (memory/owners.hpp), past all caches.
void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy,
                      uint16_t owner);

// The pool of a context: what its threads allocate comes from there. padding is what the chip adds
// to sizes. Raises 207001 when the initial size cannot be had.
class Pool;
Pool& open_pool(int32_t device, uint32_t context, uint64_t padding);
// The context ends: its caches go back to the device, live blocks are told as leaks and stay valid
// (or are freed, see ASCENDRT_CONTEXT_RECLAIM).
void close_pool(Pool& pool);
// From the pool; afterwards mallocs of the calling thread try the pool's fast lane first, until
// forget_pool(). Raises 107002 when the context ended meanwhile.
// slack: how much of the size is padding.
void* allocate_device(Pool& pool, uint64_t size_bytes, aclrtMemMallocPolicy policy, uint64_t slack);
// The calling thread has another current context, or none.
void forget_pool();
// Set before the first call when every malloc and free has to be seen: there are no lanes then.
inline std::atomic<bool> g_all_calls_seen{false};

// Raises 107000 for an address that is not the start of a live allocation (double free, foreign).
void free_device(void* address);

// The live allocation that holds an address; raises 107000 when there is none.
struct Allocation {
  void* start = nullptr;
  uint64_t size_bytes = 0;
  uint64_t page_bytes = 0;  // of the pages behind it: 4 KiB or 2 MiB
};
Allocation find_device(const void* address);
// Whether find_device() would find one.
bool is_live(const void* address);
// The same for all memory of the runtime, pinned blocks included.
Allocation find_block(const void* address);

// Host memory for engines, aligned to 512 bytes. Raises 207001.
void* allocate_pinned(uint64_t size_bytes);
// Raises 107000 for an address that is not the start of a live pinned allocation.
void free_pinned(void* address);

// Makes ordinary memory of the client count as pinned. Raises 507910 when part of it is registered
// already, 107000 when part of it is no memory of this process.
void register_host(const void* address, uint64_t size_bytes);
// Raises 507911 when no registered range starts there.
void unregister_host(const void* address);

// Host address through which engines may read and write [address, address + size_bytes).
// Device addresses are translated to the alias, after a check that the whole range lies inside one
// live allocation (107000 otherwise, with a text naming the nearest allocation); host addresses are
// returned as they are; handles (which are no memory) raise 107000. With size_bytes 0 nothing is
// checked. A view stays mapped for ever, so using it after the memory was freed reads garbage but
// never faults. Raises 207001 when the host cannot give the pages the range still lacks.
void* view(const void* address, uint64_t size_bytes);

// Copies and fills by address, whatever the places (device ranges are checked as in view()). Ranges
// of a copy may overlap. A host address that cannot be read or written raises 107000 as the driver
// would, instead of ending the process.
void copy(void* dst, const void* src, uint64_t size_bytes);
void fill(void* dst, int32_t value, uint64_t size_bytes);
// Copies height rows of width bytes; the whole extents must lie in live allocations.
struct Rows {
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t dst_pitch = 0;
  uint64_t src_pitch = 0;
};
void copy_rows(void* dst, const void* src, const Rows& rows);

// Which devices a device was allowed to reach. Only remembered: copies between devices always work.
void set_peer_access(int32_t device, int32_t peer, bool enabled);
bool peer_access(int32_t device, int32_t peer);

// Ledger of the device, shared by all processes of the emulated machine.
Usage usage(int32_t device);
// The part of it in huge or in normal pages; see Note [Page pools].
Usage usage(int32_t device, Pages kind);

// What one kind of user holds of the device in this process, and held at most; largest first.
struct UsageOf {
  const char* name;
  uint64_t bytes = 0;
  uint64_t peak_bytes = 0;
};
std::vector<UsageOf> usage_by_owner(int32_t device);

// True with ASCENDRT_DEVICE_MEMORY=open (board mode): the client may dereference device pointers.
bool open_mode();

// Name of the emulated machine (ASCENDRT_MACHINE).
const std::string& machine_name();

// For `ascendrt info`: "2 MiB huge pages" or "4 KiB pages".
std::string page_kind();

}  // namespace ascendrt::memory
