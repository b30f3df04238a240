// Entries: core limits of devices, streams and threads; overflow mode; operator time limits; sizes
// of device resources. Must never: hold state of its own.
#include <string>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/settings.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

constexpr uint64_t kMicrosPerMilli = 1'000;
constexpr uint64_t kMicrosPerSecond = 1'000'000;

size_t check_type(aclrtDevResLimitType type) {
  const int32_t number = raw(type);
  if (number == ACL_RT_DEV_RES_CUBE_CORE || number == ACL_RT_DEV_RES_VECTOR_CORE) {
    return static_cast<size_t>(number);
  }
  refuse_value("argument type is " + std::to_string(number) +
               ", not 0 (cube cores) or 1 (vector cores)");
}

uint32_t cores_of(const gen::Soc& soc, size_t type) {
  return static_cast<uint32_t>(type == 0 ? soc.cube_core : soc.vector_core);
}

void check_cores(const gen::Soc& soc, size_t type, uint32_t value) {
  const uint32_t all = cores_of(soc, type);
  if (value <= all) return;
  refuse_value("argument value is " + std::to_string(value) + ", " + soc.name + " has " +
               std::to_string(all) + (type == 0 ? " cube cores" : " vector cores"));
}

// A device that this process has set.
core::Device& used_device(int32_t id) {
  core::Device& device = core::runtime().device(id);
  if (device.references() > 0) return device;
  base::fail(ACL_ERROR_RT_DEV_SETUP_ERROR,
             "device " + std::to_string(id) + " is not set in this process; call aclrtSetDevice");
}

uint32_t limit_of(const core::Device& device, size_t type) {
  const uint32_t limit = device.core_limits[type].load(std::memory_order_relaxed);
  return limit == core::kAllCores ? cores_of(device.soc(), type) : limit;
}

base::Ref<core::Stream> stream_or_default(aclrtStream handle) {
  auto stream = core::stream_behind(handle);
  return stream ? stream : core::current_context()->default_stream();
}

uint32_t limit_of(const core::Stream& stream, size_t type) {
  const uint32_t limit = stream.core_limits[type].load(std::memory_order_relaxed);
  return limit == core::kAllCores ? limit_of(stream.context().device(), type) : limit;
}

void set_op_timeout(uint64_t asked, uint64_t unit_us) {
  const uint64_t asked_us = asked > UINT64_MAX / unit_us ? UINT64_MAX - 1 : asked * unit_us;
  core::Settings& settings = core::settings();
  settings.op_timeout_us = core::actual_op_timeout_us(core::runtime().soc(), asked_us);
  settings.op_timeout_given = true;
}

uint64_t op_timeout_us() { return core::op_timeout_us(core::runtime().soc()); }

// --- sizes of device resources -----------------------------------------------------------------

struct LimitRule {
  const char* name;
  uint32_t grain;
  uint32_t least;
  uint32_t most;
};

LimitRule rule_of(aclrtDeviceLimit limit) {
  const int32_t number = raw(limit);
  const bool is_950 = core::is_950(core::runtime().soc());
  const bool simt = number != ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE &&
                    number != ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE;
  if (number < ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE ||
      number > ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE) {
    refuse_argument("argument limit is " + std::to_string(number) + ", not within 0..4");
  }
  require_chip(simt ? core::k950 : core::kA2A3950);
  switch (number) {
    case ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE:
      return {"stack of a SIMT thread", 128, 0, UINT32_MAX - 128};
    case ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE:
      return {"divergence stack of a warp", 128, 0, UINT32_MAX - 128};
    case ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE:
      return {"stack of an AI core", 1, 32769, is_950 ? 131072U : 196608U};
    case ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE:
      return {"print buffer of a core", 8, 1024, 67108864};
    default:
      return {"print buffer of SIMT kernels", 8, 1048576, 67108864};
  }
}

void set_limit(aclrtDeviceLimit limit, size_t value) {
  const LimitRule rule = rule_of(limit);
  if (value > UINT32_MAX) refuse_argument("argument value is above 2^32 - 1");
  if (value < rule.least || value > rule.most) {
    refuse_value("argument value is " + std::to_string(value) + ", the " + rule.name + " takes " +
                 std::to_string(rule.least) + " to " + std::to_string(rule.most) + " bytes");
  }
  const auto rounded = static_cast<uint32_t>((value + rule.grain - 1) / rule.grain * rule.grain);
  auto& limits = core::settings().device_limits;
  const bool one_is_zero = limits[ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE] == 0 ||
                           limits[ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE] == 0;
  if (rounded == 0 && one_is_zero) {
    refuse_value("the SIMT stack and the divergence stack cannot both be 0");
  }
  limits[static_cast<size_t>(raw(limit))] = rounded;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                        uint32_t value) {
  return call<ApiId::aclrtSetDeviceResLimit>([&] {
    const size_t kind = check_type(type);
    core::Device& device = used_device(deviceId);
    check_cores(device.soc(), kind, value);
    device.core_limits[kind].store(value, std::memory_order_relaxed);
  });
}

aclError art_emu_aclrtResetDeviceResLimit(int32_t deviceId) {
  return call<ApiId::aclrtResetDeviceResLimit>([&] {
    for (auto& limit : used_device(deviceId).core_limits) limit = core::kAllCores;
  });
}

aclError art_emu_aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                        uint32_t* value) {
  return call<ApiId::aclrtGetDeviceResLimit>([&] {
    const size_t kind = check_type(type);
    check_given(value, "value");
    *value = limit_of(used_device(deviceId), kind);
  });
}

aclError art_emu_aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                        uint32_t value) {
  return call<ApiId::aclrtSetStreamResLimit>([&] {
    const size_t kind = check_type(type);
    const auto found = stream_or_default(stream);
    check_cores(found->context().device().soc(), kind, value);
    found->core_limits[kind].store(value, std::memory_order_relaxed);
  });
}

aclError art_emu_aclrtResetStreamResLimit(aclrtStream stream) {
  return call<ApiId::aclrtResetStreamResLimit>([&] {
    for (auto& limit : stream_or_default(stream)->core_limits) limit = core::kAllCores;
  });
}

aclError art_emu_aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                        uint32_t* value) {
  return call<ApiId::aclrtGetStreamResLimit>([&] {
    const size_t kind = check_type(type);
    check_given(value, "value");
    *value = limit_of(*stream_or_default(stream), kind);
  });
}

aclError art_emu_aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return call<ApiId::aclrtUseStreamResInCurrentThread>(
      [&] { core::thread_state().limits_stream = stream_or_default(stream)->handle(); });
}

aclError art_emu_aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  return call<ApiId::aclrtUnuseStreamResInCurrentThread>([&] {
    void*& used = core::thread_state().limits_stream;
    if (used == stream_or_default(stream)->handle()) used = nullptr;
  });
}

aclError art_emu_aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return call<ApiId::aclrtGetResInCurrentThread>([&] {
    const size_t kind = check_type(type);
    check_given(value, "value");
    const auto stream = core::limits_stream();
    *value = stream ? limit_of(*stream, kind) : limit_of(core::current_context()->device(), kind);
  });
}

aclError art_emu_aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return call<ApiId::aclrtSetDeviceSatMode>([&] {
    const int32_t number = raw(mode);
    if (number != ACL_RT_OVERFLOW_MODE_SATURATION && number != ACL_RT_OVERFLOW_MODE_INFNAN) {
      refuse_value("argument mode is " + std::to_string(number) +
                   ", not 0 (saturation) or 1 (infinity and NaN)");
    }
    core::settings().overflow_mode = number;
  });
}

aclError art_emu_aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  return call<ApiId::aclrtGetDeviceSatMode>([&] {
    check_not_null(mode, "mode");
    const int32_t set = core::settings().overflow_mode;
    const bool inf_nan =
        set < 0 ? core::runtime().soc().inf_nan : set == ACL_RT_OVERFLOW_MODE_INFNAN;
    *mode = inf_nan ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION;
  });
}

aclError art_emu_aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  return call<ApiId::aclrtSetOpExecuteTimeOut>([&] { set_op_timeout(timeout, kMicrosPerSecond); });
}

aclError art_emu_aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  return call<ApiId::aclrtSetOpExecuteTimeOutWithMs>(
      [&] { set_op_timeout(timeout, kMicrosPerMilli); });
}

aclError art_emu_aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  return call<ApiId::aclrtSetOpExecuteTimeOutV2>([&] {
    check_given(actualTimeout, "actualTimeout");
    core::current_context();
    set_op_timeout(timeout, 1);
    *actualTimeout = op_timeout_us();
  });
}

aclError art_emu_aclrtGetOpTimeOutInterval(uint64_t* interval) {
  return call<ApiId::aclrtGetOpTimeOutInterval>([&] {
    check_given(interval, "interval");
    *interval = core::op_timeout_interval_us(core::current_context()->device().soc());
  });
}

aclError art_emu_aclrtGetOpExecuteTimeout(uint32_t* const timeoutMs) {
  return call<ApiId::aclrtGetOpExecuteTimeout>([&] {
    check_not_null(timeoutMs, "timeoutMs");
    *timeoutMs = static_cast<uint32_t>(op_timeout_us() / kMicrosPerMilli);
  });
}

aclError art_emu_aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value) {
  return call<ApiId::aclrtDeviceSetLimit>([&] { set_limit(limit, value); });
}

aclError art_emu_aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t* value) {
  return call<ApiId::aclrtDeviceGetLimit>([&] {
    check_not_null(value, "value");
    rule_of(limit);
    const uint32_t set = core::settings().device_limits[static_cast<size_t>(raw(limit))];
    // A warp has 32 threads; the stack of one thread is answered for all of them.
    *value = limit == ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE ? size_t{set} * 32 : set;
  });
}

}  // extern "C"
