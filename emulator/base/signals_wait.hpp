// While a thread has one of these, signals that would end the process wait; any may go first.
// Must never: be handed to another thread.
#pragma once

#include <csignal>

namespace ascendrt::base {

class SignalsWait {
 public:
  SignalsWait() {
    if (held_++ > 0) return;
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&ending, signal);
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
  ~SignalsWait() {
    if (--held_ == 0) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static inline thread_local int held_ = 0;
  static inline thread_local sigset_t before_{};
};

}  // namespace ascendrt::base
