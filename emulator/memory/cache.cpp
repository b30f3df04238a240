#include "memory/cache.hpp"

#include <pthread.h>

#include "memory/arena.hpp"
#include "memory/pool.hpp"

namespace ascendrt::memory {

constinit thread_local Lanes t_lanes __attribute__((tls_model("initial-exec")));

Cache::Cache(Pool& pool, Heap& heap, std::byte* client, uint16_t home, uint64_t padding)
    : heap_(heap), client_(client), padding_(padding), home_(home), pool_(pool) {}

// The caches of one thread. Its end gives their contents to the pools.
struct CacheList {
  std::vector<Cache*> all;
  ~CacheList() {
    t_lanes = {};
    ended = true;
    for (Cache* cache : all) cache->pool_.detach(*cache);
  }
  static thread_local bool ended;  // plain: may be read after the list is gone
};
thread_local bool CacheList::ended = false;

namespace {

thread_local CacheList t_caches;

// The lanes of the forking thread must not lead around the refusal of forked children.
void forget_lanes_in_children() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { t_lanes = {}; });
  static_cast<void>(registered);
}

}  // namespace

// This thread's cache of the pool, made at the first call; null at the end of a thread.
Cache* Pool::mine() {
  if (CacheList::ended) return nullptr;
  auto& all = t_caches.all;
  for (Cache* cache : all) {
    if (&cache->pool_ == this && !cache->dead_.load(std::memory_order_acquire)) return cache;
  }
  forget_lanes_in_children();
  // Caches of pools that closed go when the thread meets a new pool.
  std::erase_if(all, [](Cache* cache) {
    if (!cache->dead_.load(std::memory_order_acquire)) return false;
    if (t_lanes.give == cache) t_lanes.give = nullptr;
    if (t_lanes.take == cache) t_lanes.take = nullptr;
    delete cache;
    return true;
  });
  all.reserve(all.size() + 1);
  all.push_back(new Cache(*this, heap_, arena_.setup().client, id(), padding_));
  caches_.push_back(all.back());
  all.back()->renew_stamp();
  return all.back();
}

void Cache::renew_stamp() {
  constexpr int64_t kRenewAfter = 4096;
  until_renewal_ = kRenewAfter;
  heap_.stamps().open(stamp_, busy_);
}

void Cache::drop_stamp() {
  if (stamp() != 0) heap_.stamps().close(stamp());
}

void Pool::detach(Cache& cache) {
  cache.drop_stamp();
  {
    const std::lock_guard lock(mutex_);
    if (!cache.dead_.load(std::memory_order_relaxed)) {
      Offsets kept;
      empty(cache, kept);
      for (const uint64_t offset : kept) keep_shared(offset, heap_.spot_of(offset));
      note_peak();
      gone_.add(cache.live_);
      std::erase(caches_, &cache);
      balance(nullptr);
    }
  }
  delete &cache;
}

}  // namespace ascendrt::memory
