// Handle window and slots. See Note [Handles].
#include "base/handle.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.hpp"

namespace ascendrt::base {
namespace {

// Note [Handles]
// A handle is base + ((generation << kIndexBits | index) << 4) inside one PROT_NONE mapping. A slot
// word packs  [ generation:12 | alive:1 | kind:8 | pins:32 ]. A lookup pins the slot with one
// fetch_add, compares the rest of the word with what the handle says, takes a reference, and
// unpins. A removal clears `alive` (so new lookups fail), waits for the pins of lookups already
// inside (a few instructions each), and takes the object out. Free slots are reused first in, first
// out and only when kMinFree of them wait, so a stale handle can match again only after about
// kMinFree * 4096 creations; fewer where the host is short of addresses (ulimit -v).
constexpr unsigned kIndexBits = 20;
constexpr unsigned kGenerationBits = 12;
constexpr uint64_t kSlots = 1ULL << kIndexBits;
constexpr size_t kMinFree = 1024;
constexpr uint64_t kPin = 1;
constexpr uint64_t kPinMask = 0xFFFFFFFFULL;
constexpr unsigned kKindShift = 32;
constexpr unsigned kAliveShift = 40;
constexpr unsigned kGenerationShift = 41;

struct Slot {
  std::atomic<uint64_t> word{0};
  Object* object = nullptr;
};

// Slots are allocated in chunks that never move, so lookups need no lock.
constexpr uint64_t kChunkSlots = 4096;
struct State {
  uintptr_t window = 0;
  uint64_t generations = 0;
  uint64_t window_bytes() const { return kSlots * generations * 16; }
  std::array<std::atomic<Slot*>, kSlots / kChunkSlots> chunks{};
  std::mutex mutex;  // free list and growth only
  std::deque<uint32_t> free_slots;
  uint32_t used = 0;
  std::array<std::atomic<uint32_t>, 256> live{};
};

void reserve_window(State& s) {
  constexpr unsigned kLeastBits = 3;
  for (unsigned bits = kGenerationBits; bits >= kLeastBits; bits -= 3) {
    s.generations = 1ULL << bits;
    void* window = mmap(nullptr, s.window_bytes(), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED) continue;
    s.window = reinterpret_cast<uintptr_t>(window);
    return;
  }
  fail(207001, "the host has no " + std::to_string(s.window_bytes() >> 20) +
                   " MiB of addresses for handles; lift the limit (ulimit -v, container)");
}

State& state() {
  // Leaked on purpose: handles may be used from static destructors of the client.
  static State* const instance = [] {
    auto s = std::make_unique<State>();
    reserve_window(*s);
    return s.release();
  }();
  return *instance;
}

uint64_t identity(uint64_t generation, Kind kind) {
  return generation << kGenerationShift | 1ULL << kAliveShift |
         static_cast<uint64_t>(kind) << kKindShift;
}

struct Located {
  Slot* slot = nullptr;
  uint64_t generation = 0;
};

Located locate(const void* handle) {
  State& s = state();
  const uint64_t offset = reinterpret_cast<uintptr_t>(handle) - s.window;
  if (offset >= s.window_bytes() || (offset & 15) != 0) return {};
  const uint64_t index = (offset >> 4) & (kSlots - 1);
  // acquire: pairs with the release in take_free_slot() that publishes the chunk.
  Slot* chunk = s.chunks[index / kChunkSlots].load(std::memory_order_acquire);
  if (chunk == nullptr) return {};
  return {chunk + index % kChunkSlots, offset >> (4 + kIndexBits)};
}

uint32_t take_free_slot(State& s) {
  const std::lock_guard lock(s.mutex);
  if (s.free_slots.size() > kMinFree || (s.used == kSlots && !s.free_slots.empty())) {
    const uint32_t index = s.free_slots.front();
    s.free_slots.pop_front();
    return index;
  }
  if (s.used == kSlots) {
    fail(207001,
         "all 1048576 handles are in use: streams, events, buffers or descriptions leak; "
         "destroy the objects that are no longer needed");
  }
  const uint32_t index = s.used++;
  auto& chunk = s.chunks[index / kChunkSlots];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Slot[kChunkSlots], std::memory_order_release);
  }
  return index;
}

void* address_of(const State& s, uint64_t generation, uint64_t index) {
  return reinterpret_cast<void*>(s.window + ((generation << kIndexBits | index) << 4));
}

void set_identity(Slot& slot, uint64_t value) {
  // release: publishes slot.object to lookups; keeps pins of stale lookups that pass through.
  uint64_t old = slot.word.load(std::memory_order_relaxed);
  while (!slot.word.compare_exchange_weak(old, value | (old & kPinMask), std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

// Note [Peek]
// A section of a thread is an odd number in its Reader. A removal first marks the slot dead, then
// waits for every thread whose number is odd to change it: sections that begin later find the slot
// dead. That needs an order between "my number is odd" and "the slot is alive" in the reader and
// between the two in the removal; membarrier() makes the rare removal pay for both. Where the
// kernel lacks it, entering a section is a sequentially consistent exchange.
struct Reader {
  std::atomic<uint64_t> number{0};
  std::atomic<bool> taken{true};
  Reader* next = nullptr;
};
std::atomic<Reader*> g_readers{nullptr};  // never shrinks; taken again when their thread is gone

Reader& make_reader() {
  for (Reader* reader = g_readers.load(); reader != nullptr; reader = reader->next) {
    bool taken = false;
    if (reader->taken.compare_exchange_strong(taken, true)) return *reader;
  }
  auto* reader = new Reader;
  reader->next = g_readers.load();
  while (!g_readers.compare_exchange_weak(reader->next, reader)) {
  }
  return *reader;
}

bool register_for_barriers() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

bool Peek::removals_make_order_ = register_for_barriers();

std::atomic<uint64_t>& Peek::make_number() {
  struct End {
    Reader* reader = nullptr;
    ~End() {
      t_number = nullptr;
      reader->taken.store(false, std::memory_order_release);
    }
  };
  Reader& reader = make_reader();
  t_number = &reader.number;
  static thread_local bool known = false;
  if (!std::exchange(known, true)) {  // who calls after its end keeps a second one for ever
    static thread_local End end;
    end.reader = &reader;
  }
  return reader.number;
}

void Peek::wait_for_others() {
  end();  // two removals inside sections would wait for each other
  if (removals_make_order_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (Reader* reader = g_readers.load(); reader != nullptr; reader = reader->next) {
    const uint64_t number = reader->number.load();
    if (number % 2 == 0) continue;
    while (reader->number.load(std::memory_order_acquire) == number) sched_yield();
  }
}

void* HandleTable::insert_object(Object* object, Kind kind) {
  State& s = state();
  const uint32_t index = take_free_slot(s);
  Slot& slot = s.chunks[index / kChunkSlots].load(std::memory_order_relaxed)[index % kChunkSlots];
  const uint64_t previous = slot.word.load(std::memory_order_relaxed) >> kGenerationShift;
  const uint64_t generation = (previous + 1) % s.generations;
  object->retain();
  object->handle_ = address_of(s, generation, index);
  slot.object = object;
  s.live[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  set_identity(slot, identity(generation, kind));
  return object->handle_;
}

Object* HandleTable::lookup(const void* handle, Kind kind) {
  const Located at = locate(handle);
  if (at.slot == nullptr) return nullptr;
  // acquire: pairs with the release of set_identity(), makes slot.object visible.
  const uint64_t word = at.slot->word.fetch_add(kPin, std::memory_order_acquire);
  Object* object = nullptr;
  if ((word & ~kPinMask) == identity(at.generation, kind)) {
    object = at.slot->object;
    object->retain();
  }
  at.slot->word.fetch_sub(kPin, std::memory_order_release);
  return object;
}

Object* HandleTable::find(const void* handle, Kind kind) {
  const Located at = locate(handle);
  // acquire as in lookup(); sequentially consistent for Note [Peek].
  const bool alive =
      at.slot != nullptr && (at.slot->word.load() & ~kPinMask) == identity(at.generation, kind);
  return alive ? at.slot->object : nullptr;
}

Object* HandleTable::take(const void* handle, Kind kind) {
  const Located at = locate(handle);
  if (at.slot == nullptr) return nullptr;
  const uint64_t alive = identity(at.generation, kind);
  uint64_t word = at.slot->word.load(std::memory_order_acquire);
  do {
    if ((word & ~kPinMask) != alive) return nullptr;
  } while (!at.slot->word.compare_exchange_weak(
      word, at.generation << kGenerationShift | (word & kPinMask)));
  // Lookups that pinned before the line above may still be taking their reference.
  while ((at.slot->word.load(std::memory_order_acquire) & kPinMask) != 0) {
  }
  if (peekable(kind)) Peek::wait_for_others();
  Object* object = std::exchange(at.slot->object, nullptr);
  State& s = state();
  s.live[static_cast<size_t>(kind)].fetch_sub(1, std::memory_order_relaxed);
  const uint64_t index = ((reinterpret_cast<uintptr_t>(handle) - s.window) >> 4) & (kSlots - 1);
  const std::lock_guard lock(s.mutex);
  s.free_slots.push_back(static_cast<uint32_t>(index));
  return object;
}

uint32_t HandleTable::live(Kind kind) const {
  return state().live[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
}

bool HandleTable::in_window(const void* address) const {
  const State& s = state();
  return reinterpret_cast<uintptr_t>(address) - s.window < s.window_bytes();
}

HandleTable& handles() {
  static HandleTable table;
  return table;
}

}  // namespace ascendrt::base
