#include "core/device.hpp"

#include <mutex>
#include <string>

#include "base/error.hpp"
#include "core/context.hpp"
#include "core/state_callback.hpp"
#include "core/stream.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

[[noreturn]] void refuse_no_reference(int32_t index) {
  base::fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
             "device " + std::to_string(index) +
                 " has no reference left: aclrtResetDevice was called more often than "
                 "aclrtSetDevice, or after aclrtResetDeviceForce");
}

}  // namespace

Device::Device(int32_t index, const gen::Soc& soc) : index_(index), soc_(soc) {}
Device::~Device() = default;

base::Ref<Context> Device::retain_primary() {
  if (references() == 0) tell_opening(*this);
  bool made = false;
  {
    const std::lock_guard lock(change_);
    made = references() == 0;
    if (made && !kept_) {
      kept_ = Context::create(*this, true);
    } else if (made) {
      kept_->revive();
    }
    const std::lock_guard state(mutex_);
    ++references_;
    active_.store(kept_.get(), std::memory_order_release);
  }
  const auto main = made ? kept_->default_stream() : nullptr;
  if (main) tell_created(*main);
  return kept_;
}

// Before the last reference goes, while all can still be used: without a lock, so that a callback
// may set the device again, which the caller then finds.
void Device::tell_last_release(uint32_t last) const {
  const auto context = references() <= last ? primary() : nullptr;
  if (!context) return;
  tell_ending(*context,
              [](const Device& device) { tell_device(device, ACL_RT_DEVICE_STATE_RESET_PRE); });
}

bool Device::release_primary() {
  tell_last_release(1);
  {
    const std::lock_guard lock(change_);
    {
      const std::lock_guard state(mutex_);
      if (references_ == 0) refuse_no_reference(index_);
      if (--references_ > 0) return false;
      active_.store(nullptr, std::memory_order_release);
    }
    kept_->tear_down(false);
  }
  tell_device(*this, ACL_RT_DEVICE_STATE_RESET_POST);
  return true;
}

void Device::release_primary_forced() {
  tell_last_release(UINT32_MAX);
  {
    const std::lock_guard lock(change_);
    {
      const std::lock_guard state(mutex_);
      if (references_ == 0) refuse_no_reference(index_);
      references_ = 0;
      active_.store(nullptr, std::memory_order_release);
    }
    kept_->tear_down(false);
  }
  tell_device(*this, ACL_RT_DEVICE_STATE_RESET_POST);
}

uint32_t Device::references() const {
  const std::lock_guard state(mutex_);
  return references_;
}

base::Ref<Context> Device::primary() const {
  const std::lock_guard state(mutex_);
  return references_ > 0 ? kept_ : nullptr;
}

}  // namespace ascendrt::core
