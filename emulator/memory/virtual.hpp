// Virtual memory management: reserved addresses, physical memory, and which lies behind which.
// Owns: the windows of reserved addresses, the mappings in them, the files of physical memory.
// Must never: be locked by a lookup, or unmap what engines may still hold a view of.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"

namespace ascendrt::memory {

inline constexpr uint64_t kGranule = 2ULL << 20;  // of reserving, mapping and physical memory
inline constexpr int32_t kHostMemory = -1;        // "device" of physical memory on the host
inline constexpr int32_t kManagedMemory = -2;     // of memory of aclrtMemAllocManaged

// A piece of physical memory: a memory file, or a part of one that another process shares.
class Physical final : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kPhysicalMemory;
  // Makes memory of a device (charged to its ledger) or of the host; raises 207001.
  static base::Ref<Physical> make(const aclrtPhysicalMemProp& prop, int32_t device, uint64_t bytes);
  // What another process holds; takes the file.
  static base::Ref<Physical> adopt(int file, uint64_t offset, uint64_t bytes, int32_t device,
                                   const aclrtPhysicalMemProp& prop);
  ~Physical() override;

  const aclrtPhysicalMemProp& prop() const { return prop_; }
  int32_t device() const { return device_; }
  uint64_t bytes() const { return bytes_; }
  int file() const { return file_; }
  uint64_t file_offset() const { return offset_; }
  uint64_t touched_bytes() const;
  // The token it is shared under, 0 when it is not; the sharing ends with the memory.
  std::atomic<uint64_t> token{0};

 private:
  Physical(const aclrtPhysicalMemProp& prop, int32_t device, uint64_t bytes);

  const aclrtPhysicalMemProp prop_;
  const int32_t device_;
  const uint64_t bytes_;
  uint64_t offset_ = 0;
  int file_ = -1;
  bool charged_ = false;
};

// References that the client holds on a handle (made, imported, retained by address); the last one
// kills the handle, the memory lives as long as something is mapped.
void* hold(const base::Ref<Physical>& memory);
base::Ref<Physical> physical_behind(void* handle);  // raises 107000
void let_go(void* handle);                          // raises 107000

// Who may use a mapping.
struct Access {
  aclrtMemLocation location{};
  uint64_t flags = 0;
};

// Note [Virtual windows]
// Reserved addresses lie in windows of their own, beside those of the devices, as pairs: the
// client's view (without access unless the host was given it) and the engines' alias at the same
// offset, so a range of several mappings in a row is contiguous for engines too. One word per
// granule leads to the mapping; lookups take no lock. Records of mappings are used again only after
// many others, so a lookup that races with unmap finds the old facts, never foreign memory. The
// alias of unmapped memory becomes private zero pages: a task that comes late reads garbage and
// never faults.
class Virtual {
 public:
  // Raises 107000 for a wrong wish, 207001 when the host refuses.
  void* reserve(uint64_t bytes, void* wish);
  void release(void* address);  // 107000: not a start, or something is mapped in it
  void map(void* address, uint64_t bytes, const base::Ref<Physical>& memory, uint64_t flags);
  void unmap(void* address);
  void set_access(void* address, uint64_t bytes, const aclrtMemAccessDesc* desc, size_t count);
  uint64_t access(void* address, const aclrtMemLocation& location);
  base::Ref<Physical> physical_at(void* address);
  // Reserves and maps at once; the offset of the file need not be aligned. Undo with drop().
  void* attach(const base::Ref<Physical>& memory);
  // The same with access by the host, as flags say.
  void* map_anywhere(const base::Ref<Physical>& memory, uint64_t flags);
  void drop(void* address);

  bool holds(const void* address) const { return window_of(address) != nullptr; }
  bool mapped(const void* address) const { return mapping_at(address) != nullptr; }
  Location locate(const void* address) const;
  Allocation find(const void* address) const;  // raises 107000
  void* view(const void* address, uint64_t bytes) const;
  uint64_t touched_bytes() const;

 private:
  struct Mapping {
    std::atomic<uint64_t> start{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<int32_t> device{0};
    std::atomic<bool> usable{false};
    base::Ref<Physical> memory;           // this and below: under the lock
    std::map<uint64_t, uint64_t> access;  // type << 32 | id -> flags
  };
  struct Window {
    std::byte* client = nullptr;
    std::byte* alias = nullptr;
    uint64_t bytes = 0;
    std::atomic<Mapping*>* table = nullptr;
  };
  static constexpr size_t kWindows = 64;
  static constexpr size_t kRetired = 1024;

  const Window* window_of(const void* address) const;
  const Mapping* mapping_at(const void* address) const;
  Window& add_window(uint64_t bytes, void* wish);
  bool is_free(uint64_t start, uint64_t bytes) const;
  Mapping& mapping_from(void* address);
  template <class Map>
  void* reserve_and(uint64_t bytes, Map&& map);
  Mapping& place(std::byte* start, uint64_t lead, const base::Ref<Physical>& memory);
  void check_place(uint64_t start, const base::Ref<Physical>& memory) const;
  void remove(Mapping& mapping);
  base::Ref<Physical> detach(void* address);
  void show_to_host(const Mapping& mapping, uint64_t flags) const;

  mutable base::RankedMutex mutex_{base::Rank::kArena};
  std::array<std::atomic<Window*>, kWindows> windows_{};
  std::map<uint64_t, uint64_t> reserved_;  // start -> bytes
  std::map<uint64_t, Mapping*> mapped_;    // start -> mapping
  std::deque<Mapping> mappings_;
  std::deque<Mapping*> retired_;
};

// Made at first use, never destroyed.
Virtual& virtual_memory();
inline std::atomic<Virtual*> g_virtual{nullptr};
inline Virtual* virtual_memory_or_null() { return g_virtual.load(std::memory_order_acquire); }

}  // namespace ascendrt::memory
