// Entries: host memory of the runtime, registered host memory. Must never: hold state of its own.
#include <string>

#include "abi/boundary.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

constexpr uint64_t kHostPage = 4096;
constexpr int64_t kForever = -1;

void allocate(void** out, uint64_t size, const char* name) {
  check_not_null(out, name);
  check_positive(size, "size");
  core::current_context();
  *out = memory::allocate_pinned(size);
  charge_bytes(&gen::TimingRow::host_malloc_host_us_per_mb, size);
}

void release(void* address) {
  check_not_null(address, "hostPtr");
  const memory::Place place = memory::locate(address).place;
  if (place == memory::Place::kDevice || place == memory::Place::kManaged) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "argument hostPtr is device or managed memory; free it with aclrtFree");
  }
  memory::free_pinned(address);
}

void check_chip() {
  const gen::Soc& soc = core::runtime().soc();
  if (!core::is_310b(soc) && !core::is_310p(soc)) return;
  base::fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      std::string(soc.name) + " cannot register host memory; allocate it with aclrtMallocHost");
}

void register_range(void* address, uint64_t size) {
  core::current_context();
  check_chip();
  if (reinterpret_cast<uintptr_t>(address) % kHostPage != 0) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "argument ptr is not aligned to 4096 bytes; allocate with posix_memalign or mmap");
  }
  memory::register_host(address, size);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtMallocHost(void** hostPtr, size_t size) {
  return call<ApiId::aclrtMallocHost>([&] { allocate(hostPtr, size, "hostPtr"); });
}

aclError art_emu_aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  return call<ApiId::aclrtMallocHostWithCfg>([&] {
    check_not_null(ptr, "ptr");
    check_positive(size, "size");
    if (cfg != nullptr && cfg->numAttrs != 0 && cfg->attrs == nullptr) {
      refuse_argument("cfg->attrs is a null pointer, cfg->numAttrs is not 0");
    }
    allocate(ptr, size, "ptr");  // the attributes name the owner and wish for addresses
  });
}

aclError art_emu_aclrtFreeHost(void* hostPtr) {
  return call<ApiId::aclrtFreeHost>([&] { release(hostPtr); });
}

aclError art_emu_aclrtFreeHostWithDevSync(void* hostPtr) {
  return call<ApiId::aclrtFreeHostWithDevSync>([&] {
    check_not_null(hostPtr, "hostPtr");
    core::synchronize_context(kForever);
    release(hostPtr);
  });
}

aclError art_emu_aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type,
                                   void** devPtr) {
  return call<ApiId::aclrtHostRegister>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(devPtr, "devPtr");
    check_positive(size, "size");
    constexpr auto kKnown =
        static_cast<uint32_t>(ACL_HOST_REGISTER_IOMEMORY | ACL_HOST_REGISTER_READONLY);
    if ((static_cast<uint32_t>(type) & ~kKnown) != 0) {
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "argument type is " + std::to_string(type) +
                     ", only MAPPED (0), IOMEMORY (4) and READONLY (8) exist");
    }
    register_range(ptr, size);
    *devPtr = ptr;  // engines work with the host's own address
  });
}

aclError art_emu_aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  return call<ApiId::aclrtHostRegisterV2>([&] {
    check_not_null(ptr, "ptr");
    check_positive(size, "size");
    constexpr uint32_t kKnown =
        ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
    if (flag == 0 || (flag & ~kKnown) != 0) {
      base::fail(
          ACL_ERROR_RT_PARAM_INVALID,
          "argument flag is " + std::to_string(flag) +
              ": it must hold ACL_HOST_REG_* bits (0x2, 0x4, 0x8, 0x10000000) and no others");
    }
    register_range(ptr, size);
  });
}

aclError art_emu_aclrtHostUnregister(void* ptr) {
  return call<ApiId::aclrtHostUnregister>([&] {
    check_not_null(ptr, "ptr");
    check_chip();
    memory::unregister_host(ptr);
  });
}

aclError art_emu_aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  return call<ApiId::aclrtHostGetDevicePointer>([&] {
    check_not_null(pHost, "pHost");
    check_not_null(pDevice, "pDevice");
    if (flag != 0) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument flag is reserved and must be 0");
    }
    if (memory::locate(pHost).place != memory::Place::kPinned) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "argument pHost is not registered; call aclrtHostRegisterV2 first");
    }
    *pDevice = pHost;
  });
}

}  // extern "C"
