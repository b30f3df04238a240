#include "core/thread_state.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "core/context.hpp"
#include "core/host_clock.hpp"
#include "core/runtime.hpp"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

thread_local bool t_registered = false;

struct Cleaner {
  bool armed = false;
  ~Cleaner() { delete std::exchange(t_state, nullptr); }
};
thread_local Cleaner t_cleaner;

bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

void keep_for_ever(ThreadState* state) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<ThreadState*>;
  const std::lock_guard lock(mutex);
  kept->push_back(state);
}

}  // namespace

ThreadState& make_thread_state() {
  t_state = new ThreadState;
  if (t_registered || is_main_thread()) {
    keep_for_ever(t_state);
  } else {
    t_cleaner.armed = true;  // the first use registers its destructor
    t_registered = true;
  }
  return *t_state;
}

ThreadState::ThreadState() = default;

ThreadState::~ThreadState() {
  set_explicit(nullptr);
  if (host) end_host_thread(*host);
}

void ThreadState::set_explicit(const base::Ref<Context>& context) {
  memory::forget_pool();
  device_slot = kNoDevice;
  if (context) context->attach_thread();
  const base::Ref<Context> previous = std::exchange(explicit_context, context);
  if (previous) previous->detach_thread();
}

void ThreadState::set_device(int32_t device_index) {
  set_explicit(nullptr);
  device_slot = device_index;
  device = &runtime().physical_device(device_index);
}

}  // namespace ascendrt::core
