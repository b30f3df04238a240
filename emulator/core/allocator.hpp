// Allocators that clients register for their streams.
// Owns: the descriptions and which stream has which. Must never: call a client's function.
#pragma once

#include <optional>

#include "base/handle.hpp"
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
  static constexpr base::Kind kKind = base::Kind::kConfig;
  Allocator allocator;
};

// What was registered for a stream is a copy; it stays when the description goes.
struct RegisteredAllocator {
  aclrtAllocatorDesc desc = nullptr;
  Allocator allocator;
};
void register_allocator(aclrtStream stream, const RegisteredAllocator& allocator);
void unregister_allocator(aclrtStream stream);
std::optional<RegisteredAllocator> allocator_of(aclrtStream stream);

}  // namespace ascendrt::core
