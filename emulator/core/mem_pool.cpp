#include "core/mem_pool.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/memory.hpp"

namespace ascendrt::core {
namespace {

// Pools that exist, for what looks for a block or trims.
struct Registry {
  base::RankedMutex mutex{base::Rank::kRegistry};
  std::set<MemPool*> pools;
  std::atomic<size_t> count{0};
};

Registry& registry() {
  static auto* const made = new Registry;  // leaked: used from the client's static destructors
  return *made;
}

std::vector<base::Ref<MemPool>> all_pools() {
  Registry& all = registry();
  std::vector<base::Ref<MemPool>> pools;
  if (all.count.load(std::memory_order_acquire) == 0) return pools;
  const std::lock_guard lock(all.mutex);
  for (MemPool* pool : all.pools) pools.emplace_back(pool);
  return pools;
}

[[noreturn]] void refuse(const std::string& text) { base::fail(ACL_ERROR_RT_PARAM_INVALID, text); }

}  // namespace

base::Ref<MemPool> MemPool::create(int32_t device, uint64_t most_bytes) {
  base::Ref<MemPool> made(new MemPool(device, most_bytes));
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.pools.insert(made.get());
  all.count.store(all.pools.size(), std::memory_order_release);
  made->retain();  // by the registry, until it is destroyed and empty
  return made;
}

MemPool::~MemPool() {
  for (const Free& block : free_) memory::free_device(block.address);
}

void MemPool::destroy(void* handle) {
  const auto pool = base::handles().remove<MemPool>(handle);
  if (!pool) refuse("argument memPool is no live memory pool: it was destroyed, or never was one");
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    all.pools.erase(pool.get());
    all.count.store(all.pools.size(), std::memory_order_release);
  }
  pool->trim(0);
  pool->release();
}

base::Ref<MemPool> MemPool::of_handle(void* handle) {
  auto pool = base::handles().get<MemPool>(handle);
  if (!pool) refuse("argument memPool is no live memory pool: it was destroyed, or never was one");
  return pool;
}

base::Ref<MemPool> MemPool::of_block(void* address) {
  for (const auto& pool : all_pools()) {
    const std::lock_guard lock(pool->mutex_);
    if (pool->used_.contains(address)) return pool;
  }
  return nullptr;
}

void* MemPool::allocate(uint64_t bytes, const base::Ref<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const bool fits = it->bytes >= bytes && it->bytes <= 2 * bytes;
    const bool ready = it->stream == stream->handle() || it->pending.expired();
    if (fits && ready && (best == free_.end() || it->bytes < best->bytes)) best = it;
  }
  void* address = nullptr;
  if (best != free_.end()) {
    address = best->address;
    bytes = best->bytes;
    free_.erase(best);
  } else {
    if (bytes > most_ - std::min(most_, reserved_)) {
      base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                 "the memory pool holds " + std::to_string(reserved_) + " of at most " +
                     std::to_string(most_) + " bytes, " + std::to_string(bytes) +
                     " more do not fit; free blocks, or trim the pool");
    }
    address = memory::allocate_device(device_, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    reserved_ += bytes;
  }
  used_.emplace(address, bytes);
  in_use_ += bytes;
  auto& high = values_[ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH];
  high = std::max(high, reserved_);
  auto& used_high = values_[ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH];
  used_high = std::max(used_high, in_use_);
  return address;
}

void MemPool::free(void* address, const base::Ref<Stream>& stream) {
  auto pending = std::make_shared<int>(0);
  {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(address);
    if (found == used_.end()) refuse("the block was freed before");
    free_.push_back({address, found->second, stream->handle(), pending});
    in_use_ -= found->second;
    used_.erase(found);
  }
  // The body is destroyed when it has run, and also when the stream drops it; until then the pool
  // lives, and the block with it.
  stream->submit(Engine::kAicpu, "free to the pool",
                 [held = std::move(pending), pool = base::Ref<MemPool>(this)]() -> base::Code {
                   return *held;
                 });
}

void MemPool::trim(uint64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end() && reserved_ > keep_bytes;) {
    if (!it->pending.expired()) {
      ++it;
      continue;
    }
    memory::free_device(it->address);
    reserved_ -= it->bytes;
    it = free_.erase(it);
  }
}

uint64_t MemPool::attribute(int32_t attr) const {
  const std::lock_guard lock(mutex_);
  if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) return reserved_;
  if (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) return in_use_;
  if (attr >= 1 && attr <= ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH) return values_[attr];
  refuse("argument attr is " + std::to_string(attr) + ", not within 1..8");
}

void MemPool::set_attribute(int32_t attr, uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (attr < 1 || attr > ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH ||
      attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT ||
      attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) {
    refuse("attribute " + std::to_string(attr) + " cannot be set");
  }
  if (attribute_is_switch(attr)) value = value == 0 ? 0 : 1;
  if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD && value > most_) {
    refuse("the threshold is above the size of the pool, " + std::to_string(most_) + " bytes");
  }
  if (attr > ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD && value != 0) {
    refuse("a peak can only be set to 0");
  }
  values_[attr] = value;
}

void trim_pools() {
  for (const auto& pool : all_pools()) {
    pool->trim(pool->attribute(ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD));
  }
}

}  // namespace ascendrt::core
