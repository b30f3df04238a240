// What a thread carries: its context slots, its capture mode, its last error and its recent error
// text.
// Must never: hold anything else. Thread-local state is limited to this.
#pragma once

#include <cstdint>
#include <string>

#include "base/cpu.hpp"
#include "base/error.hpp"
#include "base/ref.hpp"

namespace ascendrt::core {

class Context;
class Device;
struct HostThread;  // core/host_clock.hpp

inline constexpr int32_t kNoDevice = -1;

// Only one of the two slots is set at a time: aclrtSetDevice sets the device slot and clears the
// explicit one, aclrtCreateContext and aclrtSetCurrentContext do the reverse.
// src: hicann/runtime src/runtime (runtime.cc, api_impl.cc), rule S3 "lookup order".
struct ThreadState {
  ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState();

  // Makes a context explicit for this thread (null: none) and empties the device slot.
  void set_explicit(const base::Ref<Context>& context);
  // Fills the device slot and empties the explicit one.
  void set_device(int32_t device_index);

  base::Ref<Context> explicit_context;
  int32_t device_slot = kNoDevice;    // physical device index
  Device* device = nullptr;           // the same, while there is one
  bool default_device_taken = false;  // this thread already holds its reference of the JSON default
  base::Ref<HostThread> host;         // its clock, when time is modelled
  int32_t capture_mode = 0;           // aclmdlRICaptureThreadExchangeMode
  void* limits_stream = nullptr;      // handle of the stream whose core limits this thread uses
  base::Code last_error = 0;
  std::string message;        // failures not yet read by aclGetRecentErrMsg, newest first
  std::string message_taken;  // backing of the pointer that aclGetRecentErrMsg gave out
};

// Note [End of a thread]
// Destructors of static objects call the runtime after the thread-local objects of the main thread
// are gone. So the state is reached through a plain pointer, the main thread's state is never
// destroyed, and a thread that calls after its own clean-up gets a new state that stays.
ART_FAST_THREAD_LOCAL inline ThreadState* t_state = nullptr;
ThreadState& make_thread_state();
inline ThreadState& thread_state() { return t_state != nullptr ? *t_state : make_thread_state(); }

}  // namespace ascendrt::core
