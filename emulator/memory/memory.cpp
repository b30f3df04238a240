#include "memory/memory.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "memory/machine.hpp"
#include "memory/managed.hpp"
#include "memory/os.hpp"
#include "memory/shape.hpp"
#include "memory/text.hpp"
#include "memory/virtual.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kNormalPage = 4096;

// Note [Page pools]
// A card divides its memory into a pool of huge and one of normal pages and reports each. Here
// normal pages have a sixteenth of the device, more when they need it (in steps, from the huge
// ones) and less when huge ones have used up all the rest: neither kind is refused while memory is
// left.
constexpr uint64_t kNormalShare = 16;

uint64_t normal_pool(uint64_t total, const Ledger::Used& used) {
  const uint64_t step = std::max(kHugePage, total / kNormalShare / kHugePage * kHugePage);
  const uint64_t steps = std::max<uint64_t>(used.normal_bytes / step, 1);
  const uint64_t wanted = used.normal_bytes <= steps * step ? steps * step : (steps + 1) * step;
  const uint64_t left = total - std::min(total, used.huge_bytes);
  return std::min(wanted, left);
}

// The arena that owns a device address; raises 107000 for an unused device and for other addresses.
Arena& arena_of(const void* address) {
  Machine& all = machine();
  const int32_t device = all.device_of(address);
  Arena* arena = device < 0 ? nullptr : all.arena_or_null(device);
  if (arena == nullptr) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "address " + address_text(address) +
                   (device < 0 ? " is no device memory"
                               : ", where nothing is allocated, device " + std::to_string(device)));
  }
  return *arena;
}

}  // namespace

void open_device(int32_t device) {
  try {
    machine().arena(device);
  } catch (const base::Error& error) {
    // Wrong settings keep their own code.
    if (error.code != ACL_ERROR_RT_MEMORY_ALLOCATION &&
        error.code != ACL_ERROR_RT_DRV_INTERNAL_ERROR) {
      throw;
    }
    base::fail(ACL_ERROR_RT_DEV_SETUP_ERROR,
               "device " + std::to_string(device) + " cannot be opened: " + error.text);
  }
}

Location locate(const void* address) {
  const Machine* all = machine_or_null();
  if (all == nullptr) return {};
  if (const int32_t device = all->device_of(address); device >= 0) return {Place::kDevice, device};
  if (const Virtual* reserved = virtual_memory_or_null(); reserved && reserved->holds(address)) {
    return reserved->locate(address);
  }
  const Pinned* pinned = all->pinned_or_null();
  if (pinned == nullptr) return {};
  if (pinned->in_range(address)) {
    const bool live = pinned->find(address).state == BlockState::kLive;
    return {live ? Place::kPinned : Place::kPageable, 0};
  }
  return {pinned->registered(address) ? Place::kPinned : Place::kPageable, 0};
}

Shape shape_of(uint64_t bytes, aclrtMemMallocPolicy policy) {
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
      return {round_up(bytes, kHugePage), Shape::kWhole};
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
      return {round_up(bytes, os::page_bytes()), Shape::kNormal};
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
      return {round_up(bytes, kGiantPage), Shape::kGiant};
    default:
      return default_shape(bytes, os::page_shift());
  }
}

void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy) {
  return machine().arena(device).allocate(size_bytes, policy);
}

void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy,
                      uint16_t owner) {
  return machine().arena(device).allocate(size_bytes, policy, nullptr, owner);
}

Pool& open_pool(int32_t device, uint32_t context, uint64_t padding) {
  Machine& all = machine();
  Pool& pool = all.arena(device).open_pool(context, padding + 31);
  all.answer_others();
  return pool;
}

void close_pool(Pool& pool) { pool.close(pool.arena().setup().memory.context_reclaim); }

void* allocate_device(Pool& pool, uint64_t size_bytes, aclrtMemMallocPolicy policy,
                      uint64_t slack) {
  void* block = pool.arena().allocate(size_bytes, policy, &pool, 0, slack);
  pool.arm();
  return block;
}

void configure_knobs(const std::vector<std::pair<std::string, std::string>>& section) {
  machine().set_memory(MemorySettings::read(section));
}

void forget_pool() { t_lanes.take = nullptr; }

void free_device(void* address) {
  const bool reserved = virtual_memory_or_null() && virtual_memory_or_null()->holds(address);
  if (reserved && managed_memory().free(address)) return;
  arena_of(address).free(static_cast<std::byte*>(address));
}

Allocation find_device(const void* address) {
  if (const Virtual* reserved = virtual_memory_or_null(); reserved && reserved->holds(address)) {
    return reserved->find(address);
  }
  const auto* at = static_cast<const std::byte*>(address);
  Arena& arena = arena_of(address);
  const Found found = arena.find(at);
  if (found.state != BlockState::kLive) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "no live allocation holds " + describe(arena.setup().client, at, found));
  }
  const bool huge = arena.pages_at(found.block.offset) == Pages::kHuge;
  return {arena.setup().client + found.block.offset, found.block.bytes,
          huge ? kHugePage : kNormalPage};
}

bool is_live(const void* address) {
  if (const Virtual* reserved = virtual_memory_or_null(); reserved && reserved->holds(address)) {
    return reserved->mapped(address);
  }
  const int32_t device = machine().device_of(address);
  const Arena* arena = device < 0 ? nullptr : machine().arena_or_null(device);
  return arena != nullptr &&
         arena->find(static_cast<const std::byte*>(address)).state == BlockState::kLive;
}

Allocation find_block(const void* address) {
  const Pinned* pinned = machine().pinned_or_null();
  if (pinned == nullptr || !pinned->in_range(address)) return find_device(address);
  const Found found = pinned->find(address);
  if (found.state != BlockState::kLive) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "no live allocation holds " +
                   describe(pinned->start(), static_cast<const std::byte*>(address), found));
  }
  return {const_cast<std::byte*>(pinned->start()) + found.block.offset, found.block.bytes,
          kNormalPage};
}

void* allocate_pinned(uint64_t size_bytes) { return machine().pinned().allocate(size_bytes); }

void free_pinned(void* address) { machine().pinned().free(address); }

void register_host(const void* address, uint64_t size_bytes) {
  if (!os::mapped(address, size_bytes)) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "the " + size_text(size_bytes) + " at " + address_text(address) +
                   " are not all memory of this process; register what was allocated, in full");
  }
  machine().pinned().add_registered(address, size_bytes);
}

void unregister_host(const void* address) { machine().pinned().remove_registered(address); }

void* view(const void* address, uint64_t size_bytes) {
  if (size_bytes == 0) return const_cast<void*>(address);
  const Machine* all = machine_or_null();
  const int32_t device = all == nullptr ? -1 : all->device_of(address);
  if (device >= 0) {
    Arena* arena = all->arena_or_null(device);
    if (arena == nullptr) arena = &arena_of(address);  // raises
    return arena->view(static_cast<const std::byte*>(address), size_bytes);
  }
  if (const Virtual* reserved = virtual_memory_or_null(); reserved && reserved->holds(address)) {
    return reserved->view(address, size_bytes);
  }
  if (base::handles().in_window(address)) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "address " + address_text(address) +
                   " is a handle (context, stream, event, buffer, description ...), not memory");
  }
  return const_cast<void*>(address);
}

void set_peer_access(int32_t device, int32_t peer, bool enabled) {
  machine().set_peer(device, peer, enabled);
}

bool peer_access(int32_t device, int32_t peer) { return machine().peer(device, peer); }

namespace {

// What all processes use of the device, without what they keep ready.
Ledger::Used live_use(Machine& all, int32_t device) {
  Ledger& ledger = all.ledger();
  const auto index = static_cast<uint32_t>(device);
  ledger.ask_others(index);
  Ledger::Used used = ledger.used(index);
  const Ledger::Used theirs = ledger.cached_by_others(index);
  Arena* arena = all.arena_or_null(device);
  const Parts ours = arena == nullptr ? Parts{} : arena->idle();
  const auto less = [](uint64_t& value, uint64_t part) { value -= std::min(value, part); };
  less(used.normal_bytes, theirs.normal_bytes);
  less(used.normal_bytes, ours.normal);
  less(used.huge_bytes, theirs.huge_bytes);
  less(used.huge_bytes, ours.huge);
  return used;
}

}  // namespace

Usage usage(int32_t device) {
  Machine& all = machine();
  const uint64_t total = all.setup().device_bytes;
  return {total, total - std::min(live_use(all, device).total(), total)};
}

Usage usage(int32_t device, Pages kind) {
  Machine& all = machine();
  const uint64_t total = all.setup().device_bytes;
  const Ledger::Used used = live_use(all, device);
  const uint64_t normal = normal_pool(total, used);
  const uint64_t pool = kind == Pages::kNormal ? normal : total - normal;
  const uint64_t held = kind == Pages::kNormal ? used.normal_bytes : used.huge_bytes;
  return {pool, pool - std::min(held, pool)};
}

std::vector<UsageOf> usage_by_owner(int32_t device) {
  std::vector<UsageOf> all;
  constexpr std::array kNames{"APP", "MODEL", "OPERATOR", "RUNTIME"};
  Arena& arena = machine().arena(device);
  for (size_t kind = 0; kind < kOwnerKinds; ++kind) {
    const Arena::Held held = arena.held_by(static_cast<OwnerKind>(kind));
    if (held.peak == 0 && kind != 0) continue;
    const auto figure = [](int64_t value) {
      return static_cast<uint64_t>(std::max<int64_t>(value, 0));
    };
    all.push_back({kNames[kind], figure(held.bytes), figure(held.peak)});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &UsageOf::bytes);
  return all;
}

bool open_mode() { return machine().setup().open; }

const std::string& machine_name() { return machine().setup().name; }

std::string page_kind() {
  if (os::can_collapse_huge_pages()) return "2 MiB huge pages, made at the first use of 2 MiB";
  if (os::huge_pages_allowed()) return "2 MiB huge pages";
  return std::to_string(os::page_bytes() / 1024) + " KiB pages";
}

}  // namespace ascendrt::memory
