// A stream: an ordered queue of tasks on one context.
// Must never: run two of its tasks at once, or a task before all earlier ones of the stream.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "base/function.hpp"
#include "base/handle.hpp"
#include "base/ref.hpp"
#include "core/load.hpp"

namespace ascendrt::core {

class Context;
struct Recording;      // core/model_instance.hpp
struct StreamBinding;  // core/callback.hpp
struct StreamIds;      // core/stream.cpp
struct Task;
struct StreamState;  // queue and scheduling state, owned by the scheduler (core/scheduler.hpp)

// What runs a task. Tasks of different streams on different engines may overlap.
enum class Engine : uint8_t {
  kNone,  // bookkeeping (event record, wait): runs where it becomes ready
  kCube,
  kVector,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kAicpu,
  kHost,  // host functions and callbacks, on a runtime-owned or a subscribed thread
};

// Runs on a worker, with no lock held. Non-zero = the task failed; the stream keeps the first such
// code as its sticky error and delivers it at synchronize. May also throw base::Error (text is kept
// too).
using TaskBody = base::Function<base::Code()>;

class Stream : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kStream;

  // Makes a stream of the context, inserted in the handle table and in the context's list. priority
  // is clamped to 0 (urgent) .. 7; flags are ACL_STREAM_* bits. Raises 207008 when the device has
  // no stream id left, 107002 when the context was torn down.
  static base::Ref<Stream> create(const base::Ref<Context>& context, uint32_t priority,
                                  uint32_t flags);

  // The default stream of a context under construction or revival: not put in the context's list
  // (the context keeps it itself), handle inserted.
  static base::Ref<Stream> create_default(const base::Ref<Context>& context);

  Context& context() const { return *context_; }
  bool is_default() const { return is_default_; }
  int32_t id() const { return id_; }
  uint32_t flags() const { return flags_; }
  uint32_t priority() const { return priority_.load(std::memory_order_relaxed); }
  // Clamped to 0 .. 7; counts from the next choice of a task on.
  void set_priority(uint32_t priority);

  // Queues a task. name is a static string (shown in error texts and traces). Blocks while the
  // queue is full. The body keeps alive (by Ref) whatever it touches. Raises 107017 when the stream
  // was shut down meanwhile, 107023 while it is aborted, the failure's code when its context
  // stopped on a failure.
  void submit(Engine engine, const char* name, TaskBody body, const Load& load = {});

  // Waits until everything submitted before is done. Returns 0, the failure, or 507046 when
  // timeout_ms
  // (-1 = forever) has passed. The waiting thread helps to run tasks. A failure is delivered once
  // (the stream goes on); with ACL_STOP_ON_FAILURE it stays. src: hicann/runtime stream.cc GetError
  base::Code synchronize(int64_t timeout_ms);
  // The same; a code other than 0 is raised with its text.
  void synchronize_or_raise(int64_t timeout_ms);
  // Raises the failure that stopped the context, if there is one.
  void check_context_failure() const;
  // True when nothing is queued or running.
  bool idle() const;
  // First failure not delivered yet, 0 if none.
  base::Code sticky_error() const;

  // Drops what is queued and waits for the task that runs (10 s at most); the stream can be used
  // again.
  void abort();
  // Ends the stream: drains (wait) or drops the queue, gives the id back. The handle was removed
  // before. A dropped stream's running task is waited for (10 s at most), a host function is not.
  void shut_down(bool wait);

  // ACL_STOP_ON_FAILURE, for all streams of the context; 207000 when that is to be taken back.
  void set_failure_mode(uint64_t mode);
  uint64_t failure_mode() const { return failure_mode_.load(std::memory_order_relaxed); }

  // Settings that are kept and answered. The switch acts once operators report overflow.
  std::atomic<uint32_t> overflow_switch{0};
  std::atomic<uint32_t> custom_tag{0};
  std::atomic<uint32_t> cache_op_info{0};
  std::atomic<bool> announced{false};  // see state_callback.hpp
  // Most cores of a kind for kernels of threads that use this stream's limits; UINT32_MAX: no limit
  // of its own.
  std::array<std::atomic<uint32_t>, 2> core_limits{UINT32_MAX, UINT32_MAX};

  // What records the stream's tasks instead of running them: a capture, a model instance that the
  // stream is bound to, or an update of recorded tasks. Null: they run. Who goes on to use it holds
  // the lock of model_instance.hpp.
  Recording* recording() const { return recording_.load(std::memory_order_acquire); }
  void set_recording(Recording* recording) {
    recording_.store(recording, std::memory_order_release);
  }
  bool capturing() const;
  bool bound() const;

  // Every task comes in here: it is recorded, or goes to the executor. False: it is a wait for an
  // event that was never recorded.
  bool enqueue(Task&& task);

  StreamState& state() const { return *state_; }
  // Which thread serves the callbacks; guarded by the registry in callback.cpp.
  StreamBinding& binding() { return *binding_; }

 private:
  Stream(const base::Ref<Context>& context, uint32_t priority, uint32_t flags, bool is_default);
  ~Stream() override;

  base::Ref<Context> context_;
  std::atomic<uint32_t> priority_;
  const uint32_t flags_;
  const bool is_default_;
  int32_t id_ = -1;
  std::atomic<uint64_t> failure_mode_{0};
  std::atomic<bool> ended_{false};
  std::atomic<Recording*> recording_{nullptr};
  std::unique_ptr<StreamIds> ids_;
  std::unique_ptr<StreamState> state_;
  std::unique_ptr<StreamBinding> binding_;
};

// The stream behind a handle; null handle = default stream of the current context.
// Raises 107017 (dead, foreign or other kind), 107002 (null handle without context).
base::Ref<Stream> resolve_stream(void* handle);
// The same, and refuses a stream of another context than the current one with 107003
// (checks in this order: handle 107017, context 107002, owner 107003).
base::Ref<Stream> resolve_stream_of_current(void* handle);

// The two halves of the above, for calls with checks in between.
// Null for a null handle; raises 107017.
base::Ref<Stream> stream_behind(void* handle);
// The stream, or the default stream for null. Raises 107002, 107003.
base::Ref<Stream> in_current_context(const base::Ref<Stream>& stream);

// The same two without references, inside a base::Peek.
Stream* peek_stream(const void* handle);
Stream& peek_in_current_context(Stream* stream);

// Waits for every stream of the current context, the default one last, and raises the first
// failure. timeout_ms as for Stream::synchronize; 507046 when it has passed. Streams that only the
// device drives are skipped. Raises 107002, 107027.
void synchronize_context(int64_t timeout_ms);

// The stream whose core limits the calling thread uses; null when it uses none, or it is dead.
base::Ref<Stream> limits_stream();

// Free stream ids of a device.
uint32_t available_streams(int32_t device);

}  // namespace ascendrt::core
