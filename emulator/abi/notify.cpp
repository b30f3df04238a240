// Entries: notifies, count notifies, and events that processes share.
// Must never: hold state of its own.
#include "core/notify.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

using core::CntNotify;
using core::Notify;

constexpr const char* kPrefix = "ascendrt-notify-";
constexpr size_t kPrefixBytes = 16;
constexpr size_t kKeyBytes = kPrefixBytes + 16 + 1;
constexpr size_t kKeyRoom = 65;                       // src: manual of aclrtNotifyGetExportKey
constexpr uint64_t kEventMagic = 0x31544e4556455241;  // "AREVENT1"

template <class T>
base::Ref<T> behind(void* handle, const char* what) {
  auto found = base::handles().get<T>(handle);
  if (!found) {
    base::fail(ACL_ERROR_RT_INVALID_HANDLE,
               std::string("the ") + what +
                   " handle is none that lives: it was destroyed or is the handle of something "
                   "else");
  }
  return found;
}

base::Ref<Notify> notify_behind(aclrtNotify handle) { return behind<Notify>(handle, "notify"); }
base::Ref<CntNotify> cnt_behind(aclrtCntNotify handle) {
  return behind<CntNotify>(handle, "count notify");
}

// src: manual, tables of products; the 950 alone has count notifies
void check_sharing_chip() { require_chip(~uint32_t{core::k310B}); }

uint64_t token_of(const char* key) {
  uint64_t token = 0;
  const bool named =
      strnlen(key, kKeyBytes) == kKeyBytes - 1 && std::memcmp(key, kPrefix, kPrefixBytes) == 0;
  const char* end = key + kKeyBytes - 1;
  if (!named || std::from_chars(key + kPrefixBytes, end, token, 16).ptr != end) {
    refuse_value("argument key is none that aclrtNotifyGetExportKey gave");
  }
  return token;
}

void check_export_flags(uint64_t flags) {
  if (flags == ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT ||
      flags == ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return;
  }
  refuse_value("argument flags is " + std::to_string(flags) + ", not 0 or 2");
}

void check_waits_here(const Notify& notify, const core::Stream& stream) {
  if (!notify.imported() || &notify.device() == &stream.context().device()) return;
  refuse_value("the notify was imported on another device than the stream's");
}

}  // namespace

extern "C" {

aclError art_emu_aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  return call<ApiId::aclrtCreateNotify>([&] {
    check_not_null(notify, "notify");
    if (flag > ACL_NOTIFY_DEVICE_USE_ONLY) {
      refuse_value("argument flag is " + std::to_string(flag) + ", not 0 or 1 (device use only)");
    }
    *notify = Notify::create(core::current_context()->device())->handle();
  });
}

aclError art_emu_aclrtDestroyNotify(aclrtNotify notify) {
  return call<ApiId::aclrtDestroyNotify>([&] {
    check_not_null(notify, "notify");
    notify_behind(notify);
    base::handles().remove<Notify>(notify);  // queued tasks keep what they need
  });
}

aclError art_emu_aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  return call<ApiId::aclrtRecordNotify>([&] {
    check_not_null(notify, "notify");
    const auto found = notify_behind(notify);
    found->record(*core::resolve_stream_of_current(stream));
  });
}

aclError art_emu_aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  return call<ApiId::aclrtWaitAndResetNotify>([&] {
    check_not_null(notify, "notify");
    const auto found = notify_behind(notify);
    const auto queue = core::resolve_stream_of_current(stream);
    check_waits_here(*found, *queue);
    found->wait_and_reset(*queue, timeout);
  });
}

aclError art_emu_aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
  return call<ApiId::aclrtGetNotifyId>([&] {
    check_not_null(notify, "notify");
    check_not_null(notifyId, "notifyId");
    *notifyId = notify_behind(notify)->id();
  });
}

aclError art_emu_aclrtNotifyBatchReset(aclrtNotify* notifies, size_t num) {
  return call<ApiId::aclrtNotifyBatchReset>([&] {
    check_not_null(notifies, "notifies");
    if (num == 0) refuse_value("argument num is 0, there is nothing to reset");
    std::vector<base::Ref<Notify>> all;
    for (size_t i = 0; i < num; ++i) all.push_back(notify_behind(notifies[i]));
    const auto context = core::current_context();
    require_chip(core::kA2A3950);
    for (const auto& notify : all) notify->reset();
  });
}

aclError art_emu_aclrtNotifyGetExportKey(aclrtNotify notify, char* key, size_t len,
                                         uint64_t flags) {
  return call<ApiId::aclrtNotifyGetExportKey>([&] {
    check_not_null(notify, "notify");
    check_not_null(key, "key");
    const auto found = notify_behind(notify);
    check_sharing_chip();
    check_export_flags(flags);
    if (len < kKeyRoom) {
      refuse_value("argument len is " + std::to_string(len) + ", a key takes 65 bytes");
    }
    const auto context = core::current_context();
    const uint64_t token = found->share(
        flags == ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT ? memory::Pids::kListed : memory::Pids::kAny);
    std::snprintf(key, kKeyBytes, "%s%016llx", kPrefix, static_cast<unsigned long long>(token));
  });
}

aclError art_emu_aclrtNotifySetImportPid(aclrtNotify notify, int32_t* pid, size_t num) {
  return call<ApiId::aclrtNotifySetImportPid>([&] {
    check_not_null(notify, "notify");
    check_not_null(pid, "pid");
    const auto found = notify_behind(notify);
    if (num == 0 || num > INT32_MAX) refuse_value("argument num is not within 1 .. 2^31-1");
    const auto context = core::current_context();
    check_sharing_chip();
    found->allow(pid, num);
  });
}

aclError art_emu_aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid* serverPids,
                                                    size_t num) {
  return call<ApiId::aclrtNotifySetImportPidInterServer>([&] {
    check_not_null(notify, "notify");
    check_not_null(serverPids, "serverPids");
    const auto found = notify_behind(notify);
    const auto context = core::current_context();
    require_chip(core::kA3);
    for (size_t i = 0; i < num; ++i) {
      if (serverPids[i].pid == nullptr || serverPids[i].num == 0) {
        refuse_value("serverPids[" + std::to_string(i) + "] lists no process");
      }
      found->allow(serverPids[i].pid, serverPids[i].num);
    }
  });
}

aclError art_emu_aclrtNotifyImportByKey(aclrtNotify* notify, const char* key, uint64_t flags) {
  return call<ApiId::aclrtNotifyImportByKey>([&] {
    check_not_null(notify, "notify");
    check_not_null(key, "key");
    if (flags != ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT &&
        flags != ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
      refuse_value("argument flags is " + std::to_string(flags) + ", not 0 or 2");
    }
    const auto context = core::current_context();
    check_sharing_chip();
    *notify = Notify::open(context->device(), token_of(key))->handle();
  });
}

aclError art_emu_aclrtCntNotifyCreate(aclrtCntNotify* cntNotify, uint64_t flag) {
  return call<ApiId::aclrtCntNotifyCreate>([&] {
    check_given(cntNotify, "cntNotify");
    if (flag != 0) refuse_value("argument flag is reserved and must be 0");
    const auto context = core::current_context();
    require_chip(core::k950);
    *cntNotify = CntNotify::create(context->device())->handle();
  });
}

aclError art_emu_aclrtCntNotifyDestroy(aclrtCntNotify cntNotify) {
  return call<ApiId::aclrtCntNotifyDestroy>([&] {
    check_given(cntNotify, "cntNotify");
    cnt_behind(cntNotify);
    base::handles().remove<CntNotify>(cntNotify);
  });
}

aclError art_emu_aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                                      aclrtCntNotifyRecordInfo* info) {
  return call<ApiId::aclrtCntNotifyRecord>([&] {
    check_not_null(info, "info");
    check_given(cntNotify, "cntNotify");
    const auto found = cnt_behind(cntNotify);
    const int32_t mode = raw(info->mode);
    if (mode < 0 || mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE || mode == 3) {
      refuse_value("record mode " + std::to_string(mode) + "; give 0, 1, 2 or 4");
    }
    found->record(*core::resolve_stream_of_current(stream), mode, info->value);
  });
}

aclError art_emu_aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                               aclrtCntNotifyWaitInfo* info) {
  return call<ApiId::aclrtCntNotifyWaitWithTimeout>([&] {
    check_not_null(info, "info");
    check_given(cntNotify, "cntNotify");
    const auto found = cnt_behind(cntNotify);
    const int32_t mode = raw(info->mode);
    if (mode < 0 || mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE) {
      refuse_value("wait mode " + std::to_string(mode) + "; give 0 to 4");
    }
    found->wait(*core::resolve_stream_of_current(stream), mode, info->value, info->isClear != 0,
                info->timeout);
  });
}

aclError art_emu_aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream) {
  return call<ApiId::aclrtCntNotifyReset>([&] {
    check_given(cntNotify, "cntNotify");
    const auto found = cnt_behind(cntNotify);
    found->record(*core::resolve_stream_of_current(stream), 0, 0);
  });
}

aclError art_emu_aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t* notifyId) {
  return call<ApiId::aclrtCntNotifyGetId>([&] {
    check_given(cntNotify, "cntNotify");
    check_given(notifyId, "notifyId");
    *notifyId = cnt_behind(cntNotify)->id();
  });
}

aclError art_emu_aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  return call<ApiId::aclrtIpcGetEventHandle>([&] {
    check_not_null(handle, "handle");
    check_not_null(event, "event");
    const uint64_t token = core::event_behind(event)->token();
    if (token == 0) {
      base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "only events of aclrtCreateEventExWithFlag with ACL_EVENT_IPC can be shared",
                 base::Layer::kRuntimeNotStored);
    }
    const uint64_t words[2] = {kEventMagic, token};
    std::fill(std::begin(handle->reserved), std::end(handle->reserved), '\0');
    std::memcpy(handle->reserved, words, sizeof words);
  });
}

aclError art_emu_aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  return call<ApiId::aclrtIpcOpenEventHandle>([&] {
    check_not_null(event, "event");
    uint64_t words[2] = {};
    std::memcpy(words, handle.reserved, sizeof words);
    if (words[0] != kEventMagic) {
      refuse_value("argument handle is none that aclrtIpcGetEventHandle gave");
    }
    *event = core::Event::open(words[1])->handle();
  });
}

}  // extern "C"
