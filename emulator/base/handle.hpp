// Handles: what the client holds instead of an object's address.
// Owns: the PROT_NONE window, slots with generation and kind. A handle looks like a pointer, faults
// when dereferenced, and a dead, foreign or wrong-kind handle is recognised with certainty.
// Must never: hold a lock while an object is destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/barrier.hpp"
#include "base/cpu.hpp"
#include "base/ref.hpp"

namespace ascendrt::base {

enum class Kind : uint8_t {
  kNone,
  kContext,
  kStream,
  kEvent,
  kNotify,
  kCntNotify,
  kLabel,
  kLabelList,
  kModelInstance,
  kRecordedTask,
  kTaskGroup,
  kCondition,
  kDataBuffer,
  kTensorDesc,
  kModelDesc,
  kDataset,
  kAipp,
  kLoadConfig,
  kRunConfig,
  kBundleQuery,
  kOpAttr,
  kOpHandle,
  kOperatorTensor,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kTensorList,
  kScalarList,
  kPhysicalMemory,
  kAllocator,
  kMemoryPool,
};

// Base of everything that can be behind a handle. T::kKind tells the kind statically.
class Object : public Counted {
 public:
  // The handle given out for this object; null until inserted.
  void* handle() const { return handle_; }

 private:
  friend class HandleTable;
  void* handle_ = nullptr;
};

// While one lives, what this thread finds by HandleTable::peek() stays alive, without the cost of a
// reference: removals wait for it. Must never: be kept across a wait or a call of the client's. Who
// has to wait after all takes a reference and calls end().
class Peek {
 public:
  Peek() {
    std::atomic<uint64_t>& number = t_number != nullptr ? *t_number : make_number();
    const uint64_t now = number.load(std::memory_order_relaxed);
    outermost_ = now % 2 == 0;  // else a signal handler interrupted one
    if (!outermost_) return;
    number.store(now + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!g_others_can_pass) number.exchange(now + 1);
  }
  Peek(const Peek&) = delete;
  Peek& operator=(const Peek&) = delete;
  ~Peek() {
    if (outermost_) end();
  }
  static void end() {
    if (t_number == nullptr) return;
    const uint64_t now = t_number->load(std::memory_order_relaxed);
    // release: a removal that sees it sees that this thread is done with the objects.
    if (now % 2 == 1) t_number->store(now + 1, std::memory_order_release);
  }
  // See Note [Peek] in handle.cpp.
  static void wait_for_others();

 private:
  static std::atomic<uint64_t>& make_number();
  ART_FAST_THREAD_LOCAL static inline std::atomic<uint64_t>* t_number = nullptr;
  bool outermost_ = true;
};

class HandleTable {
 public:
  template <class T>
  void* insert(const Ref<T>& object) {
    return insert_object(object.get(), T::kKind);
  }
  // Null when the handle is null, foreign, dead, or of another kind.
  template <class T>
  Ref<T> get(const void* handle) {
    return adopt<T>(lookup(handle, T::kKind));
  }
  // The same without a reference, inside a Peek. For streams, events and contexts only.
  template <class T>
  T* peek(const void* handle) {
    static_assert(peekable(T::kKind));
    return static_cast<T*>(find(handle, T::kKind));
  }
  // Marks the handle dead at once; the object lives until its last Ref goes. Null as for get().
  template <class T>
  Ref<T> remove(const void* handle) {
    return adopt<T>(take(handle, T::kKind));
  }
  // Number of live handles of a kind, for leak reports and tests.
  uint32_t live(Kind kind) const;
  // True when the address lies in the window, dead or alive.
  bool in_window(const void* address) const;

 private:
  // Note [Handles]
  // A handle is window + ((generation << kIndexBits | index) << 4) inside one PROT_NONE mapping. A
  // slot word packs  [ generation:12 | alive:1 | kind:8 | pins:32 ]. A lookup pins the slot with
  // one fetch_add, compares the rest of the word with what the handle says, takes a reference, and
  // unpins. A removal clears `alive` (so new lookups fail), waits for the pins of lookups already
  // inside (a few instructions each), and takes the object out. Free slots are reused first in,
  // first out and only when kMinFree of them wait, so a stale handle can match again only after
  // about kMinFree * 4096 creations; fewer where the host is short of addresses (ulimit -v).
  static constexpr unsigned kIndexBits = 20;
  static constexpr uint64_t kSlots = 1ULL << kIndexBits;
  static constexpr uint64_t kPinMask = 0xFFFFFFFFULL;
  static constexpr unsigned kKindShift = 32;
  static constexpr unsigned kAliveShift = 40;
  static constexpr unsigned kGenerationShift = 41;
  // Slots are allocated in chunks that never move, so lookups need no lock.
  static constexpr uint64_t kChunkSlots = 4096;
  struct Slot {
    std::atomic<uint64_t> word{0};
    Object* object = nullptr;
  };
  struct Located {
    Slot* slot = nullptr;
    uint64_t generation = 0;
  };

  static constexpr uint64_t identity(uint64_t generation, Kind kind) {
    return generation << kGenerationShift | 1ULL << kAliveShift |
           static_cast<uint64_t>(kind) << kKindShift;
  }
  Located locate(const void* handle) const {
    // acquire: where there are bytes, the start is known.
    const uint64_t bytes = window_bytes_.load(std::memory_order_acquire);
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(handle) - window_.load(std::memory_order_relaxed);
    if (offset >= bytes || (offset & 15) != 0) return {};
    const uint64_t index = (offset >> 4) & (kSlots - 1);
    // acquire: pairs with the release in take_free_slot() that publishes the chunk.
    Slot* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    if (chunk == nullptr) return {};
    return {chunk + index % kChunkSlots, offset >> (4 + kIndexBits)};
  }
  // Their removal costs a system call more.
  static constexpr bool peekable(Kind kind) {
    return kind == Kind::kStream || kind == Kind::kEvent || kind == Kind::kContext;
  }
  template <class T>
  static Ref<T> adopt(Object* retained) {
    Ref<T> ref(static_cast<T*>(retained));
    if (retained != nullptr) retained->release();
    return ref;
  }
  void* insert_object(Object* object, Kind kind);
  Object* lookup(const void* handle, Kind kind);  // returns a retained object or null
  Object* find(const void* handle, Kind kind) const {
    const Located at = locate(handle);
    // acquire as in lookup(); sequentially consistent for Note [Peek].
    const bool alive =
        at.slot != nullptr && (at.slot->word.load() & ~kPinMask) == identity(at.generation, kind);
    return alive ? at.slot->object : nullptr;
  }
  Object* take(const void* handle, Kind kind);  // returns a retained object or null
  void make_window();
  uint32_t take_free_slot();
  static void set_identity(Slot& slot, uint64_t value);

  std::atomic<uintptr_t> window_{0};
  std::atomic<uint64_t> window_bytes_{0};  // 0 before the first insertion
  std::array<std::atomic<Slot*>, kSlots / kChunkSlots> chunks_{};
  std::array<std::atomic<uint32_t>, 256> live_{};
};

inline constinit HandleTable g_handles;
inline HandleTable& handles() { return g_handles; }

}  // namespace ascendrt::base
