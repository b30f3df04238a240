// How much host memory the emulated device memory may still take.
// Owns: the measure (cgroup limits, MemAvailable or ASCENDRT_HOST_MEMORY) and the credit between
// two measures. Must never: count untouched pages, so a sparse 64 GiB device works on a small host.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ascendrt::memory {

// What the host can give before something is killed, and the limit that says so.
struct HostRoom {
  uint64_t bytes = 0;
  std::string limit;
};

// The tightest of MemAvailable and all cgroup memory limits (v1 and v2) above this process. root is
// put in front of /proc and /sys for tests.
HostRoom measure_host(const std::string& root = "");

// Raises 207001 when the host could not give this process so many bytes now; `what` needs them.
// ASCENDRT_HOST_MEMORY does not count: it is about what lies behind devices.
void want_host(uint64_t bytes, const std::string& what);

// Note [Host budget]
// Device memory is sparse: only touched pages cost host memory. As the kernel does in its heuristic
// mode, one request is refused when it alone could not be backed now; requests that together exceed
// the host are allowed, because most programs never touch all they reserve. What is really touched
// is watched where engines get their views: they spend a credit, and when it is used up the host is
// measured again. A view whose missing pages the host cannot give fails the task instead of waking
// the OOM killer. Part of the memory is kept free for the rest of the process.
class Budget {
 public:
  // limit: fixed allowance for emulated memory (ASCENDRT_HOST_MEMORY), nothing = measure the host.
  // touched: bytes of emulated memory that occupy host memory now. trim: gives the pages of freed
  // memory back. Both are called without locks.
  Budget(std::optional<uint64_t> limit, std::function<uint64_t()> touched,
         std::function<void()> trim);

  // Raises 207001 when the host could not back so many bytes now.
  void admit(uint64_t bytes);

  // True while the credit lasts. False: call meter().
  bool spend(uint64_t bytes) {
    const auto amount = static_cast<int64_t>(bytes);
    return credit_.fetch_sub(amount, std::memory_order_relaxed) >= amount;
  }
  // Measures again. untouched tells how many of the bytes about to be used have no page yet; it is
  // asked only when the host is short. Raises 207001 when they cannot be had.
  void meter(uint64_t bytes, const std::function<uint64_t()>& untouched);

 private:
  HostRoom room_for(uint64_t bytes);
  HostRoom room() const;

  const std::optional<uint64_t> limit_;
  const std::function<uint64_t()> touched_;
  const std::function<void()> trim_;
  std::atomic<int64_t> credit_{0};
};

}  // namespace ascendrt::memory
