#include "memory/memory.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"
#include "memory/machine.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kGiantPage = 1ULL << 30;

uint64_t round_to_policy(uint64_t bytes, aclrtMemMallocPolicy policy) {
  const bool giant =
      policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
  if (!giant || bytes > UINT64_MAX - kGiantPage) return bytes;
  return (bytes + kGiantPage - 1) / kGiantPage * kGiantPage;
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

Location locate(const void* address) {
  const Machine* all = machine_or_null();
  if (all == nullptr) return {};
  if (const int32_t device = all->device_of(address); device >= 0) return {Place::kDevice, device};
  const Pinned* pinned = all->pinned_or_null();
  if (pinned == nullptr) return {};
  if (pinned->in_range(address)) {
    const bool live = pinned->find(address).state == BlockState::kLive;
    return {live ? Place::kPinned : Place::kPageable, 0};
  }
  return {pinned->registered(address) ? Place::kPinned : Place::kPageable, 0};
}

void* allocate_device(int32_t device, uint64_t size_bytes, aclrtMemMallocPolicy policy) {
  return machine().arena(device).allocate(round_to_policy(size_bytes, policy));
}

void free_device(void* address) { arena_of(address).free(static_cast<std::byte*>(address)); }

Allocation find_device(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  Arena& arena = arena_of(address);
  const Found found = arena.find(at);
  if (found.state != BlockState::kLive) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, describe(arena.setup().client, at, found));
  }
  return {arena.setup().client + found.block.offset, found.block.bytes};
}

void* allocate_pinned(uint64_t size_bytes) { return machine().pinned().allocate(size_bytes); }

void free_pinned(void* address) { machine().pinned().free(address); }

void register_host(const void* address, uint64_t size_bytes) {
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

Usage usage(int32_t device) {
  Machine& all = machine();
  const uint64_t total = all.setup().device_bytes;
  const uint64_t used = all.ledger().used_bytes(static_cast<uint32_t>(device));
  return {total, total - (used < total ? used : total)};
}

bool open_mode() { return machine().setup().open; }

std::string page_kind() {
  if (os::huge_pages_allowed()) return "2 MiB huge pages";
  return std::to_string(os::page_bytes() / 1024) + " KiB pages";
}

}  // namespace ascendrt::memory
