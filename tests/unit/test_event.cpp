// Events through the C entries: the rules of the three kinds, per chip where one process can show
// it.
#include <cmath>
#include <thread>
#include <vector>

#include "clock/clock.hpp"
#include "core/event.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "test.hpp"

namespace {

using namespace ascendrt;

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kSyncTime = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE;

struct Device {
  Device() { CHECK_EQ(art_emu_aclrtSetDevice(0), 0); }
  ~Device() { art_emu_aclrtResetDevice(0); }
};

struct OwnStream {
  OwnStream() { CHECK_EQ(art_emu_aclrtCreateStream(&handle), 0); }
  ~OwnStream() { art_emu_aclrtDestroyStreamForce(handle); }
  void busy(int64_t ms) const {
    core::stream_behind(handle)->submit(core::Engine::kCube, "busy", [ms]() -> base::Code {
      clock::sleep_ns(ms * kMs);
      return 0;
    });
  }
  aclrtStream handle = nullptr;
};

aclrtEvent plain() {
  aclrtEvent event = nullptr;
  CHECK_EQ(art_emu_aclrtCreateEvent(&event), 0);
  return event;
}
aclrtEvent flagged(uint32_t flag = kSyncTime) {
  aclrtEvent event = nullptr;
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, flag), 0);
  return event;
}
aclrtEvent ex(uint32_t flag = kSyncTime) {
  aclrtEvent event = nullptr;
  CHECK_EQ(art_emu_aclrtCreateEventExWithFlag(&event, flag), 0);
  return event;
}
void destroy(std::initializer_list<aclrtEvent> events) {
  for (aclrtEvent event : events) CHECK_EQ(art_emu_aclrtDestroyEvent(event), 0);
}

int query(aclrtEvent event) {
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  const int code = art_emu_aclrtQueryEvent(event, &status);
  return code != 0 ? code : static_cast<int>(status);
}
int query_status(aclrtEvent event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  const int code = art_emu_aclrtQueryEventStatus(event, &status);
  return code != 0 ? code : static_cast<int>(status);
}
int query_wait(aclrtEvent event) {
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
  const int code = art_emu_aclrtQueryEventWaitStatus(event, &status);
  return code != 0 ? code : static_cast<int>(status);
}

TEST(event_creation_codes) {
  aclrtEvent event = nullptr;
  CHECK_EQ(art_emu_aclrtCreateEvent(nullptr), 100000);
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(nullptr, 1), 100000);
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, 0), 107000);  // flags before the context
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, 0x40), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, 0x11), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, 0x21), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventExWithFlag(&event, 0), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventExWithFlag(&event, 0x10), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventExWithFlag(&event, 0x41), 107000);
  CHECK_EQ(art_emu_aclrtCreateEventExWithFlag(&event, 1), 107002);
  CHECK_EQ(art_emu_aclrtCreateEvent(&event), 107002);
}

TEST(event_destroy_codes) {
  const Device device;
  aclrtEvent event = plain();
  aclrtStream stream = nullptr;
  CHECK_EQ(art_emu_aclrtCreateStream(&stream), 0);
  CHECK_EQ(art_emu_aclrtDestroyEvent(nullptr), 100000);
  CHECK_EQ(art_emu_aclrtDestroyEvent(stream), 107017);
  CHECK_EQ(art_emu_aclrtDestroyEvent(event), 0);
  CHECK_EQ(art_emu_aclrtDestroyEvent(event), 107017);
  CHECK_EQ(art_emu_aclrtRecordEvent(event, nullptr), 107017);
  CHECK_EQ(art_emu_aclrtDestroyStream(stream), 0);
}

TEST(event_record_and_queries) {
  const Device device;
  const OwnStream stream;
  const aclrtEvent p = plain();
  const aclrtEvent f = flagged();
  const aclrtEvent e = ex();
  CHECK_EQ(query(p), ACL_EVENT_STATUS_COMPLETE);  // never recorded
  CHECK_EQ(query_status(p), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_EQ(query_status(f), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_EQ(query_status(e), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  CHECK_EQ(query(e), 207000);
  CHECK_EQ(query_wait(e), 207000);
  stream.busy(40);
  for (const aclrtEvent event : {p, f, e}) {
    CHECK_EQ(art_emu_aclrtRecordEvent(event, stream.handle), 0);
    CHECK_EQ(query_status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  }
  CHECK_EQ(query(p), ACL_EVENT_STATUS_NOT_READY);
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(p, 5), 507047);
  CHECK_EQ(art_emu_aclrtSynchronizeEvent(e), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(p, 1000), 0);
  CHECK_EQ(query(p), ACL_EVENT_STATUS_COMPLETE);
  CHECK_EQ(query_status(f), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  destroy({p, f, e});
}

TEST(event_synchronize_codes) {
  const Device device;
  const aclrtEvent p = plain();
  CHECK_EQ(art_emu_aclrtSynchronizeEvent(nullptr), 100000);
  CHECK_EQ(art_emu_aclrtSynchronizeEvent(p), 0);  // never recorded
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(nullptr, -2), 107000);
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(nullptr, 0), 100000);
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(p, 0), 107000);
  const aclrtEvent external = flagged(ACL_EVENT_EXTERNAL);
  CHECK_EQ(art_emu_aclrtSynchronizeEvent(external), 207000);
  CHECK_EQ(query(external), 207000);
  CHECK_EQ(query_status(external), 207000);
  CHECK_EQ(query_wait(external), 207000);
  destroy({p, external});
  CHECK_EQ(art_emu_aclrtSynchronizeEventWithTimeout(p, 0), 107017);
}

TEST(event_waits_of_streams) {
  const Device device;
  const OwnStream a;
  const OwnStream b;
  const aclrtEvent p = plain();
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, nullptr), 100000);
  CHECK_EQ(art_emu_aclrtStreamWaitEventWithTimeout(b.handle, nullptr, 1), 107000);
  CHECK_EQ(art_emu_aclrtStreamWaitEventWithTimeout(b.handle, p, -1), 107000);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, p), 107000);  // plain, never recorded
  const aclrtEvent timed = flagged(ACL_EVENT_TIME_LINE);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, timed), 207000);
  CHECK_EQ(art_emu_aclrtResetEvent(timed, b.handle), 207000);
  const aclrtEvent f = flagged();
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, f), 0);  // blocks until a later record
  CHECK_EQ(query_wait(f), ACL_EVENT_WAIT_STATUS_NOT_READY);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(b.handle, 10), 507046);
  CHECK_EQ(art_emu_aclrtRecordEvent(f, a.handle), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(b.handle), 0);
  CHECK_EQ(query_wait(f), ACL_EVENT_WAIT_STATUS_COMPLETE);
  CHECK_EQ(art_emu_aclrtResetEvent(f, a.handle), 0);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, f), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(b.handle, 10), 507046);
  destroy({p, timed, f});  // b stays blocked; it ends by force
}

TEST(event_wait_with_time_limit) {
  const Device device;
  const OwnStream stream;
  const aclrtEvent f = flagged();
  CHECK_EQ(art_emu_aclrtStreamWaitEventWithTimeout(stream.handle, f, 1), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStreamWithTimeout(stream.handle, 100), 507046);
  const int64_t start = clock::now_ns();
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 107019);
  CHECK(clock::now_ns() - start < 2500 * kMs);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  CHECK_EQ(art_emu_aclrtSetOpWaitTimeout(1), 0);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(stream.handle, f), 0);
  CHECK_EQ(art_emu_aclrtSetOpWaitTimeout(0), 0);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 107019);
  destroy({f});
}

TEST(event_refusals_by_flag) {
  const Device device;
  const aclrtEvent device_only = flagged(ACL_EVENT_DEVICE_USE_ONLY);
  CHECK_EQ(art_emu_aclrtRecordEvent(device_only, nullptr), 107000);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(nullptr, device_only), 107000);
  CHECK_EQ(art_emu_aclrtResetEvent(device_only, nullptr), 107000);
  const aclrtEvent ipc = ex(ACL_EVENT_IPC);
  CHECK_EQ(art_emu_aclrtResetEvent(ipc, nullptr), 207000);
  CHECK_EQ(query_wait(ipc), 207000);
  const aclrtEvent e = ex();
  CHECK_EQ(art_emu_aclrtResetEvent(e, nullptr), 207000);
  const aclrtEvent p = plain();
  float ms = 0;
  CHECK_EQ(art_emu_aclrtEventElapsedTime(&ms, ipc, p), 207000);
  CHECK_EQ(art_emu_aclrtEventElapsedTime(&ms, p, e), 507000);  // never recorded
  CHECK_EQ(art_emu_aclrtEventElapsedTime(nullptr, p, p), 100000);
  destroy({device_only, ipc, e, p});
}

TEST(event_times) {
  const Device device;
  const OwnStream stream;
  const aclrtEvent start = plain();
  const aclrtEvent end = ex();
  float ms = -1;
  uint64_t stamp = 0;
  CHECK_EQ(art_emu_aclrtEventGetTimestamp(start, &stamp), 507000);
  CHECK_EQ(art_emu_aclrtRecordEvent(start, stream.handle), 0);
  stream.busy(20);
  CHECK_EQ(art_emu_aclrtRecordEvent(end, stream.handle), 0);
  CHECK_EQ(art_emu_aclrtEventElapsedTime(&ms, start, end), 107006);
  CHECK_EQ(art_emu_aclrtEventGetTimestamp(end, &stamp), 107006);
  CHECK_EQ(art_emu_aclrtSynchronizeStream(stream.handle), 0);
  CHECK_EQ(art_emu_aclrtEventElapsedTime(&ms, start, end), 0);
  CHECK(ms >= 19.9F && ms < 2000.0F);
  float reversed = 0;
  CHECK_EQ(art_emu_aclrtEventElapsedTime(&reversed, end, start), 0);
  CHECK_EQ(reversed, -ms);
  uint64_t first = 0;
  CHECK_EQ(art_emu_aclrtEventGetTimestamp(start, &first), 0);
  CHECK_EQ(art_emu_aclrtEventGetTimestamp(end, &stamp), 0);
  CHECK(std::fabs(static_cast<double>(stamp - first) / 1000.0 - ms) < 0.01);
  destroy({start, end});
}

TEST(event_destroyed_while_pending) {
  const Device device;
  const OwnStream a;
  const OwnStream b;
  a.busy(20);
  const aclrtEvent event = ex();
  CHECK_EQ(art_emu_aclrtRecordEvent(event, a.handle), 0);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(b.handle, event), 0);
  destroy({event});
  CHECK_EQ(art_emu_aclrtSynchronizeStream(b.handle), 0);
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  CHECK_EQ(art_emu_aclrtStreamQuery(a.handle, &status), 0);
  CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST(event_ids) {
  const Device device;
  uint32_t before = 0;
  CHECK_EQ(art_emu_aclrtGetEventAvailNum(&before), 0);
  const aclrtEvent f = flagged();
  const aclrtEvent timed = flagged(ACL_EVENT_TIME_LINE);
  const aclrtEvent p = plain();
  uint32_t now = 0;
  CHECK_EQ(art_emu_aclrtGetEventAvailNum(&now), 0);
  CHECK_EQ(before - now, 1U);  // only the flag event with SYNC takes an id at creation
  uint32_t id = 0;
  CHECK_EQ(art_emu_aclrtGetEventId(f, &id), 0);
  CHECK_EQ(art_emu_aclrtGetEventId(timed, &id), 507000);
  CHECK_EQ(art_emu_aclrtGetEventId(p, &id), 507000);
  CHECK_EQ(art_emu_aclrtRecordEvent(p, nullptr), 0);
  CHECK_EQ(art_emu_aclrtGetEventId(p, &id), 0);
  destroy({f, timed, p});
  CHECK_EQ(art_emu_aclrtGetEventAvailNum(&now), 0);
  CHECK_EQ(before, now);
}

TEST(event_ids_run_out) {
  const Device device;
  uint32_t available = 0;
  CHECK_EQ(art_emu_aclrtGetEventAvailNum(&available), 0);
  std::vector<aclrtEvent> all(available);
  for (auto& event : all) event = flagged(ACL_EVENT_SYNC);
  aclrtEvent event = nullptr;
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), 207007);
  CHECK_EQ(art_emu_aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE), 0);
  destroy({event});
  // A record needs an id too: it waits until one is free.
  const aclrtEvent waiting = ex();
  std::thread other([last = all.back()] {
    clock::sleep_ns(10 * kMs);
    art_emu_aclrtDestroyEvent(last);
  });
  CHECK_EQ(art_emu_aclrtRecordEvent(waiting, nullptr), 0);
  other.join();
  CHECK_EQ(art_emu_aclrtSynchronizeEvent(waiting), 0);
  all.pop_back();
  for (aclrtEvent one : all) CHECK_EQ(art_emu_aclrtDestroyEvent(one), 0);
  destroy({waiting});
}

TEST(event_record_on_a_stream_of_another_context) {
  const Device device;
  const OwnStream stream;
  const aclrtEvent event = ex();
  aclrtContext context = nullptr;
  CHECK_EQ(art_emu_aclrtCreateContext(&context, 0), 0);
  CHECK_EQ(art_emu_aclrtRecordEvent(event, stream.handle), 107003);
  CHECK_EQ(art_emu_aclrtStreamWaitEvent(stream.handle, event), 107003);
  CHECK_EQ(art_emu_aclrtDestroyContext(context), 0);
  CHECK_EQ(art_emu_aclrtRecordEvent(event, nullptr), 107002);
  CHECK_EQ(art_emu_aclrtDestroyEvent(event), 0);  // needs no context
  CHECK_EQ(art_emu_aclrtSetDevice(0), 0);
  art_emu_aclrtResetDevice(0);
}

}  // namespace
