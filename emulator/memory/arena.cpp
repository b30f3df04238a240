#include "memory/arena.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gen/abi.h"
#include "memory/os.hpp"
#include "memory/owners.hpp"
#include "memory/text.hpp"
#include "probe/faults.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kAliasAlignment = 2ULL << 20;
// In every 16-bit word: a NaN in fp16, bf16 and fp32, an unlikely integer, and odd to look at.
constexpr uint16_t kFreshPattern = 0x7FCD;
constexpr uint16_t kFreedPattern = 0x7FDD;

// What becomes of the blocks that a context left behind, and how to find who made them.
std::string leak_advice(size_t blocks, bool reclaim, bool traced) {
  const bool one = blocks == 1;
  if (reclaim)
    return std::string(one ? "; it is" : "; they are") + " freed (ASCENDRT_CONTEXT_RECLAIM=1)";
  return std::string(one ? "; it stays valid until aclrtFree, and counts as a leak"
                         : "; they stay valid until aclrtFree, and count as leaks") +
         " if that never comes" + (traced ? "" : " (ASCENDRT_MEMORY_TRACE=1 names the callers)");
}

std::string block_text(const Block& block) {
  if (block.slack == 0) return size_text(block.bytes);
  if (block.slack == Block::kUnknown) return size_text(block.bytes) + " with padding";
  return size_text(block.asked()) + ", " + std::to_string(block.bytes) + " with padding,";
}

}  // namespace

Arena::Arena(const Setup& setup, Ledger& ledger, Budget& budget)
    : setup_(setup),
      ledger_(ledger),
      budget_(budget),
      huge_(static_cast<std::atomic<uint8_t>*>(os::reserve_table(setup.bytes / kHugePage + 1))),
      heap_(setup.bytes, *this) {
  const std::string name = "ascendrt-device-" + std::to_string(setup.device);
  file_ = os::make_memory_file(name.c_str(), setup.bytes);
  alias_ = setup.open ? setup.client : os::reserve(setup.bytes, kAliasAlignment);
  os::map_file(file_, alias_, setup.bytes);
  os::want_huge_pages(alias_, setup.bytes);
}

std::byte* Arena::allocate(uint64_t bytes, aclrtMemMallocPolicy policy, Pool* pool, uint16_t owner,
                           uint64_t slack) {
  Heap::Outcome outcome = Heap::Outcome::kNoRange;
  if (bytes > heap_.bytes()) refuse_allocation(bytes - slack, outcome);
  budget_.admit(bytes);
  const Shape shape = shape_of(bytes, policy);
  uint64_t offset = attempt(bytes, shape, pool, owner, outcome);
  if (outcome != Heap::Outcome::kOk) {
    trim_pools();
    ledger_.ask_others(static_cast<uint32_t>(setup_.device));
    offset = attempt(bytes, shape, pool, owner, outcome);
  }
  if (outcome != Heap::Outcome::kOk) refuse_allocation(bytes - slack, outcome);
  if (pool != nullptr || slack != 0) heap_.note_slack(offset, slack);
  std::byte* address = setup_.client + offset;
  if (setup_.memory.trace) call_sites().remember(address);
  return address;
}

// Normal pages do where the default policy finds no whole huge page.
uint64_t Arena::attempt(uint64_t bytes, Shape shape, Pool* pool, uint16_t owner,
                        Heap::Outcome& outcome) {
  outcome = Heap::Outcome::kRefused;
  if (probe::fails("memory.driver")) return 0;
  if (pool != nullptr) {
    void* block = pool->allocate(bytes, shape, outcome);
    if (block != nullptr)
      return static_cast<uint64_t>(static_cast<std::byte*>(block) - setup_.client);
  } else {
    const Heap::Result run = heap_.allocate(bytes, shape.span, shape.tag);
    outcome = run.outcome;
    if (outcome == Heap::Outcome::kOk) {
      if (owner != 0) heap_.set_owner(run.offset, owner);
      note_own(1, run.offset, bytes, heap_.owner_of(run.offset));
      fill_fresh(run.offset, bytes);
      return run.offset;
    }
  }
  if (shape.tag != Shape::kMixed || shape.span > kHugePage) return 0;
  return attempt(bytes, {round_up(bytes, os::page_bytes()), Shape::kNormal}, pool, owner, outcome);
}

void Arena::free(std::byte* address) {
  const auto offset = static_cast<uint64_t>(address - setup_.client);
  if (setup_.memory.trace) call_sites().forget(address);
  while (true) {
    const Heap::Spot spot = heap_.spot_of(offset);
    Pool* pool = spot.known ? pools_[spot.home].load(std::memory_order_acquire) : nullptr;
    if (pool == nullptr) return free_own(address, offset);
    switch (pool->free(offset)) {
      case Pool::Freed::kDone:
        return;
      case Pool::Freed::kMoved:
        continue;
      case Pool::Freed::kUnknown:
        refuse_free(address);
    }
  }
}

void Arena::free_own(std::byte* address, uint64_t offset) {
  const Heap::Spot spot = heap_.spot_of(offset);
  const uint16_t owner = heap_.owner_of(offset);
  const uint64_t bytes = spot.known ? heap_.retire(offset, spot, 0) : 0;
  if (bytes == 0) refuse_free(address);
  fill_freed(offset, bytes);
  note_own(-1, offset, bytes, owner);
  heap_.recycle_own(offset);
}

void Arena::refuse_free(const std::byte* address) const {
  const auto offset = static_cast<uint64_t>(address - setup_.client);
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "cannot free " + describe(setup_.client, address, heap_.find(offset)) +
                 "; free each allocation once, with the address that malloc gave");
}

void Arena::note_own(int64_t sign, uint64_t offset, uint64_t bytes, uint16_t owner) {
  const auto kind = static_cast<size_t>(owner_kind(owner));
  const Heap::Spot spot = heap_.spot_of(offset);
  const bool small = spot.size_class != 0;
  const Shape shape{uint64_t{heap_.pages_of(spot.first)} << heap_.page_bits(), spot.tag};
  const std::lock_guard lock(own_mutex_);
  own_live_.add(sign, bytes, small ? class_bytes(spot.size_class - 1) : shape.span,
                small ? 0 : shape.huge());
  own_peak_ = std::max(own_peak_, own_live_.bytes.get());
  Held& held = held_[kind];
  held.bytes += sign * static_cast<int64_t>(bytes);
  held.peak = std::max(held.peak, held.bytes);
}

Arena::Held Arena::held_by(OwnerKind kind) {
  if (kind != OwnerKind::kUser) {
    const std::lock_guard lock(own_mutex_);
    return held_[static_cast<size_t>(kind)];
  }
  const Pool::Figures all = total();
  const std::lock_guard lock(own_mutex_);
  Held user{all.live_bytes, all.peak_bytes};
  for (size_t tagged = 1; tagged < kOwnerKinds; ++tagged) user.bytes -= held_[tagged].bytes;
  user.peak = std::max(user.bytes, user.peak - held_[1].peak);
  return user;
}

Pool& Arena::open_pool(uint32_t context, uint64_t padding) {
  const std::lock_guard lock(pools_mutex_);
  for (size_t home = 1; home < kPoolsMax; ++home) {
    Pool* pool = pools_[home].load(std::memory_order_relaxed);
    if (pool != nullptr && pool->is_open()) continue;
    if (pool == nullptr) {
      pool = new Pool(*this, static_cast<uint16_t>(home), setup_.memory);
      pools_[home].store(pool, std::memory_order_release);
    }
    pool->open(context, padding);
    return *pool;
  }
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             "mem pool init failed: device " + std::to_string(setup_.device) + " has " +
                 std::to_string(kPoolsMax - 1) + " contexts; destroy some");
}

void Arena::trim_pools() {
  for (const auto& slot : pools_) {
    Pool* pool = slot.load(std::memory_order_acquire);
    if (pool != nullptr) pool->trim();
  }
}

std::vector<std::pair<uint32_t, Pool::Figures>> Arena::figures() {
  std::vector<std::pair<uint32_t, Pool::Figures>> all;
  for (const auto& slot : pools_) {
    Pool* pool = slot.load(std::memory_order_acquire);
    if (pool != nullptr && pool->is_open()) all.emplace_back(pool->context(), pool->figures());
  }
  const std::lock_guard lock(own_mutex_);
  Pool::Figures own;
  own.live_bytes = own_live_.bytes.get();
  own.live_span = own_live_.span.get();
  own.live_huge = own_live_.huge.get();
  own.blocks = own_live_.blocks.get();
  own.peak_bytes = own_peak_;
  own.reserved = own_reserved_;
  all.emplace_back(kNoContext, own);
  return all;
}

Pool::Figures Arena::total() {
  Pool::Figures sum;
  for (const auto& [context, part] : figures()) sum.add(part);
  return sum;
}

uint64_t Arena::touched_bytes() const { return os::touched_bytes(file_); }

Parts Arena::idle() {
  const Pool::Figures all = total();
  const auto less = [](uint64_t reserved, int64_t live) {
    return reserved - std::min(reserved, static_cast<uint64_t>(std::max<int64_t>(live, 0)));
  };
  return {less(all.reserved.normal, all.live_span - all.live_huge),
          less(all.reserved.huge, all.live_huge)};
}

bool Arena::charge(Parts parts) {
  return ledger_.charge(static_cast<uint32_t>(setup_.device), parts, heap_.bytes());
}

void Arena::uncharge(Parts parts) { ledger_.release(static_cast<uint32_t>(setup_.device), parts); }

bool Arena::acquire(Block run, uint8_t tag, Heap::Home& home) {
  const uint64_t huge = Shape{run.bytes, tag}.huge();
  const Parts parts{run.bytes - huge, huge};
  if (home.id() != 0) return static_cast<Pool&>(home).pay(parts);
  if (!charge(parts)) return false;
  const std::lock_guard lock(own_mutex_);
  own_reserved_.normal += parts.normal;
  own_reserved_.huge += parts.huge;
  return true;
}

void Arena::release(Block run, uint8_t tag, Heap::Home& home) {
  const uint64_t huge = Shape{run.bytes, tag}.huge();
  const Parts parts{run.bytes - huge, huge};
  if (home.id() != 0) return static_cast<Pool&>(home).refund(parts);
  {
    const std::lock_guard lock(own_mutex_);
    own_reserved_.normal -= parts.normal;
    own_reserved_.huge -= parts.huge;
  }
  uncharge(parts);
}

// With the pool's lock held, its caches empty and nobody inside.
void Arena::take_over(Pool& pool, const Tally& live, Parts reserved) {
  heap_.adopt(pool);
  const std::lock_guard lock(own_mutex_);
  own_live_.add(live);
  own_peak_ = std::max(own_peak_, own_live_.bytes.get());
  own_reserved_.normal += reserved.normal;
  own_reserved_.huge += reserved.huge;
}

std::vector<Arena::Live> Arena::largest(size_t most) const {
  const auto smaller = [](const Live& a, const Live& b) {
    return a.entry.block.bytes > b.entry.block.bytes;
  };
  std::vector<Live> all;
  heap_.for_each_live([&](const Heap::Entry& entry) {
    if (all.size() == most && entry.block.bytes <= all.front().entry.block.bytes) return;
    all.push_back({entry, heap_.owner_of(entry.block.offset)});
    std::push_heap(all.begin(), all.end(), smaller);
    if (all.size() <= most) return;
    std::pop_heap(all.begin(), all.end(), smaller);
    all.pop_back();
  });
  std::sort_heap(all.begin(), all.end(), smaller);
  return all;
}

void Arena::settle_leaks(Pool& pool, bool reclaim) {
  constexpr size_t kNamed = 5;
  std::vector<Block> blocks;
  heap_.for_each_live([&](const Heap::Entry& entry) {
    if (entry.home == pool.id()) blocks.push_back(entry.block);
  });
  std::ranges::sort(blocks, [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  uint64_t sum = 0;
  std::string named;
  for (size_t i = 0; i < blocks.size(); ++i) {
    sum += blocks[i].asked();
    if (i >= kNamed) continue;
    const std::byte* address = setup_.client + blocks[i].offset;
    named +=
        (named.empty() ? "" : ", ") + size_text(blocks[i].asked()) + " at " + address_text(address);
    const auto frames = call_sites().of(address);
    if (!frames.empty()) named += " allocated by " + frames.front();
  }
  if (blocks.empty()) return;
  base::log_line("context " + std::to_string(pool.context()) + " of device " +
                 std::to_string(setup_.device) + " ends with " + std::to_string(blocks.size()) +
                 (blocks.size() == 1 ? " live allocation, " : " live allocations, ") +
                 size_text(sum) + ": " + named + (blocks.size() > kNamed ? ", ..." : "") +
                 leak_advice(blocks.size(), reclaim, setup_.memory.trace));
  if (!reclaim) return;
  for (const Block& block : blocks) pool.reclaim(block.offset);
}

void Arena::discard(Block free_run) {
  const uint64_t end = (free_run.offset + free_run.bytes + kHugePage - 1) / kHugePage;
  for (uint64_t page = free_run.offset / kHugePage; page < end; ++page) {
    if (huge_[page].load(std::memory_order_relaxed) != 0) huge_[page] = 0;
  }
  os::punch_hole(file_, free_run.offset, free_run.bytes);
}

// An engine is about to use a large range: its whole 2 MiB parts become huge pages where they are
// none yet, in place of the faults of 512 small ones.
void Arena::want_huge(uint64_t offset, uint64_t bytes) {
  const uint64_t end = (offset + bytes) / kHugePage;
  for (uint64_t page = (offset + kHugePage - 1) / kHugePage; page < end; ++page) {
    if (huge_[page].load(std::memory_order_relaxed) != 0) continue;
    if (!os::can_collapse_huge_pages()) return;
    huge_[page].store(1, std::memory_order_relaxed);  // one try, whatever comes of it
    os::collapse_huge_page(alias_ + page * kHugePage);
  }
}

void Arena::meter(uint64_t offset, uint64_t bytes) {
  budget_.meter(bytes, [&] { return os::untouched_bytes(alias_ + offset, bytes); });
}

void Arena::fill_fresh(uint64_t offset, uint64_t bytes) {
  const bool wanted =
      setup_.fill == Fill::kOn || (setup_.fill == Fill::kAuto && bytes <= kFillAutoBytes);
  if (wanted) fill(offset, bytes, kFreshPattern);
}

void Arena::fill_freed(uint64_t offset, uint64_t bytes) {
  if (setup_.fill == Fill::kOn) fill(offset, bytes, kFreedPattern);
}

void Arena::fill(uint64_t offset, uint64_t bytes, uint16_t pattern) {
  auto* words = reinterpret_cast<uint16_t*>(alias_ + offset);
  std::fill_n(words, bytes / sizeof(uint16_t), pattern);
}

// What this process holds, in words.
std::string Arena::holders_text() {
  const Pool::Figures all = total();
  const auto reserved = static_cast<int64_t>(all.reserved.total());
  std::string text;
  if (reserved > 0) {
    const int64_t tenths = 1000 * (reserved - all.live_bytes) / reserved;
    text += "; of what this process holds, " +
            size_text(static_cast<uint64_t>(std::max<int64_t>(reserved - all.live_bytes, 0))) +
            " are reserved and not live (fragmentation " + std::to_string(tenths / 10) + "." +
            std::to_string(tenths % 10) + " %)";
  }
  const auto blocks = largest(5);
  if (blocks.empty()) return text;
  text += "; largest live blocks:";
  for (const Live& live : blocks) {
    text += (&live == &blocks.front() ? " " : ", ") + size_text(live.entry.block.asked()) + " at " +
            address_text(setup_.client + live.entry.block.offset) + " (" + owner_text(live.owner) +
            ")";
  }
  return text;
}

void Arena::refuse_allocation(uint64_t bytes, Heap::Outcome outcome) {
  const auto device = static_cast<uint32_t>(setup_.device);
  const uint64_t used = std::min(ledger_.used(device).total(), setup_.bytes);
  uint64_t largest = std::min(heap_.largest_free_bytes(), setup_.bytes - used);
  if (outcome == Heap::Outcome::kNoRange) largest = heap_.largest_free_bytes();
  std::string text = "device " + std::to_string(device) + " has no room for " + size_text(bytes) +
                     ": " + size_text(setup_.bytes - used) + " of " + size_text(setup_.bytes) +
                     " are free, the largest free block has " + size_text(largest) + holders_text();
  if (const std::string others = ledger_.other_holders(device); !others.empty()) {
    text += "; other processes of the emulated machine '" + ledger_.machine() + "' hold " + others;
  }
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             text + "; free device memory, or emulate a larger device with ASCENDRT_HBM_SIZE");
}

void Arena::refuse_pool(uint64_t bytes) {
  const auto device = static_cast<uint32_t>(setup_.device);
  const uint64_t used = std::min(ledger_.used(device).total(), setup_.bytes);
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             "mem pool init failed: device " + std::to_string(device) + " has no " +
                 size_text(bytes) + " for the pool of a context, " +
                 size_text(setup_.bytes - used) +
                 " are free; lower ASCEND_RT_MEM_POOL_SIZE, or free device memory");
}

void Arena::refuse_view(const std::byte* address, uint64_t bytes, const Found& found) const {
  const std::string device = "device " + std::to_string(setup_.device) + ": ";
  if (found.state == BlockState::kNever) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, device + "nothing is allocated at address " +
                                               address_text(address) + ", where " +
                                               size_text(bytes) + " are wanted");
  }
  const std::string range =
      device + "the " + size_text(bytes) + " from " + describe(setup_.client, address, found);
  if (found.state == BlockState::kFreed) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               range +
                   ", are no longer allocated; free memory only after the streams that use it "
                   "were synchronized");
  }
  const auto offset = static_cast<uint64_t>(address - setup_.client);
  const uint64_t left = found.block.offset + found.block.bytes - offset;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             range + ", reach " + size_text(bytes - left) + " past its end");
}

std::string describe(const std::byte* client, const std::byte* address, const Found& found) {
  const std::string subject = "address " + address_text(address);
  const auto offset = static_cast<uint64_t>(address - client);
  const std::string block = "allocation of " + block_text(found.block) + " at " +
                            address_text(client + found.block.offset);
  if (found.state == BlockState::kNever) return subject + ", where nothing is allocated";
  const uint64_t inside = offset - found.block.offset;
  if (found.state == BlockState::kFreed) {
    return subject + (inside == 0 ? ", which is the " : ", which lies in the ") + block +
           " that was freed";
  }
  return subject +
         (inside == 0 ? ", the start of the "
                      : ", which lies " + size_text(inside) + " into the ") +
         block;
}

}  // namespace ascendrt::memory
