// Entries: devices. Must never: hold state of its own.
#include <string>

#include "abi/boundary.hpp"
#include "base/config.hpp"
#include "core/context.hpp"
#include "core/runtime.hpp"
#include "core/state_callback.hpp"
#include "core/thread_state.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

// Real teardown empties the caller's device slot, whichever device it names; an explicit context
// stays. src: hicann/runtime src/runtime runtime.cc, rule S2 of aclrtResetDevice.
void forget_device_slot() { core::thread_state().device_slot = core::kNoDevice; }

// The driver refuses a reset with its own codes unstored only in the forced form.
template <class F>
void not_stored(F&& f) {
  try {
    f();
  } catch (base::Error& error) {
    error.layer = base::Layer::kRuntimeNotStored;
    throw;
  }
}

int64_t attribute_of(const core::Device& device, aclrtDevAttr attribute) {
  const gen::Soc& soc = device.soc();
  switch (attribute) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      return soc.ai_cpu;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
      return soc.ai_core;
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      return soc.cube_core;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      return soc.vector_core;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      return static_cast<int64_t>(memory::usage(device.index()).total_bytes);
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      return static_cast<int64_t>(soc.l2_bytes);
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      return device.index();
    case ACL_DEV_ATTR_IS_VIRTUAL:
      return 0;
    default:
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "device attribute " + std::to_string(attribute) + " is not emulated",
                 base::Layer::kRuntimeNotStored);
  }
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtSetDevice(int32_t deviceId) {
  return call<ApiId::aclrtSetDevice>([&] {
    core::Device& device = core::runtime().device(deviceId);
    device.retain_primary();
    core::thread_state().set_device(device.index());
    core::tell_device(device, ACL_RT_DEVICE_STATE_SET_POST);
  });
}

aclError art_emu_aclrtResetDevice(int32_t deviceId) {
  return call<ApiId::aclrtResetDevice>([&] {
    if (core::runtime().device(deviceId).release_primary()) forget_device_slot();
  });
}

aclError art_emu_aclrtResetDeviceForce(int32_t deviceId) {
  return call<ApiId::aclrtResetDeviceForce>([&] {
    not_stored([&] { core::runtime().device(deviceId).release_primary_forced(); });
    forget_device_slot();
  });
}

aclError art_emu_aclrtGetDevice(int32_t* deviceId) {
  return call<ApiId::aclrtGetDevice>([&] {
    check_not_null(deviceId, "deviceId");
    if (const auto context = core::current_context_or_null()) {
      *deviceId = core::runtime().user_id(context->device());
      return;
    }
    const core::ThreadState& thread = core::thread_state();
    const bool slot_free = !thread.explicit_context && thread.device_slot == core::kNoDevice;
    const auto default_device = core::runtime().default_device();
    if (!slot_free || !default_device) {
      base::fail(
          ACL_ERROR_RT_CONTEXT_NULL,
          "the calling thread has set no device (or it was reset since); call aclrtSetDevice "
          "in this thread",
          base::Layer::kRuntimeNotStored);
    }
    *deviceId = *default_device;
  });
}

aclError art_emu_aclrtGetDeviceCount(uint32_t* count) {
  return call<ApiId::aclrtGetDeviceCount>([&] {
    check_not_null(count, "count");
    *count = core::runtime().device_count();
  });
}

aclError art_emu_aclrtGetRunMode(aclrtRunMode* runMode) {
  return call<ApiId::aclrtGetRunMode>([&] {
    check_not_null(runMode, "runMode");
    *runMode = memory::open_mode() ? ACL_DEVICE : ACL_HOST;
  });
}

aclError art_emu_aclrtGetDeviceUtilizationRate(int32_t deviceId,
                                               aclrtUtilizationInfo* utilizationInfo) {
  return call<ApiId::aclrtGetDeviceUtilizationRate>([&] {
    check_not_null(utilizationInfo, "utilizationInfo");
    if (utilizationInfo->utilizationExtend != nullptr) {
      refuse_argument("utilizationInfo->utilizationExtend is reserved and must be a null pointer");
    }
    core::runtime().device(deviceId);
    // Utilisation is not measured: -1 is the documented answer for unknown figures.
    utilizationInfo->cubeUtilization = -1;
    utilizationInfo->vectorUtilization = -1;
    utilizationInfo->aicpuUtilization = -1;
    utilizationInfo->memoryUtilization = -1;
  });
}

aclError art_emu_aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  return call<ApiId::aclrtGetPrimaryCtxState>([&] {
    check_not_null(active, "active");
    if (flags != nullptr) refuse_argument("argument flags is reserved and must be a null pointer");
    *active = core::runtime().device(deviceId).references() > 0 ? 1 : 0;
  });
}

aclError art_emu_aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return call<ApiId::aclrtGetDeviceInfo>([&] {
    check_not_null(value, "value");
    *value = attribute_of(core::runtime().device(static_cast<int32_t>(deviceId)), attr);
  });
}

aclError art_emu_aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  return call<ApiId::aclrtQueryDeviceStatus>([&] {
    check_not_null(deviceStatus, "deviceStatus");
    core::runtime().device(deviceId);
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
  });
}

aclError art_emu_aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  return call<ApiId::aclrtGetLogicDevIdByUserDevId>([&] {
    check_not_null(logicDevId, "logicDevId");
    *logicDevId = core::runtime().device(userDevid).index();
  });
}

aclError art_emu_aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo,
                                        int64_t* value) {
  return call<ApiId::aclGetDeviceCapability>([&] {
    check_not_null(value, "value");
    const gen::Soc& soc = core::runtime().device(static_cast<int32_t>(deviceId)).soc();
    switch (deviceInfo) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = soc.ai_core;
        return;
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = soc.vector_core;
        return;
      case ACL_DEVICE_INFO_L2_SIZE:
        *value = static_cast<int64_t>(soc.l2_bytes);
        return;
      default:
        refuse_argument("argument deviceInfo is " + std::to_string(deviceInfo) + ", not 0, 1 or 2");
    }
  });
}

}  // extern "C"
