// Streams and events that threads use while others abort, destroy and replace them.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/context.hpp"
#include "core/device.hpp"
#include "core/event.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "core/thread_state.hpp"
#include "gen/abi.h"
#include "test.hpp"

namespace {

using namespace ascendrt;
using namespace ascendrt::core;

// What must hold whatever is raced: a body runs once at most, alone on its stream, and is
// destroyed.
struct Witness {
  std::atomic<int64_t> made{0};
  std::atomic<int64_t> gone{0};
  std::atomic<int64_t> broken{0};
};

class Token {
 public:
  explicit Token(Witness& witness) : witness_(&witness) { witness.made.fetch_add(1); }
  Token(Token&& other) noexcept : witness_(std::exchange(other.witness_, nullptr)) {}
  Token& operator=(Token&&) = delete;
  ~Token() {
    if (witness_ != nullptr) witness_->gone.fetch_add(1);
  }

 private:
  Witness* witness_;
};

struct Lot {
  std::mutex change;
  std::atomic<void*> handle{nullptr};
  std::shared_ptr<std::atomic<bool>> busy;  // of the stream that stands here now, under `change`
};

class Arena {
 public:
  Arena() : context_(Context::create(runtime().device(0), false)) {
    thread_state().set_explicit(context_);
    for (Lot& lot : streams_) renew_stream(lot);
    for (Lot& lot : events_) renew_event(lot);
  }
  ~Arena() {
    thread_state().set_explicit(nullptr);
    for (Lot& lot : events_) base::handles().remove<Event>(lot.handle);
    context_->destroy();
  }

  void race(uint32_t seed, int steps) {
    thread_state().set_explicit(context_);
    std::mt19937 random(seed);
    for (int i = 0; i < steps; ++i) {
      Lot& stream = streams_[random() % streams_.size()];
      Lot& event = events_[random() % events_.size()];
      try {
        step(random() % 32, stream, event);
      } catch (const base::Error& error) {
        const bool expected =
            error.code == ACL_ERROR_RT_INVALID_HANDLE || error.code == ACL_ERROR_RT_STREAM_ABORT;
        if (!expected) witness.broken.fetch_add(1);
      }
    }
    thread_state().set_explicit(nullptr);
  }

  Witness witness;

 private:
  void step(uint32_t action, Lot& stream, Lot& event) {
    switch (action) {
      case 0:
        return renew_stream(stream);
      case 1:
        return renew_event(event);
      case 2:
        return stream_behind(stream.handle)->abort();
      case 3:
      case 4: {
        const base::Code code = stream_behind(stream.handle)->synchronize(60'000);
        if (code != 0) witness.broken.fetch_add(1);
        return;
      }
      case 5:
        if (!event_behind(event.handle)->synchronize(60'000)) witness.broken.fetch_add(1);
        return;
      default:
        return quick(action, stream, event);
    }
  }

  // As the entries do it: objects are found, not held.
  void quick(uint32_t action, Lot& stream, Lot& event) {
    std::shared_ptr<std::atomic<bool>> busy;
    void* handle = nullptr;
    if (action >= 16) {
      const std::lock_guard lock(stream.change);
      busy = stream.busy;
      handle = stream.handle;
    }
    const base::Peek inside;
    if (action >= 16) return submit(peek_in_current_context(peek_stream(handle)), busy);
    Stream& found = peek_in_current_context(peek_stream(stream.handle));
    Event& known = peek_event(event.handle);
    if (action < 10) return known.record(found);
    if (action < 14) return known.wait(found, 0);
    if (known.finished() && !known.recorded()) witness.broken.fetch_add(1);
  }

  void submit(Stream& stream, std::shared_ptr<std::atomic<bool>> busy) {
    stream.submit(Engine::kDeviceToDevice, "race",
                  [this, busy = std::move(busy), token = Token(witness)]() -> base::Code {
                    if (busy->exchange(true)) witness.broken.fetch_add(1);
                    busy->store(false);
                    return 0;
                  });
  }

  void renew_stream(Lot& lot) {
    const auto fresh = Stream::create(context_, 0, 0);
    base::Ref<Stream> old;
    {
      const std::lock_guard lock(lot.change);
      old = base::handles().remove<Stream>(lot.handle.exchange(fresh->handle()));
      lot.busy = std::make_shared<std::atomic<bool>>(false);
    }
    if (old) old->shut_down(false);
  }

  void renew_event(Lot& lot) {
    const auto fresh = Event::create(EventKind::kEx, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    base::handles().remove<Event>(lot.handle.exchange(fresh->handle()));
  }

  base::Ref<Context> context_;
  std::array<Lot, 3> streams_;
  std::array<Lot, 3> events_;
};

TEST(stream_races_of_all_calls) {
  Arena arena;
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] { arena.race(seed, 3000); });
  }
  for (auto& thread : threads) thread.join();
  synchronize_context(60'000);
  CHECK_EQ(arena.witness.broken.load(), 0);
  CHECK_EQ(arena.witness.made.load(), arena.witness.gone.load());
  CHECK(arena.witness.made.load() > 1000);
}

// A removal waits for the sections in which its object may be in use, and for no others.
TEST(stream_removal_waits_for_who_looks) {
  Arena arena;
  const auto event = Event::create(EventKind::kEx, ACL_EVENT_SYNC);
  void* handle = event->handle();
  std::atomic<bool> looking{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> removed{false};
  std::thread looker([&] {
    const base::Peek inside;
    CHECK(base::handles().peek<Event>(handle) == event.get());
    looking.store(true);
    while (!let_go.load()) std::this_thread::yield();
    CHECK(!removed.load());
  });
  while (!looking.load()) std::this_thread::yield();
  std::thread remover([&] {
    CHECK(static_cast<bool>(base::handles().remove<Event>(handle)));
    removed.store(true);
  });
  while (base::handles().get<Event>(handle)) std::this_thread::yield();  // dead at once
  CHECK(!removed.load());
  let_go.store(true);
  looker.join();
  remover.join();
  CHECK(removed.load());
  const base::Peek inside;
  CHECK(base::handles().peek<Event>(handle) == nullptr);
}

}  // namespace
