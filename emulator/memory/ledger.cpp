#include "memory/ledger.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gen/abi.h"
#include "memory/ledger_file.hpp"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kMagic = 0x5245474445545241;  // "ARTEDGER"
constexpr int kOpenRounds = 100;
constexpr int kAnswerRounds = 5;  // of 10 ms each
constexpr long kAnswerRoundNs = 10'000'000;
constexpr long kQuestionNs = 500'000'000;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Sleeps while the word holds the value, at most so long; wakes and errors are all the same.
void futex_wait(uint32_t* word, uint32_t value, long ns) {
  const timespec time{0, ns};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// The locks belong to the open file and die with its last user, a mapping being one: a forked child
// lets go of both at once.
struct {
  std::atomic<int> file{-1};
  std::atomic<void*> mapped{nullptr};
  std::atomic<size_t> bytes{0};
} g_inherited;

void forget_in_child(int file, void* mapped, size_t bytes) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    const int inherited = g_inherited.file.exchange(-1, kRelaxed);
    if (inherited < 0) return;
    munmap(g_inherited.mapped.load(kRelaxed), g_inherited.bytes.load(kRelaxed));
    close(inherited);
  });
  if (registered != 0) return;
  g_inherited.mapped.store(mapped, kRelaxed);
  g_inherited.bytes.store(bytes, kRelaxed);
  g_inherited.file.store(file, kRelaxed);
}

[[noreturn]] void refuse(const std::string& text) {
  base::fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, text);
}

// What to do about a ledger that cannot be used.
constexpr const char* kAdvice =
    ": end the processes that use it and run 'ascendrt smi --reset', or choose another name with "
    "ASCENDRT_MACHINE";

}  // namespace

// As each file of this version begins.
const Ledger::Header Ledger::kHeader{kMagic, kLedgerVersion, sizeof(Sheet), kLedgerDevices,
                                     kLedgerProcesses};

size_t Ledger::place_at(uint32_t place) { return offsetof(Sheet, places) + place * sizeof(Place); }

Ledger::Ledger(const std::string& machine) : machine_(machine) {
  for (int rounds = 0; rounds < kOpenRounds; ++rounds) {
    const LedgerFile opened = open_ledger_file(machine);
    file_ = opened.file;
    path_ = opened.path;
    try {
      if (prepare()) return;
    } catch (...) {
      if (words_ != nullptr) munmap(words_, sizeof(Sheet));
      close(file_);
      throw;
    }
    close(file_);
  }
  refuse(where() + " is removed again and again by another process");
}

std::string Ledger::reset(const std::string& machine) {
  if (machine == "private") refuse("a private machine has no ledger file to reset");
  const LedgerFile opened = open_ledger_file(machine);
  const std::string name =
      "the ledger " + opened.path + " of the emulated machine '" + machine + "'";
  struct Closer {
    int file;
    ~Closer() { close(file); }
  } const closer{opened.file};
  struct stat status{};
  fstat(opened.file, &status);
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
    refuse(name + " belongs to user " + std::to_string(status.st_uid) + ", who alone can reset it");
  }
  const FileLock lock(opened.file);
  struct flock users = ledger_lock(F_WRLCK, 1);
  users.l_len = kLedgerProcesses;
  if (fcntl(opened.file, F_OFD_GETLK, &users) == 0 && users.l_type != F_UNLCK) {
    refuse(name + " is in use; end the processes that use it (`ascendrt smi` names them)");
  }
  if (ftruncate(opened.file, 0) != 0 || fchmod(opened.file, 0600) != 0) {
    refuse("cannot empty " + name + ": " + os::last_reason());
  }
  return name + " is new";
}

// False when the file was removed between its opening and its locking.
bool Ledger::prepare() {
  check_owner();
  const FileLock lock(file_);
  if (is_removed({file_, path_})) return false;
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
  void* mapped = mmap(nullptr, sizeof(Sheet), PROT_READ, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) refuse("cannot map " + where() + ": " + os::last_reason());
  words_ = static_cast<std::byte*>(mapped);
  forget_in_child(file_, mapped, sizeof(Sheet));
  if (fresh) write(0, kHeader);
  check_sheet();
  take_place();
  return true;
}

Ledger::~Ledger() {
  forget(place_);
  munmap(words_, sizeof(Sheet));
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

void Ledger::check_sheet() {
  Header header{};
  read(0, header);
  const char* fault = nullptr;
  if (header.magic != kMagic)
    fault = "does not begin as a ledger does";
  else if (header.version != kLedgerVersion)
    fault = "is of another version";
  else if (std::memcmp(&header, &kHeader, sizeof header) != 0)
    fault = "has another layout";
  if (fault == nullptr) return;
  refuse(where() + " " + fault + kAdvice);
}

// What was cut off reads as zero, and the file gets its size and our part of it again.
void Ledger::read_bytes(size_t at, void* out, size_t size) {
  const ssize_t got = pread(file_, out, size, static_cast<off_t>(at));
  if (got == static_cast<ssize_t>(size)) return;
  const auto read = static_cast<size_t>(std::max<ssize_t>(got, 0));
  std::memset(static_cast<std::byte*>(out) + read, 0, size - read);
  mend();
}

// One word, without mending: for waits without the lock.
uint32_t Ledger::peek(size_t at) const {
  uint32_t value = 0;
  [[maybe_unused]] const ssize_t got = pread(file_, &value, sizeof value, static_cast<off_t>(at));
  return value;
}

void Ledger::write_bytes(size_t at, const void* bytes, size_t size) {
  // A failure (no memory left for the file) shows others old figures, nothing else.
  [[maybe_unused]] const ssize_t put = pwrite(file_, bytes, size, static_cast<off_t>(at));
}

void Ledger::mend() {
  struct stat status{};
  if (fstat(file_, &status) != 0 || status.st_size >= static_cast<off_t>(sizeof(Sheet))) return;
  if (ftruncate(file_, sizeof(Sheet)) != 0) return;
  base::warn_once("memory.ledger.cut", where() + " was cut short by another process; mended");
  write(0, kHeader);
  write(place_at(place_), static_cast<uint32_t>(getpid()));
  for (uint32_t device = 0; device < kLedgerDevices; ++device) publish(device);
}

// Our cells of the device.
void Ledger::publish(uint32_t device) {
  const size_t cell = place_ * sizeof(uint64_t);
  const size_t at = offsetof(Sheet, used) + device * sizeof(Rows) + cell;
  write(at, mine_[device].normal);
  write(at + sizeof(Row), mine_[device].huge);
  const size_t cached = offsetof(Sheet, cached) + device * sizeof(Rows) + cell;
  write(cached, cached_[device].normal);
  write(cached + sizeof(Row), cached_[device].huge);
  publish_ids(device);
}

void Ledger::take_place() {
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    struct flock lock = ledger_lock(F_WRLCK, static_cast<off_t>(place) + 1);
    if (fcntl(file_, F_OFD_SETLK, &lock) != 0) continue;  // somebody lives there
    place_ = place;
    forget(place);  // what a dead process left
    write(place_at(place), Place{static_cast<uint32_t>(getpid()), 0, 0, 0});
    return;
  }
  refuse(where() + " has no place left: " + std::to_string(kLedgerProcesses) +
         " processes use the emulated machine; end some, or choose another ASCENDRT_MACHINE");
}

uint64_t Ledger::Used::total() const {
  uint64_t bytes = 0;
  return __builtin_add_overflow(normal_bytes, huge_bytes, &bytes) ? UINT64_MAX : bytes;
}

// Of all places but this one, and of this one what we know ourselves.
Ledger::Used Ledger::sum(uint32_t device, const Rows& rows) const {
  const auto add = [&](const Row& row, uint64_t own) {
    uint64_t total = own;
    for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
      if (place == place_) continue;
      if (__builtin_add_overflow(total, row[place], &total)) return UINT64_MAX;
    }
    return total;
  };
  return {add(rows[0], mine_[device].normal), add(rows[1], mine_[device].huge)};
}

Ledger::Rows Ledger::used_of(uint32_t device) {
  Rows rows;
  read(offsetof(Sheet, used) + device * sizeof rows, rows);
  return rows;
}

// The cells of a place on one device.
void Ledger::forget(uint32_t device, uint32_t place) {
  const size_t cell = device * sizeof(Rows) + place * sizeof(uint64_t);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    write(offsetof(Sheet, used) + cell + kind * sizeof(Row), uint64_t{0});
    write(offsetof(Sheet, cached) + cell + kind * sizeof(Row), uint64_t{0});
  }
  write(ids_at(device, place), Ids{});
}

void Ledger::forget(uint32_t place) {
  for (uint32_t device = 0; device < kLedgerDevices; ++device) forget(device, place);
  write(place_at(place), Place{});
}

// No process holds the lock of a place that is dead.
bool Ledger::alive(uint32_t place) const {
  struct flock lock = ledger_lock(F_WRLCK, static_cast<off_t>(place) + 1);
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// With both locks held: forgets what processes that died still have of the device.
void Ledger::sweep(uint32_t device) {
  const Rows rows = used_of(device);
  const IdRow ids = ids_of(device);
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    const bool empty = rows[0][place] == 0 && rows[1][place] == 0 && ids[place] == Ids{};
    if (place != place_ && !empty && !alive(place)) forget(device, place);
  }
}

bool Ledger::charge(uint32_t device, Parts parts, uint64_t capacity_bytes) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  const auto fits = [&] {
    const uint64_t used = sum(device, used_of(device)).total();
    return used <= capacity_bytes && parts.total() <= capacity_bytes - used;
  };
  if (!fits()) {
    sweep(device);
    if (!fits()) return false;
  }
  mine_[device].normal += parts.normal;
  mine_[device].huge += parts.huge;
  publish(device);
  return true;
}

void Ledger::release(uint32_t device, Parts parts) {
  const std::lock_guard threads(mutex_);
  Parts& mine = mine_[device];
  mine.normal -= std::min(mine.normal, parts.normal);
  mine.huge -= std::min(mine.huge, parts.huge);
  publish(device);  // no file lock: only this process writes here, and less breaks no promise
}

Ledger::Used Ledger::used(uint32_t device) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  sweep(device);
  return sum(device, used_of(device));
}

Ledger::Used Ledger::cached_by_others(uint32_t device) {
  const std::lock_guard threads(mutex_);
  const Rows used = used_of(device);
  Rows cached;
  read(offsetof(Sheet, cached) + device * sizeof cached, cached);
  std::array<uint64_t, kKinds> sums{};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
      const uint64_t believable = std::min(cached[kind][place], used[kind][place]);
      if (place == place_) continue;
      if (__builtin_add_overflow(sums[kind], believable, &sums[kind])) sums[kind] = UINT64_MAX;
    }
  }
  return {sums[0], sums[1]};
}

std::vector<Ledger::Holder> Ledger::holders(uint32_t device) {
  const std::lock_guard threads(mutex_);
  std::array<Place, kLedgerProcesses> places;
  Rows rows;
  {
    const FileLock processes(file_);
    sweep(device);
    read(offsetof(Sheet, places), places);
    rows = used_of(device);
  }
  std::vector<Holder> all;
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    const bool own = place == place_;
    const Parts held = own ? mine_[device] : Parts{rows[0][place], rows[1][place]};
    if (own || held.normal != 0 || held.huge != 0) {
      all.push_back({own ? static_cast<uint32_t>(getpid()) : places[place].process, held, own});
    }
  }
  return all;
}

std::string Ledger::other_holders(uint32_t device) {
  constexpr int kNamed = 5;
  std::string text;
  int named = 0;
  for (const Holder& holder : holders(device)) {
    const Used held{holder.used.normal, holder.used.huge};
    if (holder.own || held.total() == 0) continue;
    if (++named > kNamed) return text + ", and others";
    text += (text.empty() ? "" : ", ") + size_text(held.total()) + " by process " +
            std::to_string(holder.process);
  }
  return text;
}

// See Note [Asking others]; the kernel alone follows these addresses.
uint32_t* Ledger::word(size_t at) const { return reinterpret_cast<uint32_t*>(words_ + at); }

void Ledger::ask_others(uint32_t device) {
  std::vector<uint32_t> asked;
  {
    const std::lock_guard threads(mutex_);
    const Rows rows = used_of(device);
    for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
      if (rows[0][place] != 0 || rows[1][place] != 0) asked.push_back(place);
    }
  }
  ask(asked);
}

// Questions to the places, without this one; then waits for their answers.
void Ledger::ask(const std::vector<uint32_t>& asked) {
  struct Question {
    size_t at;
    uint32_t wanted;
  };
  std::vector<Question> questions;
  {
    const std::lock_guard threads(mutex_);
    for (const uint32_t place : asked) {
      if (place == place_) continue;
      const size_t at = place_at(place) + offsetof(Place, wanted);
      const uint32_t wanted = peek(at) + 1;
      write(at, wanted);
      futex_wake(word(at));
      questions.push_back({place_at(place) + offsetof(Place, answered), wanted});
    }
  }
  int rounds = kAnswerRounds;
  for (const Question& question : questions) {
    while (true) {
      const uint32_t answered = peek(question.at);
      if (static_cast<int32_t>(answered - question.wanted) >= 0 || rounds-- <= 0) break;
      futex_wait(word(question.at), answered, kAnswerRoundNs);
    }
  }
}

std::optional<uint32_t> Ledger::wait_for_question() {
  const size_t at = place_at(place_) + offsetof(Place, wanted);
  uint32_t wanted = peek(at);
  if (wanted == answered_) {
    futex_wait(word(at), wanted, kQuestionNs);
    wanted = peek(at);
  }
  if (wanted == answered_) return std::nullopt;
  return wanted;
}

void Ledger::answer(uint32_t question, const std::vector<Parts>& cached) {
  const std::lock_guard threads(mutex_);
  const size_t at = place_at(place_);
  answered_ = question;
  for (uint32_t device = 0; device < cached.size(); ++device) {
    cached_[device] = cached[device];
    publish(device);
  }
  write(at + offsetof(Place, answered), answered_);
  futex_wake(word(at + offsetof(Place, answered)));
}

}  // namespace ascendrt::memory
