// The virtual clock of a host thread, for modelled time. Owns: what the executor knows of the
// thread, and the doors through which calls of the ABI charge it. Must never: be used in real time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/ref.hpp"

namespace ascendrt::core {

// Fields but `ended` are guarded by the executor's lock.
struct HostThread : base::Counted {
  enum class State : uint8_t {
    kOutside,  // of the ABI: may call at any time
    kInside,   // works in a call
    kBlocked,  // waits in a call for something the clock brings
  };
  State state = State::kOutside;
  bool owned = false;      // made by the runtime, for host functions
  bool overtaken = false;  // the clock went on without it
  bool looks = false;      // waits in a call until the clock has come to t_ns
  uint32_t number = 0;     // in the order of first calls
  uint32_t depth = 0;      // calls within calls; the outermost one counts
  int64_t t_ns = 0;
  int64_t since_ns = 0;  // real time of the last change of state
  int64_t call_ns = 0;   // t_ns when the call began
  const char* call = "";
  std::atomic<bool> ended{false};
};

// What one thread of the client waits for and another one sets, on this clock. The executor's lock
// guards it.
struct HostSignal {
  bool set = false;
  int64_t t_ns = 0;  // the clock of who set it
};
enum class SignalWait : int32_t { kSet, kDeadline, kNotYet };

// How the ABI charges a call.
struct CallCost {
  double us = 0;
  bool looks = false;  // answers what the device has done until now
};

void enter_host_call(const char* name, const CallCost& cost);
void leave_host_call();
// More time of the call in progress, known only inside it.
void charge_host_call(double us);
// The thread is gone; the clock does not wait for it any more.
void end_host_thread(HostThread& thread);

}  // namespace ascendrt::core
