// The door between the C ABI and the core: the only catch of base::Error.
// Owns: mapping of exceptions to codes, the thread's last error and recent message.
// Must never: let an exception pass (the end of a thread by pthread_cancel or pthread_exit is
// none), or hold a lock.
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/thread_end.hpp"
#include "core/load.hpp"
#include "gen/abi.h"
#include "gen/api_id.hpp"
#include "gen/timing.inc"

namespace ascendrt::abi {

// Unread failures are kept newest first up to this size; older text is cut.
inline constexpr size_t kMaxMessageBytes = 8192;

// Notes a failure of this thread: recent message always, last error unless the layer says
// otherwise. Returns the code. Never throws (out of memory drops the text).
base::Code note_failure(ApiId api, const base::Error& error) noexcept;
// note_failure() for what has no ApiId: an entry that only has a name.
base::Code note_failure_of(const char* name, const base::Error& error, bool logged = true) noexcept;
// For the handler of unexpected exceptions: 500000 with the exception's text.
base::Code note_unexpected(ApiId api, const char* what) noexcept;

// With modelled time a call costs its thread something; see host_cost.cpp. Raises in the child of a
// fork (a runtime cannot be shared across fork).
class HostCall {
 public:
  explicit HostCall(ApiId api) {
    if (core::g_clock.load(std::memory_order_relaxed) != core::Clock::kReal) begin(api);
  }
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;
  ~HostCall() {
    if (active_) end();
  }

 private:
  void begin(ApiId api);
  static void end();
  bool active_ = false;
};

// More of the call's cost, per megabyte; nothing in real time.
void charge_bytes(double gen::TimingRow::* us_per_mb, uint64_t bytes);

// Runs an entry that answers a status. f returns void or a code. A code it returns (not throws) is
// an expected outcome: passed on, no message.
template <ApiId id, class F>
base::Code call(F&& f) {
  try {
    const HostCall host_call(id);
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      return 0;
    } else {
      return std::forward<F>(f)();
    }
  } catch (base::EndOfThread&) {
    throw;
  } catch (const base::Error& error) {
    return note_failure(id, error);
  } catch (const std::bad_alloc&) {
    return note_unexpected(id, "out of host memory");
  } catch (const std::exception& error) {
    return note_unexpected(id, error.what());
  } catch (...) {
    return note_unexpected(id, "unknown exception");
  }
}

// Runs an entry that answers something else than a status; fallback on failure.
template <ApiId id, class R, class F>
R value(R fallback, F&& f) {
  R result = fallback;
  call<id>([&] { result = std::forward<F>(f)(); });
  return result;
}

// The number behind an enum argument. A client may pass any; reading it as the enum would be
// undefined.
template <class E>
int32_t raw(const E& argument) {
  static_assert(sizeof(E) == sizeof(int32_t));
  int32_t number = 0;
  std::memcpy(&number, &argument, sizeof number);
  return number;
}

// Checks of the acl layer: not stored as last error.
[[noreturn]] void refuse_argument(const std::string& text);
inline void check_not_null(const void* argument, const char* name) {
  if (argument == nullptr) refuse_argument(std::string("argument ") + name + " is a null pointer");
}
inline void check_positive(uint64_t value, const char* name) {
  if (value == 0) refuse_argument(std::string("argument ") + name + " is 0, it must be positive");
}

}  // namespace ascendrt::abi
