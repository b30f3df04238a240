// Blocks of one address range: who is where, and where the next one goes.
// Owns: page runs, slabs of small blocks, and the index from any address to its block.
// Must never: touch the memory it hands out. Offsets count from the start of the range.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "base/mutex.hpp"
#include "memory/block.hpp"
#include "memory/os.hpp"
#include "memory/runs.hpp"
#include "memory/size_class.hpp"
#include "memory/stamps.hpp"

namespace ascendrt::memory {

// Note [Heap]
// A block above 16 KiB is a run of pages. Smaller ones are cut from slabs: runs whose blocks all
// have one size. An empty slab goes back at once; where no slab fits any more, a small block gets
// pages of its own. Each run belongs to a home (a pool), and so do the blocks of a slab.
// A block is free in the heap, live, or retired: taken back from the client but not from its owner,
// who keeps it in a cache until it revives or recycles it. Retiring needs no lock, and of two frees
// of one block exactly one succeeds, whoever races (Note [Stamps]).
// The index answers "which block holds this address" without a lock, for engines and the fault
// handler: chunk (2 MiB) or page -> first page of the run -> the block. Entries are written when a
// run is taken and never cleared; a stale one leads to a block that does not cover the address, and
// is recognised by that. So a wrong answer is impossible and a lookup that races with a free sees
// the block either live or freed.
class Heap {
 public:
  struct Slab;
  // The owner of runs. The heap guards what is in it.
  class Home {
   public:
    explicit Home(uint16_t id) : id_(id) {}
    uint16_t id() const { return id_; }

   protected:
    ~Home() = default;
    uint16_t id_;

   private:
    friend class Heap;
    std::array<Slab*, kSizeClasses> partial_{};  // slabs with a free block, by size class
  };
  // What stands behind the range; called with the heap's lock held.
  class Backing {
   public:
    // Before a run comes into use. False: no room (capacity, host), nothing has changed.
    virtual bool acquire(Block run, uint8_t tag, Home& home) = 0;
    // After a run went out of use; its contents are no longer needed.
    virtual void release(Block run, uint8_t tag, Home& home) = 0;
    // Free memory that may hold data: give its pages back.
    virtual void discard(Block free_run) = 0;
    // Whether much of what was freed since the last time may hold data.
    virtual bool worth_discarding() { return true; }

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
  Result allocate(uint64_t bytes, uint64_t span_bytes, uint8_t tag, Home& home);
  Result allocate(uint64_t bytes, uint64_t span_bytes = 0, uint8_t tag = 0) {
    return allocate(bytes, span_bytes, tag, own_);
  }
  // Small blocks of one size, retired, into out; gives how many there were.
  uint32_t take_small(uint32_t size_class, std::span<uint64_t> out, Home& home);
  // False when no live block starts there.
  bool free(uint64_t offset, Home& home);
  bool free(uint64_t offset) { return free(offset, own_); }
  // Takes retired blocks back.
  void recycle(std::span<const uint64_t> offsets, Home& home);
  void recycle_own(uint64_t offset) { recycle(std::span(&offset, 1), own_); }
  // Moves all runs of a home to the heap's own.
  void adopt(Home& from);
  // Lock-free; also from a signal handler.
  Found find(uint64_t offset) const;

  // Where a block lies, as far as the index knows; read before it is retired and again after.
  struct Spot {
    uint32_t first = 0;       // first page of its run
    uint32_t size_class = 0;  // + 1 for a block of a slab
    uint16_t home = 0;
    uint8_t tag = 0;
    bool known = false;
  };
  Spot spot_of(uint64_t offset) const {
    const uint64_t word = offset < bytes_ ? index_word(offset) : 0;
    return {static_cast<uint32_t>(word) - 1, static_cast<uint8_t>(word >> 48),
            static_cast<uint16_t>(word >> 32), static_cast<uint8_t>(word >> 56), word != 0};
  }
  // Live -> retired; gives the bytes of the block, 0 when no live block starts there. acq_rel: who
  // revives the block sees what was written before, wherever that was.
  // The words are found from the address alone, so the exchange waits for no other look-up: only
  // where a block starts a word ever says live.
  // mine: the stamp of the calling thread's cache, 0 if it has none.
  uint64_t retire(uint64_t offset, const Spot& spot, uint32_t mine) {
    if (spot.size_class != 0) {
      if ((offset & ((1U << kUnitShift) - 1)) != 0) return 0;
      return stamps_.retire<SmallWord>(block_words_[offset >> kUnitShift], mine);
    }
    if ((offset & ((1ULL << page_bits()) - 1)) != 0) return 0;
    return stamps_.retire<RunWord>(run_rows_[offset >> page_bits()].word, mine);
  }
  // The same inside a cache whose stamp this is: kOwn for blocks with this stamp, kShared for those
  // whose stamp is in force no more. 0 for all others.
  template <Stamps::Retire how>
  uint64_t retire_small_inside(uint64_t offset, uint32_t mine) {
    if ((offset & ((1U << kUnitShift) - 1)) != 0) return 0;
    return stamps_.retire_inside<how, SmallWord>(block_words_[offset >> kUnitShift], mine);
  }
  template <Stamps::Retire how>
  uint64_t retire_run_inside(uint64_t offset, uint32_t mine) {
    if ((offset & ((1ULL << page_bits()) - 1)) != 0) return 0;
    return stamps_.retire_inside<how, RunWord>(run_rows_[offset >> page_bits()].word, mine);
  }
  // Retired -> live with these bounds, by its owner. release: pairs with the exchange in retire().
  void revive_small(uint64_t offset, uint64_t bytes, uint32_t stamp) {
    block_words_[offset >> kUnitShift].store(SmallWord::live(bytes, stamp),
                                             std::memory_order_release);
  }
  void revive_run(uint32_t first, uint64_t bytes, uint32_t stamp) {
    run_rows_[first].word.store(RunWord::live(bytes, stamp), std::memory_order_release);
  }
  // Block::slack, for texts. Of small blocks it is in the word of their second unit, if any.
  void note_small_slack(uint64_t offset, uint32_t size_class, uint64_t slack) {
    if (size_class == 0) return;
    block_words_[(offset >> kUnitShift) + 1].store(
        static_cast<uint32_t>(slack << SmallWord::kStampShift), kRelaxed);
  }
  void note_run_slack(uint32_t first, uint64_t slack) {
    run_rows_[first].slack.store(static_cast<uint16_t>(slack), kRelaxed);
  }
  void note_slack(uint64_t offset, uint64_t slack);
  Stamps& stamps() { return stamps_; }
  uint64_t start_of(uint32_t first) const { return uint64_t{first} << page_bits(); }
  uint32_t pages_of(uint32_t first) const { return run_rows_[first].pages.load(kRelaxed); }
  unsigned page_bits() const {
    return os::kFixedPageShift != 0 ? os::kFixedPageShift : page_shift_;
  }

  // The tag of the run that was last put at the address. Lock-free.
  uint8_t tag_of(uint64_t offset) const { return spot_of(offset).tag; }
  // Who asked for the run at the address (Note [Owners]); 0 unless it was set since it was taken.
  uint16_t owner_of(uint64_t offset) const {
    const Spot spot = spot_of(offset);
    return spot.known ? run_rows_[spot.first].owner.load(kRelaxed) : uint16_t{0};
  }
  // Blocks of slabs stay nobody's.
  void set_owner(uint64_t offset, uint16_t owner) {
    const Spot spot = spot_of(offset);
    if (spot.size_class == 0) run_rows_[spot.first].owner.store(owner, kRelaxed);
  }

  struct Entry {
    Block block;
    uint16_t home;
    uint8_t tag;
  };
  // Calls visit(entry) for each live block in the order of addresses, with the lock held.
  void for_each_live(const std::function<void(const Entry&)>& visit) const;

  uint64_t bytes() const { return bytes_; }
  uint64_t largest_free_bytes() const;
  // Passes all free memory that may hold data to Backing::discard().
  void trim();

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr uint64_t kGrain = 32;  // sizes are multiples of it
  static constexpr unsigned kUnitShift = 6;
  static constexpr unsigned kChunkShift = 21;
  using SmallWord = BlockWord<uint32_t, 10, kGrain>;
  using RunWord = BlockWord<uint64_t, 42, 1>;
  // A run as it stands at its first page.
  struct Run {
    std::atomic<uint64_t> word;  // RunWord; 0 for a slab
    std::atomic<uint32_t> pages;
    std::atomic<uint16_t> owner;
    std::atomic<uint16_t> slack;
  };
  static_assert(sizeof(Run) == 16);
  struct OwnHome final : Home {
    OwnHome() : Home(0) {}
  };

  Result allocate_run(uint64_t bytes, uint64_t span_bytes, uint8_t tag, Home& home);
  Result allocate_small(uint64_t bytes, Home& home);
  uint64_t pop_small(Slab& slab);
  Result take_run(uint64_t bytes, uint8_t tag, uint32_t size_class, Home& home);
  void give_run(uint32_t first, Home& home);
  void recycle_locked(uint64_t offset, Home& home);
  void trim_locked();
  void write_index(uint32_t first, uint64_t word);
  Slab* make_slab(uint32_t size_class, Outcome& outcome, Home& home);
  void recycle_small(uint64_t offset, Slab& slab, Home& home);
  static void link(Slab& slab, Home& home);
  static void unlink(Slab& slab, Home& home);
  // What the index says of an address: the run that was last put there as
  // first page + 1 | home << 32 | size class + 1 of a slab << 48 | tag << 56; 0 if there was none.
  unsigned chunk_bits() const { return std::max(kChunkShift, page_bits()); }
  uint64_t index_word(uint64_t offset) const {
    const uint64_t word = chunk_words_[offset >> chunk_bits()].load(kRelaxed);
    return word != 0 ? word : page_words_[offset >> page_bits()].load(kRelaxed);
  }
  uint32_t small_slack(uint64_t offset, uint32_t size_class) const;
  Found find_small(uint32_t first, uint32_t size_class, uint64_t offset) const;
  Block run_block(uint32_t first) const;

  const unsigned page_shift_;
  const uint64_t bytes_;
  Backing& backing_;
  mutable base::RankedMutex mutex_{base::Rank::kArena};
  Runs runs_;
  uint64_t freed_since_trim_ = 0;
  OwnHome own_;
  Stamps stamps_;

  // The index; all sizes are in entries per page (or per unit of 64 bytes for block_words_).
  std::atomic<uint64_t>* const chunk_words_;  // of the run that covers the whole chunk, else 0
  std::atomic<uint64_t>* const page_words_;   // of the run that holds the page
  Run* const run_rows_;                       // at a first page
  std::atomic<uint32_t>* const block_words_;  // at a small block's start: SmallWord
  Slab** const slabs_;                        // at a first page, null for a plain run
};

}  // namespace ascendrt::memory
