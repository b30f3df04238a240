// Blocks of one address range: who is where, and where the next one goes.
// Owns: page runs, slabs of small blocks, and the index from any address to its block.
// Must never: touch the memory it hands out. Offsets count from the start of the range.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.hpp"
#include "memory/runs.hpp"

namespace ascendrt::memory {

struct Block {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What the index knows of an address.
enum class BlockState : uint8_t { kNever, kFreed, kLive };
struct Found {
  BlockState state = BlockState::kNever;
  Block block;  // the live block, or the one that was freed
};

// Note [Heap]
// A block above 16 KiB is a run of pages. Smaller ones are cut from slabs: runs whose blocks all
// have one of 48 sizes, eight steps per power of two. An empty slab goes back at once;
// where no slab fits any more, a small block gets pages of its own.
// The index
// answers "which block holds this address" without a lock, for engines and the fault handler: chunk
// (2 MiB) or page -> first page of the run -> the block. Entries are written when a run is taken
// and never cleared; a stale one leads to a block that does not cover the address, and is
// recognised by that. So a wrong answer is impossible and a lookup that races with a free sees the
// block either live or freed.
class Heap {
 public:
  // What stands behind the range; called with the heap's lock held.
  class Backing {
   public:
    // Before a run comes into use. False: no room (capacity, host), nothing has changed.
    virtual bool acquire(Block run, uint8_t tag) = 0;
    // After a run went out of use; its contents are no longer needed.
    virtual void release(Block run, uint8_t tag) = 0;
    // Free memory that may hold data: give its pages back.
    virtual void discard(Block free_run) = 0;

   protected:
    ~Backing() = default;
  };
  enum class Outcome : uint8_t {
    kOk,
    kNoRange,  // no free range is long enough
    kRefused,  // the backing said no
  };
  struct Result {
    Outcome outcome = Outcome::kOk;
    uint64_t offset = 0;
  };

  Heap(uint64_t bytes, Backing& backing);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // bytes > 0 is rounded up to 32; the start is aligned to 64, and to the largest power of two up
  // to a page that divides bytes.
  // A span above bytes makes the block occupy that much; its bounds stay those of bytes. The
  // backing sees the tag (0 for small blocks).
  Result allocate(uint64_t bytes, uint64_t span_bytes = 0, uint8_t tag = 0);
  // False when no live block starts there.
  bool free(uint64_t offset);
  // Lock-free; also from a signal handler.
  Found find(uint64_t offset) const;

  // The tag of the run that was last put at the address. Lock-free.
  uint8_t tag_of(uint64_t offset) const {
    const uint32_t run = run_of(offset);
    return run == 0 ? uint8_t{0} : run_tags_[run - 1].load(std::memory_order_relaxed);
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t largest_free_bytes() const;
  // Passes all free memory that may hold data to Backing::discard().
  void trim();

 private:
  struct Slab {
    Slab* next = nullptr;
    Slab* prev = nullptr;
    uint32_t first_page = 0;
    uint32_t size_class = 0;
    uint32_t blocks = 0;
    uint32_t free_blocks = 0;
    std::array<uint64_t, 16> free_bits{};
  };
  static constexpr uint32_t kClasses = 48;

  Result allocate_run(uint64_t bytes, uint64_t span_bytes, uint8_t tag);
  Result allocate_small(uint64_t bytes);
  Result take_run(uint64_t bytes, uint8_t tag);
  void give_run(uint32_t first);
  void trim_locked();
  void write_index(uint32_t first, uint32_t pages);
  Slab* make_slab(uint32_t size_class, Outcome& outcome);
  void free_small(Block block, Slab& slab);
  void link(Slab& slab);
  void unlink(Slab& slab);
  // First page + 1 of the run that was last put at the address, 0 if there was none.
  uint32_t run_of(uint64_t offset) const {
    const uint32_t run = chunk_run_[offset >> chunk_shift_].load(std::memory_order_relaxed);
    return run != 0 ? run : page_run_[offset >> page_shift_].load(std::memory_order_relaxed);
  }
  Found find_small(uint32_t first, uint32_t size_class, uint64_t offset) const;
  Block run_block(uint32_t first) const;

  const unsigned page_shift_;
  const unsigned chunk_shift_;
  const uint64_t bytes_;
  Backing& backing_;
  mutable base::RankedMutex mutex_{base::Rank::kArena};
  Runs runs_;
  uint64_t freed_since_trim_ = 0;
  std::array<Slab*, kClasses> partial_{};  // slabs with a free block, by size class

  // The index; all sizes are in entries per page (or per unit of 64 bytes for block_words_).
  std::atomic<uint32_t>* const chunk_run_;  // first page + 1 of the run that covers the whole chunk
  std::atomic<uint32_t>* const page_run_;   // first page + 1 of the run that holds the page
  std::atomic<uint64_t>* const run_words_;  // at a first page: bytes << 1 | live
  std::atomic<uint8_t>* const run_classes_;   // at a first page: size class + 1 of a slab, else 0
  std::atomic<uint16_t>* const block_words_;  // at a small block's start: bytes / 32 << 1 | live
  std::atomic<uint8_t>* const run_tags_;      // at a first page
  Slab** const slabs_;                        // at a first page, null for a plain run
};

}  // namespace ascendrt::memory
