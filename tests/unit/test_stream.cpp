// Streams over the threaded executor: order, waiting, failures, ends. With real threads.
#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "clock/clock.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/exception_info.hpp"
#include "core/runtime.hpp"
#include "core/scheduler.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

constexpr int64_t kMs = 1'000'000;

// A context of its own, current in this thread, destroyed at the end.
struct Scope {
  Scope() : context(Context::create(runtime().device(0), false)) {
    thread_state().set_explicit(context);
  }
  ~Scope() {
    thread_state().set_explicit(nullptr);
    if (context->alive()) context->destroy();
  }
  base::Ref<Stream> stream(uint32_t priority = 0) { return Stream::create(context, priority, 0); }
  base::Ref<Context> context;
};

TaskBody sleeping(int64_t ms) {
  return [ms]() -> base::Code {
    clock::sleep_ns(ms * kMs);
    return 0;
  };
}

TaskBody failing(base::Code code, std::string text) {
  return [code, text = std::move(text)]() -> base::Code { base::fail(code, text); };
}

base::Ref<Event> level_event() {
  return Event::create(EventKind::kFlag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

void end(const base::Ref<Stream>& stream, bool wait = true) {
  base::handles().remove<Stream>(stream->handle());
  stream->shut_down(wait);
}

TEST(stream_runs_in_order) {
  Scope scope;
  const auto stream = scope.stream();
  std::vector<int> log;  // no lock: the stream orders its tasks
  for (int i = 0; i < 5000; ++i) {
    stream->submit(i % 3 == 0 ? Engine::kCube : Engine::kHostToDevice, "log",
                   [&log, i]() -> base::Code {
                     log.push_back(i);
                     return 0;
                   });
  }
  CHECK_EQ(stream->synchronize(-1), 0);
  CHECK_EQ(log.size(), size_t{5000});
  for (int i = 0; i < 5000; ++i) CHECK_EQ(log[static_cast<size_t>(i)], i);
  CHECK(stream->idle());
}

TEST(stream_many_threads_one_stream) {
  Scope scope;
  const auto stream = scope.stream();
  int64_t sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        stream->submit(Engine::kCube, "add", [&sum]() -> base::Code {
          ++sum;
          return 0;
        });
        if (i % 100 == 0) CHECK_EQ(stream->synchronize(i % 200 == 0 ? -1 : 10000), 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQ(stream->synchronize(-1), 0);
  CHECK_EQ(sum, 4000);
}

TEST(stream_work_goes_on_without_a_synchronize) {
  Scope scope;
  const auto stream = scope.stream();
  std::atomic<bool> ran{false};
  stream->submit(Engine::kCube, "flag", [&ran]() -> base::Code {
    ran = true;
    return 0;
  });
  const int64_t limit = clock::now_ns() + 5000 * kMs;
  while (!ran && clock::now_ns() < limit) clock::sleep_ns(kMs);
  CHECK(ran.load());
  stream->synchronize(-1);
}

TEST(stream_time_limit_of_synchronize) {
  Scope scope;
  const auto stream = scope.stream();
  stream->submit(Engine::kCube, "slow", sleeping(80));
  const int64_t start = clock::now_ns();
  CHECK_THROWS_CODE(stream->synchronize_or_raise(10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK(clock::now_ns() - start < 60 * kMs);
  CHECK(!stream->idle());
  CHECK_EQ(stream->synchronize(-1), 0);
}

TEST(stream_blocked_for_ever_can_be_left) {
  Scope scope;
  const auto stream = scope.stream();
  const auto event = level_event();
  event->wait(*stream, 0);
  stream->submit(Engine::kCube, "never", sleeping(0));
  CHECK_EQ(stream->synchronize(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  const int64_t start = clock::now_ns();
  end(stream, false);
  CHECK(clock::now_ns() - start < 1000 * kMs);
  CHECK(stream->idle());
  CHECK_THROWS_CODE(stream->submit(Engine::kCube, "late", sleeping(0)),
                    ACL_ERROR_RT_INVALID_HANDLE);
}

TEST(stream_tear_down_frees_a_synchronizing_thread) {
  Scope scope;
  const auto stream = scope.stream();
  const auto event = level_event();
  event->wait(*stream, 0);
  std::thread waiting([&] { CHECK_EQ(stream->synchronize(-1), 0); });
  clock::sleep_ns(5 * kMs);
  scope.context->tear_down(false);
  waiting.join();
}

TEST(stream_full_queue_blocks_the_submitter) {
  Scope scope;
  const auto stream = scope.stream();
  const auto event = level_event();
  const auto depth = static_cast<uint32_t>(scope.context->device().soc().tasks_per_stream);
  event->wait(*stream, 0);
  std::atomic<uint32_t> submitted{1};
  std::atomic<uint32_t> ran{0};
  std::thread submitter([&] {
    for (uint32_t i = 0; i < depth + 10; ++i) {
      stream->submit(Engine::kCube, "count", [&ran]() -> base::Code {
        ++ran;
        return 0;
      });
      ++submitted;
    }
  });
  const int64_t limit = clock::now_ns() + 20'000 * kMs;
  while (submitted < depth && clock::now_ns() < limit) clock::sleep_ns(kMs);
  clock::sleep_ns(5 * kMs);
  CHECK_EQ(submitted.load(), depth);
  event->record(*scope.context->default_stream());
  submitter.join();
  CHECK_EQ(stream->synchronize(-1), 0);
  CHECK_EQ(ran.load(), depth + 10);
}

TEST(stream_failure_is_delivered_once_with_its_text) {
  Scope scope;
  const auto stream = scope.stream();
  stream->submit(Engine::kCube, "conv", failing(507015, "first"));
  stream->submit(Engine::kCube, "relu", failing(507014, "second"));
  bool ran = false;
  stream->submit(Engine::kCube, "after", [&ran]() -> base::Code {
    ran = true;
    return 0;
  });
  while (!stream->idle()) clock::sleep_ns(kMs);
  CHECK_EQ(stream->sticky_error(), 507015);
  try {
    stream->synchronize_or_raise(-1);
    CHECK(false);
  } catch (const base::Error& error) {
    CHECK_EQ(error.code, 507015);
    CHECK(error.text.find("first") != std::string::npos);
    CHECK(error.text.find("conv") != std::string::npos);
  }
  CHECK(ran);
  CHECK_EQ(stream->synchronize(-1), 0);
}

TEST(stream_stop_on_failure) {
  Scope scope;
  const auto stream = scope.stream();
  const auto other = scope.stream();
  stream->set_failure_mode(ACL_STOP_ON_FAILURE);
  CHECK_THROWS_CODE(stream->set_failure_mode(ACL_CONTINUE_ON_FAILURE),
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  bool ran = false;
  stream->submit(Engine::kCube, "hold", sleeping(20));
  stream->submit(Engine::kCube, "bad", failing(507015, "broken"));
  stream->submit(Engine::kCube, "after", [&ran]() -> base::Code {
    ran = true;
    return 0;
  });
  CHECK_EQ(stream->synchronize(-1), 507015);
  CHECK_EQ(stream->synchronize(-1), 507015);  // stays
  CHECK(!ran);
  CHECK_THROWS_CODE(other->submit(Engine::kCube, "more", sleeping(0)), 507015);
  CHECK_THROWS_CODE(other->check_context_failure(), 507015);
}

TEST(stream_events_across_streams) {
  Scope scope;
  const auto a = scope.stream();
  const auto b = scope.stream();
  int value = 0;  // no lock: the events order the two streams
  for (int i = 0; i < 300; ++i) {
    const auto forth = Event::create(EventKind::kEx, ACL_EVENT_SYNC);
    const auto back = Event::create(EventKind::kEx, ACL_EVENT_SYNC);
    a->submit(Engine::kCube, "even", [&value]() -> base::Code {
      ++value;
      return 0;
    });
    forth->record(*a);
    forth->wait(*b, 0);
    b->submit(Engine::kHostToDevice, "odd", [&value]() -> base::Code {
      value *= 2;
      value %= 1000;
      return 0;
    });
    back->record(*b);
    back->wait(*a, 0);
    for (const auto& event : {forth, back}) base::handles().remove<Event>(event->handle());
  }
  CHECK_EQ(a->synchronize(-1), 0);
  int expected = 0;
  for (int i = 0; i < 300; ++i) expected = (expected + 1) * 2 % 1000;
  CHECK_EQ(value, expected);
  CHECK_EQ(b->synchronize(-1), 0);
}

TEST(stream_abort_and_use_again) {
  Scope scope;
  const auto stream = scope.stream();
  std::atomic<int> ran{0};
  stream->submit(Engine::kCube, "running", sleeping(30));
  for (int i = 0; i < 100; ++i) {
    stream->submit(Engine::kCube, "queued", [&ran]() -> base::Code {
      ++ran;
      return 0;
    });
  }
  stream->abort();
  CHECK(stream->idle());
  CHECK(ran < 100);
  stream->submit(Engine::kCube, "again", [&ran]() -> base::Code {
    ran = 1000;
    return 0;
  });
  CHECK_EQ(stream->synchronize(-1), 0);
  CHECK_EQ(ran.load(), 1000);
}

TEST(stream_destroy_waits_for_work) {
  Scope scope;
  const auto stream = scope.stream();
  std::atomic<bool> ran{false};
  stream->submit(Engine::kCube, "slow", sleeping(20));
  stream->submit(Engine::kCube, "flag", [&ran]() -> base::Code {
    ran = true;
    return 0;
  });
  end(stream);
  CHECK(ran.load());
}

TEST(stream_forced_end_waits_for_the_running_task_only) {
  Scope scope;
  const auto stream = scope.stream();
  std::atomic<bool> begun{false};
  std::atomic<bool> done{false};
  stream->submit(Engine::kCube, "running", [&]() -> base::Code {
    begun = true;
    clock::sleep_ns(30 * kMs);
    done = true;
    return 0;
  });
  std::atomic<bool> ran{false};
  stream->submit(Engine::kCube, "queued", [&ran]() -> base::Code {
    ran = true;
    return 0;
  });
  while (!begun) clock::sleep_ns(kMs / 10);
  end(stream, false);
  CHECK(done.load());  // its memory may be freed after this call
  CHECK(!ran.load());
}

TEST(stream_ids_are_limited_and_reused) {
  Scope scope;
  const uint32_t before = available_streams(0);
  std::vector<base::Ref<Stream>> all;
  for (uint32_t i = 0; i < before; ++i) all.push_back(scope.stream());
  CHECK_THROWS_CODE(scope.stream(), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  end(all.back());
  all.pop_back();
  all.push_back(scope.stream());
  for (const auto& stream : all) end(stream);
  CHECK_EQ(available_streams(0), before);
}

TEST(stream_of_another_context_is_refused) {
  Scope scope;
  const auto stream = scope.stream();
  {
    Scope inner;
    CHECK_THROWS_CODE(resolve_stream_of_current(stream->handle()), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK(resolve_stream(stream->handle()) == stream);
  }
  CHECK_THROWS_CODE(resolve_stream_of_current(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_THROWS_CODE(resolve_stream(scope.context->handle()), ACL_ERROR_RT_INVALID_HANDLE);
  thread_state().set_explicit(scope.context);
  CHECK(resolve_stream(nullptr) == scope.context->default_stream());
}

TEST(stream_synchronize_context) {
  Scope scope;
  const auto a = scope.stream();
  const auto b = scope.stream();
  std::atomic<int> ran{0};
  for (const auto& stream : {a, b, scope.context->default_stream()}) {
    stream->submit(Engine::kCube, "slow", sleeping(5));
    stream->submit(Engine::kCube, "count", [&ran]() -> base::Code {
      ++ran;
      return 0;
    });
  }
  synchronize_context(-1);
  CHECK_EQ(ran.load(), 3);
  a->submit(Engine::kCube, "bad", failing(507015, "broken"));
  b->submit(Engine::kCube, "slow", sleeping(1));
  CHECK_THROWS_CODE(synchronize_context(-1), 507015);
  synchronize_context(-1);
  level_event()->wait(*b, 0);
  CHECK_THROWS_CODE(synchronize_context(10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  end(b, false);
}

std::atomic<int> g_told{0};
std::atomic<uint32_t> g_code{0};

TEST(stream_exception_callbacks) {
  Scope scope;
  const auto stream = scope.stream();
  const aclrtExceptionInfoCallback tell = [](aclrtExceptionInfo* info) {
    ++g_told;
    g_code = info->retcode;
  };
  add_exception_callback(tell);
  add_exception_callback(tell);  // counts once
  stream->submit(Engine::kCube, "bad", failing(507015, "broken"));
  CHECK_EQ(stream->synchronize(-1), 507015);
  CHECK_EQ(g_told.load(), 1);
  CHECK_EQ(g_code.load(), 507015U);
  remove_exception_callback(tell);
  set_exception_callback(tell);
  stream->submit(Engine::kCube, "bad", failing(507014, "broken"));
  CHECK_EQ(stream->synchronize(-1), 507014);
  CHECK_EQ(g_told.load(), 2);
  set_exception_callback(nullptr);
  stream->submit(Engine::kCube, "bad", failing(507014, "broken"));
  stream->synchronize(-1);
  CHECK_EQ(g_told.load(), 2);
}

// Threads make, use and end streams and events of one context at the same time.
TEST(stream_stress) {
  Scope scope;
  std::atomic<int64_t> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      thread_state().set_explicit(scope.context);
      for (int round = 0; round < 25; ++round) {
        const auto a = scope.stream();
        const auto b = scope.stream();
        const auto event = Event::create(EventKind::kEx, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
        for (int i = 0; i < 40; ++i) {
          const auto count = [&ran]() -> base::Code {
            ran.fetch_add(1, std::memory_order_relaxed);
            return 0;
          };
          a->submit(Engine::kCube, "count", count);
          if (i % 5 == 0) event->record(*a);
          if (i % 5 == 2) event->wait(*b, 0);
          b->submit(Engine::kDeviceToHost, "count", count);
        }
        if ((t + round) % 3 == 0) {
          event->synchronize(-1);
        } else {
          CHECK_EQ(b->synchronize(round % 2 == 0 ? -1 : 60000), 0);
        }
        base::handles().remove<Event>(event->handle());
        end(a);
        end(b);
      }
      thread_state().set_explicit(nullptr);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQ(ran.load(), 4 * 25 * 80);
}

TEST(stream_stress_of_forced_ends) {
  Scope scope;
  for (int round = 0; round < 60; ++round) {
    const auto a = scope.stream();
    const auto b = scope.stream();
    const auto event = Event::create(EventKind::kEx, ACL_EVENT_SYNC);
    for (int i = 0; i < 20; ++i) a->submit(Engine::kCube, "nap", sleeping(0));
    event->record(*a);
    event->wait(*b, 0);
    b->submit(Engine::kCube, "after", sleeping(0));
    end(a, false);
    CHECK_EQ(b->synchronize(-1), 0);  // the dropped record does not hold it
    end(b);
    base::handles().remove<Event>(event->handle());
  }
}

}  // namespace
