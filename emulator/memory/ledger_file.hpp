// The file behind a ledger: finding it, and its locks.
// Must never: follow links or change an existing file.
#pragma once

#include <fcntl.h>

#include <string>

namespace ascendrt::memory {

struct LedgerFile {
  int file = -1;
  std::string path;  // for error texts
};

// Opens the machine's file, or makes it (empty). Raises 100000 for a bad name, 507899 when it
// cannot be opened.
LedgerFile open_ledger_file(const std::string& machine);

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
