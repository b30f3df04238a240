// Entries: stream-ordered memory pools. Must never: hold state of its own.
#include "core/mem_pool.hpp"

#include <algorithm>
#include <string>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

constexpr uint64_t kGrain = 2ULL << 20;

void create(aclrtMemPool* pool, const aclrtMemPoolProps* props) {
  check_not_null(pool, "memPool");
  check_not_null(props, "poolProps");
  if (raw(props->allocType) != ACL_MEM_ALLOCATION_TYPE_PINNED) {
    refuse_argument("poolProps->allocType must be ACL_MEM_ALLOCATION_TYPE_PINNED (0)");
  }
  if (raw(props->location.type) != ACL_MEM_LOCATION_TYPE_DEVICE) {
    refuse_argument("poolProps->location.type must be ACL_MEM_LOCATION_TYPE_DEVICE (1)");
  }
  const auto& reserved = props->reserved;
  if (std::any_of(std::begin(reserved), std::end(reserved), [](auto byte) { return byte != 0; })) {
    refuse_argument("poolProps->reserved must be 0");
  }
  require_chip(core::kA2);
  const int32_t device = core::runtime().device(static_cast<int32_t>(props->location.id)).index();
  const uint64_t total = memory::usage(device).total_bytes;
  if (props->maxSize > total) {
    refuse_value("poolProps->maxSize is " + std::to_string(props->maxSize) + ", the device has " +
                 std::to_string(total) + " bytes");
  }
  const uint64_t most = props->maxSize == 0 ? total : props->maxSize;
  const auto made = core::MemPool::create(device, (most + kGrain - 1) / kGrain * kGrain);
  *pool = base::handles().insert(made);
}

base::Ref<core::Stream> stream_of(aclrtStream handle) {
  return core::in_current_context(core::stream_behind(handle));
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtMemPoolCreate(aclrtMemPool* memPool, const aclrtMemPoolProps* poolProps) {
  return call<ApiId::aclrtMemPoolCreate>([&] { create(memPool, poolProps); });
}

aclError art_emu_aclrtMemPoolDestroy(const aclrtMemPool memPool) {
  return call<ApiId::aclrtMemPoolDestroy>([&] {
    check_not_null(memPool, "memPool");
    core::MemPool::destroy(memPool);
  });
}

aclError art_emu_aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value) {
  return call<ApiId::aclrtMemPoolSetAttr>([&] {
    check_not_null(memPool, "memPool");
    check_given(value, "value");
    const bool narrow = core::MemPool::attribute_is_switch(raw(attr));
    const uint64_t number =
        narrow ? *static_cast<uint32_t*>(value) : *static_cast<uint64_t*>(value);
    core::MemPool::of_handle(memPool)->set_attribute(raw(attr), number);
  });
}

aclError art_emu_aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value) {
  return call<ApiId::aclrtMemPoolGetAttr>([&] {
    check_not_null(memPool, "memPool");
    check_given(value, "value");
    const uint64_t number = core::MemPool::of_handle(memPool)->attribute(raw(attr));
    if (core::MemPool::attribute_is_switch(raw(attr))) {
      *static_cast<uint32_t*>(value) = static_cast<uint32_t>(number);
    } else {
      *static_cast<uint64_t*>(value) = number;
    }
  });
}

aclError art_emu_aclrtMemPoolMallocAsync(void** ptr, size_t size, aclrtMemPool memPool,
                                         aclrtStream stream) {
  return call<ApiId::aclrtMemPoolMallocAsync>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(memPool, "memPool");
    check_not_null(stream, "stream");
    if (size == 0) return;
    const auto queue = stream_of(stream);
    if (size > UINT64_MAX - kGrain) refuse_value("argument size is too large");
    const auto pool = core::MemPool::of_handle(memPool);
    *ptr = pool->allocate((size + kGrain - 1) / kGrain * kGrain, queue);
  });
}

// Memory of no pool is freed in the stream's order all the same.
aclError art_emu_aclrtMemPoolFreeAsync(void* ptr, aclrtStream stream) {
  return call<ApiId::aclrtMemPoolFreeAsync>([&] {
    check_not_null(ptr, "ptr");
    if (stream == nullptr) {
      base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
                 "argument stream is a null pointer; the default "
                 "stream has no pools");
    }
    const auto queue = stream_of(stream);
    if (const auto pool = core::MemPool::of_block(ptr)) return pool->free(ptr, queue);
    memory::find_device(ptr);
    queue->submit(core::Engine::kAicpu, "free", [ptr]() -> base::Code {
      memory::free_device(ptr);
      return 0;
    });
  });
}

aclError art_emu_aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep) {
  return call<ApiId::aclrtMemPoolTrimTo>([&] {
    check_not_null(memPool, "memPool");
    core::MemPool::of_handle(memPool)->trim(minBytesToKeep);
  });
}

}  // extern "C"
