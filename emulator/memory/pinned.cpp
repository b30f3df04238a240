#include "memory/pinned.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gen/abi.h"
#include "memory/arena.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kAlignment =
    512;  // src: hicann/runtime npu_driver_mem.cc asks the driver for it
constexpr uint64_t kRangeMin = 1ULL << 30;
constexpr uint64_t kRangeAlignment = 2ULL << 20;

}  // namespace

// The range is as large as the host's memory: it can never run out before the host does.
Pinned::Pinned(Budget& budget)
    : budget_(budget),
      bytes_(std::max(kRangeMin, std::bit_ceil(os::host_memory_bytes()))),
      start_(os::reserve(bytes_, kRangeAlignment)),
      heap_(bytes_, *this) {}

void* Pinned::allocate(uint64_t bytes) {
  Heap::Result block{Heap::Outcome::kNoRange, 0};
  if (bytes <= bytes_) {
    budget_.admit(bytes);
    block = heap_.allocate(round_up(bytes, kAlignment));
  }
  if (block.outcome == Heap::Outcome::kOk) {
    heap_.note_slack(block.offset, round_up(bytes, kAlignment) - bytes);
    return start_ + block.offset;
  }
  const std::string reason =
      block.outcome == Heap::Outcome::kRefused
          ? "the host refused it, " + os::last_reason()
          : "the largest free block has " + size_text(heap_.largest_free_bytes());
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no room for " + size_text(bytes) +
                                                 " of pinned host memory: " + reason +
                                                 "; free pinned memory first");
}

void Pinned::free(void* address) {
  const uint64_t offset = offset_of(address);
  if (in_range(address) && heap_.free(offset)) return;
  const std::string what = in_range(address)
                               ? describe(start_, start_ + offset, heap_.find(offset))
                               : "address " + address_text(address) + ", which is no pinned memory";
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "cannot free " + what + "; aclrtFreeHost takes what aclrtMallocHost gave, once");
}

bool Pinned::acquire(Block run, uint8_t /*tag*/, Heap::Home& /*home*/) {
  if (!os::commit(start_ + run.offset, run.bytes)) return false;
  committed_.fetch_add(run.bytes, std::memory_order_relaxed);
  if (!os::lock_on_touch(start_ + run.offset, run.bytes)) {
    base::warn_once("memory.pinned",
                    "pinned host memory is not locked in RAM (" + os::last_reason() +
                        "); copies work all the same, raise 'ulimit -l' to lock it");
  }
  return true;
}

void Pinned::release(Block run, uint8_t /*tag*/, Heap::Home& /*home*/) {
  os::decommit(start_ + run.offset, run.bytes);
  committed_.fetch_sub(run.bytes, std::memory_order_relaxed);
}

void Pinned::add_registered(const void* address, uint64_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto next = registered_.lower_bound(start);
  const bool hits_next = next != registered_.end() && next->first - start < bytes;
  const bool hits_last =
      next != registered_.begin() && start - std::prev(next)->first < std::prev(next)->second;
  if (hits_next || hits_last) {
    base::fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
               "the " + size_text(bytes) + " at " + address_text(address) +
                   " overlap a range that is registered already; unregister that one first");
  }
  registered_.emplace(start, bytes);
  registered_count_.store(registered_.size(), std::memory_order_release);
}

void Pinned::remove_registered(const void* address) {
  const std::lock_guard lock(mutex_);
  if (registered_.erase(reinterpret_cast<uintptr_t>(address)) == 0) {
    base::fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
               "no registered range starts at " + address_text(address) +
                   "; give the address that was registered, once");
  }
  registered_count_.store(registered_.size(), std::memory_order_release);
}

bool Pinned::registered(const void* address) const {
  // acquire: pairs with the release of the registration that the caller knows of.
  if (registered_count_.load(std::memory_order_acquire) == 0) return false;
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto next = registered_.upper_bound(at);
  return next != registered_.begin() && at - std::prev(next)->first < std::prev(next)->second;
}

}  // namespace ascendrt::memory
