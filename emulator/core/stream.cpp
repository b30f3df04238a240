#include "core/stream.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/callback.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/model_instance.hpp"
#include "core/settings.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr int64_t kForever = -1;
constexpr int64_t kEndLimitMs = 10'000;  // src: hicann/runtime stream.cc, time limit of an abort

std::atomic<uint64_t> g_serial{0};

// These ends of a stream's work are not stored as the thread's last error.
// src: hicann/runtime api_c_stream.cc rtStreamSynchronize
base::Layer layer_of(base::Code code) {
  switch (code) {
    case ACL_ERROR_RT_END_OF_SEQUENCE:
    case ACL_ERROR_RT_MODEL_ABORT_NORMAL:
    case ACL_ERROR_RT_AICORE_OVER_FLOW:
    case ACL_ERROR_RT_AIVEC_OVER_FLOW:
    case ACL_ERROR_RT_OVER_FLOW:
    case ACL_ERROR_RT_SOCKET_CLOSE:
      return base::Layer::kRuntimeNotStored;
    default:
      return base::Layer::kRuntime;
  }
}

// Waits for the tasks up to `number` and takes the failure out.
Outcome finish_up_to(StreamState& state, uint64_t number, int64_t timeout_ms, int64_t deadline_ns) {
  if (timeout_ms == kForever && runs_function_of(state)) {
    return {ACL_ERROR_RT_INTERNAL_ERROR,
            "a function in " + name_of(state) +
                " waits for its own stream, which waits for the function; wait outside of it"};
  }
  if (executor().wait_finished(state, number, deadline_ns)) return executor().take_failure(state);
  return {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "not done within " + std::to_string(timeout_ms) +
                                                " ms: " + executor().describe(state) +
                                                "; the work goes on, synchronize again"};
}

void raise_if_failed(const Outcome& outcome) {
  if (outcome.code != 0) base::fail(outcome.code, outcome.text, layer_of(outcome.code));
}

}  // namespace

// The hardware queues a stream takes.
struct StreamIds {
  IdLease own;
  IdLease internal;  // the second default stream of 310 and 310P contexts
};

Stream::Stream(const base::Ref<Context>& context, uint32_t priority, uint32_t flags,
               bool is_default)
    : context_(context),
      priority_(priority),
      flags_(flags),
      is_default_(is_default),
      ids_(std::make_unique<StreamIds>()),
      state_(std::make_unique<StreamState>()),
      binding_(std::make_unique<StreamBinding>()) {
  const Device& device = context->device();
  IdPool& pool = stream_ids(device.index());
  ids_->own = IdLease(pool);
  const bool second = is_default && device.soc().default_streams > 1;
  if (second) ids_->internal = IdLease(pool);
  if (!ids_->own || (second && !ids_->internal)) {
    base::fail(ACL_ERROR_RT_NO_STREAM_RESOURCE,
               "streams of device " + std::to_string(device.index()) + " (" + device.soc().name +
                   "): " + pool.all_taken() +
                   ", default streams included; destroy streams that are no longer used");
  }
  id_ = ids_->own.id();
  state_->device = device.index();
  state_->id = id_;
  state_->serial = g_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  state_->priority = priority;
  state_->depth = static_cast<uint32_t>(device.soc().tasks_per_stream);
  state_->owner = this;
}

Stream::~Stream() = default;

base::Ref<Stream> Stream::create_default(const base::Ref<Context>& context) {
  base::Ref<Stream> stream(new Stream(context, 0, 0, true));
  stream->state_->domain = base::make_ref<FailureDomain>();
  executor().attach(*stream->state_);
  base::handles().insert(stream);
  return stream;
}

base::Ref<Stream> Stream::create(const base::Ref<Context>& context, uint32_t priority,
                                 uint32_t flags) {
  const auto main = context->default_stream();
  if (!main) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL, "the context was torn down while the stream was made");
  }
  const uint32_t clamped = std::min(priority, kPriorities - 1);
  base::Ref<Stream> stream(new Stream(context, clamped, flags, false));
  stream->state_->domain = main->state_->domain;
  executor().attach(*stream->state_);
  try {
    base::handles().insert(stream);
    context->add_stream(stream);
  } catch (...) {
    base::handles().remove<Stream>(stream->handle());
    stream->shut_down(false);
    throw;
  }
  return stream;
}

base::Ref<Stream> limits_stream() {
  return base::handles().get<Stream>(thread_state().limits_stream);
}

namespace {

// The load with the limits that hold for a kernel of the calling thread: those of the stream whose
// limits it uses, else the device's. src: hicann/runtime docs aclrtUseStreamResInCurrentThread
Load limited(const Load& load, Engine engine, const Device& device) {
  Load made = load;
  if (engine != Engine::kCube && engine != Engine::kVector) return made;
  const size_t kind = engine == Engine::kCube ? 0 : 1;
  if (const auto used = limits_stream()) {
    made.most_cores = used->core_limits[kind].load(std::memory_order_relaxed);
  }
  if (made.most_cores == kAllCores) {
    made.most_cores = device.core_limits[kind].load(std::memory_order_relaxed);
  }
  made.limit_us = static_cast<int64_t>(
      std::min<uint64_t>(op_timeout_us(device.soc()), std::numeric_limits<int64_t>::max() / 1000));
  return made;
}

// What is left of a kernel that takes longer than it may.
TaskBody cut_body(Engine engine, const Load& load) {
  const base::Code code =
      engine == Engine::kCube ? ACL_ERROR_RT_AICORE_TIMEOUT : ACL_ERROR_RT_VECTOR_CORE_TIMEOUT;
  return [code, limit_ms = load.limit_us / 1000]() -> base::Code {
    base::fail(code, "the kernel takes longer than the time limit of operators, " +
                         std::to_string(limit_ms) +
                         " ms of the modelled clock; give it more with aclrtSetOpExecuteTimeOut, "
                         "or look at ASCENDRT_TIMING");
  };
}

}  // namespace

void Stream::submit(Engine engine, const char* name, TaskBody body, const Load& load) {
  if (engine == Engine::kHost) {
    launch_host_function(*this, name, std::move(body));
    return;
  }
  Task task;
  task.engine = engine;
  task.name = name;
  task.body = std::move(body);
  if (time_is_modelled()) {
    const Load real = limited(load, engine, context().device());
    executor().model_time(task, real);
    if (task.timing.cut) task.body = cut_body(engine, real);
  }
  enqueue(std::move(task));
}

bool Stream::enqueue(Task&& task) {
  if (recording() != nullptr) {
    const base::Ref<Stream> held(this);
    base::Peek::end();
    if (record_task(*this, task)) return true;
    return executor().submit(*state_, std::move(task)) != Admission::kNeverRecorded;
  }
  return executor().submit(*state_, std::move(task)) != Admission::kNeverRecorded;
}

bool Stream::capturing() const {
  return recording() != nullptr && records_as(*this, Recording::Mode::kCapture);
}
bool Stream::bound() const {
  return recording() != nullptr && records_as(*this, Recording::Mode::kBuild);
}

base::Code Stream::synchronize(int64_t timeout_ms) {
  const uint64_t number = state_->submitted.load(std::memory_order_relaxed);
  return finish_up_to(*state_, number, timeout_ms, executor().deadline_after_ms(timeout_ms)).code;
}

void Stream::synchronize_or_raise(int64_t timeout_ms) {
  const uint64_t number = state_->submitted.load(std::memory_order_relaxed);
  raise_if_failed(
      finish_up_to(*state_, number, timeout_ms, executor().deadline_after_ms(timeout_ms)));
}

void Stream::check_context_failure() const {
  // Without the lock in the usual case; acquire: pairs with the release of Scheduler::fail().
  if (!state_->refusing.load(std::memory_order_acquire)) return;
  raise_if_failed(executor().domain_failure(*state_));
}

bool Stream::idle() const {
  // acquire: what the finished tasks wrote is visible to who sees the stream idle.
  const uint64_t finished = state_->finished.load(std::memory_order_acquire);
  return finished >= state_->submitted.load(std::memory_order_relaxed);
}

base::Code Stream::sticky_error() const { return executor().peek_failure(*state_); }

void Stream::abort() {
  Executor& executor = core::executor();
  executor.set_aborting(*state_, true);
  executor.drop(*state_);
  const bool quiet = executor.wait_engines(*state_, executor.deadline_after_ms(kEndLimitMs));
  const std::string doing = quiet ? std::string() : executor.describe(*state_);
  executor.set_aborting(*state_, false);
  if (!quiet) {
    base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
               "the stream did not stop within " + std::to_string(kEndLimitMs) + " ms: " + doing);
  }
}

void Stream::shut_down(bool wait) {
  Executor& executor = core::executor();
  executor.close(*state_);
  if (wait && executor.peek_failure(*state_) == 0) {
    const uint64_t number = state_->submitted.load(std::memory_order_relaxed);
    executor.wait_finished(*state_, number, kForever);
  }
  executor.drop(*state_);
  executor.wait_engines(*state_, executor.deadline_after_ms(kEndLimitMs));
  if (ended_.exchange(true, std::memory_order_acq_rel)) return;
  executor.detach(*state_);
  forget_bindings(*this);
  ids_->internal.reset();
  ids_->own.reset();
  if (!is_default_) context_->remove_stream(this);
}

void Stream::set_priority(uint32_t priority) {
  priority_.store(std::min(priority, kPriorities - 1), std::memory_order_relaxed);
  executor().set_priority(*state_, this->priority());
}

void Stream::set_failure_mode(uint64_t mode) {
  const uint64_t wanted = mode & 1;  // src: hicann/runtime api_impl.cc StreamSetMode
  if (wanted == failure_mode()) return;
  if (wanted == ACL_CONTINUE_ON_FAILURE) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "stream " + std::to_string(id_) +
                   " stops on failures; that cannot be taken back, make a new context");
  }
  failure_mode_.store(wanted, std::memory_order_relaxed);
  executor().stop_on_failure(*state_);
}

namespace {

[[noreturn]] void refuse_handle() {
  base::fail(ACL_ERROR_RT_INVALID_HANDLE,
             "the stream handle is no live stream: it was destroyed, its device was reset, or it "
             "is the handle of something else");
}

[[noreturn]] void refuse_teardown() {
  base::fail(ACL_ERROR_RT_CONTEXT_NULL, "the current context is being torn down");
}

base::Ref<Stream> default_stream_of(const Context& context) {
  auto stream = context.default_stream();
  if (!stream) refuse_teardown();
  return stream;
}

void check_owner(const Stream& stream, const Context& context) {
  if (&stream.context() == &context) return;
  base::fail(ACL_ERROR_RT_STREAM_CONTEXT,
             "stream " + std::to_string(stream.id()) + " belongs to context " +
                 std::to_string(stream.context().id()) + " of device " +
                 std::to_string(stream.context().device().index()) +
                 ", but the calling thread's current context is " + std::to_string(context.id()) +
                 " of device " + std::to_string(context.device().index()) +
                 "; call aclrtSetCurrentContext (or aclrtSetDevice) first");
}

}  // namespace

base::Ref<Stream> stream_behind(void* handle) {
  if (handle == nullptr) return nullptr;
  auto stream = base::handles().get<Stream>(handle);
  if (!stream) refuse_handle();
  return stream;
}

base::Ref<Stream> in_current_context(const base::Ref<Stream>& stream) {
  const auto context = current_context();
  if (!stream) return default_stream_of(*context);
  check_owner(*stream, *context);
  return stream;
}

Stream* peek_stream(const void* handle) {
  if (handle == nullptr) return nullptr;
  auto* stream = base::handles().peek<Stream>(handle);
  if (stream == nullptr) refuse_handle();
  return stream;
}

Stream& peek_in_current_context(Stream* stream) {
  const Context& context = borrow_current_context();
  if (stream == nullptr) {
    stream = context.peek_default_stream();
    if (stream == nullptr) refuse_teardown();
    return *stream;
  }
  check_owner(*stream, context);
  return *stream;
}

base::Ref<Stream> resolve_stream(void* handle) {
  auto stream = stream_behind(handle);
  return stream ? stream : default_stream_of(*current_context());
}

base::Ref<Stream> resolve_stream_of_current(void* handle) {
  return in_current_context(stream_behind(handle));
}

void synchronize_context(int64_t timeout_ms) {
  const auto context = current_context();
  uint32_t skipped = ACL_STREAM_DEVICE_USE_ONLY;
  if (is_950(context->device().soc())) skipped |= ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE;
  auto streams = context->streams();
  std::erase_if(streams, [&](const auto& stream) { return (stream->flags() & skipped) != 0; });
  for (const auto& stream : streams) {
    if (stream->capturing()) {
      base::fail(ACL_ERROR_RT_STREAM_CAPTURED,
                 "stream " + std::to_string(stream->id()) + " is being captured");
    }
  }
  if (!streams.empty()) streams.back()->check_context_failure();
  const int64_t deadline = executor().deadline_after_ms(timeout_ms);
  Outcome first;
  for (const auto& stream : streams) {
    StreamState& state = stream->state();
    const uint64_t number = state.submitted.load(std::memory_order_relaxed);
    Outcome outcome = finish_up_to(state, number, timeout_ms, deadline);
    if (outcome.code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) raise_if_failed(outcome);
    if (first.code == 0) first = std::move(outcome);
  }
  raise_if_failed(first);
}

uint32_t available_streams(int32_t device) { return stream_ids(device).available(); }

}  // namespace ascendrt::core
