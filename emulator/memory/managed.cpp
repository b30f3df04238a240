#include "memory/managed.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "memory/machine.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"
#include "memory/virtual.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kManagedMax = 3ULL << 40;  // of a process
constexpr int32_t kNodes = 64;
constexpr int32_t kHostId = -1;
constexpr int32_t kNoId = -2;

uint64_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

[[noreturn]] void refuse(const std::string& text) { base::fail(ACL_ERROR_RT_PARAM_INVALID, text); }

bool same(const aclrtMemManagedLocation& a, const aclrtMemManagedLocation& b) {
  return a.type == b.type && a.id == b.id;
}

// Devices and NUMA nodes have ids, the host is -1, no place is -2.
int32_t id_of(const aclrtMemManagedLocation& location) {
  if (location.type == ACL_MEM_LOCATIONTYPE_INVALID) return kNoId;
  return location.type == ACL_MEM_LOCATIONTYPE_HOST ? kHostId : location.id;
}

size_t bit_of(const aclrtMemManagedLocation& location) {
  const auto id = static_cast<size_t>(location.id);
  if (location.type == ACL_MEM_LOCATIONTYPE_DEVICE) return id;
  return location.type == ACL_MEM_LOCATIONTYPE_HOST ? 2 * kNodes : kNodes + id;
}

int32_t id_of_bit(size_t bit) {
  return bit == 2 * kNodes ? kHostId : static_cast<int32_t>(bit % kNodes);
}

void check_place(const aclrtMemManagedLocation& location) {
  if (location.type != ACL_MEM_LOCATIONTYPE_INVALID) return;
  refuse("argument location has type ACL_MEM_LOCATIONTYPE_INVALID; this advice needs a place");
}

bool asks_for_prefetch(aclrtMemManagedRangeAttribute attribute) {
  return attribute == ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
         attribute == ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID;
}

void check_answer_size(aclrtMemManagedRangeAttribute attribute, size_t bytes) {
  const bool list = attribute == ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  if (list ? bytes != 0 && bytes % sizeof(int32_t) == 0 : bytes == sizeof(int32_t)) return;
  refuse("argument dataSize is " + std::to_string(bytes) + "; attribute " +
         std::to_string(attribute) + (list ? " takes a multiple of 4" : " takes 4"));
}

// Every range of these calls is of whole 2 MiB.
void check_whole(uint64_t bytes) {
  if (bytes % kGranule == 0) return;
  refuse("argument size is " + std::to_string(bytes) + ", no multiple of 2 MiB");
}

}  // namespace

aclrtMemManagedLocation resolved(aclrtMemManagedLocation location) {
  switch (location.type) {
    case ACL_MEM_LOCATIONTYPE_DEVICE:
      return location;  // the caller knows which devices there are
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
      return {ACL_MEM_LOCATIONTYPE_HOST_NUMA, os::current_node()};
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA:
      if (location.id >= 0 && location.id < kNodes) return location;
      refuse("argument location names NUMA node " + std::to_string(location.id) +
             ", nodes are numbered 0..63");
    case ACL_MEM_LOCATIONTYPE_HOST:
    case ACL_MEM_LOCATIONTYPE_INVALID:
      return {location.type, 0};
    default:
      refuse("argument location has type " + std::to_string(location.type) +
             ", no member of aclrtMemManagedLocationType (0..4)");
  }
}

Managed& managed_memory() {
  static auto* const made = new Managed;  // leaked: used from the client's static destructors
  return *made;
}

void* Managed::allocate(uint64_t asked) {
  const std::lock_guard lock(mutex_);
  uint64_t held = 0;
  for (const auto& [start, each] : all_) held += each.bytes;
  if (asked > kManagedMax - held) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               "no room for " + size_text(asked) +
                   " of managed memory: a process has 3 TiB of it, " + size_text(held) +
                   " are in use; free managed memory with aclrtFree");
  }
  aclrtPhysicalMemProp prop{};
  prop.location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
  const auto memory = Physical::make(prop, kManagedMemory, asked);
  void* start = virtual_memory().map_anywhere(memory, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
  all_[number(start)] = {memory->bytes(), {}};
  return start;
}

bool Managed::free(void* address) {
  const std::lock_guard lock(mutex_);
  if (all_.erase(number(address)) == 0) return false;
  virtual_memory().drop(address);
  return true;
}

const Managed::Pieces* Managed::find(const void* start, uint64_t bytes, Span& span) const {
  const uint64_t at = number(start);
  auto found = all_.upper_bound(at);
  const bool above = found != all_.begin();
  if (above) --found;
  if (!above || at - found->first >= found->second.bytes ||
      bytes > found->second.bytes - (at - found->first)) {
    refuse("the " + size_text(bytes) + " at " + address_text(start) +
           " are not within one allocation of aclrtMemAllocManaged");
  }
  span = {(at - found->first) / kGranule, (at - found->first + bytes - 1) / kGranule};
  return &found->second.pieces;
}

template <class F>
void Managed::change(const void* start, uint64_t bytes, F&& f) {
  check_whole(bytes);
  const std::lock_guard lock(mutex_);
  Span span{};
  auto& pieces = const_cast<Pieces&>(*find(start, bytes, span));
  if (pieces.size() <= span.last) pieces.resize(span.last + 1);
  std::for_each(pieces.begin() + static_cast<ptrdiff_t>(span.first),
                pieces.begin() + static_cast<ptrdiff_t>(span.last) + 1, f);
}

void Managed::advise(const void* start, uint64_t bytes, aclrtMemManagedAdviseType advice,
                     const aclrtMemManagedLocation& location) {
  const bool needs_place = advice != ACL_MEM_ADVISE_SET_READ_MOSTLY &&
                           advice != ACL_MEM_ADVISE_UNSET_READ_MOSTLY &&
                           advice != ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (needs_place) check_place(location);
  change(start, bytes, [&](Advice& each) {
    switch (advice) {
      case ACL_MEM_ADVISE_SET_READ_MOSTLY:
      case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
        each.read_mostly = advice == ACL_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
        each.preferred = location;
        break;
      case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        each.preferred = {};
        break;
      default:
        each.accessed_by.set(bit_of(location), advice == ACL_MEM_ADVISE_SET_ACCESSED_BY);
    }
  });
}

void Managed::prefetched(const void* start, uint64_t bytes,
                         const aclrtMemManagedLocation& location) {
  check_place(location);
  change(start, bytes, [&](Advice& each) { each.prefetched = location; });
}

// The location that all pieces agree on; invalid when they do not.
template <class F>
aclrtMemManagedLocation Managed::common(const Pieces& pieces, const Span& span,
                                        F&& location_of) const {
  if (span.last >= pieces.size()) return {};  // pieces at the end without any advice
  const aclrtMemManagedLocation first = location_of(pieces[span.first]);
  for (size_t i = span.first; i <= span.last; ++i) {
    if (!same(first, location_of(pieces[i]))) return {};
  }
  return first;
}

void Managed::answer(aclrtMemManagedRangeAttribute attribute, const void* start, uint64_t bytes,
                     int32_t* data, size_t data_bytes) const {
  check_answer_size(attribute, data_bytes);
  const std::lock_guard lock(mutex_);
  Span span{};
  const Pieces& pieces = *find(start, bytes, span);
  const auto each = [&](auto&& f) {
    return span.last < pieces.size() &&
           std::all_of(pieces.begin() + static_cast<ptrdiff_t>(span.first),
                       pieces.begin() + static_cast<ptrdiff_t>(span.last) + 1, f);
  };
  const size_t room = data_bytes / sizeof(int32_t);
  const auto preferred = common(pieces, span, [](const Advice& of) { return of.preferred; });
  const auto prefetched = common(pieces, span, [](const Advice& of) { return of.prefetched; });
  switch (attribute) {
    case ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *data = each([](const Advice& of) { return of.read_mostly; }) ? 1 : 0;
      return;
    case ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      std::fill_n(data, room, kNoId);
      for (size_t bit = 0, at = 0; bit <= 2 * kNodes && at < room; ++bit) {
        if (each([&](const Advice& of) { return of.accessed_by[bit]; }))
          data[at++] = id_of_bit(bit);
      }
      return;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *data = preferred.type;
      return;
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *data = prefetched.type;
      return;
    default:
      *data = id_of(asks_for_prefetch(attribute) ? prefetched : preferred);
  }
}

}  // namespace ascendrt::memory
