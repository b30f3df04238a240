// Entries: device memory. Must never: hold state of its own.
#include "memory/memory.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "abi/checks.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/cache.hpp"

namespace ascendrt::abi {
namespace {

constexpr uint64_t kGrain = 32;
constexpr int64_t kForever = -1;
constexpr uint64_t kGiantPage = 1ULL << 30;
constexpr uint64_t kLaneMax = 1ULL << 40;  // no larger block is kept ready

bool is_giant(aclrtMemMallocPolicy policy) {
  return policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

// The size rounded up to 32, plus the extra of the chip. src: hicann/runtime aclrt_impl memory.cpp
uint64_t padded_size(uint64_t size, uint64_t extra) {
  if (size > UINT64_MAX - kGrain - extra) {
    refuse_argument("argument size is " + std::to_string(size) +
                    ", with its padding it does not fit 64 bits");
  }
  return (size + kGrain + extra - 1) / kGrain * kGrain;
}

void* from_pool(const core::Context& context, uint64_t size, uint64_t padded,
                aclrtMemMallocPolicy policy) {
  memory::Pool* pool = context.pool();
  if (pool == nullptr) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL, "the current context was destroyed by another thread");
  }
  return memory::allocate_device(*pool, padded, policy, padded - size);
}

// The default policy, without the calls for which the pool's lane has no answer.
bool default_policy(aclrtMemMallocPolicy policy) {
  return policy == ACL_MEM_MALLOC_HUGE_FIRST || policy == ACL_MEM_MALLOC_HUGE_FIRST_P2P;
}

enum class Padding : uint8_t { kNone, kChip };

void allocate(void** out, size_t size, aclrtMemMallocPolicy policy, Padding padding);

// Out of line, so that the lanes need no room on the stack.
[[gnu::noinline]] aclError malloc_in_full(void** out, size_t size, aclrtMemMallocPolicy policy) {
  return call<ApiId::aclrtMalloc>([&] { allocate(out, size, policy, Padding::kChip); });
}

void release(void* address) {
  check_not_null(address, "devPtr");
  if (core::time_is_modelled()) {
    charge_bytes(&gen::TimingRow::host_free_us_per_mb, memory::find_device(address).size_bytes);
  }
  memory::free_device(address);
}

[[gnu::noinline]] aclError free_in_full(void* address) {
  return call<ApiId::aclrtFree>([&] { release(address); });
}

[[gnu::noinline]] aclError free_shared(memory::Cache& lane, void* address) {
  if (lane.give_shared(address) == memory::Cache::Given::kDone) return ACL_SUCCESS;
  return free_in_full(address);
}

void allocate(void** out, size_t size, aclrtMemMallocPolicy policy, Padding padding) {
  check_not_null(out, "devPtr");
  check_positive(size, "size");
  const bool extra = padding == Padding::kChip && !is_giant(policy);
  const auto& soc = core::runtime().soc();
  const uint64_t padded = padded_size(size, extra ? static_cast<uint64_t>(soc.malloc_extra) : 0);
  *out = from_pool(*core::current_context(), size, padded, policy);
  charge_bytes(&gen::TimingRow::host_malloc_us_per_mb, padded);
}

aclrtMemMallocPolicy without_peer(aclrtMemMallocPolicy policy) {
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
      return ACL_MEM_MALLOC_HUGE_FIRST;
    default:
      return policy;
  }
}

// The device that the attributes name, or the context's own.
int32_t device_of(const core::Context& context, const aclrtMallocConfig* cfg) {
  int32_t device = context.device().index();
  for (size_t i = 0; cfg != nullptr && i < cfg->numAttrs; ++i) {
    const aclrtMallocAttribute& attribute = cfg->attrs[i];
    switch (attribute.attr) {
      case ACL_RT_MEM_ATTR_DEVICE_ID:
        device = core::runtime().device(static_cast<int32_t>(attribute.value.deviceId)).index();
        break;
      case ACL_RT_MEM_ATTR_RSV:
      case ACL_RT_MEM_ATTR_MODULE_ID:  // names the owner in the driver's statistics
      case ACL_RT_MEM_ATTR_VA_FLAG:    // wish for equal addresses on all devices
        break;
      default:
        base::fail(ACL_ERROR_RT_PARAM_INVALID, "cfg->attrs[" + std::to_string(i) + "].attr is " +
                                                   std::to_string(attribute.attr) +
                                                   ", no known attribute (0..3)");
    }
  }
  return device;
}

void check_config(const aclrtMallocConfig* cfg) {
  if (cfg == nullptr || cfg->attrs != nullptr) return;
  if (cfg->numAttrs != 0) refuse_argument("cfg->attrs is a null pointer, cfg->numAttrs is not 0");
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "cfg has no attributes; pass a null pointer instead of an empty configuration");
}

void allocate_with(void** out, size_t size, aclrtMemMallocPolicy policy,
                   const aclrtMallocConfig* cfg) {
  check_not_null(out, "devPtr");
  check_positive(size, "size");
  check_config(cfg);
  const auto context = core::current_context();
  const int32_t device = device_of(*context, cfg);
  const uint64_t padded = padded_size(size, 0);
  *out = device == context->device().index() ? from_pool(*context, size, padded, policy)
                                             : memory::allocate_device(device, padded, policy);
}

memory::Usage giant_pages(memory::Usage huge, const gen::Soc& soc) {
  if (!soc.huge_1g) return {};
  return {huge.total_bytes / kGiantPage * kGiantPage, huge.free_bytes / kGiantPage * kGiantPage};
}

// What a chip lacks is answered with zeros; a DDR chip answers questions about HBM for its DDR.
memory::Usage usage_of(const core::Device& device, aclrtMemAttr attr) {
  const int32_t index = device.index();
  const bool hbm = core::has_hbm(device.soc());
  switch (attr) {
    case ACL_DDR_MEM:
      return hbm ? memory::Usage{} : memory::usage(index);
    case ACL_HBM_MEM:
      return memory::usage(index);
    case ACL_DDR_MEM_HUGE:
    case ACL_DDR_MEM_P2P_HUGE:
      return hbm ? memory::Usage{} : memory::usage(index, memory::Pages::kHuge);
    case ACL_DDR_MEM_NORMAL:
    case ACL_DDR_MEM_P2P_NORMAL:
      return hbm ? memory::Usage{} : memory::usage(index, memory::Pages::kNormal);
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_P2P_HUGE:
    case ACL_MEM_HUGE:
    case ACL_MEM_P2P_HUGE:
      return memory::usage(index, memory::Pages::kHuge);
    case ACL_HBM_MEM_NORMAL:
    case ACL_HBM_MEM_P2P_NORMAL:
    case ACL_MEM_NORMAL:
    case ACL_MEM_P2P_NORMAL:
      return memory::usage(index, memory::Pages::kNormal);
    default:  // the four questions about 1 GiB pages
      return giant_pages(memory::usage(index, memory::Pages::kHuge), device.soc());
  }
}

void check_cached_range(void* address, size_t size) {
  check_not_null(address, "devPtr");
  check_positive(size, "size");
  // There is no cache to write back; the range must still be memory of the device.
  memory::find_device(address);
  memory::view(address, size);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

// A lane is open only while the thread's context is alive and nothing needs to see the call, so
// what the slow path checks holds.
aclError art_emu_aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  memory::Cache* lane = memory::t_lanes.take;
  if (lane != nullptr && devPtr != nullptr && size - 1 < kLaneMax && default_policy(policy)) {
    if (void* block = lane->take(size)) {
      *devPtr = block;
      return ACL_SUCCESS;
    }
  }
  return malloc_in_full(devPtr, size, policy);
}

// The picture units read device memory like everybody on the chips of the tables.
aclError art_emu_acldvppMalloc(void** devPtr, size_t size) {
  return call<ApiId::acldvppMalloc>(
      [&] { allocate(devPtr, size, ACL_MEM_MALLOC_HUGE_FIRST, Padding::kChip); });
}

aclError art_emu_acldvppFree(void* devPtr) {
  return call<ApiId::acldvppFree>([&] { release(devPtr); });
}

aclError art_emu_aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return call<ApiId::aclrtMallocAlign32>([&] { allocate(devPtr, size, policy, Padding::kNone); });
}

aclError art_emu_aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return call<ApiId::aclrtMallocCached>(
      [&] { allocate(devPtr, size, without_peer(policy), Padding::kChip); });
}

aclError art_emu_aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                    aclrtMallocConfig* cfg) {
  return call<ApiId::aclrtMallocWithCfg>([&] { allocate_with(devPtr, size, policy, cfg); });
}

aclError art_emu_aclrtFree(void* devPtr) {
  memory::Cache* lane = memory::t_lanes.give;
  if (lane == nullptr) return free_in_full(devPtr);
  const memory::Cache::Given given = lane->give(devPtr);
  if (given == memory::Cache::Given::kDone) return ACL_SUCCESS;
  return given == memory::Cache::Given::kAsk ? free_in_full(devPtr) : free_shared(*lane, devPtr);
}

// "With device sync" is aclrtSynchronizeDevice and then the free: it needs a context and delivers
// the failures of that context's streams.
aclError art_emu_aclrtFreeWithDevSync(void* devPtr) {
  return call<ApiId::aclrtFreeWithDevSync>([&] {
    check_not_null(devPtr, "devPtr");
    core::synchronize_context(kForever);
    memory::free_device(devPtr);
  });
}

aclError art_emu_aclrtMemFlush(void* devPtr, size_t size) {
  return call<ApiId::aclrtMemFlush>([&] { check_cached_range(devPtr, size); });
}

aclError art_emu_aclrtMemInvalidate(void* devPtr, size_t size) {
  return call<ApiId::aclrtMemInvalidate>([&] { check_cached_range(devPtr, size); });
}

aclError art_emu_aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return call<ApiId::aclrtGetMemInfo>([&] {
    check_not_null(free, "free");
    check_not_null(total, "total");
    if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
      base::fail(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "argument attr is " + std::to_string(attr) +
                                                       ", no member of aclrtMemAttr (0..17)");
    }
    const memory::Usage usage = usage_of(core::current_context()->device(), attr);
    *free = usage.free_bytes;
    *total = usage.total_bytes;
  });
}

aclError art_emu_aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo,
                                      size_t inputNum, size_t* outputNum) {
  return call<ApiId::aclrtGetMemUsageInfo>([&] {
    check_not_null(memUsageInfo, "memUsageInfo");
    check_not_null(outputNum, "outputNum");
    check_positive(inputNum, "inputNum");
    require_chip(~uint32_t{core::k950});
    const auto all = memory::usage_by_owner(core::runtime().device(deviceId).index());
    *outputNum = std::min(inputNum, all.size());
    for (size_t i = 0; i < *outputNum; ++i) {
      memUsageInfo[i] = {};
      std::strncpy(memUsageInfo[i].name, all[i].name, sizeof memUsageInfo[i].name - 1);
      memUsageInfo[i].curMemSize = all[i].bytes;
      memUsageInfo[i].memPeakSize = all[i].peak_bytes;
    }
  });
}

}  // extern "C"
