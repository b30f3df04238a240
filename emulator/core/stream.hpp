// A stream: an ordered queue of tasks on one context.
// Must never: run two of its tasks at once, or a task before all earlier ones of the stream.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "base/function.hpp"
#include "base/handle.hpp"
#include "base/ref.hpp"

namespace ascendrt::core {

class Context;
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

// Runs on a worker, with no lock held. Non-zero = the task failed; the stream keeps the first such code as
// its sticky error and delivers it at synchronize. May also throw base::Error (text is kept too).
using TaskBody = base::Function<base::Code()>;

class Stream : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kStream;

  // Makes a stream of the context, inserted in the handle table and in the context's list.
  // Raises 207008 when the device has no stream id left.
  static base::Ref<Stream> create(const base::Ref<Context>& context, uint32_t priority,
                                  uint32_t flags);

  // The default stream of a context under construction or revival: not put in the context's list (the
  // context keeps it itself), handle inserted.
  static base::Ref<Stream> create_default(const base::Ref<Context>& context);

  Context& context() const { return *context_; }
  bool is_default() const { return is_default_; }
  int32_t id() const { return id_; }
  uint32_t flags() const { return flags_; }
  uint32_t priority() const { return priority_; }

  // Queues a task. name is a static string (shown in error texts and traces). Blocks while the queue is
  // full. The body keeps alive (by Ref) whatever it touches.
  void submit(Engine engine, const char* name, TaskBody body);

  // Waits until everything submitted before is done. Returns 0, the sticky error, or 507046 when
  // timeout_ms (-1 = forever) has passed. The waiting thread helps to run tasks.
  base::Code synchronize(int64_t timeout_ms);
  // True when nothing is queued or running.
  bool idle() const;
  // First failure of a task, 0 if none.
  base::Code sticky_error() const;

  // Ends the stream: drains (wait) or drops the queue, gives the id back. The handle was removed before.
  void shut_down(bool wait);

 private:
  friend class Scheduler;
  Stream(const base::Ref<Context>& context, uint32_t priority, uint32_t flags);
  ~Stream() override;

  base::Ref<Context> context_;
  const uint32_t priority_;
  const uint32_t flags_;
  bool is_default_ = false;
  int32_t id_ = -1;
  std::unique_ptr<StreamState> state_;
};

// The stream behind a handle; null handle = default stream of the current context.
// Raises 107017 (dead, foreign or other kind), 107002 (null handle without context).
base::Ref<Stream> resolve_stream(void* handle);
// The same, and refuses a stream of another context than the current one with 107003
// (checks in this order: handle 107017, context 107002, owner 107003).
base::Ref<Stream> resolve_stream_of_current(void* handle);

}  // namespace ascendrt::core
