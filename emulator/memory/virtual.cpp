#include "memory/virtual.hpp"

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "memory/fault.hpp"
#include "memory/machine.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kWindowBytes = 128ULL << 30;
constexpr uint64_t kReserveMax = 1ULL << 44;

uint64_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

uint64_t whole_granules(uint64_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

[[noreturn]] void refuse(const std::string& text) { base::fail(ACL_ERROR_RT_PARAM_INVALID, text); }

uint64_t key_of(const aclrtMemLocation& location) {
  const bool host = location.type != ACL_MEM_LOCATION_TYPE_DEVICE;
  return static_cast<uint64_t>(location.type) << 32 | (host ? 0 : location.id);
}

}  // namespace

Virtual& virtual_memory() {
  if (Virtual* made = virtual_memory_or_null()) return *made;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (Virtual* made = virtual_memory_or_null()) return *made;
  install_fault_handler();
  g_virtual.store(new Virtual, std::memory_order_release);
  return *virtual_memory_or_null();
}

const Virtual::Window* Virtual::window_of(const void* address) const {
  for (const auto& slot : windows_) {
    const Window* window = slot.load(std::memory_order_acquire);
    if (window == nullptr) return nullptr;
    if (number(address) - number(window->client) < window->bytes) return window;
  }
  return nullptr;
}

const Virtual::Mapping* Virtual::mapping_at(const void* address) const {
  const Window* window = window_of(address);
  if (window == nullptr) return nullptr;
  const uint64_t granule = (number(address) - number(window->client)) / kGranule;
  // acquire: pairs with the release in place().
  const Mapping* mapping = window->table[granule].load(std::memory_order_acquire);
  if (mapping == nullptr) return nullptr;
  const uint64_t start = mapping->start.load(std::memory_order_relaxed);
  const uint64_t bytes = mapping->bytes.load(std::memory_order_relaxed);
  return number(address) - start < bytes ? mapping : nullptr;
}

Location Virtual::locate(const void* address) const {
  const Mapping* mapping = mapping_at(address);
  const int32_t device = mapping == nullptr ? 0 : mapping->device.load(std::memory_order_relaxed);
  if (device == kHostMemory) return {Place::kPinned, 0};
  if (device == kManagedMemory) return {Place::kManaged, 0};
  return {Place::kDevice, device};
}

Allocation Virtual::find(const void* address) const {
  const Mapping* mapping = mapping_at(address);
  if (mapping == nullptr) {
    refuse("address " + address_text(address) +
           " is reserved, but nothing is mapped there; map physical memory with aclrtMapMem");
  }
  return {reinterpret_cast<void*>(mapping->start.load(std::memory_order_relaxed)),
          mapping->bytes.load(std::memory_order_relaxed), kGranule};
}

void* Virtual::view(const void* address, uint64_t bytes) const {
  const Window* window = window_of(address);
  const uint64_t end = number(address) + bytes;
  for (uint64_t at = number(address); at < end;) {
    const Mapping* mapping = mapping_at(reinterpret_cast<const void*>(at));
    if (mapping == nullptr || !mapping->usable.load(std::memory_order_relaxed)) {
      refuse("the " + size_text(bytes) + " at " + address_text(address) + " reach to " +
             address_text(reinterpret_cast<const void*>(at)) +
             (mapping == nullptr ? ", where no physical memory is mapped; map it with aclrtMapMem"
                                 : ", which no device may use; allow it with aclrtMemSetAccess"));
    }
    at = mapping->start.load(std::memory_order_relaxed) +
         mapping->bytes.load(std::memory_order_relaxed);
  }
  std::byte* at = window->alias + (number(address) - number(window->client));
  machine().watch(at, bytes);
  return at;
}

Virtual::Window& Virtual::add_window(uint64_t bytes, void* wish) {
  const auto slot = std::find_if(windows_.begin(), windows_.end(), [](const auto& each) {
    return each.load(std::memory_order_relaxed) == nullptr;
  });
  if (slot == windows_.end()) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               "all " + std::to_string(kWindows) +
                   " windows of reserved addresses are in use; release reserved addresses");
  }
  auto window = std::make_unique<Window>();
  window->bytes = wish != nullptr ? bytes : std::max(bytes, kWindowBytes);
  window->client =
      wish != nullptr ? os::reserve_at(wish, window->bytes) : os::reserve(window->bytes, kGranule);
  if (window->client == nullptr) {
    refuse("the addresses from " + address_text(wish) + " on (" + size_text(bytes) +
           ") are not free in this process; pass a null expectPtr to let the system choose");
  }
  const bool open = machine().setup().open;
  window->alias = open ? window->client : os::reserve(window->bytes, kGranule);
  window->table = static_cast<std::atomic<Mapping*>*>(
      os::reserve_table(window->bytes / kGranule * sizeof(std::atomic<Mapping*>)));
  slot->store(window.get(), std::memory_order_release);
  return *window.release();
}

bool Virtual::is_free(uint64_t start, uint64_t bytes) const {
  const auto next = reserved_.lower_bound(start);
  if (next != reserved_.end() && next->first - start < bytes) return false;
  if (next == reserved_.begin()) return true;
  const auto last = std::prev(next);
  return start - last->first >= last->second;
}

void* Virtual::reserve(uint64_t asked, void* wish) {
  if (asked > kReserveMax) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, size_text(asked) +
                                                   " of addresses cannot be "
                                                   "reserved; reserve less");
  }
  if (number(wish) % kGranule != 0) {
    refuse("argument expectPtr is " + address_text(wish) + ", not aligned to 2 MiB");
  }
  const uint64_t bytes = whole_granules(asked);
  const std::lock_guard lock(mutex_);
  if (wish != nullptr) {
    const Window* window = window_of(wish);
    const uint64_t behind = window == nullptr ? 0 : number(wish) - number(window->client);
    if (window == nullptr) {
      add_window(bytes, wish);
    } else if (bytes > window->bytes - behind || !is_free(number(wish), bytes)) {
      refuse("the addresses from " + address_text(wish) + " on are reserved already");
    }
    reserved_.emplace(number(wish), bytes);
    return wish;
  }
  for (const auto& slot : windows_) {
    const Window* window = slot.load(std::memory_order_relaxed);
    if (window == nullptr) break;
    const uint64_t first = number(window->client);
    uint64_t start = first;
    for (auto it = reserved_.lower_bound(first); it != reserved_.end(); ++it) {
      if (it->first - first >= window->bytes || it->first - start >= bytes) break;
      start = it->first + it->second;
    }
    if (start - first > window->bytes || bytes > window->bytes - (start - first)) continue;
    reserved_.emplace(start, bytes);
    return reinterpret_cast<void*>(start);
  }
  const Window& made = add_window(bytes, nullptr);
  reserved_.emplace(number(made.client), bytes);
  return made.client;
}

void Virtual::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = reserved_.find(number(address));
  if (found == reserved_.end()) {
    refuse("address " + address_text(address) +
           " is no start of reserved addresses; give what aclrtReserveMemAddress gave, once");
  }
  const auto mapping = mapped_.lower_bound(found->first);
  if (mapping != mapped_.end() && mapping->first - found->first < found->second) {
    refuse("physical memory is still mapped at " +
           address_text(reinterpret_cast<void*>(mapping->first)) +
           "; unmap it with aclrtUnmapMem before the addresses are released");
  }
  reserved_.erase(found);
}

// One reservation holds memory of one place only. src: hicann/runtime docs, aclrtMapMem
void Virtual::check_place(uint64_t start, const base::Ref<Physical>& memory) const {
  const uint64_t bytes = whole_granules(memory->bytes());
  auto range = reserved_.upper_bound(start);
  const bool above_one = range != reserved_.begin();
  if (above_one) --range;
  if (!above_one || start - range->first >= range->second ||
      bytes > range->second - (start - range->first)) {
    refuse("the " + size_text(bytes) + " from " + address_text(reinterpret_cast<void*>(start)) +
           " on are not within reserved addresses; reserve them with aclrtReserveMemAddress");
  }
  for (auto it = mapped_.lower_bound(range->first);
       it != mapped_.end() && it->first - range->first < range->second; ++it) {
    const uint64_t there = whole_granules(it->second->bytes.load(std::memory_order_relaxed));
    if (it->first < start + bytes && start < it->first + there) {
      refuse("physical memory is mapped at " + address_text(reinterpret_cast<void*>(it->first)) +
             " already; unmap it first");
    }
    if (it->second->memory->device() != memory->device()) {
      refuse("these reserved addresses hold memory of another place (device " +
             std::to_string(it->second->memory->device()) +
             "; -1 is the host); reserve addresses of their own for it");
    }
  }
}

Virtual::Mapping& Virtual::place(std::byte* start, uint64_t lead,
                                 const base::Ref<Physical>& memory) {
  const Window& window = *window_of(start);
  const uint64_t offset = number(start) - number(window.client);
  const uint64_t page = os::page_bytes();
  os::map_file_part(memory->file(), memory->file_offset() - lead, window.alias + offset,
                    (lead + memory->bytes() + page - 1) / page * page, os::Access::kReadWrite);
  if (retired_.size() > kRetired) {
    mapped_[number(start)] = retired_.front();
    retired_.pop_front();
  } else {
    mapped_[number(start)] = &mappings_.emplace_back();
  }
  Mapping& mapping = *mapped_[number(start)];
  mapping.start.store(number(start) + lead, std::memory_order_relaxed);
  mapping.bytes.store(memory->bytes(), std::memory_order_relaxed);
  mapping.device.store(memory->device(), std::memory_order_relaxed);
  mapping.memory = memory;
  const uint64_t granules = whole_granules(lead + memory->bytes()) / kGranule;
  for (uint64_t i = 0; i < granules; ++i) {
    window.table[offset / kGranule + i].store(&mapping, std::memory_order_release);
  }
  return mapping;
}

void Virtual::map(void* address, uint64_t bytes, const base::Ref<Physical>& memory,
                  uint64_t flags) {
  if (number(address) % kGranule != 0) {
    refuse("argument virPtr is " + address_text(address) + ", not aligned to 2 MiB");
  }
  if (bytes != memory->bytes()) {
    refuse("argument size is " + size_text(bytes) + ", the physical memory has " +
           size_text(memory->bytes()) + "; map all of it");
  }
  const std::lock_guard lock(mutex_);
  check_place(number(address), memory);
  Mapping& mapping = place(static_cast<std::byte*>(address), 0, memory);
  const bool host = memory->device() < 0;
  if (flags != 0) mapping.access[key_of(memory->prop().location)] = flags;
  try {
    if (host && flags != 0) show_to_host(mapping, flags);
  } catch (...) {
    mapping.memory = {};
    remove(mapping);
    throw;
  }
  mapping.usable.store(flags != 0, std::memory_order_release);
}

// Reserves and maps for callers that give no address of their own; nothing is left of a failure.
template <class Map>
void* Virtual::reserve_and(uint64_t bytes, Map&& map) {
  auto* start = static_cast<std::byte*>(reserve(bytes, nullptr));
  try {
    map(start);
  } catch (...) {
    release(start);
    throw;
  }
  return start;
}

void* Virtual::map_anywhere(const base::Ref<Physical>& memory, uint64_t flags) {
  return reserve_and(memory->bytes(),
                     [&](std::byte* start) { map(start, memory->bytes(), memory, flags); });
}

void* Virtual::attach(const base::Ref<Physical>& memory) {
  const uint64_t lead = memory->file_offset() % os::page_bytes();
  void* start = reserve_and(lead + memory->bytes(), [&](std::byte* at) {
    const std::lock_guard lock(mutex_);
    place(at, lead, memory).usable.store(true, std::memory_order_release);
  });
  return static_cast<std::byte*>(start) + lead;
}

void Virtual::drop(void* address) {
  void* start = reinterpret_cast<void*>(number(address) / kGranule * kGranule);
  detach(start);
  release(start);
}

Virtual::Mapping& Virtual::mapping_from(void* address) {
  const auto found = mapped_.find(number(address));
  if (found != mapped_.end()) return *found->second;
  refuse("address " + address_text(address) +
         " is no start of a mapping; give the address that aclrtMapMem was given");
}

void Virtual::remove(Mapping& mapping) {
  mapping.usable.store(false, std::memory_order_relaxed);
  const uint64_t start = mapping.start.load(std::memory_order_relaxed) / kGranule * kGranule;
  const uint64_t end = whole_granules(mapping.start.load(std::memory_order_relaxed) +
                                      mapping.bytes.load(std::memory_order_relaxed));
  const Window& window = *window_of(reinterpret_cast<void*>(start));
  const uint64_t offset = start - number(window.client);
  for (uint64_t i = 0; i < (end - start) / kGranule; ++i) {
    window.table[offset / kGranule + i].store(nullptr, std::memory_order_relaxed);
  }
  if (window.alias != window.client) {
    os::map_nothing(window.client + offset, end - start, os::Access::kNone);
  }
  os::map_nothing(window.alias + offset, end - start, os::Access::kReadWrite);
  mapping.access.clear();
  mapped_.erase(start);
  retired_.push_back(&mapping);
}

// The memory is let go of by the caller, without the lock.
base::Ref<Physical> Virtual::detach(void* address) {
  const std::lock_guard lock(mutex_);
  Mapping& mapping = mapping_from(address);
  base::Ref<Physical> last = std::move(mapping.memory);
  remove(mapping);
  return last;
}

void Virtual::unmap(void* address) {
  if (locate(address).place == Place::kManaged) {
    refuse("address " + address_text(address) + " is managed memory; free it with aclrtFree");
  }
  detach(address);
}

// Gives the client's view the access that the host was allowed.
void Virtual::show_to_host(const Mapping& mapping, uint64_t flags) const {
  auto* start = reinterpret_cast<std::byte*>(mapping.start.load(std::memory_order_relaxed));
  const Physical& memory = *mapping.memory;
  const auto access = flags == ACL_RT_MEM_ACCESS_FLAGS_NONE   ? os::Access::kNone
                      : flags == ACL_RT_MEM_ACCESS_FLAGS_READ ? os::Access::kRead
                                                              : os::Access::kReadWrite;
  if (machine().setup().open) return;
  os::map_file_part(memory.file(), memory.file_offset(), start, memory.bytes(), access);
}

void Virtual::set_access(void* address, uint64_t bytes, const aclrtMemAccessDesc* desc,
                         size_t count) {
  const std::lock_guard lock(mutex_);
  Mapping& mapping = mapping_from(address);
  if (bytes != mapping.bytes.load(std::memory_order_relaxed)) {
    refuse("argument size is " + size_text(bytes) + ", the mapping has " +
           size_text(mapping.bytes.load(std::memory_order_relaxed)));
  }
  for (size_t i = 0; i < count; ++i) {
    const auto flags = static_cast<uint64_t>(desc[i].flags);
    mapping.access[key_of(desc[i].location)] = flags;
    if (desc[i].location.type != ACL_MEM_LOCATION_TYPE_DEVICE) show_to_host(mapping, flags);
  }
  const bool usable = std::any_of(mapping.access.begin(), mapping.access.end(),
                                  [](const auto& each) { return each.second != 0; });
  mapping.usable.store(usable, std::memory_order_release);
}

uint64_t Virtual::access(void* address, const aclrtMemLocation& location) {
  const std::lock_guard lock(mutex_);
  const Mapping& mapping = mapping_from(address);
  const auto found = mapping.access.find(key_of(location));
  return found == mapping.access.end() ? 0 : found->second;
}

base::Ref<Physical> Virtual::physical_at(void* address) {
  const std::lock_guard lock(mutex_);
  return mapping_from(address).memory;
}

uint64_t Virtual::touched_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [start, mapping] : mapped_) bytes += mapping->memory->touched_bytes();
  return bytes;
}

}  // namespace ascendrt::memory
