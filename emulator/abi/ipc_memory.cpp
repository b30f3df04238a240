// Entries: device memory shared with other processes by key. Must never: hold state of its own.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi/checks.hpp"
#include "core/context.hpp"
#include "gen/prototypes.h"
#include "memory/share.hpp"

namespace ascendrt::abi {
namespace {

constexpr const char* kPrefix = "ascendrt-memory-";
constexpr size_t kPrefixBytes = 16;
constexpr size_t kDigits = 16;
constexpr size_t kKeyBytes = kPrefixBytes + kDigits + 1;

void check_chip() { require_chip(~uint32_t{core::k310B}); }

void check_flags(uint64_t flags) {
  if (flags > 1) refuse_value("argument flags is " + std::to_string(flags) + ", not 0 or 1");
}

uint64_t token_of(const char* key) {
  uint64_t token = 0;
  const size_t length = strnlen(key, kKeyBytes);
  const bool named = length == kKeyBytes - 1 && std::memcmp(key, kPrefix, kPrefixBytes) == 0;
  const char* digits = key + kPrefixBytes;
  if (!named || std::from_chars(digits, digits + kDigits, token, 16).ptr != digits + kDigits) {
    refuse_value("argument key is none that aclrtIpcMemGetExportKey gave");
  }
  return token;
}

void export_key(void* address, size_t size, char* key, size_t length, uint64_t flags) {
  check_not_null(address, "devPtr");
  check_not_null(key, "key");
  if (size == 0) refuse_value("argument size is 0, it must be positive");
  check_flags(flags);
  if (length < kKeyBytes) {
    refuse_value("argument len is " + std::to_string(length) + ", a key takes 65 bytes");
  }
  core::current_context();
  check_chip();
  const auto pids =
      flags == ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT ? memory::Pids::kListed : memory::Pids::kAny;
  const uint64_t token = memory::share(memory::part_of(address, size), pids);
  std::snprintf(key, kKeyBytes, "%s%016llx", kPrefix, static_cast<unsigned long long>(token));
}

void set_attribute(const char* key, aclrtIpcMemAttrType type, uint64_t value) {
  if (key == nullptr) refuse_value("argument key is a null pointer");
  if (raw(type) != ACL_RT_IPC_MEM_ATTR_ACCESS_LINK) {
    refuse_value("argument type is " + std::to_string(raw(type)) + ", only 0 (link) exists");
  }
  if (value > ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH) {
    refuse_value("argument attr is " + std::to_string(value) + ", no kind of link (0..3)");
  }
  require_chip(core::kA3);
  // Which link carries the data makes no difference to what it is.
  if (!memory::shared_here(token_of(key))) refuse_value("nothing is shared under this key");
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len,
                                         uint64_t flags) {
  return call<ApiId::aclrtIpcMemGetExportKey>([&] { export_key(devPtr, size, key, len, flags); });
}

aclError art_emu_aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  return call<ApiId::aclrtIpcMemSetImportPid>([&] {
    check_not_null(key, "key");
    check_not_null(pid, "pid");
    if (num == 0 || num > INT32_MAX) refuse_value("argument num is not within 1 .. 2^31-1");
    core::current_context();
    check_chip();
    memory::allow(token_of(key), pid, num);
  });
}

aclError art_emu_aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  return call<ApiId::aclrtIpcMemImportByKey>([&] {
    check_not_null(devPtr, "devPtr");
    check_not_null(key, "key");
    check_flags(flags);
    const auto context = core::current_context();
    check_chip();
    void* address = memory::attach_shared(token_of(key));
    if (flags == ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
      memory::set_peer_access(context->device().index(), memory::locate(address).device, true);
    }
    *devPtr = address;
  });
}

aclError art_emu_aclrtIpcMemSetAttr(const char* key, aclrtIpcMemAttrType type, uint64_t attr) {
  return call<ApiId::aclrtIpcMemSetAttr>([&] { set_attribute(key, type, attr); });
}

aclError art_emu_aclrtIpcMemClose(const char* key) {
  return call<ApiId::aclrtIpcMemClose>([&] {
    check_not_null(key, "key");
    core::current_context();
    check_chip();
    memory::close_shared(token_of(key));
  });
}

}  // extern "C"
