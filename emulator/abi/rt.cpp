// Entries of the runtime layer that are not the acl layer's by another name (those are generated,
// gen/rt_entries.cpp). Must never: hold state of its own.
#include <cstring>
#include <string>

#include "abi/checks.hpp"
#include "abi/copies.hpp"
#include "abi/runtime_layer.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/thread_state.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {

base::Code runtime_code(base::Code code) noexcept {
  if (code != ACL_ERROR_INVALID_PARAM) return code;
  return core::thread_state().last_error = ACL_ERROR_RT_PARAM_INVALID;
}

namespace {

constexpr rtMemType_t kHugeOnly = 0x800;
constexpr rtMemType_t kNormalOnly = 0x1000;

// Kinds have other numbers here; those that the acl layer lacks are refused by it.
aclrtMemcpyKind kind_of(rtMemcpyKind_t kind) {
  switch (raw(kind)) {
    case RT_MEMCPY_DEFAULT:
      return ACL_MEMCPY_DEFAULT;
    case RT_MEMCPY_HOST_TO_DEVICE_EX:
      return ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    case RT_MEMCPY_HOST_TO_HOST:
    case RT_MEMCPY_HOST_TO_DEVICE:
    case RT_MEMCPY_DEVICE_TO_HOST:
    case RT_MEMCPY_DEVICE_TO_DEVICE:
      return static_cast<aclrtMemcpyKind>(raw(kind));
    default:
      return static_cast<aclrtMemcpyKind>(-1);
  }
}

aclrtMemMallocPolicy policy_of(rtMemType_t type) {
  if ((type & kHugeOnly) != 0) return ACL_MEM_MALLOC_HUGE_ONLY;
  return (type & kNormalOnly) != 0 ? ACL_MEM_MALLOC_NORMAL_ONLY : ACL_MEM_MALLOC_HUGE_FIRST;
}

rtError_t allocate(void** address, uint64_t size, rtMemType_t type) {
  return runtime_code(art_emu_aclrtMallocWithCfg(address, size, policy_of(type), nullptr));
}

void write_soc(char* text, uint32_t room) {
  check_given(text, "ver");
  const std::string name = core::runtime().soc().name;
  if (room <= name.size()) {
    refuse_value("argument maxLen is " + std::to_string(room) + ", the name '" + name +
                 "' does not fit");
  }
  std::memcpy(text, name.c_str(), name.size() + 1);
}

void give_primary(int32_t id, rtContext_t* context) {
  check_given(context, "primaryCtx");
  const auto primary = core::runtime().device(id).primary();
  if (!primary) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL,
               "device " + std::to_string(id) + " is not set; call rtSetDevice first");
  }
  *context = primary->handle();
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

// Null leaves the thread without a context.
rtError_t art_emu_rtCtxSetCurrent(rtContext_t currentCtx) {
  if (currentCtx != nullptr) return art_emu_aclrtSetCurrentContext(currentCtx);
  return call<ApiId::rtCtxSetCurrent>([] { core::thread_state().set_explicit(nullptr); });
}

rtError_t art_emu_rtGetPriCtxByDeviceId(int32_t devId, rtContext_t* primaryCtx) {
  return call<ApiId::rtGetPriCtxByDeviceId>([&] { give_primary(devId, primaryCtx); });
}

rtError_t art_emu_rtGetSocVersion(char_t* ver, const uint32_t maxLen) {
  return call<ApiId::rtGetSocVersion>([&] { write_soc(ver, maxLen); });
}

rtError_t art_emu_rtGetAiCoreCount(uint32_t* aiCoreCnt) {
  return call<ApiId::rtGetAiCoreCount>([&] {
    check_given(aiCoreCnt, "aiCoreCnt");
    *aiCoreCnt = static_cast<uint32_t>(core::runtime().soc().ai_core);
  });
}

rtError_t art_emu_rtGetAiCpuCount(uint32_t* aiCpuCnt) {
  return call<ApiId::rtGetAiCpuCount>([&] {
    check_given(aiCpuCnt, "aiCpuCnt");
    *aiCpuCnt = static_cast<uint32_t>(core::runtime().soc().ai_cpu);
  });
}

// "Not finished" is a code here, as it is in the runtime.
rtError_t art_emu_rtStreamQuery(rtStream_t stm) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  const aclError code = art_emu_aclrtStreamQuery(stm, &status);
  if (code != 0) return runtime_code(code);
  return status == ACL_STREAM_STATUS_COMPLETE ? 0 : ACL_ERROR_RT_STREAM_NOT_COMPLETE;
}

rtError_t art_emu_rtEventQuery(rtEvent_t evt) {
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  const aclError code = art_emu_aclrtQueryEvent(evt, &status);
  if (code != 0) return runtime_code(code);
  return status == ACL_EVENT_STATUS_COMPLETE ? 0 : ACL_ERROR_RT_EVENT_NOT_COMPLETE;
}

rtError_t art_emu_rtMalloc(void** devPtr, uint64_t size, rtMemType_t type,
                           const uint16_t /*moduleId*/) {
  return allocate(devPtr, size, type);
}

rtError_t art_emu_rtMallocCached(void** devPtr, uint64_t size, rtMemType_t type,
                                 const uint16_t /*moduleId*/) {
  return allocate(devPtr, size, type);
}

rtError_t art_emu_rtMemcpy(void* dst, uint64_t destMax, const void* src, uint64_t cnt,
                           rtMemcpyKind_t kind) {
  return runtime_code(art_emu_aclrtMemcpy(dst, destMax, src, cnt, kind_of(kind)));
}

rtError_t art_emu_rtMemcpyAsync(void* dst, uint64_t destMax, const void* src, uint64_t cnt,
                                rtMemcpyKind_t kind, rtStream_t stm) {
  return runtime_code(art_emu_aclrtMemcpyAsync(dst, destMax, src, cnt, kind_of(kind), stm));
}

rtError_t art_emu_rtMemcpy2d(void* dst, uint64_t dstPitch, const void* src, uint64_t srcPitch,
                             uint64_t width, uint64_t height, rtMemcpyKind_t kind) {
  return runtime_code(
      art_emu_aclrtMemcpy2d(dst, dstPitch, src, srcPitch, width, height, kind_of(kind)));
}

rtError_t art_emu_rtMemcpy2dAsync(void* dst, uint64_t dstPitch, const void* src, uint64_t srcPitch,
                                  uint64_t width, uint64_t height, rtMemcpyKind_t kind,
                                  rtStream_t stm) {
  return runtime_code(
      art_emu_aclrtMemcpy2dAsync(dst, dstPitch, src, srcPitch, width, height, kind_of(kind), stm));
}

rtError_t art_emu_rtCallbackLaunch(rtCallback_t callBackFunc, void* fnData, rtStream_t stm,
                                   bool isBlock) {
  return runtime_code(art_emu_aclrtLaunchCallback(
      callBackFunc, fnData, isBlock ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, stm));
}

rtError_t art_emu_rtIpcSetMemoryName(const void* ptr, uint64_t byteCount, char_t* name,
                                     uint32_t len) {
  return runtime_code(art_emu_aclrtIpcMemGetExportKey(const_cast<void*>(ptr), byteCount, name, len,
                                                      ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
}

rtError_t art_emu_rtIpcOpenMemory(void** ptr, const char_t* name) {
  return runtime_code(
      art_emu_aclrtIpcMemImportByKey(ptr, name, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
}

}  // extern "C"
