#include "base/handle.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <deque>
#include <mutex>
#include <string>

#include "base/error.hpp"

namespace ascendrt::base {
namespace {

constexpr unsigned kGenerationBits = 12;
constexpr size_t kMinFree = 1024;
constexpr uint64_t kPin = 1;

struct FreeSlots {
  std::mutex mutex;  // this, and growth of the table
  std::deque<uint32_t> slots;
  uint32_t used = 0;
};

FreeSlots& free_slots() {
  static auto* const instance = new FreeSlots;
  return *instance;
}

// Note [Peek]
// A section of a thread is an odd number in its Reader. A removal first marks the slot dead, then
// waits for every thread whose number is odd to change it: sections that begin later find the slot
// dead. That needs an order between "my number is odd" and "the slot is alive" in the reader and
// between the two in the removal: Note [Asymmetric order].
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

}  // namespace

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
  make_others_pass();
  for (Reader* reader = g_readers.load(); reader != nullptr; reader = reader->next) {
    const uint64_t number = reader->number.load();
    if (number % 2 == 0) continue;
    while (reader->number.load(std::memory_order_acquire) == number) sched_yield();
  }
}

// Window and chunks are leaked on purpose: handles may be used from static destructors of the
// client.
void HandleTable::make_window() {
  constexpr unsigned kLeastBits = 3;
  uint64_t bytes = 0;
  for (unsigned bits = kGenerationBits; bits >= kLeastBits; bits -= 3) {
    bytes = kSlots * 16 << bits;
    void* window =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED) continue;
    window_.store(reinterpret_cast<uintptr_t>(window), std::memory_order_relaxed);
    window_bytes_.store(bytes, std::memory_order_release);
    return;
  }
  fail(207001, "the host has no " + std::to_string(bytes >> 20) +
                   " MiB of addresses for handles; lift the limit (ulimit -v, container)");
}

uint32_t HandleTable::take_free_slot() {
  FreeSlots& free = free_slots();
  const std::lock_guard lock(free.mutex);
  if (window_bytes_.load(std::memory_order_relaxed) == 0) make_window();
  if (free.slots.size() > kMinFree || (free.used == kSlots && !free.slots.empty())) {
    const uint32_t index = free.slots.front();
    free.slots.pop_front();
    return index;
  }
  if (free.used == kSlots) {
    fail(207001,
         "all 1048576 handles are in use: streams, events, buffers or descriptions leak; "
         "destroy the objects that are no longer needed");
  }
  const uint32_t index = free.used++;
  auto& chunk = chunks_[index / kChunkSlots];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Slot[kChunkSlots], std::memory_order_release);
  }
  return index;
}

void HandleTable::set_identity(Slot& slot, uint64_t value) {
  // release: publishes slot.object to lookups; keeps pins of stale lookups that pass through.
  uint64_t old = slot.word.load(std::memory_order_relaxed);
  while (!slot.word.compare_exchange_weak(old, value | (old & kPinMask), std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void* HandleTable::insert_object(Object* object, Kind kind) {
  const uint32_t index = take_free_slot();
  Slot& slot = chunks_[index / kChunkSlots].load(std::memory_order_relaxed)[index % kChunkSlots];
  const uint64_t previous = slot.word.load(std::memory_order_relaxed) >> kGenerationShift;
  const uint64_t generations = window_bytes_.load(std::memory_order_relaxed) / (kSlots * 16);
  const uint64_t generation = (previous + 1) % generations;
  object->retain();
  object->handle_ = reinterpret_cast<void*>(window_.load(std::memory_order_relaxed) +
                                            ((generation << kIndexBits | index) << 4));
  slot.object = object;
  live_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
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
  live_[static_cast<size_t>(kind)].fetch_sub(1, std::memory_order_relaxed);
  const uint64_t offset = reinterpret_cast<uintptr_t>(handle) - window_.load();
  FreeSlots& free = free_slots();
  const std::lock_guard lock(free.mutex);
  free.slots.push_back(static_cast<uint32_t>((offset >> 4) & (kSlots - 1)));
  return object;
}

uint32_t HandleTable::live(Kind kind) const {
  return live_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
}

bool HandleTable::in_window(const void* address) const {
  const uint64_t bytes = window_bytes_.load(std::memory_order_acquire);
  return reinterpret_cast<uintptr_t>(address) - window_.load(std::memory_order_relaxed) < bytes;
}

}  // namespace ascendrt::base
