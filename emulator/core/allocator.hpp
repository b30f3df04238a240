// Allocators that clients register for their streams.
// Owns: the descriptions and which stream has which. Must never: call a client's function.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "gen/abi.h"

namespace ascendrt::core {

struct Allocator {
  aclrtAllocator object = nullptr;
  aclrtAllocatorAllocFunc allocate = nullptr;
  aclrtAllocatorFreeFunc free = nullptr;
  aclrtAllocatorAllocAdviseFunc allocate_near = nullptr;
  aclrtAllocatorGetAddrFromBlockFunc address_of = nullptr;
};

class AllocatorDesc final : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kAllocator;
  Allocator allocator;
};

// What was registered for a stream is a copy; it stays when the description goes.
struct RegisteredAllocator {
  aclrtAllocatorDesc desc = nullptr;
  Allocator allocator;
};

class Allocators {
 public:
  void put(aclrtStream stream, const RegisteredAllocator& allocator) {
    const std::lock_guard lock(mutex_);
    by_stream_[stream] = allocator;
  }
  void remove(aclrtStream stream) {
    const std::lock_guard lock(mutex_);
    by_stream_.erase(stream);
  }
  std::optional<RegisteredAllocator> of(aclrtStream stream) {
    const std::lock_guard lock(mutex_);
    const auto found = by_stream_.find(stream);
    return found == by_stream_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  base::RankedMutex mutex_{base::Rank::kRegistry};
  std::map<aclrtStream, RegisteredAllocator> by_stream_;
};

inline Allocators& allocators() {
  static auto* const made = new Allocators;  // leaked: used from the client's static destructors
  return *made;
}

}  // namespace ascendrt::core
