// What the memory tiers hold, as JSON for tools. Owns: the form (docs/memory.md describes it).
// Must never: change anything.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ascendrt::memory {

// Live bytes, reserved bytes, bytes kept ready, live blocks, most bytes live at once.
std::array<int64_t, 5> device_figures(int32_t device);
// All devices this process uses: figures by tier, context and owner; with blocks each live block.
std::string snapshot_json(bool blocks);
// The emulated machine: capacity of each device and who holds how much of it.
std::string machine_json();
// The ledger files of this user, of any machine and version.
std::string ledgers_json();
// Removes those that no process uses; gives the paths of what went.
std::string clean_ledgers_json();
// Makes the ledger of a machine new. Raises 507899 when processes use it or it is not ours.
std::string reset_ledger(const std::string& machine);

}  // namespace ascendrt::memory
