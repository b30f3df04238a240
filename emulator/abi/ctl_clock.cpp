// Control entries of modelled time, for Python threads and event loops that wait for each other.
// Owns: their C form. Must never: charge a thread for asking, or touch its last error.
#include "abi/ctl.hpp"
#include "core/executor.hpp"
#include "core/load.hpp"
#include "core/runtime.hpp"
#include "core/stepped_executor.hpp"

namespace ascendrt::abi {
namespace {

core::HostSignal& signal_of(void* signal) { return *static_cast<core::HostSignal*>(signal); }

}  // namespace
}  // namespace ascendrt::abi

// The calling thread's clock in nanoseconds; -1 when time is not virtual: the wall's clock counts.
ART_CTL int64_t art_ctl_clock_now() {
  int64_t now = -1;
  if (ascendrt::core::forked_child()) return now;
  ascendrt::abi::answer(nullptr, 0, [&] {
    ascendrt::core::runtime();  // reads the settings
    ascendrt::core::executor();
    auto* stepped = ascendrt::core::stepped_executor();
    if (stepped != nullptr && stepped->is_virtual()) now = stepped->host_now_ns();
    return std::string();
  });
  return now;
}

// Where it stands whether a call that answers what the device has done brings the clock forward
// first, and so waits for other threads: 0 until it does.
ART_CTL const int32_t* art_ctl_looks_wait() {
  static_assert(sizeof(ascendrt::core::g_looks_wait) == sizeof(int32_t));
  return reinterpret_cast<const int32_t*>(&ascendrt::core::g_looks_wait);
}

// For virtual time only, as what follows. Null without memory.
ART_CTL void* art_ctl_signal_new() { return new (std::nothrow) ascendrt::core::HostSignal; }

// Nobody may wait for it.
ART_CTL void art_ctl_signal_free(void* signal) {
  delete static_cast<ascendrt::core::HostSignal*>(signal);
}

ART_CTL void art_ctl_signal_set(void* signal) {
  if (ascendrt::core::forked_child()) return;  // nobody is left who could wait
  ascendrt::core::stepped_executor()->set_signal(ascendrt::abi::signal_of(signal));
}

// Waits until another thread sets the signal (0) or the deadline has passed (1); -1 is none. 2:
// neither after patience_ns of real time. One thread may wait for a signal at a time.
ART_CTL int32_t art_ctl_signal_wait(void* signal, int64_t deadline_ns, int64_t patience_ns) {
  using ascendrt::core::SignalWait;
  if (ascendrt::core::forked_child()) return static_cast<int32_t>(SignalWait::kDeadline);
  return static_cast<int32_t>(ascendrt::core::stepped_executor()->wait_signal(
      ascendrt::abi::signal_of(signal), deadline_ns, patience_ns));
}
