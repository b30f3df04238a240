#include "memory/ledger.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/ledger_file.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kMagic = 0x5245474445545241;  // "ARTEDGER"
constexpr uint32_t kVersion = 1;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Byte 0 of the file is the lock, byte 1 + n is kept by the process in place n.
struct flock byte_lock(short type, off_t byte) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// The locks belong to the open file and die with its last user: a forked child lets go of it at
// once.
struct {
  std::atomic<int> file{-1};
  std::atomic<void*> sheet{nullptr};
  std::atomic<size_t> bytes{0};
} g_inherited;

void forget_in_child(int file, void* sheet, size_t bytes) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    const int inherited = g_inherited.file.exchange(-1, kRelaxed);
    if (inherited < 0) return;
    munmap(g_inherited.sheet.load(kRelaxed), g_inherited.bytes.load(kRelaxed));
    close(inherited);
  });
  if (registered != 0) return;
  g_inherited.sheet.store(sheet, kRelaxed);
  g_inherited.bytes.store(bytes, kRelaxed);
  g_inherited.file.store(file, kRelaxed);
}

[[noreturn]] void refuse(const std::string& text) {
  base::fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, text);
}

// What to do about a ledger that cannot be used.
constexpr const char* kAdvice =
    ": end the processes that use it and remove it, or choose another name with ASCENDRT_MACHINE";

}  // namespace

// Excludes other processes; the owner's mutex excludes other threads.
class Ledger::FileLock {
 public:
  explicit FileLock(int file) : file_(file) {
    struct flock lock = byte_lock(F_WRLCK, 0);
    while (fcntl(file_, F_OFD_SETLKW, &lock) != 0) {
      if (errno != EINTR) refuse("cannot lock the capacity ledger: " + os::last_reason());
    }
  }
  ~FileLock() {
    struct flock lock = byte_lock(F_UNLCK, 0);
    fcntl(file_, F_OFD_SETLK, &lock);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int file_;
};

Ledger::Ledger(const std::string& machine) : machine_(machine) {
  const LedgerFile opened = open_ledger_file(machine);
  file_ = opened.file;
  path_ = opened.path;
  try {
    prepare();
  } catch (...) {
    if (sheet_ != nullptr) munmap(sheet_, sizeof(Sheet));
    close(file_);
    throw;
  }
}

void Ledger::prepare() {
  check_owner();
  const FileLock lock(file_);
  struct stat status{};
  fstat(file_, &status);
  const bool fresh = status.st_size == 0;
  if (!fresh && status.st_size != static_cast<off_t>(sizeof(Sheet))) {
    refuse(where() + " has " + std::to_string(status.st_size) + " bytes instead of " +
           std::to_string(sizeof(Sheet)) + " (damaged, or of another version)" + kAdvice);
  }
  if (fresh && ftruncate(file_, sizeof(Sheet)) != 0) {
    refuse("cannot size " + where() + ": " + os::last_reason());
  }
  void* mapped = mmap(nullptr, sizeof(Sheet), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) refuse("cannot map " + where() + ": " + os::last_reason());
  sheet_ = static_cast<Sheet*>(mapped);
  forget_in_child(file_, sheet_, sizeof(Sheet));
  if (fresh) {
    sheet_->version = kVersion;
    sheet_->bytes = sizeof(Sheet);
    sheet_->devices = kLedgerDevices;
    sheet_->processes = kLedgerProcesses;
    sheet_->magic = kMagic;
  }
  check_sheet();
  take_place();
}

Ledger::~Ledger() {
  forget(place_);
  munmap(sheet_, sizeof(Sheet));
  g_inherited.file.store(-1, kRelaxed);
  close(file_);  // drops this process's locks
}

std::string Ledger::where() const {
  return "the ledger " + path_ + " of the emulated machine '" + machine_ + "'";
}

void Ledger::check_owner() const {
  struct stat status{};
  if (fstat(file_, &status) != 0) refuse("cannot inspect " + where() + ": " + os::last_reason());
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
    refuse(where() + " belongs to user " + std::to_string(status.st_uid) +
           ", this process runs as " + std::to_string(geteuid()) +
           ": choose another name with ASCENDRT_MACHINE");
  }
  if (path_.starts_with("/dev/shm") && (status.st_mode & 0077) != 0) {
    refuse(where() + " is open to other users: it was not made by this program; remove it");
  }
}

void Ledger::check_sheet() const {
  const char* fault = nullptr;
  if (sheet_->magic != kMagic)
    fault = "does not begin as a ledger does";
  else if (sheet_->version != kVersion)
    fault = "is of another version";
  else if (sheet_->bytes != sizeof(Sheet) || sheet_->devices != kLedgerDevices ||
           sheet_->processes != kLedgerProcesses)
    fault = "has another layout";
  if (fault == nullptr) return;
  refuse(where() + " " + fault + kAdvice);
}

void Ledger::take_place() {
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    struct flock lock = byte_lock(F_WRLCK, static_cast<off_t>(place) + 1);
    if (fcntl(file_, F_OFD_SETLK, &lock) != 0) continue;  // somebody lives there
    place_ = place;
    forget(place);  // what a dead process left
    sheet_->places[place].process.store(static_cast<uint32_t>(getpid()), kRelaxed);
    return;
  }
  refuse(where() + " has no place left: " + std::to_string(kLedgerProcesses) +
         " processes use the emulated machine; end some, or choose another ASCENDRT_MACHINE");
}

uint64_t Ledger::Used::total() const {
  uint64_t bytes = 0;
  return __builtin_add_overflow(normal_bytes, huge_bytes, &bytes) ? UINT64_MAX : bytes;
}

Ledger::Used Ledger::sum(uint32_t device) const {
  const auto add = [](const auto& row) {
    uint64_t total = 0;
    for (const auto& used : row) {
      if (__builtin_add_overflow(total, used.load(kRelaxed), &total)) return UINT64_MAX;
    }
    return total;
  };
  return {add(sheet_->used[device][0]), add(sheet_->used[device][1])};
}

void Ledger::forget(uint32_t place) {
  for (auto& device : sheet_->used) {
    for (auto& row : device) row[place].store(0, kRelaxed);
  }
  sheet_->places[place].process.store(0, kRelaxed);
}

// With both locks held: forgets what processes that died still have on the sheet.
void Ledger::sweep() {
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    if (place == place_ || sheet_->places[place].process.load(kRelaxed) == 0) continue;
    struct flock lock = byte_lock(F_WRLCK, static_cast<off_t>(place) + 1);
    if (fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK) forget(place);
  }
}

bool Ledger::charge(uint32_t device, Pages kind, uint64_t bytes, uint64_t capacity_bytes) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  const auto fits = [&] {
    const uint64_t used = sum(device).total();
    return used <= capacity_bytes && bytes <= capacity_bytes - used;
  };
  if (!fits()) {
    sweep();
    if (!fits()) return false;
  }
  sheet_->used[device][static_cast<size_t>(kind)][place_].fetch_add(bytes, kRelaxed);
  return true;
}

void Ledger::release(uint32_t device, Pages kind, uint64_t bytes) {
  // No lock: only this process writes here, and less use can break no promise.
  auto& used = sheet_->used[device][static_cast<size_t>(kind)][place_];
  uint64_t now = used.load(kRelaxed);
  while (!used.compare_exchange_weak(now, now - std::min(now, bytes), kRelaxed)) {
  }
}

Ledger::Used Ledger::used(uint32_t device) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  sweep();
  return sum(device);
}

std::string Ledger::other_holders(uint32_t device) {
  constexpr int kNamed = 5;
  std::string text;
  int named = 0;
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    const auto& used = sheet_->used[device];
    const Used held{used[0][place].load(kRelaxed), used[1][place].load(kRelaxed)};
    if (place == place_ || held.total() == 0) continue;
    if (++named > kNamed) return text + ", and others";
    text += (text.empty() ? "" : ", ") + size_text(held.total()) + " by process " +
            std::to_string(sheet_->places[place].process.load(kRelaxed));
  }
  return text;
}

}  // namespace ascendrt::memory
