// Physical memory and its handles. Must never: map anything.
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/error.hpp"
#include "memory/machine.hpp"
#include "memory/os.hpp"
#include "memory/share.hpp"
#include "memory/text.hpp"
#include "memory/virtual.hpp"

namespace ascendrt::memory {
namespace {

struct Holders {
  base::RankedMutex mutex{base::Rank::kRegistry};
  std::map<void*, uint32_t> counts;  // handle -> references of the client
};

Holders& holders() {
  static auto* const made = new Holders;  // leaked: used from the client's static destructors
  return *made;
}

[[noreturn]] void refuse_handle(const void* handle) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "argument handle (" + address_text(handle) +
                 ") is no live handle of physical memory: it was freed before, or never was one");
}

}  // namespace

Physical::Physical(const aclrtPhysicalMemProp& prop, int32_t device, uint64_t bytes)
    : prop_(prop), device_(device), bytes_(bytes) {}

base::Ref<Physical> Physical::make(const aclrtPhysicalMemProp& prop, int32_t device,
                                   uint64_t asked) {
  const uint64_t capacity = machine().setup().device_bytes;
  // The host's memory has no ledger; a device is the measure of what is sensible there.
  if (asked > capacity && device != kManagedMemory) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               size_text(asked) + " of physical memory are more than a device has, " +
                   size_text(capacity) + "; emulate a larger device with ASCENDRT_HBM_SIZE");
  }
  const uint64_t bytes = (asked + kGranule - 1) / kGranule * kGranule;
  base::Ref<Physical> made(new Physical(prop, device, bytes));
  if (device >= 0) {
    machine().charge(device, Pages::kHuge, bytes);
    made->charged_ = true;
  }
  made->file_ = os::make_memory_file("ascendrt-physical", bytes);
  return made;
}

base::Ref<Physical> Physical::adopt(int file, uint64_t offset, uint64_t bytes, int32_t device,
                                    const aclrtPhysicalMemProp& prop) {
  base::Ref<Physical> made(new Physical(prop, device, bytes));
  made->file_ = file;
  made->offset_ = offset;
  return made;
}

Physical::~Physical() {
  if (const uint64_t shared = token.load(std::memory_order_relaxed)) withdraw(shared);
  if (file_ >= 0) close(file_);
  if (charged_) machine().ledger().release(static_cast<uint32_t>(device_), Pages::kHuge, bytes_);
}

uint64_t Physical::touched_bytes() const {
  return charged_ || device_ == kManagedMemory ? os::touched_bytes(file_) : 0;
}

void* hold(const base::Ref<Physical>& memory) {
  Holders& all = holders();
  const std::lock_guard lock(all.mutex);
  void* handle = memory->handle();
  if (handle == nullptr || !all.counts.contains(handle)) handle = base::handles().insert(memory);
  ++all.counts[handle];
  return handle;
}

base::Ref<Physical> physical_behind(void* handle) {
  auto found = base::handles().get<Physical>(handle);
  if (!found) refuse_handle(handle);
  return found;
}

void let_go(void* handle) {
  base::Ref<Physical> last;  // freed without the lock
  Holders& all = holders();
  const std::lock_guard lock(all.mutex);
  const auto found = all.counts.find(handle);
  if (found == all.counts.end()) refuse_handle(handle);
  if (--found->second > 0) return;
  all.counts.erase(found);
  last = base::handles().remove<Physical>(handle);
}

}  // namespace ascendrt::memory
