// Entries: virtual memory management and its shareable handles. Must never: hold state of its own.
#include <unistd.h>

#include <cstring>
#include <string>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "gen/prototypes.h"
#include "memory/share.hpp"
#include "memory/virtual.hpp"

namespace ascendrt::abi {
namespace {

constexpr uint64_t kGiantPage = 1ULL << 30;

memory::Virtual& addresses() {
  core::runtime();  // configures the memory
  return memory::virtual_memory();
}

bool is_giant(aclrtMemAttr attr) {
  return attr == ACL_HBM_MEM_HUGE1G || attr == ACL_MEM_HUGE1G || attr == ACL_MEM_P2P_HUGE1G ||
         attr == ACL_HBM_MEM_P2P_HUGE1G;
}

void check_attribute(const aclrtPhysicalMemProp& prop) {
  const bool ddr = prop.memAttr == ACL_DDR_MEM_HUGE || prop.memAttr == ACL_DDR_MEM_NORMAL ||
                   prop.memAttr == ACL_DDR_MEM_P2P_HUGE || prop.memAttr == ACL_DDR_MEM_P2P_NORMAL;
  if (ddr && prop.location.type == ACL_MEM_LOCATION_TYPE_DEVICE) {
    refuse_argument("prop->memAttr is " + std::to_string(prop.memAttr) +
                    ", a DDR kind, which only the host has");
  }
  const int32_t attr = raw(prop.memAttr);
  if (attr < ACL_DDR_MEM_HUGE || attr > ACL_MEM_P2P_HUGE1G) {
    refuse_argument("prop->memAttr is " + std::to_string(attr) +
                    ", no kind of physical memory (2..17)");
  }
}

// Index of the device that a property names, kHostMemory for the host. Raises 107001.
int32_t place_of(const aclrtPhysicalMemProp& prop) {
  core::Runtime& runtime = core::runtime();
  if (prop.location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA) core::current_context();
  if (prop.location.type != ACL_MEM_LOCATION_TYPE_DEVICE) return memory::kHostMemory;
  const core::Device& device = runtime.device(static_cast<int32_t>(prop.location.id));
  if (is_giant(prop.memAttr) && !device.soc().huge_1g) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               std::string(device.soc().name) + " has no pages of 1 GiB");
  }
  return device.index();
}

void make_physical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop,
                   uint64_t flags) {
  check_not_null(handle, "handle");
  check_not_null(prop, "prop");
  check_positive(size, "size");
  check_reserved(flags, "flags");
  if (raw(prop->handleType) != ACL_MEM_HANDLE_TYPE_NONE) {
    refuse_argument("prop->handleType is " + std::to_string(raw(prop->handleType)) +
                    ", only ACL_MEM_HANDLE_TYPE_NONE (0) exists here");
  }
  if (raw(prop->allocationType) != ACL_MEM_ALLOCATION_TYPE_PINNED) {
    refuse_argument("prop->allocationType must be ACL_MEM_ALLOCATION_TYPE_PINNED (0)");
  }
  const int32_t type = raw(prop->location.type);
  if (type == ACL_MEM_LOCATION_TYPE_UNREGISTERED || type == ACL_MEM_LOCATION_TYPE_MANAGED) {
    refuse_argument("prop->location.type is " + std::to_string(type) +
                    ", physical memory is on a device (1), the host (0) or a NUMA node (4)");
  }
  check_attribute(*prop);
  const int32_t device = place_of(*prop);
  const uint64_t page = is_giant(prop->memAttr) ? kGiantPage : memory::kGranule;
  if (size > UINT64_MAX - page) refuse_argument("argument size is too large");
  const uint64_t bytes = (size + page - 1) / page * page;
  *handle = memory::hold(memory::Physical::make(*prop, device, bytes));
}

void reserve(void** address, size_t size, size_t alignment, void* wish, uint64_t flags) {
  check_not_null(address, "virPtr");
  check_positive(size, "size");
  if (flags > 1) refuse_argument("argument flags is " + std::to_string(flags) + ", not 0 or 1");
  if (alignment != 0) {
    refuse_value("argument alignment is " + std::to_string(alignment) +
                 ", it is reserved and must be 0 (addresses are aligned to 2 MiB)");
  }
  *address = addresses().reserve(size, wish);
}

void map(void* address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags,
         aclrtMemAccessFlags access) {
  check_not_null(address, "virPtr");
  check_not_null(handle, "handle");
  check_positive(size, "size");
  check_reserved(flags, "flags");
  if (offset != 0) {
    refuse_value("argument offset is " + std::to_string(offset) + ", it is reserved and must be 0");
  }
  addresses().map(address, size, memory::physical_behind(handle), access);
}

void check_location(const aclrtMemLocation& location) {
  const int32_t type = raw(location.type);
  if (type == ACL_MEM_LOCATION_TYPE_DEVICE) {
    core::runtime().device(static_cast<int32_t>(location.id));
  } else if (type != ACL_MEM_LOCATION_TYPE_HOST && type != ACL_MEM_LOCATION_TYPE_HOST_NUMA) {
    refuse_value("location.type is " + std::to_string(type) +
                 ", access is given to a device (1) or the host (0)");
  }
}

void set_access(void* address, size_t size, const aclrtMemAccessDesc* desc, size_t count) {
  check_given(address, "virPtr");
  check_given(desc, "desc");
  if (count == 0) refuse_value("argument count is 0, there must be a description");
  for (size_t i = 0; i < count; ++i) {
    check_location(desc[i].location);
    const int32_t flags = raw(desc[i].flags);
    if (flags != ACL_RT_MEM_ACCESS_FLAGS_NONE && flags != ACL_RT_MEM_ACCESS_FLAGS_READ &&
        flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE) {
      refuse_value("desc[" + std::to_string(i) + "].flags is " + std::to_string(flags) +
                   ", not 0 (none), 1 (read) or 3 (read and write)");
    }
  }
  addresses().set_access(address, size, desc, count);
}

uint64_t export_memory(aclrtDrvMemHandle handle, uint64_t flags) {
  if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    refuse_value("argument flags is " + std::to_string(flags) + ", not 0 or 1");
  }
  const auto physical = memory::physical_behind(handle);
  if (physical->device() == memory::kHostMemory) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory of the host cannot be shared by handle");
  }
  const memory::Part part{physical->file(), physical->file_offset(), physical->bytes(),
                          physical->device(), physical->prop()};
  const uint64_t token =
      memory::share(part, flags == 0 ? memory::Pids::kListed : memory::Pids::kAny);
  physical->token.store(token, std::memory_order_relaxed);
  return token;
}

void import_memory(uint64_t token, aclrtDrvMemHandle* handle) {
  core::current_context();
  if (memory::shared_here(token)) {
    refuse_value(
        "this process exported the handle itself; a shareable handle is imported in "
        "another process, this one keeps using the handle it has");
  }
  *handle = memory::hold(memory::open_shared(token));
}

void check_share_type(aclrtMemSharedHandleType type) {
  if (raw(type) == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT ||
      raw(type) == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) {
    return;
  }
  refuse_value("argument shareType is " + std::to_string(raw(type)) +
               ", not 1 (a 64-bit handle) or 2 (a fabric handle)");
}

// Both kinds of handle begin with the token; the rest of a fabric handle is zero.
uint64_t token_in(const void* shareable, aclrtMemSharedHandleType type) {
  check_share_type(type);
  uint64_t token = 0;
  std::memcpy(&token, shareable, sizeof token);
  return token;
}

void allow(uint64_t token, const int32_t* pid, size_t count) {
  check_not_null(pid, "pid");
  check_positive(count, "pidNum");
  memory::allow(token, pid, count);
}

// Start and size of the block that holds an address of any kind.
void address_range(void* address, void** start, size_t* bytes) {
  check_not_null(address, "ptr");
  if (start == nullptr && bytes == nullptr) {
    refuse_value("arguments pbase and psize are both null pointers");
  }
  core::runtime();
  const memory::Allocation block = memory::find_block(address);
  if (start != nullptr) *start = block.start;
  if (bytes != nullptr) *bytes = block.size_bytes;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment,
                                        void* expectPtr, uint64_t flags) {
  return call<ApiId::aclrtReserveMemAddress>(
      [&] { reserve(virPtr, size, alignment, expectPtr, flags); });
}

aclError art_emu_aclrtReleaseMemAddress(void* virPtr) {
  return call<ApiId::aclrtReleaseMemAddress>([&] {
    check_not_null(virPtr, "virPtr");
    addresses().release(virPtr);
  });
}

aclError art_emu_aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                                     const aclrtPhysicalMemProp* prop, uint64_t flags) {
  return call<ApiId::aclrtMallocPhysical>([&] { make_physical(handle, size, prop, flags); });
}

aclError art_emu_aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return call<ApiId::aclrtFreePhysical>([&] {
    check_not_null(handle, "handle");
    memory::let_go(handle);
  });
}

aclError art_emu_aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                             uint64_t flags) {
  return call<ApiId::aclrtMapMem>(
      [&] { map(virPtr, size, offset, handle, flags, ACL_RT_MEM_ACCESS_FLAGS_READWRITE); });
}

aclError art_emu_aclrtMemMapNoAccess(void* virPtr, size_t size, size_t offset,
                                     aclrtDrvMemHandle handle, uint64_t flags) {
  return call<ApiId::aclrtMemMapNoAccess>(
      [&] { map(virPtr, size, offset, handle, flags, ACL_RT_MEM_ACCESS_FLAGS_NONE); });
}

aclError art_emu_aclrtUnmapMem(void* virPtr) {
  return call<ApiId::aclrtUnmapMem>([&] {
    check_not_null(virPtr, "virPtr");
    addresses().unmap(virPtr);
  });
}

aclError art_emu_aclrtMemSetAccess(void* virPtr, size_t size, aclrtMemAccessDesc* desc,
                                   size_t count) {
  return call<ApiId::aclrtMemSetAccess>([&] { set_access(virPtr, size, desc, count); });
}

aclError art_emu_aclrtMemGetAccess(void* virPtr, aclrtMemLocation* location, uint64_t* flag) {
  return call<ApiId::aclrtMemGetAccess>([&] {
    check_not_null(virPtr, "virPtr");
    check_not_null(location, "location");
    check_not_null(flag, "flag");
    check_location(*location);
    *flag = addresses().access(virPtr, *location);
  });
}

aclError art_emu_aclrtMemRetainAllocationHandle(void* virPtr, aclrtDrvMemHandle* handle) {
  return call<ApiId::aclrtMemRetainAllocationHandle>([&] {
    check_not_null(virPtr, "virPtr");
    check_not_null(handle, "handle");
    *handle = memory::hold(addresses().physical_at(virPtr));
  });
}

aclError art_emu_aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                           aclrtPhysicalMemProp* prop) {
  return call<ApiId::aclrtMemGetAllocationPropertiesFromHandle>([&] {
    check_not_null(handle, "handle");
    check_not_null(prop, "prop");
    *prop = memory::physical_behind(handle)->prop();
  });
}

aclError art_emu_aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop,
                                                  aclrtMemGranularityOptions option,
                                                  size_t* granularity) {
  return call<ApiId::aclrtMemGetAllocationGranularity>([&] {
    check_not_null(prop, "prop");
    check_not_null(granularity, "granularity");
    check_attribute(*prop);
    place_of(*prop);
    const int32_t wanted = raw(option);
    if (wanted != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM &&
        wanted != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
      refuse_value("argument option is " + std::to_string(wanted) +
                   ", not 0 (minimum) or 1 (recommended)");
    }
    *granularity = is_giant(prop->memAttr) ? kGiantPage : memory::kGranule;
  });
}

aclError art_emu_aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
  return call<ApiId::aclrtMemGetAddressRange>([&] { address_range(ptr, pbase, psize); });
}

aclError art_emu_aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                                 aclrtMemHandleType handleType, uint64_t flags,
                                                 uint64_t* shareableHandle) {
  return call<ApiId::aclrtMemExportToShareableHandle>([&] {
    check_not_null(handle, "handle");
    if (raw(handleType) != ACL_MEM_HANDLE_TYPE_NONE) {
      refuse_argument("argument handleType must be ACL_MEM_HANDLE_TYPE_NONE (0)");
    }
    check_not_null(shareableHandle, "shareableHandle");
    *shareableHandle = export_memory(handle, flags);
  });
}

aclError art_emu_aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                   aclrtMemSharedHandleType shareType,
                                                   void* shareableHandle) {
  return call<ApiId::aclrtMemExportToShareableHandleV2>([&] {
    check_not_null(handle, "handle");
    check_not_null(shareableHandle, "shareableHandle");
    check_share_type(shareType);
    const uint64_t token = export_memory(handle, flags);
    const bool fabric = shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
    if (fabric) std::memset(shareableHandle, 0, sizeof(aclrtMemFabricHandle));
    std::memcpy(shareableHandle, &token, sizeof token);
  });
}

aclError art_emu_aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid,
                                                 size_t pidNum) {
  return call<ApiId::aclrtMemSetPidToShareableHandle>([&] { allow(shareableHandle, pid, pidNum); });
}

aclError art_emu_aclrtMemSetPidToShareableHandleV2(void* shareableHandle,
                                                   aclrtMemSharedHandleType shareType, int32_t* pid,
                                                   size_t pidNum) {
  return call<ApiId::aclrtMemSetPidToShareableHandleV2>([&] {
    check_not_null(shareableHandle, "shareableHandle");
    check_not_null(pid, "pid");
    check_positive(pidNum, "pidNum");
    allow(token_in(shareableHandle, shareType), pid, pidNum);
  });
}

aclError art_emu_aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                   aclrtDrvMemHandle* handle) {
  return call<ApiId::aclrtMemImportFromShareableHandle>([&] {
    check_not_null(handle, "handle");
    core::runtime().device(deviceId);
    import_memory(shareableHandle, handle);
  });
}

aclError art_emu_aclrtMemImportFromShareableHandleV2(void* shareableHandle,
                                                     aclrtMemSharedHandleType shareType,
                                                     uint64_t flags, aclrtDrvMemHandle* handle) {
  return call<ApiId::aclrtMemImportFromShareableHandleV2>([&] {
    check_not_null(shareableHandle, "shareableHandle");
    check_not_null(handle, "handle");
    check_reserved(flags, "flags");
    core::current_context();
    import_memory(token_in(shareableHandle, shareType), handle);
  });
}

aclError art_emu_aclrtDeviceGetBareTgid(int32_t* pid) {
  return call<ApiId::aclrtDeviceGetBareTgid>([&] {
    check_not_null(pid, "pid");
    *pid = getpid();
  });
}

}  // extern "C"
