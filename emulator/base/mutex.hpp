// Ranked mutexes: locks are taken in rising rank only. Debug builds check it.
// Owns: the lock word and the rank list. Must never: be held while running a kernel, a user
// callback, or waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>  // lock_guard and unique_lock, for those who include this

#include "base/barrier.hpp"
#include "base/cpu.hpp"

#ifndef NDEBUG
#include <cstdio>
#include <cstdlib>
#endif

namespace ascendrt::base {

enum class Rank : uint8_t {
  kRegistry,
  kDevice,
  kRecording,
  kContext,
  kStream,
  kScheduler,
  kEvent,
  kPool,
  kArena,
  kLedger,
  kLeaf
};

// Locks are held for nanoseconds: who finds one taken looks a few times more before it sleeps.
// Taking a free one is an atomic instruction; giving it is a plain store where the kernel lets who
// goes to sleep make the others pass a barrier (Note [Asymmetric order]: the words are word_ and
// sleepers_). unlock() looks at the object after the lock is free: who destroys one has to know
// that no thread is inside.
class RankedMutex {
 public:
  explicit RankedMutex(Rank rank) : rank_(rank) {}
  RankedMutex(const RankedMutex&) = delete;
  RankedMutex& operator=(const RankedMutex&) = delete;

  void lock() {
    if (!take()) wait();
    enter();
  }
  bool try_lock() {
    if (!take()) return false;
    enter();
    return true;
  }
  void unlock() {
    leave();
    if (g_others_can_pass) {
      word_.store(kFree, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      word_.exchange(kFree);
    }
    if (sleepers_.load() != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kTaken = 1;

  bool take() {
    uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void wait();
  void wake();

#ifdef NDEBUG
  void enter() { static_cast<void>(rank_); }  // debug builds check it
  void leave() {}
#else
  // Bit r is set while this thread holds a lock of rank r; a lock of the same rank twice is refused
  // too, since two objects of one kind have no order.
  static uint32_t& held() {
    static thread_local uint32_t mask = 0;
    return mask;
  }
  void enter() {
    const auto bit = 1U << static_cast<uint32_t>(rank_);
    if (held() >= bit) {
      std::fprintf(stderr, "ascendrt: lock of rank %u taken while holding mask %#x\n",
                   static_cast<unsigned>(rank_), held());
      std::abort();
    }
    held() |= bit;
  }
  void leave() { held() &= ~(1U << static_cast<uint32_t>(rank_)); }
#endif

  std::atomic<uint32_t> word_{kFree};
  std::atomic<uint32_t> sleepers_{0};  // threads that sleep, or are about to
  Rank rank_;
};

}  // namespace ascendrt::base
