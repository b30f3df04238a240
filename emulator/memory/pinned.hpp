// Host memory that engines may use directly: pinned allocations and registered ranges.
// Owns: one reserved range of the host with a heap over it, and the list of registered ranges.
// Must never: lock or change memory that the client registered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/mutex.hpp"
#include "memory/budget.hpp"
#include "memory/heap.hpp"

namespace ascendrt::memory {

class Pinned final : private Heap::Backing {
 public:
  explicit Pinned(Budget& budget);

  // Aligned to 512 bytes. Raises 207001.
  void* allocate(uint64_t bytes);
  // Raises 107000 when no live allocation starts there.
  void free(void* address);
  bool in_range(const void* address) const { return offset_of(address) < bytes_; }
  Found find(const void* address) const { return heap_.find(offset_of(address)); }
  const std::byte* start() const { return start_; }
  uint64_t committed_bytes() const { return committed_.load(std::memory_order_relaxed); }

  // Raises 507910 when the range overlaps a registered one.
  void add_registered(const void* address, uint64_t bytes);
  // Raises 507911 when no registered range starts there.
  void remove_registered(const void* address);
  bool registered(const void* address) const;

 private:
  bool acquire(Block run, uint8_t tag, Heap::Home& home) override;
  void release(Block run, uint8_t tag, Heap::Home& home) override;
  void discard(Block) override {}
  uint64_t offset_of(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(start_);
  }

  Budget& budget_;
  const uint64_t bytes_;
  std::byte* const start_;
  std::atomic<uint64_t> committed_{0};
  Heap heap_;

  mutable base::RankedMutex mutex_{base::Rank::kLeaf};
  std::map<uintptr_t, uint64_t> registered_;  // start -> bytes
  std::atomic<size_t> registered_count_{0};   // lets locate() skip the lock
};

}  // namespace ascendrt::memory
