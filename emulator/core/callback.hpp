// Functions of the client that run between the tasks of a stream: callbacks on a thread the client
// subscribed, host functions on one runtime-owned thread per context. Owns: which thread serves
// which stream. Must never: call a client function on any other thread.
#pragma once

#include <cstdint>

#include "base/ref.hpp"
#include "core/host_queue.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

// Who serves a stream's functions.
struct StreamBinding {
  enum class Owner : uint8_t { kNobody, kUser, kRuntime };
  Owner owner = Owner::kNobody;
  uint64_t thread = 0;  // kUser: pthread_self() of the serving thread
  base::Ref<HostQueue> queue;
};

// The tests that come before the context is looked at: 107011 for a stream of the other sort.
void check_subscribable(Stream& stream);
void check_host_functions_allowed(Stream& stream);

// aclrtSubscribeReport. Raises 107011 (stream bound already, by any thread or by host functions),
// 107012 (thread serves another device), 507000 (1024 threads subscribed).
void subscribe(uint64_t thread, Stream& stream);
// aclrtUnSubscribeReport. 107011: the stream is not subscribed; 107012: by another thread.
// Functions that wait for the thread stay with it.
void unsubscribe(uint64_t thread, Stream& stream);
// Ends what a stream that was shut down is bound to.
void forget_bindings(Stream& stream);

enum class Blocking : uint8_t { kStreamGoesOn, kStreamWaits };

// Queues a function for the subscribed thread. 107011: the stream is used with host functions;
// 107015: it is not subscribed.
void launch_callback(Stream& stream, TaskBody function, Blocking blocking);
// Runs the functions pending for this thread, waiting for the first one. The number run, 0 when
// timeout_ms (-1 = forever) passed. 107012 when the thread is not subscribed.
size_t process_reports(int64_t timeout_ms);

// Queues a function for the context's thread, made at first use; the stream waits for it. 107011:
// the stream is subscribed by the user.
void launch_host_function(Stream& stream, const char* name, TaskBody function);

}  // namespace ascendrt::core
