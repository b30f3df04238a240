// The emulated machine's memory in this process: one window of addresses, an arena per used device.
// Owns: configuration, window, arenas, pinned memory, ledger, budget. One per process, leaked on
// purpose. Must never: map or open anything before it is needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.hpp"
#include "memory/arena.hpp"
#include "memory/budget.hpp"
#include "memory/ledger.hpp"
#include "memory/pinned.hpp"
#include "memory/settings.hpp"

namespace ascendrt::memory {

// Note [Window]
// All devices' client ranges lie side by side in one reserved range, each in a slot whose size is a
// power of two: address -> device is a subtraction and a shift. The engines' aliases are mapped per
// device when it is first used.
class Machine {
 public:
  struct Setup {
    uint32_t devices = 1;
    uint64_t device_bytes = 0;
    bool open = false;
    Fill fill = Fill::kAuto;
    std::optional<uint64_t> host_limit;
    std::string name = "default";
    MemorySettings memory;
  };
  // device_bytes: what the SoC has. Raises 100000.
  static Setup setup_from_environment(uint32_t devices, uint64_t device_bytes);

  explicit Machine(const Setup& setup);

  const Setup& setup() const { return setup_; }
  // Index of the device whose range holds the address, or -1. Lock-free.
  int32_t device_of(const void* address) const {
    // acquire: pairs with the release that publishes the window.
    const std::byte* window = window_.load(std::memory_order_acquire);
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(window);
    return window != nullptr && offset < span_ ? static_cast<int32_t>(offset >> shift_) : -1;
  }
  // The device's arena, null when the device has never been used. Lock-free.
  Arena* arena_or_null(int32_t device) const {
    return arenas_[static_cast<size_t>(device)].load(std::memory_order_acquire);
  }
  Arena& arena(int32_t device);
  Pinned* pinned_or_null() const { return pinned_.load(std::memory_order_acquire); }
  Pinned& pinned();
  Ledger& ledger();
  // Takes capacity of a device for memory outside its arena; raises 207001. The ledger takes it
  // back.
  void charge(int32_t device, Pages kind, uint64_t bytes);
  // An engine is about to use these bytes: watches what the host can give, see Note [Host budget].
  void watch(const std::byte* start, uint64_t bytes);
  // Changes the knobs for devices opened later.
  void set_memory(const MemorySettings& settings);
  // Starts the thread that answers other processes (Note [Asking others]), once.
  void answer_others();
  // Up to `wanted` ids of a device for this process, none when its processes use all of them. Asks
  // the others first, for at most 50 ms.
  uint32_t draw_ids(int32_t device, IdKind kind, uint32_t wanted, uint32_t limit);
  // What other processes use, after they gave back what they do not.
  uint64_t ids_of_others(int32_t device, IdKind kind);
  // Who draws ids sets what gives back the idle ones; called by the answering thread.
  void return_idle_ids_with(void (*give_back)()) {
    give_back_.store(give_back, std::memory_order_relaxed);
  }

  void set_peer(int32_t device, int32_t peer, bool enabled);
  bool peer(int32_t device, int32_t peer) const;

 private:
  void check_device(int32_t device) const;
  uint64_t touched_bytes() const;
  void trim();
  void serve();

  Setup setup_;
  const unsigned shift_;
  const uint64_t span_;
  base::RankedMutex mutex_{base::Rank::kPool};  // making of the parts below
  std::atomic<std::byte*> window_{nullptr};
  std::array<std::atomic<Arena*>, kLedgerDevices> arenas_{};
  std::atomic<Pinned*> pinned_{nullptr};
  std::unique_ptr<Ledger> ledger_;
  bool answers_ = false;
  std::atomic<void (*)()> give_back_{nullptr};
  Budget budget_;
  std::array<std::atomic<uint64_t>, kLedgerDevices> peers_{};
};

// Raises 500000 before configure().
Machine& machine();
inline std::atomic<Machine*> g_machine{nullptr};
inline Machine* machine_or_null() { return g_machine.load(std::memory_order_acquire); }

}  // namespace ascendrt::memory
