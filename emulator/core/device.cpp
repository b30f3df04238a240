#include "core/device.hpp"

#include <mutex>
#include <string>

#include "base/error.hpp"
#include "core/context.hpp"
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
  const std::lock_guard lock(change_);
  if (references() == 0) {
    if (!kept_) {
      kept_ = Context::create(*this, true);
    } else {
      kept_->revive();
    }
  }
  const std::lock_guard state(mutex_);
  ++references_;
  active_.store(kept_.get(), std::memory_order_release);
  return kept_;
}

bool Device::release_primary() {
  const std::lock_guard lock(change_);
  {
    const std::lock_guard state(mutex_);
    if (references_ == 0) refuse_no_reference(index_);
    if (--references_ > 0) return false;
    active_.store(nullptr, std::memory_order_release);
  }
  kept_->tear_down(false);
  return true;
}

void Device::release_primary_forced() {
  const std::lock_guard lock(change_);
  {
    const std::lock_guard state(mutex_);
    if (references_ == 0) refuse_no_reference(index_);
    references_ = 0;
    active_.store(nullptr, std::memory_order_release);
  }
  kept_->tear_down(false);
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
