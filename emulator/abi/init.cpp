// Entries: init, finalize, versions, last error, recent message, application log.
// Must never: hold state of its own.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "abi/boundary.hpp"
#include "abi/tensor_objects.hpp"
#include "base/log.hpp"
#include "core/context.hpp"
#include "core/init_callback.hpp"
#include "core/run_log.hpp"
#include "core/runtime.hpp"
#include "core/stepped_executor.hpp"
#include "core/thread_state.hpp"
#include "core/version_info.hpp"
#include "gen/prototypes.h"
#include "probe/probe.hpp"
#include "trace/trace.hpp"

namespace ascendrt::abi {
namespace {

// Interface version of the headers (acl_rt.h), not the version of CANN.
constexpr int32_t kMajor = 1;
constexpr int32_t kMinor = 17;
constexpr int32_t kPatch = 0;
constexpr size_t kMaxAppLogBytes = 1024;

void check_level(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    refuse_argument("argument level is " + std::to_string(level) +
                    ", only ACL_RT_THREAD_LEVEL (0) exists");
  }
}

// The instruments are made known before any call can make the runtime.
[[maybe_unused]] const bool g_instruments = [] {
  probe::g_maker = trace::from_environment;
  return true;
}();

// Takes what there is; null when there is nothing.
const char* take_message(core::ThreadState& thread) {
  thread.message_taken = std::move(thread.message);
  thread.message.clear();
  return thread.message_taken.empty() ? nullptr : thread.message_taken.c_str();
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclInit(const char* configPath) {
  return call<ApiId::aclInit>([&] { return core::runtime().init(configPath); });
}

aclError art_emu_aclFinalize(void) {
  return call<ApiId::aclFinalize>([] {
    core::runtime().finalize();
    if (auto* stepped = core::stepped_executor()) stepped->write_trace();
    if (!core::runtime().initialised()) tell_undestroyed();
  });
}

aclError art_emu_aclFinalizeReference(uint64_t* refCount) {
  return call<ApiId::aclFinalizeReference>([&] {
    const uint64_t remaining = core::runtime().finalize_reference();
    if (refCount != nullptr) *refCount = remaining;
  });
}

// A function that comes after aclInit is called at once; what it answers then is not looked at.
aclError art_emu_aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc,
                                         void* userData) {
  return call<ApiId::aclInitCallbackRegister>([&] {
    core::add_init_callback(type, cbFunc, userData);
    if (!core::runtime().initialised()) return;
    const std::string text = core::runtime().config();
    cbFunc(text.c_str(), text.size(), userData);
  });
}

aclError art_emu_aclInitCallbackUnRegister(aclRegisterCallbackType type,
                                           aclInitCallbackFunc cbFunc) {
  return call<ApiId::aclInitCallbackUnRegister>([&] { core::remove_init_callback(type, cbFunc); });
}

aclError art_emu_aclFinalizeCallbackRegister(aclRegisterCallbackType type,
                                             aclFinalizeCallbackFunc cbFunc, void* userData) {
  return call<ApiId::aclFinalizeCallbackRegister>(
      [&] { core::add_finalize_callback(type, cbFunc, userData); });
}

aclError art_emu_aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                               aclFinalizeCallbackFunc cbFunc) {
  return call<ApiId::aclFinalizeCallbackUnRegister>(
      [&] { core::remove_finalize_callback(type, cbFunc); });
}

aclError art_emu_aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion,
                                 int32_t* patchVersion) {
  return call<ApiId::aclrtGetVersion>([&] {
    check_not_null(majorVersion, "majorVersion");
    check_not_null(minorVersion, "minorVersion");
    check_not_null(patchVersion, "patchVersion");
    *majorVersion = kMajor;
    *minorVersion = kMinor;
    *patchVersion = kPatch;
  });
}

aclError art_emu_aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  return call<ApiId::aclsysGetCANNVersion>([&] {
    check_not_null(version, "version");
    core::read_package_version(name, *version);
  });
}

const char* art_emu_aclrtGetSocName(void) {
  return value<ApiId::aclrtGetSocName, const char*>(nullptr,
                                                    [] { return core::runtime().soc().name; });
}

// Reading takes the message out. A thread without a context fails this call's own inner query, and
// that failure is reported too, in front of what the caller asks about; all of it stays. src: rules
// S1 of aclGetRecentErrMsg.
const char* art_emu_aclGetRecentErrMsg(void) {
  core::ThreadState& thread = core::thread_state();
  if (core::forked_child()) return take_message(thread);  // its own refusal says nothing new
  base::Ref<core::Context> context;
  call<ApiId::aclGetRecentErrMsg>([&] { context = core::current_context_or_null(); });
  try {
    if (!context) {
      const std::string pending = std::exchange(thread.message, {});
      call<ApiId::aclGetRecentErrMsg>(
          [] { base::fail(ACL_ERROR_RT_CONTEXT_NULL, "rtGetDevMsg found no valid context"); });
      if (pending.size() >= kMaxMessageBytes) {
        thread.message = pending;
      } else if (!pending.empty()) {
        thread.message += "\n" + pending;
      }
      thread.message_taken = thread.message;
      return thread.message_taken.c_str();
    }
  } catch (...) {  // no memory for a copy of the text
    return nullptr;
  }
  return take_message(thread);
}

aclError art_emu_aclrtGetLastError(aclrtLastErrLevel level) {
  return call<ApiId::aclrtGetLastError>([&] {
    check_level(level);
    return std::exchange(core::thread_state().last_error, 0);
  });
}

aclError art_emu_aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return call<ApiId::aclrtPeekAtLastError>([&] {
    check_level(level);
    return core::thread_state().last_error;
  });
}

void art_emu_aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
                       const char* fmt, ...) {
  if (func == nullptr || file == nullptr || fmt == nullptr) return;
  if (!core::log_enabled(logLevel)) return;
  char text[kMaxAppLogBytes];
  va_list arguments;
  va_start(arguments, fmt);
  const int length = std::vsnprintf(text, sizeof text, fmt, arguments);
  va_end(arguments);
  const char* cut = length >= static_cast<int>(sizeof text) ? "..." : "";
  call<ApiId::aclAppLog>([&] {
    const std::string place = std::string(file) + ":" + std::to_string(line);
    if (core::log_to_stdout()) {
      core::print_log(logLevel, "APP", place, func, std::string(text) + cut);
    } else {
      base::log_line("[" + std::string(core::level_name(logLevel)) + "] " + place + " " + func +
                     ": " + text + cut);
    }
  });
}

}  // extern "C"
