#include "memory/budget.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kKeepFreeMax = 256ULL << 20;
constexpr uint64_t kCreditMax = 1ULL << 30;
constexpr uint64_t kNoLimit = UINT64_MAX;

// Value behind a key in a file of "key value" or "key: value kB" lines.
std::optional<uint64_t> keyed_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  uint64_t value = 0;
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const size_t digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) continue;
    value = std::stoull(line.substr(digits));
    return line.ends_with("kB") ? value * 1024 : value;
  }
  return std::nullopt;
}

// A file that holds one number; "max" and anything else means no limit.
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kNoLimit;
}

struct Hierarchy {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat: page cache that goes before anything is killed
};
constexpr Hierarchy kV2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
constexpr Hierarchy kV1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                        "total_inactive_file "};

// Lowers room by the limits of a group and of all groups above it. A container may not see its own
// path; then its group is mounted as the root.
void apply_groups(const std::string& root, const Hierarchy& tree, std::string path,
                  HostRoom& room) {
  while (true) {
    const std::string folder = root + tree.mount + (path == "/" ? "" : path) + "/";
    const uint64_t limit = number_in(folder + tree.limit);
    const uint64_t used = number_in(folder + tree.usage);
    if (limit != kNoLimit && used != kNoLimit) {
      const uint64_t cache = keyed_value(folder + "memory.stat", tree.reclaimable).value_or(0);
      const uint64_t held = used - std::min(used, cache);
      const uint64_t left = limit - std::min(limit, held);
      if (left < room.bytes) room = {left, "cgroup limit " + folder + tree.limit};
    }
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/'));
  }
}

uint64_t kept_free() { return std::min(kKeepFreeMax, os::host_memory_bytes() / 20); }

[[noreturn]] void refuse(const char* what, uint64_t bytes, const HostRoom& room) {
  base::fail(
      ACL_ERROR_RT_MEMORY_ALLOCATION,
      std::string(what) + " " + size_text(bytes) +
          " of host memory behind the device, but the "
          "host can give only " +
          size_text(room.bytes) + " more (" + room.limit +
          "); free device memory, set ASCENDRT_HBM_SIZE to a size the host can back, or raise "
          "the limit (ASCENDRT_HOST_MEMORY overrides what was measured)");
}

}  // namespace

HostRoom measure_host(const std::string& root) {
  HostRoom room{kNoLimit, "no limit found"};
  if (const auto available = keyed_value(root + "/proc/meminfo", "MemAvailable:")) {
    room = {*available, "MemAvailable of the host"};
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "id:controllers:path"; version 2 has id 0 and no controllers.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) apply_groups(root, kV2, path, room);
    if (names.find(",memory,") != std::string::npos) apply_groups(root, kV1, path, room);
  }
  return room;
}

void want_host(uint64_t bytes, const std::string& what) {
  const HostRoom room = measure_host();
  const uint64_t keep = kept_free();
  if (room.bytes >= bytes && room.bytes - bytes >= keep) return;
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             what + " needs " + size_text(bytes) + " of host memory, but the host can give only " +
                 size_text(room.bytes - std::min(room.bytes, keep)) + " more (" + room.limit + ")");
}

Budget::Budget(std::optional<uint64_t> limit, std::function<uint64_t()> touched,
               std::function<void()> trim)
    : limit_(limit), touched_(std::move(touched)), trim_(std::move(trim)) {}

HostRoom Budget::room() const {
  if (limit_) {
    const uint64_t touched = touched_();
    return {*limit_ - std::min(*limit_, touched), "ASCENDRT_HOST_MEMORY"};
  }
  HostRoom room = measure_host();
  room.bytes -= std::min(room.bytes, kept_free());
  return room;
}

// Measures, with what a trim frees when it would not do otherwise, and renews the credit.
HostRoom Budget::room_for(uint64_t bytes) {
  HostRoom now = room();
  if (now.bytes < bytes) {
    trim_();
    now = room();
  }
  credit_.store(static_cast<int64_t>(std::min(kCreditMax, now.bytes / 4)),
                std::memory_order_relaxed);
  return now;
}

void Budget::admit(uint64_t bytes) {
  if (spend(bytes)) return;
  const HostRoom now = room_for(bytes);
  if (now.bytes < bytes) refuse("the allocation may need", bytes, now);
}

void Budget::meter(uint64_t bytes, const std::function<uint64_t()>& untouched) {
  const HostRoom now = room_for(bytes);
  if (now.bytes >= bytes) return;
  const uint64_t missing = untouched();
  if (missing > now.bytes) refuse("the task needs", missing, now);
}

}  // namespace ascendrt::memory
