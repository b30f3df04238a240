// Entries: what a pointer is, and access between devices. Must never: hold state of its own.
#include <string>

#include "abi/boundary.hpp"
#include "core/context.hpp"
#include "core/runtime.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

constexpr uint32_t kNormalPage = 4096;

aclrtPtrAttributes attributes_of(const void* address) {
  aclrtPtrAttributes answer = {};
  answer.pageSize = kNormalPage;
  const memory::Location at = memory::locate(address);
  switch (at.place) {
    case memory::Place::kDevice: {
      const memory::Allocation block = memory::find_device(address);
      answer.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
      core::Runtime& runtime = core::runtime();
      answer.location.id =
          static_cast<uint32_t>(runtime.user_id(runtime.physical_device(at.device)));
      answer.pageSize = static_cast<uint32_t>(block.page_bytes);
      break;
    }
    case memory::Place::kPinned:
      answer.location.type = ACL_MEM_LOCATION_TYPE_HOST;
      break;
    case memory::Place::kManaged:
      answer.location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
      answer.pageSize = static_cast<uint32_t>(memory::find_device(address).page_bytes);
      break;
    case memory::Place::kPageable:
      answer.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
      break;
  }
  return answer;
}

// The device of the calling thread. Its absence is not stored as the last error.
core::Device& current_device() {
  const auto context = core::current_context_or_null();
  if (!context) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL,
               "the calling thread has set no device; call aclrtSetDevice in this thread",
               base::Layer::kRuntimeNotStored);
  }
  return context->device();
}

// The peer of a call that acts on the current device.
core::Device& peer_of(const core::Device& device, int32_t peer_id) {
  core::Runtime& runtime = core::runtime();
  if (peer_id == runtime.user_id(device)) {
    refuse_argument("argument peerDeviceId is " + std::to_string(peer_id) +
                    ", the current device itself");
  }
  return runtime.device(peer_id);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  return call<ApiId::aclrtPointerGetAttributes>([&] {
    check_not_null(ptr, "ptr");
    check_not_null(attributes, "attributes");
    *attributes = attributes_of(ptr);
  });
}

aclError art_emu_aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId,
                                          int32_t peerDeviceId) {
  return call<ApiId::aclrtDeviceCanAccessPeer>([&] {
    if (deviceId == peerDeviceId) {
      refuse_argument("deviceId and peerDeviceId are both " + std::to_string(deviceId) +
                      "; the question is about two devices");
    }
    if (canAccessPeer == nullptr) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument canAccessPeer is a null pointer");
    }
    const core::Device& device = core::runtime().device(deviceId);
    core::runtime().device(peerDeviceId);
    *canAccessPeer = device.soc().peer_access ? 1 : 0;
  });
}

aclError art_emu_aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  return call<ApiId::aclrtDeviceEnablePeerAccess>([&] {
    if (flags != 0) {
      base::fail(ACL_ERROR_FEATURE_UNSUPPORTED, "argument flags is reserved and must be 0",
                 base::Layer::kAcl);
    }
    const core::Device& device = current_device();
    const core::Device& peer = peer_of(device, peerDeviceId);
    if (!device.soc().peer_access) {
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 std::string(device.soc().name) + " has no access between devices");
    }
    memory::set_peer_access(device.index(), peer.index(), true);
  });
}

aclError art_emu_aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return call<ApiId::aclrtDeviceDisablePeerAccess>([&] {
    const core::Device& device = current_device();
    memory::set_peer_access(device.index(), peer_of(device, peerDeviceId).index(), false);
  });
}

aclError art_emu_aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId,
                                             int32_t* status) {
  return call<ApiId::aclrtDevicePeerAccessStatus>([&] {
    check_not_null(status, "status");
    if (deviceId == peerDeviceId) {
      refuse_argument("deviceId and peerDeviceId are both " + std::to_string(deviceId) +
                      "; the question is about two devices");
    }
    const int32_t device = core::runtime().device(deviceId).index();
    const int32_t peer = core::runtime().device(peerDeviceId).index();
    *status = memory::peer_access(device, peer) ? 1 : 0;
  });
}

}  // extern "C"
