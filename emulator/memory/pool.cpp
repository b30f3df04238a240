#include "memory/pool.hpp"

#include <sched.h>

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/arena.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint32_t kRefill = 16;
constexpr uint64_t kBatchBytes = 1ULL << 20;  // runs are handed between threads in such batches

int64_t positive(int64_t value) { return std::max<int64_t>(value, 0); }

}  // namespace

void Pool::Figures::add(const Figures& other) {
  live_bytes += other.live_bytes;
  live_span += other.live_span;
  live_huge += other.live_huge;
  blocks += other.blocks;
  peak_bytes += other.peak_bytes;
  thread_cached += other.thread_cached;
  pool_cached += other.pool_cached;
  credit += other.credit;
  reserved.normal += other.reserved.normal;
  reserved.huge += other.reserved.huge;
}

Pool::Pool(Arena& arena, uint16_t id, const MemorySettings& settings)
    : Home(id), arena_(arena), heap_(arena.heap()), settings_(settings) {}

void Pool::open(uint32_t context, uint64_t padding) {
  const std::lock_guard lock(mutex_);
  if (settings_.pool_bytes > 0) {
    if (!arena_.charge({0, settings_.pool_bytes})) arena_.refuse_pool(settings_.pool_bytes);
    credit_.huge = settings_.pool_bytes;
  }
  context_ = context;
  padding_ = padding;
  peak_ = 0;
  open_.store(true, std::memory_order_relaxed);
}

int64_t Pool::live(Counter Tally::* part) const {
  int64_t sum = (gone_.*part).get();
  for (const Cache* cache : caches_) sum += (cache->live_.*part).get();
  return sum;
}

// Reserved and not live.
int64_t Pool::idle() const {
  return static_cast<int64_t>(reserved_.total()) - live(&Tally::span) +
         positive(static_cast<int64_t>(credit_.total() - settings_.pool_bytes));
}

int64_t Pool::allowance() const {
  const int64_t held = live(&Tally::bytes);
  const int64_t few =
      static_cast<int64_t>(std::min(settings_.cache_bytes, arena_.setup().bytes / 4));
  if (held <= static_cast<int64_t>(MemorySettings::kFragmentationFrom)) return few;
  return held / 100 * static_cast<int64_t>(settings_.fragmentation_percent);
}

bool Pool::pay(Parts parts) {
  const auto missing = [&] {
    return Parts{parts.normal - std::min(parts.normal, credit_.normal),
                 parts.huge - std::min(parts.huge, credit_.huge)};
  };
  Parts need = missing();
  if (need.total() > 0 && credit_.total() >= parts.total()) {
    // Enough is in hand, in the other kind of pages.
    Parts swap = need.normal > 0 ? Parts{0, need.normal} : Parts{need.huge, 0};
    arena_.uncharge(swap);
    credit_.normal -= swap.normal;
    credit_.huge -= swap.huge;
    if (arena_.charge(need)) {
      credit_.normal += need.normal;
      credit_.huge += need.huge;
    }
    need = missing();
  }
  if (need.total() > 0) {
    const uint64_t step = settings_.growth_bytes;
    const Parts more{need.normal > 0 ? std::max(need.normal, step) : 0,
                     need.huge > 0 ? std::max(need.huge, step) : 0};
    Parts drawn = more;
    if (!arena_.charge(more)) {
      drawn = need;
      if (!arena_.charge(need)) return false;
    }
    credit_.normal += drawn.normal;
    credit_.huge += drawn.huge;
  }
  credit_.normal -= parts.normal;
  credit_.huge -= parts.huge;
  reserved_.normal += parts.normal;
  reserved_.huge += parts.huge;
  return true;
}

void Pool::refund(Parts parts) {
  credit_.normal += parts.normal;
  credit_.huge += parts.huge;
  reserved_.normal -= parts.normal;
  reserved_.huge -= parts.huge;
}

void Pool::give_back_credit(uint64_t keep) {
  keep = std::max(keep, is_open() ? settings_.pool_bytes : 0);
  const uint64_t total = credit_.total();
  if (total <= keep) return;
  const uint64_t normal = std::min(credit_.normal, total - keep);
  const Parts part{normal, total - keep - normal};
  credit_.normal -= part.normal;
  credit_.huge -= part.huge;
  arena_.uncharge(part);
}

void* Pool::allocate(uint64_t bytes, Shape shape, Heap::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  outcome = Heap::Outcome::kOk;
  if (!is_open()) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL,
               "context " + std::to_string(context_) + " was destroyed by another thread");
  }
  Cache* cache = mine();
  const bool small = bytes <= kSmallMax && shape.tag == Shape::kNormal;
  const uint64_t offset =
      small ? allocate_small(bytes, cache, outcome) : allocate_run(bytes, shape, cache, outcome);
  if (outcome != Heap::Outcome::kOk) return nullptr;
  note_peak();
  balance(cache);
  return arena_.setup().client + offset;
}

// Both set outcome when they find nothing.
uint64_t Pool::allocate_small(uint64_t bytes, Cache* cache, Heap::Outcome& outcome) {
  const uint32_t size_class = class_of(bytes);
  uint64_t offset = 0;
  bool found = false;
  if (cache != nullptr) {
    auto& bin = cache->small_[size_class];
    if (bin.empty()) refill(size_class, *cache);
    found = !bin.empty();
    if (found) {
      offset = bin.pop();
      cache->held_.add(-static_cast<int64_t>(class_bytes(size_class)));
    }
  } else {
    found = heap_.take_small(size_class, std::span(&offset, 1), *this) == 1;
    if (found) arena_.fill_fresh(offset, class_bytes(size_class));
  }
  if (!found)
    return allocate_run(bytes, {round_up(bytes, os::page_bytes()), Shape::kNormal}, cache, outcome);
  heap_.revive_small(offset, bytes, cache != nullptr ? cache->stamp() : 0);
  note(1, cache, bytes, class_bytes(size_class), 0);
  return offset;
}

void Pool::refill(uint32_t size_class, Cache& cache) {
  auto& bin = cache.small_[size_class];
  Offsets& shared = small_[size_class];
  const uint64_t size = class_bytes(size_class);
  bin.count = std::min<uint64_t>(kRefill, shared.size());
  std::copy_n(shared.end() - static_cast<ptrdiff_t>(bin.count), bin.count, bin.others.begin());
  shared.resize(shared.size() - bin.count);
  shared_span_ -= static_cast<int64_t>(bin.count * size);
  if (bin.count == 0) {
    bin.count = heap_.take_small(size_class, std::span(bin.others).first(kRefill), *this);
    for (uint64_t i = 0; i < bin.count; ++i) arena_.fill_fresh(bin.others[i], size);
  }
  cache.held_.add(static_cast<int64_t>(bin.count * size));
}

uint64_t Pool::allocate_run(uint64_t bytes, Shape shape, Cache* cache, Heap::Outcome& outcome) {
  const uint64_t key = shape.key(heap_.page_bits());
  uint64_t offset = 0;
  if (const auto shelf = runs_.find(key); shelf != runs_.end()) {
    Offsets& ready = shelf->second;
    offset = ready.back();
    ready.pop_back();
    shared_span_ -= static_cast<int64_t>(shape.span);
    Cache::RunBin* bin = cache != nullptr ? &cache->bin_of(key) : nullptr;
    if (bin != nullptr && bin->empty()) bin->key = key;
    const uint64_t batch = std::min<uint64_t>(Cache::kRunDepth / 2, kBatchBytes / shape.span);
    while (bin != nullptr && bin->key == key && bin->count < batch && !bin->full() &&
           !ready.empty()) {
      bin->push(static_cast<uint32_t>(ready.back() >> heap_.page_bits()));
      ready.pop_back();
      shared_span_ -= static_cast<int64_t>(shape.span);
      cache->held_.add(static_cast<int64_t>(shape.span));
    }
    if (ready.empty()) runs_.erase(shelf);
    heap_.revive_run(static_cast<uint32_t>(offset >> heap_.page_bits()), bytes,
                     cache != nullptr ? cache->stamp() : 0);
  } else {
    const Heap::Result run = heap_.allocate(bytes, shape.span, shape.tag, *this);
    outcome = run.outcome;
    if (run.outcome != Heap::Outcome::kOk) return 0;
    offset = run.offset;
    arena_.fill_fresh(offset, bytes);
  }
  // A small block that found no slab is in a slab after all when the heap had one.
  const Heap::Spot spot = heap_.spot_of(offset);
  const uint64_t span = spot.size_class != 0 ? class_bytes(spot.size_class - 1) : shape.span;
  note(1, cache, bytes, span, shape.huge());
  return offset;
}

void Pool::note(int64_t sign, Cache* cache, uint64_t bytes, uint64_t span, uint64_t huge) {
  (cache != nullptr ? cache->live_ : gone_).add(sign, bytes, span, huge);
  if (cache != nullptr) cache->held_.add(sign * static_cast<int64_t>(span));
}

void Pool::note_peak() {
  int64_t now = live(&Tally::bytes);
  if (Cache* own = caches_.size() == 1 ? caches_.front() : nullptr) {
    now += positive(own->high_.get() - own->live_.bytes.get());
  }
  peak_ = std::max(peak_, now);
}

Pool::Freed Pool::free(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const Heap::Spot spot = heap_.spot_of(offset);
  if (!spot.known || spot.home != id()) return Freed::kMoved;
  if (!is_open()) return Freed::kUnknown;  // what was live when it closed belongs to the device now
  note_peak();
  Cache* cache = mine();
  const uint64_t bytes = heap_.retire(offset, spot, cache != nullptr ? cache->stamp() : 0);
  if (bytes == 0) return Freed::kUnknown;
  if (cache != nullptr && cache->stamp() == 0 && cache->until_renewal_ <= 0) cache->renew_stamp();
  arena_.fill_freed(offset, bytes);
  keep(offset, spot, bytes, cache);
  balance(cache);
  if (cache != nullptr && arena_.lanes_allowed()) t_lanes.give = cache;
  return Freed::kDone;
}

// A retired block goes into the thread's bin; a full bin hands half of what it has to the pool.
void Pool::keep(uint64_t offset, const Heap::Spot& spot, uint64_t bytes, Cache* cache) {
  const bool small = spot.size_class != 0;
  const Shape shape{small ? class_bytes(spot.size_class - 1)
                          : uint64_t{heap_.pages_of(spot.first)} << heap_.page_bits(),
                    spot.tag};
  note(-1, cache, bytes, shape.span, small ? 0 : shape.huge());
  if (cache == nullptr) return keep_shared(offset, spot);
  if (small) {
    auto& bin = cache->small_[spot.size_class - 1];
    if (bin.full()) {
      bin.settle();
      const uint64_t half = Cache::kSmallDepth / 2;
      small_[spot.size_class - 1].insert(small_[spot.size_class - 1].end(), bin.others.begin(),
                                         bin.others.begin() + half);
      std::copy(bin.others.begin() + half, bin.others.end(), bin.others.begin());
      bin.count -= half;
      shared_span_ += static_cast<int64_t>(half * shape.span);
      cache->held_.add(-static_cast<int64_t>(half * shape.span));
    }
    bin.push(offset);
  } else {
    const uint64_t key = shape.key(heap_.page_bits());
    auto& bin = cache->bin_of(key);
    if (bin.key != key || bin.full()) spill(*cache, bin);
    bin.key = key;
    bin.push(spot.first);
  }
  cache->held_.add(static_cast<int64_t>(shape.span));
}

// All runs of a bin go to the pool.
void Pool::spill(Cache& cache, Cache::RunBin& bin) {
  bin.settle();
  if (bin.count == 0) return;
  Offsets& shelf = runs_[bin.key];
  for (uint32_t i = 0; i < bin.count; ++i) shelf.push_back(heap_.start_of(bin.others[i]));
  const auto span = static_cast<int64_t>(bin.count * (bin.key >> 2 << heap_.page_bits()));
  shared_span_ += span;
  cache.held_.add(-span);
  bin.count = 0;
}

void Pool::keep_shared(uint64_t offset, const Heap::Spot& spot) {
  if (spot.size_class != 0) {
    small_[spot.size_class - 1].push_back(offset);
    shared_span_ += static_cast<int64_t>(class_bytes(spot.size_class - 1));
    return;
  }
  const Shape shape{uint64_t{heap_.pages_of(spot.first)} << heap_.page_bits(), spot.tag};
  runs_[shape.key(heap_.page_bits())].push_back(offset);
  shared_span_ += static_cast<int64_t>(shape.span);
}

void Pool::empty_shared() {
  for (Offsets& shelf : small_) {
    heap_.recycle(shelf, *this);
    shelf.clear();
  }
  for (auto& [key, shelf] : runs_) heap_.recycle(shelf, *this);
  runs_.clear();
  shared_span_ = 0;
}

// The cache's owner is this thread or cannot be inside.
void Pool::empty(Cache& cache, Offsets& out) {
  for (auto& bin : cache.small_) {
    bin.settle();
    out.insert(out.end(), bin.others.begin(),
               bin.others.begin() + static_cast<ptrdiff_t>(bin.count));
    bin.count = 0;
  }
  for (auto& bin : cache.runs_) {
    while (!bin.empty()) out.push_back(heap_.start_of(bin.pop()));
  }
  cache.held_.set(cache.live_.span.get());
}

void Pool::empty_caches() {
  if (caches_.empty()) return;
  // seq_cst: with the barrier, either the owner sees the closed cache or we see it busy.
  for (Cache* cache : caches_) cache->closed_.store(1, std::memory_order_seq_cst);
  base::make_others_pass();
  Offsets all;
  for (Cache* cache : caches_) {
    // A few instructions long, if its thread runs at all.
    while (cache->busy_.load(std::memory_order_acquire) != 0) sched_yield();
    empty(*cache, all);
  }
  heap_.recycle(all, *this);
  if (!is_open()) return;
  for (Cache* cache : caches_) cache->closed_.store(0, std::memory_order_release);
}

// Brings what is kept ready below the allowance, and tells the cache how far it may go alone.
// Shelves go first, since capacity in hand serves blocks of any size, then the caches.
void Pool::balance(Cache* cache) {
  const int64_t allowed = allowance();
  if (const int64_t over = idle() - allowed; over > 0) {
    const auto excess = static_cast<uint64_t>(over + allowed / 4);
    const auto short_of_credit = [&] { return credit_.total() < excess + settings_.pool_bytes; };
    while (short_of_credit() && !runs_.empty()) {
      heap_.recycle(runs_.begin()->second, *this);
      shared_span_ -= static_cast<int64_t>(runs_.begin()->second.size() *
                                           (runs_.begin()->first >> 2 << heap_.page_bits()));
      runs_.erase(runs_.begin());
    }
    if (short_of_credit()) empty_shared();
    if (short_of_credit()) empty_caches();
    give_back_credit(credit_.total() - std::min(credit_.total(), excess));
  }
  if (cache == nullptr) return;
  const int64_t room = positive(allowed - idle()) / static_cast<int64_t>(caches_.size());
  const int64_t cap =
      std::min(cache->cached() + room, static_cast<int64_t>(settings_.thread_cache_bytes));
  cache->floor_.set(cache->held_.get() - cap);
}

void Pool::trim() {
  const std::lock_guard lock(mutex_);
  if (!is_open()) return;
  empty_shared();
  empty_caches();
  give_back_credit(settings_.pool_bytes);
}

uint64_t Pool::close(bool reclaim) {
  const std::lock_guard lock(mutex_);
  open_.store(false, std::memory_order_relaxed);
  note_peak();
  empty_shared();
  empty_caches();
  for (Cache* cache : caches_) cache->drop_stamp();  // they stay closed
  const auto left = static_cast<uint64_t>(positive(live(&Tally::blocks)));
  if (left > 0) arena_.settle_leaks(*this, reclaim);
  for (Cache* cache : caches_) {
    gone_.add(cache->live_);
    cache->dead_.store(true, std::memory_order_release);
  }
  caches_.clear();
  arena_.take_over(*this, gone_, reserved_);
  give_back_credit(0);
  for (Counter* each : {&gone_.bytes, &gone_.span, &gone_.huge, &gone_.blocks}) each->set(0);
  reserved_ = {};
  return left;
}

void Pool::reclaim(uint64_t offset) {
  const Heap::Spot spot = heap_.spot_of(offset);
  const uint64_t bytes = heap_.retire(offset, spot, 0);
  if (bytes == 0) return;
  keep(offset, spot, bytes, nullptr);
  empty_shared();
}

void Pool::arm() {
  if (!arena_.lanes_allowed()) return;
  const std::lock_guard lock(mutex_);
  if (!is_open()) return;
  t_lanes.take = mine();
  t_lanes.give = t_lanes.take;
}

Pool::Figures Pool::figures() {
  const std::lock_guard lock(mutex_);
  note_peak();
  Figures out{live(&Tally::bytes),
              live(&Tally::span),
              live(&Tally::huge),
              live(&Tally::blocks),
              peak_,
              0,
              shared_span_,
              static_cast<int64_t>(credit_.total()),
              {reserved_.normal + credit_.normal, reserved_.huge + credit_.huge}};
  for (const Cache* cache : caches_) out.thread_cached += cache->cached();
  return out;
}

}  // namespace ascendrt::memory
