#include "core/thread_state.hpp"

#include <utility>

#include "core/context.hpp"

namespace ascendrt::core {

ThreadState::~ThreadState() { set_explicit(nullptr); }

void ThreadState::set_explicit(const base::Ref<Context>& context) {
  device_slot = kNoDevice;
  if (context) context->attach_thread();
  const base::Ref<Context> previous = std::exchange(explicit_context, context);
  if (previous) previous->detach_thread();
}

void ThreadState::set_device(int32_t device_index) {
  set_explicit(nullptr);
  device_slot = device_index;
}

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

}  // namespace ascendrt::core
