// Entries: managed memory. Must never: hold state of its own.
#include "memory/managed.hpp"

#include <string>
#include <vector>

#include "abi/checks.hpp"
#include "core/callback.hpp"
#include "core/context.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

using Location = aclrtMemManagedLocation;

void check_chip() { require_chip(core::kA2 | core::kA3); }

void check_range(const void* start, uint64_t bytes) {
  check_not_null(start, "ptr");
  check_positive(bytes, "size");
}

void check_device(const Location& location) {
  const auto count = static_cast<int32_t>(core::runtime().device_count());
  if (location.type != ACL_MEM_LOCATIONTYPE_DEVICE) return;
  if (location.id >= 0 && location.id < count) return;
  refuse_value("argument location names device " + std::to_string(location.id) + ", there are " +
               std::to_string(count));
}

void check_attribute(aclrtMemManagedRangeAttribute attribute) {
  const int32_t value = raw(attribute);
  if (value >= ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
      value <= ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID) {
    return;
  }
  refuse_value("argument attribute is " + std::to_string(value) +
               ", no member of aclrtMemManagedRangeAttribute (1..8)");
}

struct Wish {
  const void* start;
  uint64_t bytes;
  Location location;
};

// A prefetch is a host function of the stream; what was freed until its turn fails it.
// src: hicann/runtime api_impl_uvm.cc
void prefetch(std::vector<Wish> wishes, const base::Ref<core::Stream>& given) {
  const auto stream = core::in_current_context(given);
  check_chip();
  for (Wish& wish : wishes) {
    wish.location = memory::resolved(wish.location);
    memory::managed_memory().prefetched(wish.start, wish.bytes, wish.location);
  }
  core::launch_host_function(*stream, "managed prefetch",
                             [held = std::move(wishes)]() -> base::Code {
                               for (const Wish& wish : held) memory::view(wish.start, wish.bytes);
                               return 0;
                             });
}

// A null stream needs a context to stand for one; that is looked at before the places.
base::Ref<core::Stream> stream_of(aclrtStream handle) {
  auto stream = core::stream_behind(handle);
  if (!stream && !core::current_context_or_null()) {
    refuse_value("argument stream is a null pointer, and the calling thread has no context");
  }
  return stream;
}

// Each entry of the index list is where the pointers of a location begin.
std::vector<Wish> wishes_of(const void** ptrs, const size_t* sizes, size_t count,
                            const Location* locations, const size_t* begins, size_t groups) {
  if (begins[0] != 0) refuse_value("argument prefetchLocIdxs does not begin with 0");
  for (size_t i = 0; i < count; ++i) check_given(ptrs[i], "ptrs[i]");
  std::vector<Wish> wishes;
  for (size_t group = 0; group < groups; ++group) {
    const size_t end = group + 1 < groups ? begins[group + 1] : count;
    if (begins[group] >= count || end <= begins[group] || end > count) {
      refuse_value("argument prefetchLocIdxs does not rise from 0 to below count (" +
                   std::to_string(count) + ")");
    }
    for (size_t i = begins[group]; i < end; ++i) {
      wishes.push_back({ptrs[i], sizes[i], locations[group]});
    }
  }
  return wishes;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtMemAllocManaged(void** ptr, uint64_t size, uint32_t flag) {
  return call<ApiId::aclrtMemAllocManaged>([&] {
    check_not_null(ptr, "ptr");
    if (flag != ACL_RT_MEM_ATTACH_GLOBAL) {
      refuse_argument("argument flag is " + std::to_string(flag) +
                      ", only ACL_RT_MEM_ATTACH_GLOBAL (1) exists");
    }
    if (size == 0) refuse_value("argument size is 0, it must be positive");
    core::current_context();
    check_chip();
    *ptr = memory::managed_memory().allocate(size);
  });
}

aclError art_emu_aclrtMemManagedAdvise(const void* const ptr, uint64_t size,
                                       aclrtMemManagedAdviseType advise,
                                       aclrtMemManagedLocation location) {
  return call<ApiId::aclrtMemManagedAdvise>([&] {
    check_range(ptr, size);
    if (raw(advise) < 0 || raw(advise) > ACL_MEM_ADVISE_UNSET_ACCESSED_BY) {
      refuse_value("argument advise is " + std::to_string(raw(advise)) +
                   ", no member of aclrtMemManagedAdviseType (0..5)");
    }
    check_device(location);
    core::current_context();
    check_chip();
    memory::managed_memory().advise(ptr, size, advise, memory::resolved(location));
  });
}

aclError art_emu_aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void* ptr,
                                        size_t size, void* data, size_t dataSize) {
  return call<ApiId::aclrtMemManagedGetAttr>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(data, "data");
    check_positive(size, "size");
    check_attribute(attribute);
    check_chip();
    memory::managed_memory().answer(attribute, ptr, size, static_cast<int32_t*>(data), dataSize);
  });
}

aclError art_emu_aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute* attributes,
                                         size_t numAttributes, const void* ptr, size_t size,
                                         void** data, size_t* dataSizes) {
  return call<ApiId::aclrtMemManagedGetAttrs>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(attributes, "attributes");
    check_not_null(data, "data");
    check_not_null(dataSizes, "dataSizes");
    check_positive(size, "size");
    for (size_t i = 0; i < numAttributes; ++i) check_attribute(attributes[i]);
    check_chip();
    for (size_t i = 0; i < numAttributes; ++i) {
      check_given(data[i], "data[i]");
      memory::managed_memory().answer(attributes[i], ptr, size, static_cast<int32_t*>(data[i]),
                                      dataSizes[i]);
    }
  });
}

aclError art_emu_aclrtMemManagedPrefetchAsync(const void* ptr, size_t size,
                                              aclrtMemManagedLocation location, uint32_t flags,
                                              aclrtStream stream) {
  return call<ApiId::aclrtMemManagedPrefetchAsync>([&] {
    check_range(ptr, size);
    check_reserved(flags, "flags");
    const auto given = stream_of(stream);
    check_device(location);
    prefetch({{ptr, size, location}}, given);
  });
}

aclError art_emu_aclrtMemManagedPrefetchBatchAsync(const void** ptrs, size_t* sizes, size_t count,
                                                   aclrtMemManagedLocation* prefetchLocs,
                                                   size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                   uint64_t flags, aclrtStream stream) {
  return call<ApiId::aclrtMemManagedPrefetchBatchAsync>([&] {
    check_not_null(ptrs, "ptrs");
    check_not_null(sizes, "sizes");
    check_not_null(prefetchLocs, "prefetchLocs");
    check_not_null(prefetchLocIdxs, "prefetchLocIdxs");
    check_positive(count, "count");
    check_positive(numPrefetchLocs, "numPrefetchLocs");
    check_reserved(flags, "flags");
    if (numPrefetchLocs > count) {
      refuse_argument("argument numPrefetchLocs is " + std::to_string(numPrefetchLocs) +
                      ", more than count (" + std::to_string(count) + ")");
    }
    auto wishes = wishes_of(ptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs);
    for (const auto& wish : wishes) check_device(wish.location);
    prefetch(std::move(wishes), stream_of(stream));
  });
}

}  // extern "C"
