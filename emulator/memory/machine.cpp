#include "memory/machine.hpp"

#include <algorithm>
#include <bit>
#include <csignal>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "gen/abi.h"
#include "memory/fault.hpp"
#include "memory/memory.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"
#include "memory/virtual.hpp"
#include "probe/faults.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kDeviceBytesMin = 2ULL << 20;
constexpr uint64_t kDeviceBytesMax = 1ULL << 40;
constexpr uint64_t kWatchFrom = 65536;  // smaller ranges are not worth it
constexpr uint64_t kWindowAlignment = 2ULL << 20;

[[noreturn]] void refuse_value(const char* name, const std::string& value, const char* wanted) {
  base::fail(ACL_ERROR_INVALID_PARAM,
             "environment variable " + std::string(name) + "='" + value + "' is not " + wanted);
}

bool read_open_mode() {
  const std::string value = base::env("ASCENDRT_DEVICE_MEMORY").value_or("");
  if (value == "open") return true;
  if (!value.empty() && value != "strict") {
    refuse_value("ASCENDRT_DEVICE_MEMORY", value,
                 "'strict' (the host cannot dereference device pointers) or 'open' (it can)");
  }
  return false;
}

Fill read_fill() {
  const std::string value = base::env("ASCENDRT_FILL").value_or("");
  if (value.empty() || value == "auto") return Fill::kAuto;
  if (value == "on") return Fill::kOn;
  if (value == "off") return Fill::kOff;
  refuse_value("ASCENDRT_FILL", value, "'auto', 'on' or 'off'");
}

}  // namespace

Machine::Setup Machine::setup_from_environment(uint32_t devices, uint64_t device_bytes) {
  Setup setup;
  setup.devices = devices;
  const uint64_t bytes = base::env_size_bytes("ASCENDRT_HBM_SIZE", device_bytes);
  if (bytes < kDeviceBytesMin || bytes > kDeviceBytesMax) {
    refuse_value("ASCENDRT_HBM_SIZE",
                 base::env("ASCENDRT_HBM_SIZE").value_or(std::to_string(bytes)),
                 "between 2M and 1T");
  }
  setup.device_bytes = bytes / os::page_bytes() * os::page_bytes();
  setup.open = read_open_mode();
  setup.fill = read_fill();
  if (const uint64_t limit = base::env_size_bytes("ASCENDRT_HOST_MEMORY", 0); limit != 0) {
    setup.host_limit = limit;
  }
  if (const auto name = base::env("ASCENDRT_MACHINE"); name && !name->empty()) setup.name = *name;
  setup.memory = MemorySettings::read({});
  return setup;
}

Machine::Machine(const Setup& setup)
    : setup_(setup),
      shift_(static_cast<unsigned>(std::bit_width(std::bit_ceil(setup.device_bytes)) - 1)),
      span_(uint64_t{setup.devices} << shift_),
      budget_(setup.host_limit, [this] { return touched_bytes(); }, [this] { trim(); }) {}

void Machine::check_device(int32_t device) const {
  if (device >= 0 && static_cast<uint32_t>(device) < setup_.devices) return;
  base::fail(ACL_ERROR_RT_INVALID_DEVICEID, "device " + std::to_string(device) +
                                                " does not exist, the machine has " +
                                                std::to_string(setup_.devices));
}

Arena& Machine::arena(int32_t device) {
  check_device(device);
  if (Arena* made = arena_or_null(device)) return *made;
  Ledger& shared = ledger();
  const std::lock_guard lock(mutex_);
  auto& slot = arenas_[static_cast<size_t>(device)];
  if (Arena* made = slot.load(std::memory_order_relaxed)) return *made;
  std::byte* window = window_.load(std::memory_order_relaxed);
  if (window == nullptr) {
    install_fault_handler();
    window = os::reserve(span_, kWindowAlignment);
    window_.store(window, std::memory_order_release);
  }
  const Arena::Setup part{device,
                          window + (static_cast<uint64_t>(device) << shift_),
                          setup_.device_bytes,
                          setup_.open,
                          setup_.fill,
                          setup_.memory};
  auto* made = new Arena(part, shared, budget_);
  slot.store(made, std::memory_order_release);
  return *made;
}

Pinned& Machine::pinned() {
  if (Pinned* made = pinned_or_null()) return *made;
  const std::lock_guard lock(mutex_);
  if (Pinned* made = pinned_.load(std::memory_order_relaxed)) return *made;
  auto* made = new Pinned(budget_);
  pinned_.store(made, std::memory_order_release);
  return *made;
}

Ledger& Machine::ledger() {
  const std::lock_guard lock(mutex_);
  if (!ledger_) ledger_ = std::make_unique<Ledger>(setup_.name);
  return *ledger_;
}

void Machine::charge(int32_t device, Pages kind, uint64_t bytes) {
  check_device(device);
  budget_.admit(bytes);
  Ledger& shared = ledger();
  const auto index = static_cast<uint32_t>(device);
  const auto fits = [&] {
    return !probe::fails("memory.driver") && shared.charge(index, kind, bytes, setup_.device_bytes);
  };
  if (fits()) return;
  if (Arena* arena = arena_or_null(device)) arena->trim_pools();
  shared.ask_others(index);
  if (fits()) return;
  const uint64_t used = shared.used(index).total();
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             "device " + std::to_string(device) + " has no room for " + size_text(bytes) + ": " +
                 size_text(setup_.device_bytes - std::min(used, setup_.device_bytes)) + " of " +
                 size_text(setup_.device_bytes) +
                 " are free; free device memory, or emulate a larger device with "
                 "ASCENDRT_HBM_SIZE");
}

void Machine::watch(const std::byte* start, uint64_t bytes) {
  if (bytes < kWatchFrom || budget_.spend(bytes)) return;
  budget_.meter(bytes, [&] { return os::untouched_bytes(start, bytes); });
}

uint64_t Machine::touched_bytes() const {
  uint64_t bytes = 0;
  if (const Virtual* reserved = virtual_memory_or_null()) bytes += reserved->touched_bytes();
  for (const auto& slot : arenas_) {
    if (const Arena* arena = slot.load(std::memory_order_acquire)) bytes += arena->touched_bytes();
  }
  if (const Pinned* made = pinned_or_null()) bytes += made->committed_bytes();
  return bytes;
}

void Machine::trim() {
  for (const auto& slot : arenas_) {
    if (Arena* arena = slot.load(std::memory_order_acquire)) {
      arena->trim_pools();
      arena->trim();
    }
  }
}

void Machine::set_memory(const MemorySettings& settings) {
  const std::lock_guard lock(mutex_);
  setup_.memory = settings;
}

void Machine::answer_others() {
  ledger();  // not made under the lock
  const std::lock_guard lock(mutex_);
  if (std::exchange(answers_, true)) return;
  // Signals of the client go to its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { serve(); }).detach();
  } catch (const std::system_error& error) {
    base::warn_once("memory.answers", std::string("no thread can be started (") + error.what() +
                                          "): other processes do not get idle memory back");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Machine::serve() {
  while (true) {
    const auto question = ledger_->wait_for_question();
    if (!question) continue;
    std::vector<Parts> cached;
    for (const auto& slot : arenas_) {
      Arena* arena = slot.load(std::memory_order_acquire);
      if (arena != nullptr) arena->trim_pools();
      cached.push_back(arena != nullptr ? arena->idle() : Parts{});
    }
    if (auto* const give_back = give_back_.load(std::memory_order_relaxed)) give_back();
    ledger_->answer(*question, cached);
  }
}

uint32_t Machine::draw_ids(int32_t device, IdKind kind, uint32_t wanted, uint32_t limit) {
  check_device(device);
  answer_others();
  const auto index = static_cast<uint32_t>(device);
  if (const uint32_t count = ledger_->draw_ids(index, kind, wanted, limit)) return count;
  ledger_->ask_others_for_ids(index, kind);
  return ledger_->draw_ids(index, kind, wanted, limit);
}

uint64_t Machine::ids_of_others(int32_t device, IdKind kind) {
  check_device(device);
  Ledger& shared = ledger();
  const auto index = static_cast<uint32_t>(device);
  if (shared.ids_of_others(index, kind) == 0) return 0;
  shared.ask_others_for_ids(index, kind);
  return shared.ids_of_others(index, kind);
}

void Machine::set_peer(int32_t device, int32_t peer, bool enabled) {
  check_device(device);
  check_device(peer);
  const uint64_t bit = 1ULL << peer;
  auto& mask = peers_[static_cast<size_t>(device)];
  if (enabled) {
    mask.fetch_or(bit, std::memory_order_relaxed);
  } else {
    mask.fetch_and(~bit, std::memory_order_relaxed);
  }
}

bool Machine::peer(int32_t device, int32_t peer) const {
  check_device(device);
  check_device(peer);
  return (peers_[static_cast<size_t>(device)].load(std::memory_order_relaxed) >> peer & 1) != 0;
}

void configure(uint32_t devices, uint64_t device_bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (g_machine.load(std::memory_order_relaxed) != nullptr) return;
  g_machine.store(new Machine(Machine::setup_from_environment(devices, device_bytes)),
                  std::memory_order_release);
}

Machine& machine() {
  if (Machine* made = machine_or_null()) return *made;
  if (g_first_use != nullptr) g_first_use();
  if (Machine* made = machine_or_null()) return *made;
  base::fail(ACL_ERROR_INTERNAL_ERROR, "memory is used before memory::configure()");
}

}  // namespace ascendrt::memory
