// The thread tier of device memory: ready blocks that one thread takes and gives without a lock.
// Owns: the thread's bins and counters, and the protocol that lets others empty them.
// Must never: write to device memory, or hold what the device needs: see Note [Thread caches].
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/barrier.hpp"
#include "memory/heap.hpp"
#include "memory/shape.hpp"

namespace ascendrt::memory {

class Pool;

// A number that one thread writes and all may read.
class Counter {
 public:
  void add(int64_t change) { set(get() + change); }
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// What is live. Parts may be negative where one thread takes and another gives.
struct Tally {
  Counter bytes;  // as asked, padded
  Counter span;   // in pages, or in steps of small sizes
  Counter huge;   // the part of span in huge pages
  Counter blocks;

  void add(int64_t sign, uint64_t block_bytes, uint64_t block_span, uint64_t block_huge) {
    bytes.add(sign * static_cast<int64_t>(block_bytes));
    span.add(sign * static_cast<int64_t>(block_span));
    huge.add(sign * static_cast<int64_t>(block_huge));
    blocks.add(sign);
  }
  void add(const Tally& other) {
    bytes.add(other.bytes.get());
    span.add(other.span.get());
    huge.add(other.huge.get());
    blocks.add(other.blocks.get());
  }
};

// Note [Thread caches]
// A cache belongs to one thread and one pool. The owner works in it without a lock or an atomic
// exchange: it raises `busy`, looks whether the cache is closed, works, lowers `busy`. Who wants to
// empty the cache (a context ends, memory is short, another process needs it) holds the pool's
// lock, closes the cache, makes the others pass a barrier (Note [Asymmetric order]), and waits for
// `busy` to be low: from then on the owner can only come through the slow path, where it meets the
// pool's lock.
// Blocks in a cache are retired (Note [Heap]), so whoever touches or frees one is told that it was
// freed. Blocks stay charged to the process; aclrtGetMemInfo counts them as free.
class alignas(64) Cache {
 public:
  static constexpr uint32_t kSmallDepth = 30;
  static constexpr uint32_t kRunDepth = 12;
  static constexpr uint32_t kRunBins = 64;

  Cache(Pool& pool, Heap& heap, std::byte* client, uint16_t home, uint64_t padding);

  // What the chip adds to a size before it is rounded to 32, and the rounding.
  uint64_t padded(uint64_t bytes) const { return (bytes + padding_) & ~uint64_t{31}; }

  // A block of the default policy, null when there is none.
  void* take(uint64_t asked) {
    const uint64_t bytes = padded(asked);
    if (!enter()) return nullptr;
    void* block = bytes <= kSmallMax ? take_small(bytes, asked) : take_run(bytes, asked);
    busy_.store(0, std::memory_order_release);
    return block;
  }
  // kNotOwn: the block may still be one for give_shared(). kAsk: it is no live block of the pool,
  // or the cache has no room; the pool has to be asked.
  enum class Given : uint8_t { kDone, kNotOwn, kAsk };
  // A block that carries the cache's stamp (Note [Stamps]).
  Given give(const void* address) { return give<Stamps::Retire::kOwn>(address); }
  // Blocks whose stamp is not in force.
  Given give_shared(const void* address) { return give<Stamps::Retire::kShared>(address); }

 private:
  friend class Pool;
  friend struct CacheList;
  // Blocks, last in, first out. The last one stands apart: a take right after a give finds it by
  // one load that waits for nothing but that give.
  template <class T, uint32_t kDepth>
  struct Bin {
    static constexpr T kNone = static_cast<T>(-1);
    T last = kNone;
    T count = 0;  // of the others
    std::array<T, kDepth> others;

    bool empty() const { return last == kNone && count == 0; }
    bool full() const { return count + T{last != kNone} == kDepth; }
    void push(T block) {
      settle();
      last = block;
    }
    // kNone when there is none.
    T pop() {
      const T block = last;
      if (block == kNone) [[unlikely]]
        return count == 0 ? kNone : others[--count];
      last = kNone;
      return block;
    }
    // The last one joins the others; for who looks at them.
    void settle() {
      if (last != kNone) others[count++] = std::exchange(last, kNone);
    }
  };
  using SmallBin = Bin<uint64_t, kSmallDepth>;
  struct alignas(64) RunBin : Bin<uint32_t, kRunDepth> {
    uint64_t key = 0;
  };

  bool enter() {
    if (base::g_others_can_pass) {
      busy_.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      busy_.exchange(1, std::memory_order_seq_cst);
    }
    if (closed_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    busy_.store(0, std::memory_order_release);
    return false;
  }
  uint32_t stamp() const { return stamp_.load(std::memory_order_relaxed); }
  // By the owner, with the pool's lock.
  void renew_stamp();
  void drop_stamp();
  template <Stamps::Retire how>
  Given give(const void* address) {
    const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - client_);
    if (!enter()) return Given::kAsk;
    const Given given = give_at<how>(offset);
    busy_.store(0, std::memory_order_release);
    return given;
  }
  RunBin& bin_of(uint64_t key) { return runs_[key * 0x9E3779B97F4A7C15ULL >> 58]; }

  void note_taken(uint64_t bytes, uint64_t span) {
    live_.bytes.add(static_cast<int64_t>(bytes));
    live_.span.add(static_cast<int64_t>(span));
    live_.blocks.add(1);
    if (live_.bytes.get() > high_.get()) [[unlikely]]
      high_.set(live_.bytes.get());
  }
  int64_t cached() const { return held_.get() - live_.span.get(); }
  bool has_room(uint64_t span) const {
    return live_.span.get() - static_cast<int64_t>(span) >= floor_.get();
  }
  void note_given(uint64_t bytes, uint64_t span) {
    live_.bytes.add(-static_cast<int64_t>(bytes));
    live_.span.add(-static_cast<int64_t>(span));
    live_.blocks.add(-1);
  }

  void* take_small(uint64_t bytes, uint64_t asked) {
    const uint32_t size_class = class_of(bytes);
    const uint64_t offset = small_[size_class].pop();
    if (offset == SmallBin::kNone) return nullptr;
    heap_.note_small_slack(offset, size_class, bytes - asked);
    heap_.revive_small(offset, bytes, stamp());
    note_taken(bytes, kClassTable[size_class].bytes);
    return client_ + offset;
  }
  void* take_run(uint64_t bytes, uint64_t asked) {
    const Shape shape = default_shape(bytes, heap_.page_bits());
    const uint64_t key = shape.key(heap_.page_bits());
    RunBin& bin = bin_of(key);
    const uint32_t first = bin.key == key ? bin.pop() : RunBin::kNone;
    if (first == RunBin::kNone) return nullptr;
    heap_.revive_run(first, bytes, stamp());
    heap_.note_run_slack(first, bytes - asked);
    if (shape.tag != Shape::kNormal) live_.huge.add(static_cast<int64_t>(shape.huge()));
    note_taken(bytes, shape.span);
    return client_ + heap_.start_of(first);
  }
  template <Stamps::Retire how>
  Given give_at(uint64_t offset) {
    const Heap::Spot spot = heap_.spot_of(offset);
    if (spot.home != home_) return Given::kAsk;  // also where nothing is known; no pool is home 0
    if constexpr (how == Stamps::Retire::kShared) {
      if (stamp() == 0 && --until_renewal_ <= 0) return Given::kAsk;  // the pool gives a new one
    }
    return spot.size_class != 0 ? give_small<how>(offset, spot) : give_run<how>(offset, spot);
  }
  template <Stamps::Retire how>
  Given give_small(uint64_t offset, const Heap::Spot& spot) {
    const uint64_t span = kClassTable[spot.size_class - 1].bytes;
    SmallBin& bin = small_[spot.size_class - 1];
    if (bin.full() || !has_room(span)) return Given::kAsk;
    const uint64_t bytes = heap_.retire_small_inside<how>(offset, stamp());
    if (bytes == 0) return Given::kNotOwn;
    bin.push(offset);
    note_given(bytes, span);
    return Given::kDone;
  }
  template <Stamps::Retire how>
  Given give_run(uint64_t offset, const Heap::Spot& spot) {
    const Shape shape{uint64_t{heap_.pages_of(spot.first)} << heap_.page_bits(), spot.tag};
    const uint64_t key = shape.key(heap_.page_bits());
    RunBin& bin = bin_of(key);
    if (bin.key != key && !bin.empty()) return Given::kAsk;
    if (bin.full() || shape.span <= kSmallMax || !has_room(shape.span)) return Given::kAsk;
    const uint64_t bytes = heap_.retire_run_inside<how>(offset, stamp());
    if (bytes == 0) return Given::kNotOwn;
    bin.key = key;
    bin.push(spot.first);
    if (shape.tag != Shape::kNormal) live_.huge.add(-static_cast<int64_t>(shape.huge()));
    note_given(bytes, shape.span);
    return Given::kDone;
  }

  Heap& heap_;
  std::byte* const client_;
  const uint64_t padding_;
  const uint16_t home_;
  std::atomic<bool> dead_{false};  // its pool closed and will not touch it again
  Pool& pool_;
  std::atomic<uint32_t> closed_{0};
  alignas(64) std::atomic<uint32_t> busy_{0};
  std::atomic<uint32_t> stamp_{0};  // Note [Stamps]; others only take it away
  Tally live_;
  Counter high_;  // most bytes live since the pool last looked
  Counter held_;  // span of the blocks in the bins, plus what is live here: moves in the slow path
  int64_t until_renewal_ = 0;  // frees without a stamp; what is freed elsewhere may lose it again
  Counter floor_;              // where the live span must not go below without asking the pool
  std::array<SmallBin, kSizeClasses> small_;
  std::array<RunBin, kRunBins> runs_;
};

// The calling thread's way past all checks: the cache of its current context, and the cache that
// its last free went to. Null = take the slow path, which finds out and sets them.
struct Lanes {
  Cache* take = nullptr;
  Cache* give = nullptr;
};
extern constinit thread_local Lanes t_lanes __attribute__((tls_model("initial-exec")));

}  // namespace ascendrt::memory
