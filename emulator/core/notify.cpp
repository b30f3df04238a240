#include "core/notify.hpp"

#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/graph.hpp"
#include "core/stream.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

struct ConditionWatch : Watch {
  ConditionWatch(base::Function<bool()> asked, base::Function<bool()> by_others)
      : condition(std::move(asked)), others(std::move(by_others)) {}
  bool ready() override { return condition(); }
  bool foreign() override { return others && others(); }
  base::Function<bool()> condition;
  base::Function<bool()> others;
};

IdLease take_id(const Device& device) {
  IdLease lease(notify_ids(device.index()));
  if (lease) return lease;
  base::fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
             "notifies of device " + std::to_string(device.index()) + " (" + device.soc().name +
                 "): " + notify_ids(device.index()).all_taken() +
                 "; destroy notifies that are no longer used");
}

bool holds(int32_t mode, uint32_t count, uint32_t value) {
  switch (mode) {
    case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
      return count < value;
    case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
      return count == value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
      return count > value;
    case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
      return count >= value;
    default:
      return (count & value) == value;
  }
}

}  // namespace

void wait_until(Stream& stream, const char* name, base::Function<bool()> ready, uint32_t timeout_s,
                base::Function<bool()> foreign) {
  Task task;
  task.kind = TaskKind::kWatch;
  task.name = name;
  task.timeout_ns = timeout_s * kNsPerSecond;
  task.extra = base::make_ref<ConditionWatch>(std::move(ready), std::move(foreign));
  stream.enqueue(std::move(task));
}

void change_watched(Stream& stream, const char* name, base::Function<void()> change) {
  stream.submit(Engine::kNone, name, [change = std::move(change)]() mutable -> base::Code {
    change();
    executor().poll_watches();
    return 0;
  });
}

// ---- flags

base::Ref<Notify> Notify::create(Device& device) {
  base::Ref<Notify> notify(new Notify(device));
  notify->lease_ = take_id(device);
  base::handles().insert(notify);
  return notify;
}

base::Ref<Notify> Notify::open(Device& device, uint64_t token) {
  base::Ref<Notify> notify(new Notify(device));
  notify->shared_ = memory::SharedWords::open(token);
  notify->lease_ = take_id(device);
  base::handles().insert(notify);
  return notify;
}

uint64_t Notify::exchange(uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (!shared_) return std::exchange(own_, value);
  const auto word = shared_->word(0);
  if (word.load(std::memory_order_relaxed) == value) return value;
  return word.exchange(value, std::memory_order_acq_rel);
}

bool Notify::shared() {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(shared_);
}

void Notify::record(Stream& stream) {
  change_watched(stream, "aclrtRecordNotify",
                 [self = base::Ref<Notify>(this)] { self->exchange(1); });
}

void Notify::wait_and_reset(Stream& stream, uint32_t timeout_s) {
  wait_until(
      stream, "aclrtWaitAndResetNotify",
      [self = base::Ref<Notify>(this)] { return self->exchange(0) != 0; }, timeout_s,
      [self = base::Ref<Notify>(this)] { return self->shared(); });
}

void Notify::reset() { exchange(0); }

uint64_t Notify::share(memory::Pids pids) {
  base::Ref<memory::SharedWords> words;
  {
    const std::lock_guard lock(mutex_);
    words = shared_;
  }
  if (!words) words = memory::SharedWords::make(pids);
  const std::lock_guard lock(mutex_);
  if (!shared_) {
    words->word(0).store(own_, std::memory_order_release);
    shared_ = words;
  }
  return shared_->token();
}

void Notify::allow(const int32_t* pids, size_t count) {
  base::Ref<memory::SharedWords> words;
  {
    const std::lock_guard lock(mutex_);
    words = shared_;
  }
  if (!words || words->imported()) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the notify is not exported by this process; call aclrtNotifyGetExportKey first");
  }
  memory::allow(words->token(), pids, count);
}

// ---- counts

base::Ref<CntNotify> CntNotify::create(Device& device) {
  auto notify = base::make_ref<CntNotify>();
  notify->lease_ = take_id(device);
  base::handles().insert(notify);
  return notify;
}

void CntNotify::record(Stream& stream, int32_t mode, uint32_t value) {
  change_watched(stream, "aclrtCntNotifyRecord", [self = base::Ref<CntNotify>(this), mode, value] {
    switch (mode) {
      case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
        self->count_.fetch_add(value);
        break;
      case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
        self->count_.fetch_or(value);
        break;
      case ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
        self->count_.fetch_and(value);
        break;
      default:
        self->count_.store(value);
    }
  });
}

void CntNotify::wait(Stream& stream, int32_t mode, uint32_t value, bool clear, uint32_t timeout_s) {
  wait_until(stream, "aclrtCntNotifyWait",
             [self = base::Ref<CntNotify>(this), mode, value, clear] {
               uint32_t count = self->count_.load();
               do {
                 if (!holds(mode, count, value)) return false;
               } while (clear && !self->count_.compare_exchange_weak(count, 0));
               return true;
             },
             timeout_s, {});
}

}  // namespace ascendrt::core
