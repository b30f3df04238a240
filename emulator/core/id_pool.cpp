#include "core/id_pool.hpp"

#include <deque>

#include "core/runtime.hpp"

namespace ascendrt::core {
namespace {

struct DevicePools {
  explicit DevicePools(const gen::Soc& soc)
      : streams(static_cast<uint32_t>(soc.streams)),
        events(static_cast<uint32_t>(soc.events)),
        notifies(static_cast<uint32_t>(soc.notifies)) {}
  IdPool streams;
  IdPool events;
  IdPool notifies;
};

DevicePools& pools(int32_t device) {
  // Leaked on purpose: leases may be given back during process exit.
  static auto* const all = [] {
    auto* made = new std::deque<DevicePools>;
    for (uint32_t i = 0; i < runtime().physical_device_count(); ++i) {
      made->emplace_back(runtime().physical_device(static_cast<int32_t>(i)).soc());
    }
    return made;
  }();
  return (*all)[static_cast<size_t>(device)];
}

}  // namespace

IdPool& stream_ids(int32_t device) { return pools(device).streams; }
IdPool& event_ids(int32_t device) { return pools(device).events; }
IdPool& notify_ids(int32_t device) { return pools(device).notifies; }

}  // namespace ascendrt::core
