#include "core/context.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/model_instance.hpp"
#include "core/runtime.hpp"
#include "core/state_callback.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

uint32_t next_id() {
  static std::atomic<uint32_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

std::string name_of(const Context& context) {
  return (context.primary() ? "primary context " : "context ") + std::to_string(context.id()) +
         " of device " + std::to_string(context.device().index());
}

// Every context but those that were torn down.
struct Living {
  base::RankedMutex mutex{base::Rank::kDevice};
  std::vector<base::Ref<Context>> all;
};

Living& living() {
  static auto* const made = new Living;
  return *made;
}

void count_living(Context& context, bool lives) {
  Living& known = living();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.all, [&](const auto& each) { return each.get() == &context; });
  if (lives) known.all.emplace_back(&context);
}

}  // namespace

Context::Context(Device& device, bool primary)
    : device_(device), primary_(primary), id_(next_id()) {}

Context::~Context() {
  if (memory::Pool* pool = pool_.exchange(nullptr)) memory::close_pool(*pool);
}

base::Ref<Context> Context::create(Device& device, bool primary) {
  memory::open_device(device.index());
  base::Ref<Context> context(new Context(device, primary));
  // The default stream first: when no stream id is left, no handle has been given out yet.
  context->open_pool();
  auto stream = Stream::create_default(context);
  base::handles().insert(context);
  count_living(*context, true);
  const std::lock_guard lock(context->mutex_);
  context->peeked_.store(stream.get(), std::memory_order_release);
  context->default_stream_ = std::move(stream);
  return context;
}

base::Ref<Stream> Context::default_stream() const {
  const std::lock_guard lock(mutex_);
  return default_stream_;
}

std::vector<base::Ref<Stream>> Context::streams() const {
  const std::lock_guard lock(mutex_);
  auto all = streams_;
  if (default_stream_) all.push_back(default_stream_);
  return all;
}

void Context::add_stream(const base::Ref<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kAlive) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL, name_of(*this) + " was destroyed by another thread");
  }
  streams_.push_back(stream);
}

void Context::remove_stream(const Stream* stream) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& other) { return other.get() == stream; });
}

void Context::destroy() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kTearingDown || (state_ == State::kDead && threads_ > 0)) {
      base::fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
                 name_of(*this) +
                     " is already destroyed, but another thread is tearing it down or " +
                     "still has it current; let each thread set another context first");
    }
    if (state_ == State::kDead) {
      base::fail(ACL_ERROR_RT_CONTEXT_NULL, name_of(*this) + " was destroyed before");
    }
    state_ = State::kTearingDown;
  }
  tell_ending(*this);
  tear_down(true);
  const std::lock_guard lock(mutex_);
  if (threads_ == 0) base::handles().remove<Context>(handle());
}

std::vector<base::Ref<Context>> Context::on_device(const Device& device) {
  Living& known = living();
  const std::lock_guard lock(known.mutex);
  auto all = known.all;
  std::erase_if(all, [&](const auto& each) { return &each->device() != &device; });
  return all;
}

void Context::tear_down(bool wait) {
  const base::Ref<Context> self(this);
  count_living(*this, false);
  close_instances(*this);
  auto ended = [&] {
    const std::lock_guard lock(mutex_);
    state_ = State::kTearingDown;
    peeked_.store(nullptr);
    auto all = std::exchange(streams_, {});
    if (default_stream_) all.push_back(std::exchange(default_stream_, nullptr));
    return all;
  }();
  for (const auto& stream : ended) {
    base::handles().remove<Stream>(stream->handle());
    stream->shut_down(wait);
  }
  // After the streams: their tasks may still allocate and free.
  if (memory::Pool* pool = pool_.exchange(nullptr)) memory::close_pool(*pool);
  const std::lock_guard lock(mutex_);
  parameters_.clear();
  state_ = State::kDead;
}

void Context::open_pool() {
  pool_.store(
      &memory::open_pool(device_.index(), id_, static_cast<uint64_t>(device_.soc().malloc_extra)),
      std::memory_order_release);
}

void Context::revive() {
  if (pool() == nullptr) open_pool();
  auto stream = Stream::create_default(base::Ref<Context>(this));
  count_living(*this, true);
  const std::lock_guard lock(mutex_);
  peeked_.store(stream.get(), std::memory_order_release);
  default_stream_ = std::move(stream);
  state_ = State::kAlive;
}

void Context::attach_thread() {
  const std::lock_guard lock(mutex_);
  ++threads_;
}

void Context::detach_thread() {
  const std::lock_guard lock(mutex_);
  if (--threads_ == 0 && state_ == State::kDead && !primary_) {
    base::handles().remove<Context>(handle());
  }
}

std::optional<int64_t> Context::parameter(int32_t option) const {
  const std::lock_guard lock(mutex_);
  const auto found = parameters_.find(option);
  if (found == parameters_.end()) return std::nullopt;
  return found->second;
}

void Context::set_parameter(int32_t option, int64_t value) {
  const std::lock_guard lock(mutex_);
  parameters_[option] = value;
}

namespace {

[[noreturn]] void refuse_no_context() {
  base::fail(
      ACL_ERROR_RT_CONTEXT_NULL,
      "the calling thread has no context; a new thread starts without one: call aclrtSetDevice "
      "or aclrtSetCurrentContext in this thread first");
}

[[noreturn]] void refuse_dead_context() {
  base::fail(ACL_ERROR_RT_CONTEXT_NULL,
             "the calling thread's current context was destroyed or its device was reset; call "
             "aclrtSetDevice or aclrtSetCurrentContext in this thread again");
}

}  // namespace

base::Ref<Context> current_context() {
  ThreadState& thread = thread_state();
  if (thread.explicit_context) {
    if (thread.explicit_context->alive()) return thread.explicit_context;
    thread.set_explicit(nullptr);
    refuse_dead_context();
  }
  if (thread.device_slot != kNoDevice) {
    if (auto primary = runtime().physical_device(thread.device_slot).primary()) return primary;
    thread.device_slot = kNoDevice;
    refuse_dead_context();
  }
  const auto default_device = runtime().default_device();
  if (!default_device) refuse_no_context();
  Device& device = runtime().device(*default_device);
  auto primary = thread.default_device_taken ? device.primary() : device.retain_primary();
  if (!primary) refuse_dead_context();
  thread.default_device_taken = true;
  thread.set_device(device.index());
  return primary;
}

Context& borrow_current_context() {
  const ThreadState& thread = thread_state();
  Context* context = thread.explicit_context.get();
  if (context == nullptr && thread.device_slot != kNoDevice) {
    context = thread.device->peek_primary();
  }
  // A primary context stays once it was made, an explicit one is held by the thread.
  return context != nullptr && context->alive() ? *context : *current_context();
}

base::Ref<Context> current_context_or_null() {
  const ThreadState& thread = thread_state();
  if (thread.explicit_context) {
    return thread.explicit_context->alive() ? thread.explicit_context : nullptr;
  }
  if (thread.device_slot == kNoDevice) return nullptr;
  return runtime().physical_device(thread.device_slot).primary();
}

base::Ref<Context> find_context(const void* handle) { return base::handles().get<Context>(handle); }

}  // namespace ascendrt::core
