#include "core/allocator.hpp"

#include <map>
#include <mutex>

#include "base/mutex.hpp"

namespace ascendrt::core {
namespace {

struct Registry {
  base::RankedMutex mutex{base::Rank::kRegistry};
  std::map<aclrtStream, RegisteredAllocator> by_stream;
};

Registry& registry() {
  static auto* const made = new Registry;  // leaked: used from the client's static destructors
  return *made;
}

}  // namespace

void register_allocator(aclrtStream stream, const RegisteredAllocator& allocator) {
  const std::lock_guard lock(registry().mutex);
  registry().by_stream[stream] = allocator;
}

void unregister_allocator(aclrtStream stream) {
  const std::lock_guard lock(registry().mutex);
  registry().by_stream.erase(stream);
}

std::optional<RegisteredAllocator> allocator_of(aclrtStream stream) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_stream.find(stream);
  if (found == registry().by_stream.end()) return std::nullopt;
  return found->second;
}

}  // namespace ascendrt::core
