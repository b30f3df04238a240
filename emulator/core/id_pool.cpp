#include "core/id_pool.hpp"

#include <algorithm>
#include <deque>

#include "core/runtime.hpp"
#include "memory/machine.hpp"

namespace ascendrt::core {

using memory::IdKind;

int32_t IdPool::draw_and_take() {
  const std::lock_guard one(drawing_);
  {
    const std::lock_guard lock(mutex_);
    if (const int32_t id = take_drawn(); id >= 0) return id;  // drawn by another thread
  }
  const uint32_t drawn =
      memory::machine().draw_ids(account_->device, account_->kind, kDraw, limit_);
  const std::lock_guard lock(mutex_);
  drawn_ += drawn;
  publish();
  return take_drawn();
}

void IdPool::give_back() {
  uint32_t idle = 0;
  {
    const std::lock_guard lock(mutex_);
    idle = drawn_ - used();
    drawn_ -= idle;
    publish();
  }
  if (idle == 0) return;
  memory::machine().ledger().return_ids(static_cast<uint32_t>(account_->device), account_->kind,
                                        idle);
}

uint32_t IdPool::available() const {
  const uint64_t others =
      account_ ? memory::machine().ids_of_others(account_->device, account_->kind) : 0;
  const std::lock_guard lock(mutex_);
  const uint64_t taken = used() + others;
  return taken < limit_ ? static_cast<uint32_t>(limit_ - taken) : 0;
}

std::string IdPool::all_taken() const {
  const uint64_t others =
      account_ ? memory::machine().ids_of_others(account_->device, account_->kind) : 0;
  std::string text = "all " + std::to_string(limit_) + " are taken";
  if (others != 0) text += ", " + std::to_string(others) + " of them by other processes";
  return text;
}

namespace {

struct DevicePools {
  DevicePools(const gen::Soc& soc, int32_t device)
      : streams(static_cast<uint32_t>(soc.streams), {{device, IdKind::kStream}}),
        events(static_cast<uint32_t>(soc.events), {{device, IdKind::kEvent}}),
        notifies(static_cast<uint32_t>(soc.notifies), {{device, IdKind::kNotify}}) {}
  IdPool streams;
  IdPool events;
  IdPool notifies;
};

std::deque<DevicePools>& all_pools() {
  // Leaked on purpose: leases may be given back during process exit.
  static auto* const all = [] {
    auto* made = new std::deque<DevicePools>;
    for (uint32_t i = 0; i < runtime().physical_device_count(); ++i) {
      const auto device = static_cast<int32_t>(i);
      made->emplace_back(runtime().physical_device(device).soc(), device);
    }
    return made;
  }();
  return *all;
}

void give_back_idle_ids() {
  for (DevicePools& pools : all_pools()) {
    pools.streams.give_back();
    pools.events.give_back();
    pools.notifies.give_back();
  }
}

DevicePools& pools(int32_t device) {
  static const bool told = [] {
    all_pools();
    memory::machine().return_idle_ids_with(give_back_idle_ids);
    return true;
  }();
  static_cast<void>(told);
  return all_pools()[static_cast<size_t>(device)];
}

}  // namespace

IdPool& stream_ids(int32_t device) { return pools(device).streams; }
IdPool& event_ids(int32_t device) { return pools(device).events; }
IdPool& notify_ids(int32_t device) { return pools(device).notifies; }

}  // namespace ascendrt::core
