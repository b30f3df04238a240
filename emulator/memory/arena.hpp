// The memory of one emulated device in this process: file, mappings, blocks.
// Owns: the memory file, the engines' alias of the client's range, the heap over it.
// Must never: be destroyed (engines may still hold views), or let the client's view be written in
// strict mode.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "memory/budget.hpp"
#include "memory/heap.hpp"
#include "memory/ledger.hpp"
#include "memory/memory.hpp"
#include "memory/owners.hpp"
#include "memory/pool.hpp"
#include "memory/settings.hpp"

namespace ascendrt::memory {

// What fresh memory holds. Contents of fresh memory are undefined on a card, and zeros would hide
// that.
enum class Fill : uint8_t {
  kAuto,  // pattern in blocks up to kFillAutoBytes; larger ones hold zeros or what was there before
  kOn,    // pattern in all blocks, and another one in freed blocks
  kOff,
};
inline constexpr uint64_t kFillAutoBytes = 65536;

inline constexpr uint32_t kNoContext = UINT32_MAX;

class Arena final : private Heap::Backing {
 public:
  struct Setup {
    int32_t device = 0;
    std::byte* client = nullptr;  // reserved range of the client's view
    uint64_t bytes = 0;
    bool open = false;  // the client may dereference device pointers
    Fill fill = Fill::kAuto;
    MemorySettings memory;
  };
  Arena(const Setup& setup, Ledger& ledger, Budget& budget);

  // Past the caches, or from a pool. One retry after everything idle was given back, here and by
  // other processes. Raises 207001.
  std::byte* allocate(uint64_t bytes, aclrtMemMallocPolicy policy, Pool* pool = nullptr,
                      uint16_t owner = 0, uint64_t slack = 0);
  // Raises 107000.
  void free(std::byte* address);

  // A pool for a context. Raises 207001 when its initial size cannot be had.
  Pool& open_pool(uint32_t context, uint64_t padding);
  // Gives all idle memory of the device back: of this process's pools.
  void trim_pools();
  // This process's figures: of one pool after the other, then of what went past all pools.
  std::vector<std::pair<uint32_t, Pool::Figures>> figures();
  Pool::Figures total();
  // The context of a home; kNoContext when it has none.
  uint32_t context_of(uint16_t home) const {
    const Pool* pool = pools_[home].load(std::memory_order_acquire);
    return pool != nullptr ? pool->context() : kNoContext;
  }
  // Reserved and not live.
  Parts idle();

  // For pools. charge() and uncharge() work on the ledger.
  Heap& heap() { return heap_; }
  bool charge(Parts parts);
  void uncharge(Parts parts);
  void fill_fresh(uint64_t offset, uint64_t bytes);
  void fill_freed(uint64_t offset, uint64_t bytes);
  // False when each call must be seen: contents are marked, stacks are remembered.
  bool lanes_allowed() const {
    return setup_.fill != Fill::kOn && !setup_.memory.trace &&
           !g_all_calls_seen.load(std::memory_order_relaxed);
  }
  [[noreturn]] void refuse_pool(uint64_t bytes);
  void settle_leaks(Pool& pool, bool reclaim);
  void take_over(Pool& pool, const Tally& live, Parts reserved);

  // What tagged blocks of a kind hold, and held at most; for users all that is not tagged.
  struct Held {
    int64_t bytes = 0;
    int64_t peak = 0;
  };
  Held held_by(OwnerKind kind);

  // Live blocks of this process, largest first; at most `most`.
  struct Live {
    Heap::Entry entry;
    uint16_t owner = 0;
  };
  std::vector<Live> largest(size_t most) const;
  // See memory::view(). address lies in the client's range.
  std::byte* view(const std::byte* address, uint64_t bytes) {
    const auto offset = static_cast<uint64_t>(address - setup_.client);
    const Found found = heap_.find(offset);
    const uint64_t end = found.block.offset + found.block.bytes;
    if (found.state != BlockState::kLive || bytes > end - offset)
      refuse_view(address, bytes, found);
    if (bytes >= kMeterFrom) {
      if (!viewed_.load(std::memory_order_relaxed)) viewed_.store(true, std::memory_order_relaxed);
      if (!budget_.spend(bytes)) meter(offset, bytes);
      if (bytes >= kHugePage) want_huge(offset, bytes);
    }
    return alias_ + offset;
  }
  // Lock-free; also from a signal handler.
  Found find(const std::byte* address) const {
    return heap_.find(static_cast<uint64_t>(address - setup_.client));
  }
  // Kind of the pages behind a live block.
  Pages pages_at(uint64_t offset) const {
    return heap_.tag_of(offset) == Shape::kNormal ? Pages::kNormal : Pages::kHuge;
  }
  uint64_t touched_bytes() const;
  const Setup& setup() const { return setup_; }
  int file() const { return file_; }
  void trim() { heap_.trim(); }

 private:
  static constexpr uint64_t kMeterFrom = 65536;  // smaller views are not worth watching

  static constexpr size_t kPoolsMax = 4096;

  bool acquire(Block run, uint8_t tag, Heap::Home& home) override;
  void release(Block run, uint8_t tag, Heap::Home& home) override;
  void discard(Block free_run) override;
  bool worth_discarding() override { return viewed_.exchange(false, std::memory_order_relaxed); }
  void meter(uint64_t offset, uint64_t bytes);
  void want_huge(uint64_t offset, uint64_t bytes);
  void fill(uint64_t offset, uint64_t bytes, uint16_t pattern);
  uint64_t attempt(uint64_t bytes, Shape shape, Pool* pool, uint16_t owner, Heap::Outcome& outcome);
  void free_own(std::byte* address, uint64_t offset);
  void note_own(int64_t sign, uint64_t offset, uint64_t bytes, uint16_t owner);
  [[noreturn]] void refuse_free(const std::byte* address) const;
  [[noreturn]] void refuse_allocation(uint64_t bytes, Heap::Outcome outcome);
  std::string holders_text();
  [[noreturn]] void refuse_view(const std::byte* address, uint64_t bytes, const Found& found) const;

  const Setup setup_;
  Ledger& ledger_;
  Budget& budget_;
  int file_ = -1;
  std::byte* alias_ = nullptr;
  std::atomic<uint8_t>* const huge_;  // by 2 MiB of the range: 1 when it was made a huge page
  std::atomic<bool> viewed_{false};   // a large range, since pages were given back
  Heap heap_;
  // Of what went past all pools: home 0.
  mutable base::RankedMutex own_mutex_{base::Rank::kLeaf};
  Tally own_live_;
  int64_t own_peak_ = 0;
  Parts own_reserved_;
  std::array<Held, kOwnerKinds> held_{};
  base::RankedMutex pools_mutex_{base::Rank::kEvent};  // making of pools
  std::array<std::atomic<Pool*>, kPoolsMax> pools_{};  // by home; never destroyed, used again
};

// "address 0x.. lies 16 bytes into the allocation of ..." for error texts.
std::string describe(const std::byte* client, const std::byte* address, const Found& found);

}  // namespace ascendrt::memory
