// Entries: batches of copies, copies by descriptor and by indirect address, 32-bit fills, kinds of
// memory. Must never: hold state of its own.
#include <algorithm>
#include <array>
#include <string>

#include "abi/checks.hpp"
#include "abi/copies.hpp"
#include "core/context.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

using core::Engine;
using memory::Place;

constexpr uint64_t kDescriptorMax = 4ULL << 30;
constexpr uint64_t kDescriptorAlignment = 64;

struct Batch {
  void** dsts;
  const size_t* dest_maxs;
  void** srcs;
  const size_t* sizes;
  size_t count;
  const aclrtMemcpyBatchAttr* attrs;
  const size_t* starts;  // where each of the attributes begins to hold
  size_t attr_count;
  size_t* fail_index;
};

void check_batch(const Batch& batch) {
  check_not_null(batch.dsts, "dsts");
  check_not_null(batch.dest_maxs, "destMaxs");
  check_not_null(batch.srcs, "srcs");
  check_not_null(batch.attrs, "attrs");
  check_not_null(batch.starts, "attrsIndexes");
  for (size_t i = 0; i < batch.count; ++i) {
    if (batch.sizes[i] <= batch.dest_maxs[i]) continue;
    refuse_argument("sizes[" + std::to_string(i) + "] is " + std::to_string(batch.sizes[i]) +
                    ", above destMaxs[" + std::to_string(i) + "], " +
                    std::to_string(batch.dest_maxs[i]));
  }
  for (size_t i = 0; i < batch.attr_count; ++i) {
    const auto& reserved = batch.attrs[i].rsv;
    if (std::any_of(std::begin(reserved), std::end(reserved), [](auto byte) { return byte != 0; }))
      refuse_argument("attrs[" + std::to_string(i) + "].rsv is reserved and must be 0");
  }
}

void check_starts(const Batch& batch) {
  if (batch.attr_count == 0 || batch.attr_count > batch.count) {
    refuse_value("argument numAttrs is " + std::to_string(batch.attr_count) + ", not within 1 .. " +
                 std::to_string(batch.count) + " (numBatches)");
  }
  if (batch.starts[0] != 0) refuse_value("attrsIndexes[0] must be 0");
  for (size_t i = 1; i < batch.attr_count; ++i) {
    if (batch.starts[i] > batch.starts[i - 1] && batch.starts[i] < batch.count) continue;
    refuse_value("attrsIndexes[" + std::to_string(i) + "] is " + std::to_string(batch.starts[i]) +
                 ", it must be above the one before and below numBatches");
  }
}

// The attribute tells where the memory is; host memory may be pinned or not.
bool lies_there(const void* address, const aclrtMemLocation& given) {
  const memory::Location real = memory::locate(address);
  const int32_t type = raw(given.type);
  if (real.place != Place::kDevice) {
    return type == ACL_MEM_LOCATION_TYPE_HOST || type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
  }
  core::Runtime& runtime = core::runtime();
  const int32_t id = runtime.user_id(runtime.physical_device(real.device));
  return type == ACL_MEM_LOCATION_TYPE_DEVICE && static_cast<int32_t>(given.id) == id;
}

void check_pair(const Batch& batch, size_t index, const aclrtMemcpyBatchAttr& attr) {
  const std::string name = "copy " + std::to_string(index) + " of the batch ";
  const void* dst = batch.dsts[index];
  const void* src = batch.srcs[index];
  if (!lies_there(dst, attr.dstLoc) || !lies_there(src, attr.srcLoc)) {
    refuse_value(name + "has a " + (lies_there(dst, attr.dstLoc) ? "source" : "destination") +
                 " that is not where its attribute says; give its true location and device id");
  }
  if ((memory::locate(dst).place == Place::kDevice) ==
      (memory::locate(src).place == Place::kDevice)) {
    refuse_value(name + "does not go from host to device or back; batches copy only so");
  }
}

// Calls copy(index) for each copy after its check; the index of one that fails is told.
template <class F>
void for_each_copy(const Batch& batch, F copy) {
  size_t attr = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    if (attr + 1 < batch.attr_count && i >= batch.starts[attr + 1]) ++attr;
    try {
      copy(i, batch.attrs[attr]);
    } catch (const base::Error&) {
      if (batch.fail_index != nullptr) *batch.fail_index = i;
      throw;
    }
  }
}

// False when there is nothing to copy.
bool begin_batch(const Batch& batch) {
  if (batch.sizes == nullptr) refuse_argument("argument sizes is a null pointer");
  check_positive(batch.count, "numBatches");
  if (batch.fail_index != nullptr) *batch.fail_index = SIZE_MAX;
  if (std::all_of(batch.sizes, batch.sizes + batch.count, [](size_t size) { return size == 0; }))
    return false;
  check_batch(batch);
  require_chip(core::kA2A3950);
  check_starts(batch);
  return true;
}

void copy_batch(const Batch& batch) {
  if (!begin_batch(batch)) return;
  for_each_copy(batch, [&](size_t i, const auto& attr) { check_pair(batch, i, attr); });
  for (size_t i = 0; i < batch.count; ++i) {
    memory::copy(batch.dsts[i], batch.srcs[i], batch.sizes[i]);
  }
}

void copy_batch_async(const Batch& batch, aclrtStream stream) {
  if (!begin_batch(batch)) return;
  core::stream_behind(stream);
  core::current_context();
  for_each_copy(batch, [&](size_t i, const auto& attr) {
    if (batch.sizes[i] == 0 || batch.dsts[i] == nullptr || batch.srcs[i] == nullptr) {
      refuse_value("copy " + std::to_string(i) + " of the batch has size 0 or a null address");
    }
    check_pair(batch, i, attr);
    copy_async(batch.dsts[i], batch.dest_maxs[i], batch.srcs[i], batch.sizes[i], ACL_MEMCPY_DEFAULT,
               stream);
  });
}

// What a descriptor in device memory holds; 32 bytes on all chips but the 950, which has 64.
struct Descriptor {
  uint64_t src;
  uint64_t dst;
  uint64_t count;
  uint64_t check;  // of the three, against memory that is no descriptor
};

uint64_t check_of(const Descriptor& descriptor) {
  return ~(descriptor.src ^ (descriptor.dst << 1) ^ (descriptor.count << 2));
}

void check_inner(aclrtMemcpyKind kind) {
  const int32_t number = raw(kind);
  if (number < 0 || number > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) {
    refuse_argument("argument kind is " + std::to_string(number) + ", no kind of copy");
  }
  if (number == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE) return;
  base::fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "argument kind is " + std::to_string(number) +
          ", descriptors copy within a device only; use ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6)",
      base::Layer::kRuntimeNotStored);
}

void check_on_device(const void* address, const char* name) {
  if (memory::locate(address).place == Place::kDevice) return;
  refuse_value("argument " + std::string(name) + " is no device memory");
}

void set_descriptor(void* desc, aclrtMemcpyKind kind, const void* src, const void* dst,
                    size_t count, const void* config) {
  check_not_null(desc, "desc");
  check_inner(kind);
  check_not_null(src, "srcAddr");
  check_not_null(dst, "dstAddr");
  check_positive(count, "count");
  if (config != nullptr) refuse_argument("argument config is reserved and must be a null pointer");
  if (count > kDescriptorMax) refuse_value("argument count is above 4 GiB");
  if (reinterpret_cast<uintptr_t>(desc) % kDescriptorAlignment != 0) {
    refuse_value("argument desc is not aligned to 64 bytes");
  }
  check_on_device(desc, "desc");
  check_on_device(src, "srcAddr");
  check_on_device(dst, "dstAddr");
  if (memory::locate(src).device != memory::locate(dst).device) {
    refuse_value("srcAddr and dstAddr are on different devices");
  }
  Descriptor made{reinterpret_cast<uintptr_t>(src), reinterpret_cast<uintptr_t>(dst), count, 0};
  made.check = check_of(made);
  memory::copy(desc, &made, sizeof made);
}

void copy_described(void* desc, aclrtMemcpyKind kind, aclrtStream handle) {
  check_not_null(desc, "desc");
  check_inner(kind);
  check_not_null(handle, "stream");
  const auto stream = core::stream_behind(handle);
  check_on_device(desc, "desc");
  const auto queue = core::in_current_context(stream);
  queue->submit(Engine::kDeviceToDevice, "memcpy by descriptor", task([desc] {
                  Descriptor found{};
                  memory::copy(&found, desc, sizeof found);
                  if (found.check != check_of(found)) {
                    refuse_value("the memory at desc holds no descriptor of aclrtSetMemcpyDesc");
                  }
                  memory::copy(reinterpret_cast<void*>(found.dst),
                               reinterpret_cast<void*>(found.src), found.count);
                }));
}

// The addresses are read when the stream gets there.
void copy_indirect(void** dst, size_t dest_max, size_t dst_offset, const void** src, size_t count,
                   size_t src_offset, aclrtMemcpyKind kind, aclrtStream handle) {
  if (count == 0) return;
  if (raw(kind) != ACL_MEMCPY_INNER_DEVICE_TO_DEVICE) {
    refuse_value("argument kind is " + std::to_string(raw(kind)) +
                 ", only ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6) exists here");
  }
  require_chip(core::kA2A3950 | core::k910);
  check_given(dst, "dst");
  check_given(src, "src");
  const auto stream = core::stream_behind(handle);
  if (count > dest_max) refuse_value("argument count is above destMax");
  const auto queue = core::in_current_context(stream);
  queue->submit(Engine::kDeviceToDevice, "memcpy by address", task([=] {
                  std::array<uint64_t, 2> at{};
                  memory::copy(&at[0], dst, sizeof at[0]);
                  memory::copy(&at[1], src, sizeof at[1]);
                  memory::copy(reinterpret_cast<void*>(at[0] + dst_offset),
                               reinterpret_cast<void*>(at[1] + src_offset), count);
                }));
}

// Like aclrtMemcpyAsync, but pageable memory is refused instead of copied at once.
void copy_pinned(void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind,
                 aclrtStream stream) {
  if (count == 0) return;
  check_not_null(dst, "dst");
  check_not_null(src, "src");
  core::runtime();
  const bool pageable = memory::locate(dst).place == Place::kPageable ||
                        memory::locate(src).place == Place::kPageable;
  if (pageable && kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_DEFAULT) {
    core::stream_behind(stream);
    core::current_context();
    refuse_value(
        "a side of the copy is pageable host memory; allocate it with aclrtMallocHost, or "
        "use aclrtMemcpyAsync");
  }
  copy_async(dst, dest_max, src, count, kind, stream);
}

void check_fill(const void* address, size_t room, size_t count) {
  check_not_null(address, "ptr");
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint32_t) != 0) {
    refuse_argument("argument ptr is not aligned to 4 bytes");
  }
  if (count > room / sizeof(uint32_t)) {
    refuse_argument("argument N is " + std::to_string(count) + ", more numbers than memSize, " +
                    std::to_string(room) + ", holds");
  }
  core::runtime();
  if (memory::locate(address).place == Place::kPageable) {
    refuse_argument("argument ptr is neither device memory nor memory of aclrtMallocHost");
  }
  require_chip(core::kA2A3950);
}

void fill_numbers(void* address, uint32_t value, size_t count) {
  auto* start = static_cast<uint32_t*>(memory::view(address, count * sizeof value));
  std::fill_n(start, count, value);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                  size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                  size_t* attrsIndexes, size_t numAttrs, size_t* failIndex) {
  return call<ApiId::aclrtMemcpyBatch>([&] {
    check_not_null(failIndex, "failIndex");
    copy_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex});
  });
}

aclError art_emu_aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                    size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                    size_t* attrsIndexes, size_t numAttrs) {
  return call<ApiId::aclrtMemcpyBatchV2>([&] {
    copy_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nullptr});
  });
}

aclError art_emu_aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                       size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                       size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                                       aclrtStream stream) {
  return call<ApiId::aclrtMemcpyBatchAsync>([&] {
    check_not_null(failIndex, "failIndex");
    copy_batch_async(
        {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex},
        stream);
  });
}

aclError art_emu_aclrtMemcpyBatchAsyncV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                         size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                         size_t* attrsIndexes, size_t numAttrs,
                                         aclrtStream stream) {
  return call<ApiId::aclrtMemcpyBatchAsyncV2>([&] {
    copy_batch_async(
        {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nullptr}, stream);
  });
}

aclError art_emu_aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t* descSize) {
  return call<ApiId::aclrtGetMemcpyDescSize>([&] {
    check_not_null(descSize, "descSize");
    check_inner(kind);
    const bool large = core::is_950(core::runtime().soc());
    *descSize = large ? 2 * sizeof(Descriptor) : sizeof(Descriptor);
  });
}

aclError art_emu_aclrtSetMemcpyDesc(void* desc, aclrtMemcpyKind kind, void* srcAddr, void* dstAddr,
                                    size_t count, void* config) {
  return call<ApiId::aclrtSetMemcpyDesc>(
      [&] { set_descriptor(desc, kind, srcAddr, dstAddr, count, config); });
}

aclError art_emu_aclrtMemcpyAsyncWithDesc(void* desc, aclrtMemcpyKind kind, aclrtStream stream) {
  return call<ApiId::aclrtMemcpyAsyncWithDesc>([&] { copy_described(desc, kind, stream); });
}

aclError art_emu_aclrtMemcpyAsyncWithOffset(void** dst, size_t destMax, size_t dstDataOffset,
                                            const void** src, size_t count, size_t srcDataOffset,
                                            aclrtMemcpyKind kind, aclrtStream stream) {
  return call<ApiId::aclrtMemcpyAsyncWithOffset>(
      [&] { copy_indirect(dst, destMax, dstDataOffset, src, count, srcDataOffset, kind, stream); });
}

aclError art_emu_aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src,
                                               size_t count, aclrtMemcpyKind kind,
                                               aclrtStream stream) {
  return call<ApiId::aclrtMemcpyAsyncWithCondition>(
      [&] { copy_pinned(dst, destMax, src, count, kind, stream); });
}

aclError art_emu_aclrtMemsetD32(void* ptr, size_t memSize, uint32_t value, size_t N) {
  return call<ApiId::aclrtMemsetD32>([&] {
    if (N == 0) return;
    check_fill(ptr, memSize, N);
    core::current_context();
    fill_numbers(ptr, value, N);
  });
}

aclError art_emu_aclrtMemsetD32Async(void* ptr, size_t memSize, uint32_t value, size_t N,
                                     aclrtStream stream) {
  return call<ApiId::aclrtMemsetD32Async>([&] {
    if (N == 0) return;
    check_fill(ptr, memSize, N);
    const auto queue = core::in_current_context(core::stream_behind(stream));
    core::Load load;
    load.bytes = N * sizeof value;
    queue->submit(Engine::kDeviceToDevice, "memset", task([=] { fill_numbers(ptr, value, N); }),
                  load);
  });
}

aclError art_emu_aclrtCheckMemType(void** addrList, uint32_t size, uint32_t memType,
                                   uint32_t* checkResult, uint32_t reserve) {
  return call<ApiId::aclrtCheckMemType>([&] {
    check_not_null(addrList, "addrList");
    check_not_null(checkResult, "checkResult");
    *checkResult = 0;
    constexpr uint32_t kAll = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
    if (reserve != 0) refuse_value("argument reserve is reserved and must be 0");
    if (size == 0) refuse_value("argument size is 0, it must be positive");
    if ((memType & ~kAll) != 0) refuse_value("argument memType has bits of no kind of memory");
    core::current_context();
    // Device memory is all of one kind here.
    const bool match =
        (memType & ACL_RT_MEM_TYPE_DEV) != 0 &&
        std::all_of(addrList, addrList + size, [](const void* address) {
          return memory::locate(address).place == Place::kDevice && memory::is_live(address);
        });
    *checkResult = match ? 1 : 0;
  });
}

}  // extern "C"
