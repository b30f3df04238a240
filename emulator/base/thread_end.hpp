// The end of a thread inside a call: pthread_exit in a function of the client, or pthread_cancel.
// It unwinds like an exception that must not be swallowed. Owns: its name, and the guard against
// it.
#pragma once

#include <cxxabi.h>
#include <pthread.h>

namespace ascendrt::base {

// Caught by reference to clean up; always raised again, else the process is aborted.
using EndOfThread = ::abi::__forced_unwind;

// A pthread_cancel that comes meanwhile takes effect later, after the call of the client.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &previous_); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;
  ~NoCancel() { pthread_setcancelstate(previous_, nullptr); }

 private:
  int previous_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ascendrt::base
