// Callbacks, host functions, and the stream entries that need no device work, through the C
// entries.
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

#include "clock/clock.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "test.hpp"

namespace {

using namespace ascendrt;

constexpr int64_t kMs = 1'000'000;

struct Device {
  Device() { CHECK_EQ(art_emu_aclrtSetDevice(0), 0); }
  ~Device() { art_emu_aclrtResetDevice(0); }
};

struct OwnStream {
  explicit OwnStream(uint32_t flag = 0) {
    CHECK_EQ(art_emu_aclrtCreateStreamWithConfig(&handle, 0, flag), 0);
  }
  ~OwnStream() { art_emu_aclrtDestroyStreamForce(handle); }
  aclrtStream handle = nullptr;
};

uint64_t self() { return static_cast<uint64_t>(pthread_self()); }

// A thread that serves callbacks until told to stop.
struct Server {
  Server() : thread([this] { serve(); }) {
    while (id == 0) clock::sleep_ns(kMs / 10);
  }
  ~Server() {
    stop = true;
    thread.join();
  }
  void serve() {
    id = self();
    while (!stop) {
      const aclError code = art_emu_aclrtProcessReport(10);
      if (code == 107012) clock::sleep_ns(kMs);
    }
  }
  std::atomic<uint64_t> id{0};
  std::atomic<bool> stop{false};
  std::thread thread;
};

struct Seen {
  std::atomic<int> count{0};
  std::atomic<uint64_t> thread{0};
};
void note(void* argument) {
  auto* seen = static_cast<Seen*>(argument);
  seen->thread = self();
  ++seen->count;
}

TEST(callback_blocking_and_not) {
  const Device device;
  const OwnStream stream;
  Server server;
  Seen seen;
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, ACL_CALLBACK_BLOCK, stream.handle), 107015);
  CHECK_EQ(art_emu_aclrtSubscribeReport(server.id, stream.handle), 0);
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, ACL_CALLBACK_BLOCK, stream.handle), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  CHECK_EQ(seen.count.load(), 1);  // the stream waited for it
  CHECK_EQ(seen.thread.load(), server.id.load());
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, ACL_CALLBACK_NO_BLOCK, stream.handle), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  while (seen.count != 2) clock::sleep_ns(kMs);
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(server.id, stream.handle), 0);
}

TEST(callback_codes) {
  const Device device;
  const OwnStream stream;
  const OwnStream other;
  Seen seen;
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, static_cast<aclrtCallbackBlockType>(2),
                                       stream.handle),
           100000);
  CHECK_EQ(art_emu_aclrtLaunchCallback(nullptr, &seen, ACL_CALLBACK_BLOCK, stream.handle), 107000);
  CHECK_EQ(art_emu_aclrtProcessReport(0), 100000);
  CHECK_EQ(art_emu_aclrtProcessReport(-2), 100000);
  CHECK_EQ(art_emu_aclrtProcessReport(1), 107012);
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(self(), stream.handle), 107011);
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), stream.handle), 0);
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), stream.handle), 107011);
  CHECK_EQ(art_emu_aclrtSubscribeReport(self() + 1, stream.handle), 107011);
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), other.handle), 0);  // many streams of one device
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(self() + 1, stream.handle), 107012);
  CHECK_EQ(art_emu_aclrtLaunchHostFunc(stream.handle, note, &seen), 107011);
  CHECK_EQ(art_emu_aclrtLaunchHostFunc(stream.handle, nullptr, &seen), 107000);
  CHECK_EQ(art_emu_aclrtProcessReport(5), 507012);
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(self(), other.handle), 0);
  CHECK_EQ(art_emu_aclrtProcessReport(5), 507012);
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(self(), stream.handle), 0);
  CHECK_EQ(art_emu_aclrtProcessReport(5), 107012);
}

TEST(callback_subscription_needs_a_context) {
  aclrtStream handle = nullptr;
  {
    CHECK_EQ(art_emu_aclrtSetDevice(0), 0);
    CHECK_EQ(art_emu_aclrtCreateStream(&handle), 0);
    std::thread other([&] {
      CHECK_EQ(art_emu_aclrtSubscribeReport(self(), handle), 107002);
      CHECK_EQ(art_emu_aclrtSubscribeReport(self(), nullptr), 107002);
    });
    other.join();
    art_emu_aclrtResetDevice(0);
  }
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), handle), 107017);
}

TEST(callback_unserved_can_be_left) {
  const Device device;
  aclrtStream stream = nullptr;
  CHECK_EQ(art_emu_aclrtCreateStream(&stream), 0);
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), stream), 0);
  Seen seen;
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, ACL_CALLBACK_BLOCK, stream), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream, 10), 507046);
  CHECK_EQ(art_emu_aclrtDestroyStreamForce(stream), 0);
  CHECK_EQ(art_emu_aclrtProcessReport(1), 107012);  // the function is gone with its stream
  CHECK_EQ(seen.count.load(), 0);
}

TEST(callback_left_over_is_served_after_unsubscribe) {
  const Device device;
  const OwnStream stream;
  Seen seen;
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), stream.handle), 0);
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen, ACL_CALLBACK_NO_BLOCK, stream.handle), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  CHECK_EQ(art_emu_aclrtUnSubscribeReport(self(), stream.handle), 0);
  CHECK_EQ(art_emu_aclrtProcessReport(100), 0);
  CHECK_EQ(seen.count.load(), 1);
  CHECK_EQ(art_emu_aclrtProcessReport(1), 107012);
}

TEST(callback_host_functions_on_one_thread_of_the_context) {
  const Device device;
  const OwnStream a;
  const OwnStream b;
  Seen seen_a;
  Seen seen_b;
  for (int i = 0; i < 20; ++i) {
    CHECK_EQ(art_emu_aclrtLaunchHostFunc(a.handle, note, &seen_a), 0);
    CHECK_EQ(art_emu_aclrtLaunchHostFunc(b.handle, note, &seen_b), 0);
  }
  CHECK_EQ(art_emu_aclrtSynchronizeDevice(), 0);
  CHECK_EQ(seen_a.count.load(), 20);
  CHECK_EQ(seen_b.count.load(), 20);
  CHECK_EQ(seen_a.thread.load(), seen_b.thread.load());
  CHECK(seen_a.thread != self());
  CHECK_EQ(art_emu_aclrtSubscribeReport(self(), a.handle), 107011);
  CHECK_EQ(art_emu_aclrtLaunchCallback(note, &seen_a, ACL_CALLBACK_BLOCK, a.handle), 107011);
}

TEST(callback_host_function_orders_the_stream) {
  const Device device;
  const OwnStream stream;
  static std::vector<int> log;
  log.clear();
  const auto push = [](void* value) {
    log.push_back(static_cast<int>(reinterpret_cast<intptr_t>(value)));
  };
  for (intptr_t i = 0; i < 50; ++i) {
    if (i % 2 == 0) {
      CHECK_EQ(art_emu_aclrtLaunchHostFunc(stream.handle, push, reinterpret_cast<void*>(i)), 0);
    } else {
      core::stream_behind(stream.handle)->submit(core::Engine::kCube, "push", [i]() -> base::Code {
        log.push_back(static_cast<int>(i));
        return 0;
      });
    }
  }
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  CHECK_EQ(log.size(), size_t{50});
  for (size_t i = 0; i < log.size(); ++i) CHECK_EQ(log[i], static_cast<int>(i));
}

TEST(stream_entry_codes) {
  aclrtStream stream = nullptr;
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  CHECK_EQ(art_emu_aclrtCreateStream(nullptr), 100000);
  CHECK_EQ(art_emu_aclrtCreateStream(&stream), 107002);
  CHECK_EQ(art_emu_aclrtCreateStreamWithConfig(&stream, 0, 0x21), 107000);  // before the context
  CHECK_EQ(art_emu_aclrtSynchronizeStream(nullptr), 107002);
  CHECK_EQ(art_emu_aclrtSynchronizeDevice(), 107002);
  CHECK_EQ(art_emu_aclrtSynchronizeDeviceWithTimeout(0), 107000);
  const Device device;
  CHECK_EQ(art_emu_aclrtCreateStreamWithConfig(&stream, 99, 0x40000000), 0);
  uint32_t number = 9;
  CHECK_EQ(art_emu_aclrtStreamGetPriority(stream, &number), 0);
  CHECK_EQ(number, 7U);
  CHECK_EQ(art_emu_aclrtStreamGetFlags(stream, &number), 0);
  CHECK_EQ(number, 0U);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream, 0), 107000);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream, -2), 107000);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream, 10), 0);
  CHECK_EQ(art_emu_aclrtStreamQuery(stream, nullptr), 100000);
  CHECK_EQ(art_emu_aclrtStreamQuery(stream, &status), 0);
  CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
  CHECK_EQ(art_emu_aclrtSetStreamOverflowSwitch(stream, 2), 100000);
  CHECK_EQ(art_emu_aclrtSetStreamOverflowSwitch(stream, 1), 0);
  CHECK_EQ(art_emu_aclrtGetStreamOverflowSwitch(stream, &number), 0);
  CHECK_EQ(number, 1U);
  CHECK_EQ(art_emu_aclrtDestroyStream(nullptr), 100000);
  CHECK_EQ(art_emu_aclrtDestroyStream(stream), 0);
  CHECK_EQ(art_emu_aclrtDestroyStream(stream), 107017);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream), 107017);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream, 0), 107017);  // handle before 0
}

TEST(stream_entries_of_device_driven_streams) {
  const Device device;
  const OwnStream stream(ACL_STREAM_PERSISTENT);
  std::thread other([&] {  // without a context
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
    CHECK_EQ(art_emu_aclrtStreamQuery(stream.handle, &status), 0);
    CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
  });
  other.join();
}

TEST(stream_entries_attributes) {
  const Device device;
  const OwnStream stream;
  aclrtStreamAttrValue value{};
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(stream.handle, ACL_STREAM_ATTR_PRIORITY, nullptr),
           100000);
  value.streamPriority = 5;
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(stream.handle, ACL_STREAM_ATTR_PRIORITY, &value), 0);
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(nullptr, ACL_STREAM_ATTR_PRIORITY, &value), 107000);
  value.streamPriority = 0;
  CHECK_EQ(art_emu_aclrtGetStreamAttribute(stream.handle, ACL_STREAM_ATTR_PRIORITY, &value), 0);
  CHECK_EQ(value.streamPriority, 5U);
  value.userCustomTag = 77;
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(stream.handle, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value),
           0);
  value.userCustomTag = 0;
  CHECK_EQ(art_emu_aclrtGetStreamAttribute(stream.handle, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value),
           0);
  CHECK_EQ(value.userCustomTag, 77U);
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(stream.handle, static_cast<aclrtStreamAttr>(9), &value),
           107000);
  value.failureMode = ACL_STOP_ON_FAILURE;
  CHECK_EQ(art_emu_aclrtSetStreamAttribute(stream.handle, ACL_STREAM_ATTR_FAILURE_MODE, &value), 0);
  CHECK_EQ(art_emu_aclrtSetStreamFailureMode(stream.handle, ACL_CONTINUE_ON_FAILURE), 207000);
}

// The thread for host functions finds that an abort was faster: it waits for the next function.
TEST(host_functions_go_on_after_aborts) {
  const Device device;
  const OwnStream aborted;
  const OwnStream other;
  const auto nothing = [](void*) {};
  for (int i = 0; i < 50'000; ++i) {
    for (int j = 0; j < 3; ++j) {
      CHECK_EQ(art_emu_aclrtLaunchHostFunc(aborted.handle, nothing, nullptr), 0);
    }
    CHECK_EQ(art_emu_aclrtStreamAbort(aborted.handle), 0);
    CHECK_EQ(art_emu_aclrtLaunchHostFunc(other.handle, nothing, nullptr), 0);
    const aclError code = art_emu_aclrtSynchronizeStreamWithTimeout(other.handle, 5000);
    CHECK_EQ(code, 0);
    if (code != 0) return;
  }
}

}  // namespace
