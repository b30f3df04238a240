// Entries: the names and numbers of devices, and what chips and packages offer.
// Must never: hold state of its own, beyond constants.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "abi/checks.hpp"
#include "base/similar.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/version_info.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

constexpr size_t kBusIdBytes = 13;

core::Device& physical(int32_t index) {
  core::Runtime& runtime = core::runtime();
  if (index < 0 || static_cast<uint32_t>(index) >= runtime.physical_device_count()) {
    base::fail(ACL_ERROR_RT_INVALID_DEVICEID,
               "device id " + std::to_string(index) + " is outside [0, " +
                   std::to_string(runtime.physical_device_count()) + ")");
  }
  return runtime.physical_device(index);
}

// The id the user sees for a device of the machine; 107001 when ASCEND_RT_VISIBLE_DEVICES hides it.
int32_t user_id(int32_t index) {
  const int32_t id = core::runtime().user_id(physical(index));
  if (id >= 0) return id;
  base::fail(ACL_ERROR_RT_INVALID_DEVICEID,
             "device " + std::to_string(index) + " is hidden by ASCEND_RT_VISIBLE_DEVICES");
}

// Devices sit on buses of their own, one after the other.
std::array<char, kBusIdBytes> bus_id(const core::Device& device) {
  std::array<char, kBusIdBytes> text{};
  std::snprintf(text.data(), text.size(), "0000:%02x:00.0", (device.index() + 1) & 0xFF);
  return text;
}

int32_t device_on_bus(const char* wanted) {
  core::Runtime& runtime = core::runtime();
  for (uint32_t id = 0; id < runtime.device_count(); ++id) {
    const auto text = bus_id(runtime.device(static_cast<int32_t>(id)));
    if (strncasecmp(text.data(), wanted, kBusIdBytes) == 0) return static_cast<int32_t>(id);
  }
  refuse_value("no device is on the bus '" + std::string(wanted, strnlen(wanted, 64)) +
               "'; the form is domain:bus:device.function, for example 0000:01:00.0");
}

// A number that stays the same for a device of a machine: FNV-1a over its names, twice.
aclrtUuid uuid_of(const core::Device& device) {
  aclrtUuid uuid{};
  const std::string name =
      memory::machine_name() + "/" + device.soc().name + "/" + std::to_string(device.index());
  uint64_t hash = 14695981039346656037ULL;
  for (size_t half = 0; half < 2; ++half) {
    for (const char letter : name) {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
    }
    std::memcpy(uuid.bytes + half * sizeof hash, &hash, sizeof hash);
  }
  return uuid;
}

struct Attribute {
  aclCannAttr attr;
  bool (*available)(const gen::Soc&);
};

constexpr std::array<Attribute, 3> kAttributes = {{
    {ACL_CANN_ATTR_INF_NAN, [](const gen::Soc& soc) { return soc.inf_nan; }},
    {ACL_CANN_ATTR_BF16, [](const gen::Soc& soc) { return soc.bf16; }},
    {ACL_CANN_ATTR_JIT_COMPILE, [](const gen::Soc&) { return true; }},
}};

// Stays for the life of the process, as the interface promises.
const std::vector<aclCannAttr>& available_attributes() {
  static const auto* const made = [] {
    auto* list = new std::vector<aclCannAttr>;
    for (const Attribute& each : kAttributes) {
      if (each.available(core::runtime().soc())) list->push_back(each.attr);
    }
    return list;
  }();
  return *made;
}

int32_t npu_arch_of(std::string_view name) {
  std::vector<std::string_view> known;
  for (const gen::Soc& soc : gen::kSocs) {
    if (name == soc.name) return soc.npu_arch;
    known.emplace_back(soc.name);
  }
  refuse_value("argument socVersion is '" + std::string(name) + "', no SoC that is known" +
               base::did_you_mean(name, known));
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t* const userDevid) {
  return call<ApiId::aclrtGetUserDevIdByLogicDevId>([&] {
    check_not_null(userDevid, "userDevid");
    *userDevid = user_id(logicDevId);
  });
}

// Logical and physical ids are the same outside containers.
aclError art_emu_aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t* const logicDevId) {
  return call<ApiId::aclrtGetLogicDevIdByPhyDevId>([&] {
    check_not_null(logicDevId, "logicDevId");
    *logicDevId = user_id(phyDevId);
  });
}

aclError art_emu_aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t* const userDevId) {
  return call<ApiId::aclrtGetUserDevIdByPhyDevId>([&] {
    check_not_null(userDevId, "userDevId");
    *userDevId = user_id(phyDevId);
  });
}

aclError art_emu_aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t* const phyDevId) {
  return call<ApiId::aclrtGetPhyDevIdByLogicDevId>([&] {
    check_not_null(phyDevId, "phyDevId");
    *phyDevId = core::runtime().device(logicDevId).index();
  });
}

aclError art_emu_aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t* const phyDevId) {
  return call<ApiId::aclrtGetPhyDevIdByUserDevId>([&] {
    check_not_null(phyDevId, "phyDevId");
    *phyDevId = core::runtime().device(userDevId).index();
  });
}

aclError art_emu_aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return call<ApiId::aclrtDeviceGetUuid>([&] {
    check_not_null(uuid, "uuid");
    const core::Device& device = core::runtime().device(deviceId);
    require_chip(core::kA2A3950);
    *uuid = uuid_of(device);
  });
}

aclError art_emu_aclrtDeviceGetPCIBusId(int32_t deviceId, char* pciBusId, int32_t len) {
  return call<ApiId::aclrtDeviceGetPCIBusId>([&] {
    check_not_null(pciBusId, "pciBusId");
    if (len < static_cast<int32_t>(kBusIdBytes)) {
      refuse_value("argument len is " + std::to_string(len) + ", a bus id takes 13 bytes");
    }
    const core::Device& device = core::runtime().device(deviceId);
    require_chip(core::kA2A3950);
    const auto text = bus_id(device);
    std::memcpy(pciBusId, text.data(), text.size());
  });
}

aclError art_emu_aclrtDeviceGetByPCIBusId(const char* pciBusId, int32_t* deviceId) {
  return call<ApiId::aclrtDeviceGetByPCIBusId>([&] {
    check_not_null(pciBusId, "pciBusId");
    check_not_null(deviceId, "deviceId");
    require_chip(core::kA2A3950);
    *deviceId = device_on_bus(pciBusId);
  });
}

// Neither feature is emulated.
aclError art_emu_aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
                                          int32_t* value) {
  return call<ApiId::aclrtGetDeviceCapability>([&] {
    check_not_null(value, "value");
    core::runtime().device(deviceId);
    const int32_t feature = raw(devFeatureType);
    if (feature != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
        feature != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV) {
      refuse_value("argument devFeatureType is " + std::to_string(feature) + ", no known feature");
    }
    *value = 0;
  });
}

// The memory of an emulated device has no errors.
aclError art_emu_aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray,
                                    size_t arraySize, size_t* retSize) {
  return call<ApiId::aclrtGetMemUceInfo>([&] {
    check_not_null(memUceInfoArray, "memUceInfoArray");
    check_not_null(retSize, "retSize");
    check_positive(arraySize, "arraySize");
    require_chip(core::kA2A3950);
    core::runtime().device(deviceId);
    *retSize = 0;
  });
}

aclError art_emu_aclrtCheckArchCompatibility(const char* socVersion, int32_t* canCompatible) {
  return call<ApiId::aclrtCheckArchCompatibility>([&] {
    check_not_null(socVersion, "socVersion");
    check_not_null(canCompatible, "canCompatible");
    *canCompatible = npu_arch_of(socVersion) == core::runtime().soc().npu_arch ? 1 : 0;
  });
}

aclError art_emu_aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  return call<ApiId::aclGetCannAttributeList>([&] {
    check_not_null(cannAttrList, "cannAttrList");
    check_not_null(num, "num");
    *cannAttrList = available_attributes().data();
    *num = available_attributes().size();
  });
}

aclError art_emu_aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  return call<ApiId::aclGetCannAttribute>([&] {
    check_not_null(value, "value");
    for (const Attribute& each : kAttributes) {
      if (raw(cannAttr) != each.attr) continue;
      *value = each.available(core::runtime().soc()) ? 1 : 0;
      return;
    }
    refuse_argument("argument cannAttr is " + std::to_string(raw(cannAttr)) + ", not within 0..2");
  });
}

aclError art_emu_aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return call<ApiId::aclsysGetVersionStr>([&] {
    check_not_null(versionStr, "versionStr");
    check_not_null(pkgName, "pkgName");
    const std::string text = core::package_version(pkgName);
    if (text.size() >= ACL_PKG_VERSION_MAX_SIZE) {
      base::fail(ACL_ERROR_INTERNAL_ERROR, "the version text is longer than 127 letters",
                 base::Layer::kAcl);
    }
    std::memcpy(versionStr, text.c_str(), text.size() + 1);
  });
}

aclError art_emu_aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  return call<ApiId::aclsysGetVersionNum>([&] {
    check_not_null(versionNum, "versionNum");
    check_not_null(pkgName, "pkgName");
    *versionNum = core::version_number(core::package_version(pkgName));
  });
}

}  // extern "C"
