#include "core/state_callback.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {
namespace {

template <class Function>
class Watchers {
 public:
  void set(const char* name, Function function, void* data) {
    const std::lock_guard lock(mutex_);
    if (function == nullptr) {
      by_name_.erase(name);
    } else if (!by_name_.emplace(name, Entry{function, data}).second) {
      base::fail(ACL_ERROR_RT_PARAM_INVALID,
                 "the name '" + std::string(name) +
                     "' is registered already; take it back with a null function first");
    }
    any_.store(!by_name_.empty(), std::memory_order_release);
  }

  template <class Subject, class State>
  void tell(Subject subject, State state) {
    if (!any_.load(std::memory_order_acquire)) return;
    std::map<std::string, Entry> all;
    {
      const std::lock_guard lock(mutex_);
      all = by_name_;
    }
    for (const auto& [name, each] : all) each.function(subject, state, each.data);
  }

 private:
  struct Entry {
    Function function;
    void* data;
  };

  base::RankedMutex mutex_{base::Rank::kLeaf};
  std::map<std::string, Entry> by_name_;
  std::atomic<bool> any_{false};  // streams come and go without the lock where nobody watches
};

Watchers<aclrtStreamStateCallback>& stream_watchers() {
  static auto* const made = new Watchers<aclrtStreamStateCallback>;  // used until the process ends
  return *made;
}

Watchers<aclrtDeviceStateCallback>& device_watchers() {
  static auto* const made = new Watchers<aclrtDeviceStateCallback>;
  return *made;
}

}  // namespace

void watch_streams(const char* name, aclrtStreamStateCallback function, void* data) {
  stream_watchers().set(name, function, data);
}

void watch_devices(const char* name, aclrtDeviceStateCallback function, void* data) {
  device_watchers().set(name, function, data);
}

void tell_created(Stream& stream) {
  stream.announced.store(true, std::memory_order_relaxed);
  stream_watchers().tell(stream.handle(), ACL_RT_STREAM_STATE_CREATE_POST);
}

void tell_ending(Stream& stream) {
  if (!stream.announced.exchange(false, std::memory_order_relaxed)) return;
  stream_watchers().tell(stream.handle(), ACL_RT_STREAM_STATE_DESTROY_PRE);
}

void tell_ending(const Context& context, void (*between)(const Device&)) {
  if (const auto main = context.default_stream()) tell_ending(*main);
  if (between != nullptr) between(context.device());
  for (const auto& stream : context.streams()) tell_ending(*stream);
}

void tell_device(const Device& device, aclrtDeviceState state) {
  device_watchers().tell(runtime().user_id(device), state);
}

void tell_opening(const Device& device) {
  if (Context::on_device(device).empty()) tell_device(device, ACL_RT_DEVICE_STATE_SET_PRE);
}

}  // namespace ascendrt::core
