// The file behind a ledger: finding it, its locks, and the files that others left behind.
// Must never: follow links, change what a file holds, or remove one that a process uses.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ascendrt::memory {

// Part of the file's name, so that programs with ledgers of different versions never meet. A change
// of what the file holds needs a new one.
inline constexpr uint32_t kLedgerVersion = 3;

// Where the ledgers of this user and version lie, but for the machine's name.
std::string ledger_prefix();

struct LedgerFile {
  int file = -1;
  std::string path;  // for error texts
};

// Opens the machine's file, or makes it (empty). Raises 100000 for a bad name, 507899 when it
// cannot be opened.
LedgerFile open_ledger_file(const std::string& machine);
// True when the file was removed since it was opened: it is nobody's ledger any more.
bool is_removed(const LedgerFile& opened);

// A ledger file of this user, of any machine and version. Version 0: of before names had one.
struct LedgerEntry {
  std::string path;
  std::string machine;
  uint32_t version = 0;
  bool in_use = false;
};
std::vector<LedgerEntry> ledger_files();
// Removes those that no process uses; gives their paths.
std::vector<std::string> remove_unused_ledgers();

// Byte 0 of the file is the lock, byte 1 + n is kept by the process in place n.
inline struct flock ledger_lock(short type, off_t byte) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// Excludes other processes; the owner's mutex excludes other threads. Raises 507899.
class FileLock {
 public:
  explicit FileLock(int file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int file_;
};

}  // namespace ascendrt::memory
