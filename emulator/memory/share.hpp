// Memory that processes of the emulated machine share: shareable handles and IPC keys.
// Owns: what this process shares, and what it attached by key.
// Must never: trust what another process wrote, or let it change the size of what is mapped here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/virtual.hpp"

namespace ascendrt::memory {

// Note [Sharing]
// A token names the process, the open file that holds the record of what is shared, and a number
// that is not used twice. The record is a sealed memory file: sizes, place, allowed processes. Who
// has the token opens both files through /proc/<process>/fd, which the kernel grants to the same
// user only, and checks all it finds there; nothing has a name in a folder, and nothing stays
// behind when a process is killed. The token is the shareable handle; in hexadecimal it is the key.
enum class Pids : uint8_t { kListed, kAny };

// What is shared: part of a memory file.
struct Part {
  int file = -1;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int32_t device = 0;
  aclrtPhysicalMemProp prop{};
};

// Raises 107000 when that part is shared already.
uint64_t share(const Part& part, Pids pids);
// Adds allowed processes; raises 107000 when this process shares nothing under the token, or for a
// pid that is none.
void allow(uint64_t token, const int32_t* pids, size_t count);
// Opens what a token names; raises 107000 with the reason.
base::Ref<Physical> open_shared(uint64_t token);
bool shared_here(uint64_t token);
// Whether this process has shared anything, or opened what another one shared.
bool ever_shared();
// Ends the sharing; false when there was none.
bool withdraw(uint64_t token);

// The part of a live allocation, to be shared; raises 107000 unless all of it lies in one.
Part part_of(const void* address, uint64_t bytes);
// IPC memory: attaches a shared part to this process; ends that, or ends the sharing (in the
// process that shares). Raises 107000.
void* attach_shared(uint64_t token);
void close_shared(uint64_t token);

}  // namespace ascendrt::memory
