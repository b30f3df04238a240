// The memory of one emulated device in this process: file, mappings, blocks.
// Owns: the memory file, the engines' alias of the client's range, the heap over it.
// Must never: be destroyed (engines may still hold views), or let the client's view be written in
// strict mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "memory/budget.hpp"
#include "memory/heap.hpp"
#include "memory/ledger.hpp"
#include "memory/memory.hpp"

namespace ascendrt::memory {

// What fresh memory holds. Contents of fresh memory are undefined on a card, and zeros would hide
// that.
enum class Fill : uint8_t {
  kAuto,  // pattern in blocks up to kFillAutoBytes; larger ones hold zeros or what was there before
  kOn,    // pattern in all blocks, and another one in freed blocks
  kOff,
};
inline constexpr uint64_t kFillAutoBytes = 65536;

// Pages that an allocation asks for.
struct PagePlan {
  Pages kind = Pages::kNormal;
  uint64_t page_bytes = 0;  // of huge pages: 2 MiB or 1 GiB
  bool fallback = false;    // normal pages do when no such page is left
};

class Arena final : private Heap::Backing {
 public:
  struct Setup {
    int32_t device = 0;
    std::byte* client = nullptr;  // reserved range of the client's view
    uint64_t bytes = 0;
    bool open = false;  // the client may dereference device pointers
    Fill fill = Fill::kAuto;
  };
  Arena(const Setup& setup, Ledger& ledger, Budget& budget);

  // Raises 207001.
  std::byte* allocate(uint64_t bytes, const PagePlan& plan);
  // Raises 107000.
  void free(std::byte* address);
  // See memory::view(). address lies in the client's range.
  std::byte* view(const std::byte* address, uint64_t bytes) {
    const auto offset = static_cast<uint64_t>(address - setup_.client);
    const Found found = heap_.find(offset);
    const uint64_t end = found.block.offset + found.block.bytes;
    if (found.state != BlockState::kLive || bytes > end - offset)
      refuse_view(address, bytes, found);
    if (bytes >= kMeterFrom && !budget_.spend(bytes)) meter(offset, bytes);
    return alias_ + offset;
  }
  // Lock-free; also from a signal handler.
  Found find(const std::byte* address) const {
    return heap_.find(static_cast<uint64_t>(address - setup_.client));
  }
  // Kind of the pages behind a live block.
  Pages pages_at(uint64_t offset) const { return static_cast<Pages>(heap_.tag_of(offset)); }
  uint64_t touched_bytes() const;
  const Setup& setup() const { return setup_; }
  int file() const { return file_; }
  void trim() { heap_.trim(); }

 private:
  static constexpr uint64_t kMeterFrom = 65536;  // smaller views are not worth watching

  bool acquire(Block run, uint8_t tag) override;
  void release(Block run, uint8_t tag) override;
  void discard(Block free_run) override;
  void meter(uint64_t offset, uint64_t bytes);
  void fill(uint64_t offset, uint64_t bytes, uint16_t pattern);
  [[noreturn]] void refuse_allocation(uint64_t bytes, Heap::Outcome outcome);
  [[noreturn]] void refuse_view(const std::byte* address, uint64_t bytes, const Found& found) const;

  const Setup setup_;
  Ledger& ledger_;
  Budget& budget_;
  int file_ = -1;
  std::byte* alias_ = nullptr;
  Heap heap_;
};

// "address 0x.. lies 16 bytes into the allocation of ..." for error texts.
std::string describe(const std::byte* client, const std::byte* address, const Found& found);

}  // namespace ascendrt::memory
