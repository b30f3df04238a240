// Stamps: whose thread may take a block back without an atomic exchange.
// Owns: which stamps are in force, how another thread ends one, and the word that holds one. Must
// never: use a stamp twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "base/mutex.hpp"

namespace ascendrt::memory {

// Note [Stamps]
// Of two threads that free one block at the same time exactly one may succeed. An exchange on the
// block's word decides, and costs as much as all the rest of a free; but nearly all blocks are
// freed by the thread that took them. So a block that a thread cache hands out carries the cache's
// stamp. While the stamp is in force only the thread of that cache, inside the cache, turns such a
// block from live to retired, with a plain store. Whoever else wants to free one ends the stamp
// first: it takes it away from the cache, makes the others pass a barrier and waits until the cache
// is not busy (Note [Thread caches]). From then on everybody uses the exchange for the blocks that
// carry it. A cache without a stamp hands out blocks with stamp 0, which always need the exchange;
// after enough frees of its own it gets a new stamp. Stamps are numbers that are never used again.
class Stamps {
 public:
  static constexpr unsigned kBits = 21;
  enum class Retire : uint8_t { kOwn, kShared };  // see Heap::retire_small_inside()

  Stamps();
  ~Stamps();
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  // A new stamp for the cache that has these words, in force; 0 when there are no more. By the
  // cache's thread.
  uint32_t open(std::atomic<uint32_t>& stamp, const std::atomic<uint32_t>& busy);
  // By the cache's thread, or while nobody can be inside the cache.
  void close(uint32_t stamp);
  // By any other thread.
  void revoke(uint32_t stamp);
  // acquire: pairs with the end of the stamp.
  bool in_force(uint32_t stamp) const {
    return stamp != 0 && ended_[stamp].load(std::memory_order_acquire) == 0;
  }

  // Live -> retired; the block's bytes, or 0. See Heap::retire().
  template <class W, class T = typename W::Type>
  uint64_t retire(std::atomic<T>& cell, uint32_t mine) {
    const T word = cell.load(std::memory_order_relaxed);
    if (!W::is_live(word)) return 0;
    const uint32_t stamp = W::stamp(word);
    if (stamp != mine && in_force(stamp)) revoke(stamp);
    return exchange<W>(cell, word);
  }
  template <Retire how, class W, class T = typename W::Type>
  uint64_t retire_inside(std::atomic<T>& cell, uint32_t mine) {
    const T word = cell.load(std::memory_order_relaxed);
    const uint32_t stamp = W::stamp(word);
    if constexpr (how == Retire::kShared) {
      return W::is_live(word) && !in_force(stamp) ? exchange<W>(cell, word) : 0;
    }
    if (!W::is_live(word) || stamp != mine || stamp == 0) return 0;
    cell.store(static_cast<T>(word & ~T{1}), std::memory_order_release);
    return W::bytes(word);
  }

 private:
  template <class W, class T = typename W::Type>
  static uint64_t exchange(std::atomic<T>& cell, T word) {
    const bool won = cell.compare_exchange_strong(
        word, static_cast<T>(word & ~T{1}), std::memory_order_acq_rel, std::memory_order_relaxed);
    return won ? W::bytes(word) : 0;
  }
  struct Cache {
    std::atomic<uint32_t>* stamp;
    const std::atomic<uint32_t>* busy;
  };
  void end(uint32_t stamp);

  std::atomic<uint8_t>* const ended_;  // by stamp
  base::RankedMutex mutex_{base::Rank::kLeaf};
  uint32_t next_ = 1;
  std::unordered_map<uint32_t, Cache> open_;
};

// What is known of a block, in one word: stamp | bytes / unit | live.
template <class T, unsigned kSizeBits, uint64_t kUnit>
struct BlockWord {
  using Type = T;
  static constexpr unsigned kStampShift = kSizeBits + 1;
  static_assert(kStampShift + Stamps::kBits <= 8 * sizeof(T));
  static T live(uint64_t bytes, uint32_t stamp) {
    return static_cast<T>(T{stamp} << kStampShift | bytes / kUnit << 1 | 1);
  }
  static bool is_live(T word) { return (word & 1) != 0; }
  static uint64_t bytes(T word) { return (word >> 1 & ((T{1} << kSizeBits) - 1)) * kUnit; }
  static uint32_t stamp(T word) { return static_cast<uint32_t>(word >> kStampShift); }
};

}  // namespace ascendrt::memory
