// Ranked mutexes: locks are taken in rising rank only. Debug builds check it.
// Owns: the rank list. Must never: be held while running a kernel, a user callback, or waiting.
#pragma once

#include <cstdint>
#include <mutex>

#ifndef NDEBUG
#include <cstdio>
#include <cstdlib>
#endif

namespace ascendrt::base {

enum class Rank : uint8_t {
  kRegistry,
  kDevice,
  kContext,
  kStream,
  kScheduler,
  kEvent,
  kPool,
  kArena,
  kLedger,
  kLeaf
};

class RankedMutex {
 public:
  explicit RankedMutex(Rank rank) : rank_(rank) {}

  void lock() {
    mutex_.lock();
    enter();
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    enter();
    return true;
  }
  void unlock() {
    leave();
    mutex_.unlock();
  }

 private:
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

  std::mutex mutex_;
  Rank rank_;
};

}  // namespace ascendrt::base
