// A block of an address range, and what an address has to do with it.
#pragma once

#include <cstdint>

namespace ascendrt::memory {

struct Block {
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t slack = 0;  // of the bytes, what nobody asked for (rounding, padding), where it is known

  uint64_t asked() const { return slack == kUnknown ? bytes : bytes - slack; }
};

// What the index knows of an address.
enum class BlockState : uint8_t { kNever, kFreed, kLive };
struct Found {
  BlockState state = BlockState::kNever;
  Block block;  // the live block, or the one that was freed
};

}  // namespace ascendrt::memory
