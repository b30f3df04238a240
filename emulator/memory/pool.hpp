// The context tier of device memory: shared bins of ready blocks, capacity kept in hand, accounts.
// Owns: what a context's blocks and caches hold of the device, and the thread caches below it.
// Must never: own live blocks (they outlive the pool), or keep what somebody else is refused for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "memory/cache.hpp"
#include "memory/heap.hpp"
#include "memory/settings.hpp"

namespace ascendrt::memory {

class Arena;

// Note [Pools]
// A pool draws capacity from the ledger in steps and pays runs of pages with it; it gives back what
// exceeds its initial size and a step. Blocks that come back stay in its bins, or those of the
// threads, up to an allowance: generous while little is live, a few percent of what is live after
// that (MemorySettings). So the sum of all that is reserved and not live stays below the
// fragmentation policy, and small programs never wait for the ledger.
// The lock guards everything but the thread caches' inside (Note [Thread caches]); a thread that
// holds the lock may work in its own cache.
class Pool final : public Heap::Home {
 public:
  struct Figures {  // of one tier or of all, see docs/memory.md
    int64_t live_bytes = 0;
    int64_t live_span = 0;
    int64_t live_huge = 0;
    int64_t blocks = 0;
    int64_t peak_bytes = 0;
    int64_t thread_cached = 0;
    int64_t pool_cached = 0;  // in the shared bins
    int64_t credit = 0;       // drawn and not used
    Parts reserved;           // charged for this pool, credit included
    void add(const Figures& other);
  };

  Pool(Arena& arena, uint16_t id, const MemorySettings& settings);

  // For a context: draws the initial size. Raises 207001 "mem pool init failed".
  void open(uint32_t context, uint64_t padding);
  // Empties all caches and hands live blocks over to the device; gives their number. With reclaim
  // they are freed instead.
  uint64_t close(bool reclaim);
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  uint32_t context() const { return context_; }
  Arena& arena() const { return arena_; }

  // Null when there is no room; why is then in outcome.
  void* allocate(uint64_t bytes, Shape shape, Heap::Outcome& outcome);
  enum class Freed : uint8_t { kDone, kMoved, kUnknown };
  // kMoved: the block belongs to somebody else now. kUnknown: no live block starts there.
  Freed free(uint64_t offset);
  // Gives everything that is not live back to the device. Any thread.
  void trim();
  // Frees a live block while the pool closes.
  void reclaim(uint64_t offset);
  // Makes this pool the one the calling thread's mallocs try first.
  void arm();
  Figures figures();

  // For the heap's backing, with the heap's lock held.
  bool pay(Parts parts);
  void refund(Parts parts);

 private:
  friend class Cache;
  friend struct CacheList;
  using Offsets = std::vector<uint64_t>;

  Cache* mine();
  void detach(Cache& cache);
  uint64_t allocate_small(uint64_t bytes, Cache* cache, Heap::Outcome& outcome);
  uint64_t allocate_run(uint64_t bytes, Shape shape, Cache* cache, Heap::Outcome& outcome);
  void refill(uint32_t size_class, Cache& cache);
  void keep(uint64_t offset, const Heap::Spot& spot, uint64_t bytes, Cache* cache);
  void keep_shared(uint64_t offset, const Heap::Spot& spot);
  void spill(Cache& cache, Cache::RunBin& bin);
  void note(int64_t sign, Cache* cache, uint64_t bytes, uint64_t span, uint64_t huge);
  void note_peak();
  void empty_shared();
  void empty_caches();
  void empty(Cache& cache, Offsets& out);
  void give_back_credit(uint64_t keep);
  void balance(Cache* cache);
  int64_t live(Counter Tally::* part) const;
  int64_t idle() const;
  int64_t allowance() const;

  Arena& arena_;
  Heap& heap_;
  const MemorySettings& settings_;
  std::atomic<bool> open_{false};
  uint32_t context_ = 0;
  uint64_t padding_ = 31;
  base::RankedMutex mutex_{base::Rank::kPool};
  std::vector<Cache*> caches_;
  Tally gone_;  // of threads that ended, and of blocks that went past the caches
  int64_t peak_ = 0;
  int64_t shared_span_ = 0;
  Parts reserved_;  // runs the pool has, without credit
  Parts credit_;
  std::array<Offsets, kSizeClasses> small_;
  std::unordered_map<uint64_t, Offsets> runs_;  // by Shape::key
};

}  // namespace ascendrt::memory
