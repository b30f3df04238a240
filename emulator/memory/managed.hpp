// Managed memory: one address that host and devices use, with advice about where it should lie.
// Owns: which ranges are managed, and the advice per 2 MiB. Must never: let advice change contents.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.hpp"
#include "gen/abi.h"

namespace ascendrt::memory {

// Note [Managed memory]
// On a card pages move to whoever touches them. Here host and engines share the pages of one memory
// file (a mapping of Note [Virtual windows] that the host may use too): both see the same bytes at
// once, nothing has to move, and no device's account is charged. Advice is kept and answered.
class Managed {
 public:
  // In whole 2 MiB. Raises 207001.
  void* allocate(uint64_t bytes);
  // False when no managed memory starts there.
  bool free(void* address);

  // The calls below raise 107000 for a range that is not inside one live allocation.
  void advise(const void* start, uint64_t bytes, aclrtMemManagedAdviseType advice,
              const aclrtMemManagedLocation& location);
  // Remembers where the range was asked to go last.
  void prefetched(const void* start, uint64_t bytes, const aclrtMemManagedLocation& location);
  // Writes the answer as the interface defines it; raises 107000 when dataSize does not fit.
  void answer(aclrtMemManagedRangeAttribute attribute, const void* start, uint64_t bytes,
              int32_t* data, size_t data_bytes) const;

 private:
  struct Advice {
    bool read_mostly = false;
    aclrtMemManagedLocation preferred{};  // ACL_MEM_LOCATIONTYPE_INVALID: none
    aclrtMemManagedLocation prefetched{};
    std::bitset<192> accessed_by;  // devices, then NUMA nodes, then the host
  };
  struct Span {
    size_t first;
    size_t last;
  };
  using Pieces = std::vector<Advice>;  // empty until the first advice: all default

  const Pieces* find(const void* start, uint64_t bytes, Span& span) const;
  template <class F>
  void change(const void* start, uint64_t bytes, F&& f);
  template <class F>
  aclrtMemManagedLocation common(const Pieces& pieces, const Span& span, F&& location_of) const;

  struct Allocation {
    uint64_t bytes;
    Pieces pieces;
  };
  mutable base::RankedMutex mutex_{base::Rank::kPool};
  std::map<uint64_t, Allocation> all_;  // by start
};

Managed& managed_memory();

// A NUMA_CURRENT location becomes the node of the calling thread; ids that mean nothing become 0.
// Raises 107000 for a place that there is not.
aclrtMemManagedLocation resolved(aclrtMemManagedLocation location);

}  // namespace ascendrt::memory
