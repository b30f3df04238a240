#include "memory/share.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "memory/machine.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kMagic = 0x3145524148535241;  // "ARSHARE1"
constexpr size_t kPidsMax = 1024;
constexpr unsigned kFileBits = 16;
constexpr unsigned kNumberBits = 26;
constexpr const char* kRecordName = "ascendrt-share";

// The file of a record holds this and nothing else.
struct Record {
  uint64_t magic;
  uint64_t token;
  std::array<char, 72> machine;
  uint64_t inode;
  uint64_t offset;
  uint64_t bytes;
  aclrtPhysicalMemProp prop;
  int32_t device;
  int32_t file;
  uint32_t any_pid;
  uint32_t pids;
  std::array<int32_t, kPidsMax> pid;
};

struct Shares {
  base::RankedMutex mutex{base::Rank::kRegistry};
  std::map<uint64_t, int> records;                  // token -> file, of what this process shares
  std::map<uint64_t, std::vector<void*>> attached;  // token -> where, latest last
};

Shares& shares() {
  static auto* const made = new Shares;  // leaked: used from the client's static destructors
  return *made;
}

std::atomic<bool> g_ever_shared{false};

[[noreturn]] void refuse(const std::string& text) { base::fail(ACL_ERROR_RT_PARAM_INVALID, text); }

Record read_record(int file) {
  Record record{};
  if (pread(file, &record, sizeof record, 0) != static_cast<ssize_t>(sizeof record)) {
    refuse("the record of the shared memory cannot be read: " + os::last_reason());
  }
  return record;
}

void write_record(int file, const Record& record) {
  if (pwrite(file, &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record)) return;
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             "the record of the shared memory cannot be written: " + os::last_reason());
}

struct OwnedFile {
  int number = -1;
  ~OwnedFile() {
    if (number >= 0) close(number);
  }
  int release() { return std::exchange(number, -1); }
};

// A memory file of ours that another process has open. Everything about it may be a lie until it
// was looked at here.
int open_of(uint64_t process, uint64_t number) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const std::string who = "process " + std::to_string(process);
  std::array<char, 64> target{};
  if (readlink(path.c_str(), target.data(), target.size() - 1) < 0) {
    refuse("the memory that " + who + " shared cannot be reached: " + os::last_reason() +
           "; the process has ended or closed it, belongs to another user, or runs in another "
           "container");
  }
  OwnedFile file;
  if (std::string_view(target.data()).starts_with("/memfd:ascendrt-")) {
    file.number = open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  struct stat status{};
  const bool ours = file.number >= 0 && fstat(file.number, &status) == 0 &&
                    S_ISREG(status.st_mode) && status.st_uid == geteuid();
  const int seals = ours ? fcntl(file.number, F_GET_SEALS) : 0;
  if (!ours || (seals & F_SEAL_SHRINK) == 0) {
    refuse("what " + who +
           " has under this handle is no shared memory: the handle is wrong, or "
           "the memory was closed");
  }
  return file.release();
}

void check_record(const Record& record, uint64_t token) {
  if (record.magic != kMagic || record.token != token) {
    refuse("the handle is out of date or damaged: what it named is not shared any more");
  }
  const std::string& machine_name = machine().setup().name;
  if (strnlen(record.machine.data(), record.machine.size()) != machine_name.size() ||
      machine_name.compare(0, machine_name.size(), record.machine.data(), machine_name.size()) !=
          0) {
    refuse(
        "the memory is shared on another emulated machine; processes that share need the same "
        "ASCENDRT_MACHINE (this one has '" +
        machine_name + "')");
  }
  const bool device = record.device >= kHostMemory &&
                      record.device < static_cast<int32_t>(machine().setup().devices);
  if (!device) {
    refuse("the memory lies on device " + std::to_string(record.device) +
           ", which this process does not have; ASCENDRT_DEVICES must be the same");
  }
  const auto end = record.pid.begin() + std::min<size_t>(record.pids, kPidsMax);
  if (record.any_pid == 0 && std::find(record.pid.begin(), end, getpid()) == end) {
    refuse("process " + std::to_string(getpid()) +
           " is not on the list of processes that may use this memory; the process that shares it "
           "must add this pid, or share without pid validation");
  }
}

}  // namespace

uint64_t share(const Part& part, Pids pids) {
  g_ever_shared.store(true, std::memory_order_relaxed);
  OwnedFile file{os::make_memory_file(kRecordName, sizeof(Record))};
  struct stat memory{};
  struct stat status{};
  if (fstat(part.file, &memory) != 0 || fstat(file.number, &status) != 0) {
    base::fail(ACL_ERROR_RT_INTERNAL_ERROR, "a memory file is gone: " + os::last_reason());
  }
  if (file.number >= 1 << kFileBits) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               "more than 65536 files are open in this process; close some before sharing memory");
  }
  Record record{};
  record.magic = kMagic;
  record.token = static_cast<uint64_t>(getpid()) << (kFileBits + kNumberBits) |
                 static_cast<uint64_t>(file.number) << kNumberBits |
                 (status.st_ino & ((1U << kNumberBits) - 1));
  const std::string& name = machine().setup().name;
  name.copy(record.machine.data(), record.machine.size() - 1);
  record.inode = memory.st_ino;
  record.file = part.file;
  record.offset = part.offset;
  record.bytes = part.bytes;
  record.device = part.device;
  record.prop = part.prop;
  record.any_pid = pids == Pids::kAny ? 1 : 0;
  Shares& all = shares();
  const std::lock_guard lock(all.mutex);
  for (const auto& [token, other] : all.records) {
    const Record known = read_record(other);
    if (known.inode == record.inode && known.offset == record.offset &&
        known.bytes == record.bytes) {
      refuse("this memory is shared already; use the handle or key that was given then");
    }
  }
  write_record(file.number, record);
  all.records.emplace(record.token, file.release());
  return record.token;
}

bool ever_shared() { return g_ever_shared.load(std::memory_order_relaxed); }

bool shared_here(uint64_t token) {
  Shares& all = shares();
  const std::lock_guard lock(all.mutex);
  return all.records.contains(token);
}

bool withdraw(uint64_t token) {
  Shares& all = shares();
  const std::lock_guard lock(all.mutex);
  const auto found = all.records.find(token);
  if (found == all.records.end()) return false;
  close(found->second);
  all.records.erase(found);
  return true;
}

void allow(uint64_t token, const int32_t* pids, size_t count) {
  Shares& all = shares();
  const std::lock_guard lock(all.mutex);
  const auto found = all.records.find(token);
  if (found == all.records.end()) {
    refuse(
        "this process shares nothing under that handle; the list of processes is set where the "
        "memory was exported");
  }
  Record record = read_record(found->second);
  if (count > kPidsMax - record.pids) {
    refuse("more than " + std::to_string(kPidsMax) + " processes may not be listed");
  }
  for (size_t i = 0; i < count; ++i) {
    if (pids[i] <= 0) refuse("pid[" + std::to_string(i) + "] is " + std::to_string(pids[i]));
    record.pid[record.pids++] = pids[i];
  }
  write_record(found->second, record);
}

base::Ref<Physical> open_shared(uint64_t token) {
  g_ever_shared.store(true, std::memory_order_relaxed);
  const uint64_t process = token >> (kFileBits + kNumberBits);
  const uint64_t number = token >> kNumberBits & ((1U << kFileBits) - 1);
  if (process == 0) refuse("the handle or key is none that was exported");
  const OwnedFile file{open_of(process, number)};
  if (os::file_bytes(file.number) != sizeof(Record)) refuse("the handle or key is out of date");
  const Record record = read_record(file.number);
  check_record(record, token);
  OwnedFile memory{open_of(process, static_cast<uint32_t>(record.file))};
  struct stat status{};
  const uint64_t size = os::file_bytes(memory.number);
  if (fstat(memory.number, &status) != 0 || status.st_ino != record.inode || record.bytes == 0 ||
      record.bytes > size || record.offset > size - record.bytes) {
    refuse("the memory behind the handle was freed by process " + std::to_string(process) +
           ", or its record is damaged");
  }
  return Physical::adopt(memory.release(), record.offset, record.bytes, record.device, record.prop);
}

Part part_of(const void* address, uint64_t bytes) {
  const Allocation block = find_device(address);
  const auto start = reinterpret_cast<uintptr_t>(block.start);
  const uint64_t inside = reinterpret_cast<uintptr_t>(address) - start;
  if (bytes > block.size_bytes - inside) {
    refuse("the " + size_text(bytes) + " at " + address_text(address) +
           " reach past the end of the allocation of " + size_text(block.size_bytes) + " at " +
           address_text(block.start));
  }
  Part part;
  part.bytes = bytes;
  part.device = locate(address).device;
  part.prop.memAttr = ACL_HBM_MEM_HUGE;
  part.prop.location = {static_cast<uint32_t>(part.device), ACL_MEM_LOCATION_TYPE_DEVICE};
  if (machine().device_of(address) < 0) {
    refuse(
        "memory at reserved addresses is shared by its handle; use "
        "aclrtMemExportToShareableHandle");
  }
  const Arena& arena = *machine().arena_or_null(part.device);
  part.file = arena.file();
  part.offset =
      static_cast<uint64_t>(static_cast<const std::byte*>(address) - arena.setup().client);
  return part;
}

void* attach_shared(uint64_t token) {
  void* address = virtual_memory().attach(open_shared(token));
  Shares& all = shares();
  const std::lock_guard lock(all.mutex);
  all.attached[token].push_back(address);
  return address;
}

void close_shared(uint64_t token) {
  Shares& all = shares();
  void* address = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.attached.find(token); found != all.attached.end()) {
      address = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) all.attached.erase(found);
    }
  }
  if (address != nullptr) return virtual_memory().drop(address);
  if (withdraw(token)) return;
  refuse("nothing is shared or attached under this key in this process; close each key once");
}

}  // namespace ascendrt::memory
