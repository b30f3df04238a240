#include "core/callback.hpp"

#include <pthread.h>

#include <csignal>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "base/thread_end.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/model_instance.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

using Owner = StreamBinding::Owner;

constexpr size_t kMaxThreads = 1024;  // src: hicann/runtime subscribe.cc, group ids

// A thread of the client. It stays listed after its last unsubscribe while functions wait for it.
struct Reporter {
  int32_t device = 0;
  uint32_t streams = 0;
  base::Ref<HostQueue> queue;
};

// The thread of a context; it ends with the last stream that uses it.
struct HostThread {
  uint32_t streams = 0;
  base::Ref<HostQueue> queue;
};

struct Registry {
  base::RankedMutex mutex{base::Rank::kStream};  // also guards every Stream::binding()
  std::map<uint64_t, Reporter> reporters;
  std::map<uint32_t, HostThread> hosts;  // by context id
};

Registry& registry() {
  static auto* const instance = new Registry;  // leaked: threads use it during process exit
  return *instance;
}

std::string name_of(const Stream& stream) {
  return "stream " + std::to_string(stream.id()) + " of device " +
         std::to_string(stream.context().device().index());
}

[[noreturn]] void refuse_bound(const Stream& stream, Owner owner) {
  base::fail(
      ACL_ERROR_RT_STREAM_SUBSCRIBE,
      name_of(stream) + (owner == Owner::kUser
                             ? " is subscribed already; call aclrtUnSubscribeReport first"
                             : " is used with aclrtLaunchHostFunc; callbacks of a subscribed "
                               "thread need another stream"));
}

size_t count_subscribed(const Registry& all) {
  size_t count = 0;
  for (const auto& [thread, reporter] : all.reporters) count += reporter.streams > 0 ? 1 : 0;
  return count;
}

Reporter& reporter_for(Registry& all, uint64_t thread, const Stream& stream) {
  const int32_t device = stream.context().device().index();
  const auto found = all.reporters.find(thread);
  if (found != all.reporters.end() && found->second.streams > 0) {
    if (found->second.device == device) return found->second;
    base::fail(ACL_ERROR_RT_THREAD_SUBSCRIBE,
               "thread " + std::to_string(thread) + " serves streams of device " +
                   std::to_string(found->second.device) + "; one thread serves one device");
  }
  if (count_subscribed(all) >= kMaxThreads) {
    base::fail(ACL_ERROR_RT_INTERNAL_ERROR,
               std::to_string(kMaxThreads) +
                   " threads are subscribed; one thread can serve many "
                   "streams of a device");
  }
  Reporter& reporter = all.reporters[thread];
  reporter.device = device;
  if (!reporter.queue) reporter.queue = base::make_ref<HostQueue>();
  executor().set_closed(*reporter.queue, false);
  return reporter;
}

void release_reporter(Registry& all, uint64_t thread) {
  Reporter& reporter = all.reporters[thread];
  // A thread that waits in aclrtProcessReport for its last stream goes on.
  if (--reporter.streams == 0) executor().set_closed(*reporter.queue, true);
}

void start_host_thread(const base::Ref<HostQueue>& queue);

void serve_until_closed(const base::Ref<HostQueue>& queue) {
  try {
    while (executor().serve(*queue, clock::kForever) > 0) {
    }
  } catch (base::EndOfThread&) {  // a host function called pthread_exit; others wait behind it
    start_host_thread(queue);
    throw;
  }
}

void start_host_thread(const base::Ref<HostQueue>& queue) {
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&all, signal);
  }
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    std::thread thread([queue] { serve_until_closed(queue); });
    pthread_setname_np(thread.native_handle(), "ascendrt-host");
    thread.detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               std::string("cannot start the thread for host functions: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

// Binds the stream to the thread of its context, which is made at first use.
void bind_to_host_thread(Registry& all, Stream& stream) {
  HostThread& host = all.hosts[stream.context().id()];
  if (!host.queue) {
    auto queue = base::make_ref<HostQueue>();
    queue->owned = true;
    start_host_thread(queue);
    host.queue = std::move(queue);
  }
  ++host.streams;
  stream.binding() = {Owner::kRuntime, 0, host.queue};
}

void queue_function(Stream& stream, TaskKind kind, const char* name, base::Ref<HostQueue> queue,
                    TaskBody function) {
  Task task;
  task.kind = kind;
  task.engine = Engine::kHost;
  task.name = name;
  task.host = std::move(queue);
  task.body = std::move(function);
  stream.enqueue(std::move(task));
}

}  // namespace

void check_subscribable(Stream& stream) {
  const std::lock_guard lock(registry().mutex);
  if (stream.binding().owner == Owner::kRuntime) refuse_bound(stream, Owner::kRuntime);
}

void check_host_functions_allowed(Stream& stream) {
  const std::lock_guard lock(registry().mutex);
  if (stream.binding().owner == Owner::kUser) refuse_bound(stream, Owner::kUser);
}

void subscribe(uint64_t thread, Stream& stream) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  StreamBinding& binding = stream.binding();
  if (binding.owner != Owner::kNobody) refuse_bound(stream, binding.owner);
  Reporter& reporter = reporter_for(all, thread, stream);
  ++reporter.streams;
  binding = {Owner::kUser, thread, reporter.queue};
}

void unsubscribe(uint64_t thread, Stream& stream) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  StreamBinding& binding = stream.binding();
  if (binding.owner == Owner::kNobody) {
    base::fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, name_of(stream) + " is not subscribed");
  }
  if (binding.owner == Owner::kRuntime) refuse_bound(stream, Owner::kRuntime);
  if (binding.thread != thread) {
    base::fail(ACL_ERROR_RT_THREAD_SUBSCRIBE,
               name_of(stream) + " is served by another thread than " + std::to_string(thread));
  }
  release_reporter(all, thread);
  binding = {};
}

void forget_bindings(Stream& stream) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  StreamBinding binding = std::exchange(stream.binding(), {});
  if (binding.owner == Owner::kUser) release_reporter(all, binding.thread);
  if (binding.owner != Owner::kRuntime) return;
  const auto host = all.hosts.find(stream.context().id());
  if (--host->second.streams > 0) return;
  executor().set_closed(*binding.queue, true);
  all.hosts.erase(host);
}

void launch_callback(Stream& stream, TaskBody function, Blocking blocking) {
  base::Ref<HostQueue> queue;
  {
    const std::lock_guard lock(registry().mutex);
    const StreamBinding& binding = stream.binding();
    if (binding.owner == Owner::kRuntime) refuse_bound(stream, binding.owner);
    if (binding.owner == Owner::kNobody) {
      base::fail(ACL_ERROR_RT_STREAM_NO_CB_REG,
                 name_of(stream) + " has no thread for callbacks; call aclrtSubscribeReport first");
    }
    queue = binding.queue;
  }
  const bool waits = blocking == Blocking::kStreamWaits;
  queue_function(stream, waits ? TaskKind::kHost : TaskKind::kHostDetached, "aclrtLaunchCallback",
                 std::move(queue), std::move(function));
}

namespace {

// The queue of a thread; null when it serves no stream and nothing is left for it.
base::Ref<HostQueue> queue_of(uint64_t thread) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.reporters.find(thread);
  if (found == all.reporters.end()) return nullptr;
  auto queue = found->second.queue;
  if (found->second.streams > 0 || executor().has_items(*queue)) return queue;
  all.reporters.erase(found);
  return nullptr;
}

}  // namespace

size_t process_reports(int64_t timeout_ms) {
  const auto self = static_cast<uint64_t>(pthread_self());
  const int64_t deadline = executor().deadline_after_ms(timeout_ms);
  if (const auto queue = queue_of(self)) {
    const size_t served = executor().serve(*queue, deadline);
    if (served > 0 || queue_of(self)) return served;
  }
  base::fail(ACL_ERROR_RT_THREAD_SUBSCRIBE,
             "the calling thread serves no stream; aclrtSubscribeReport takes its pthread_self()");
}

void launch_host_function(Stream& stream, const char* name, TaskBody function) {
  const base::Ref<Stream> player = player_of(stream);
  base::Ref<HostQueue> queue;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    if (stream.binding().owner == Owner::kUser) refuse_bound(stream, Owner::kUser);
    if (player->binding().owner == Owner::kNobody) bind_to_host_thread(all, *player);
    queue = player->binding().queue;
  }
  queue_function(stream, TaskKind::kHost, name, std::move(queue), std::move(function));
}

}  // namespace ascendrt::core
