#include "memory/ledger_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "gen/abi.h"
#include "memory/os.hpp"
#include "probe/faults.hpp"

namespace ascendrt::memory {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr const char* kPrivateName = "ascendrt-ledger";
constexpr size_t kNameMax = 64;
constexpr int kAncestorsMax = 128;

void check_name(const std::string& machine) {
  const bool plain = std::all_of(machine.begin(), machine.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
  });
  if (machine.empty() || machine.size() > kNameMax || !plain) {
    base::fail(ACL_ERROR_INVALID_PARAM,
               "ASCENDRT_MACHINE='" + machine +
                   "' is no machine name: 1 to 64 letters, digits, '_', '-' or '.' are allowed");
  }
}

LedgerFile make_private() {
  const int file = memfd_create(kPrivateName, MFD_CLOEXEC);
  if (file < 0) {
    base::fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
               "cannot make the ledger of a private machine: " + os::last_reason());
  }
  return {file, std::string("memory file ") + kPrivateName};
}

std::string link_target(const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t length = readlink(path.c_str(), text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : std::string();
}

// The private ledger among the open files of a process, -1 when there is none or it may not be
// looked at.
LedgerFile find_in(const std::string& process) {
  const std::string folder = "/proc/" + process + "/fd";
  const std::string wanted = std::string("/memfd:") + kPrivateName + " (deleted)";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (!entries) return {};
  while (const dirent* entry = readdir(entries.get())) {
    const std::string path = folder + "/" + entry->d_name;
    if (link_target(path) != wanted) continue;
    if (const int file = open(path.c_str(), O_RDWR | O_CLOEXEC); file >= 0) return {file, path};
  }
  return {};
}

// Parent of a process as text, empty at the end of the line.
std::string parent_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  std::getline(file, text);
  // "pid (name) state ppid ...": the name may hold anything, so start behind its last bracket.
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos || text.size() < bracket + 5) return {};
  const std::string rest = text.substr(bracket + 4);
  const std::string parent = rest.substr(0, rest.find(' '));
  return parent == "0" ? std::string() : parent;
}

LedgerFile open_private() {
  std::string process = std::to_string(getppid());
  for (int step = 0; step < kAncestorsMax && !process.empty() && process != "0"; ++step) {
    if (LedgerFile found = find_in(process); found.file >= 0) return found;
    process = parent_of(process);
  }
  return make_private();
}

// Any process, of any version, holds a lock on some byte.
bool in_use(int file) {
  struct flock lock = ledger_lock(F_WRLCK, 0);
  lock.l_len = 0;  // to the end
  return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// What the name of a ledger file of this user says: "ascendrt<version>-<uid>-<machine>".
std::optional<LedgerEntry> read_name(const std::string& name) {
  constexpr std::string_view kStart = "ascendrt";
  const std::string user = "-" + std::to_string(geteuid()) + "-";
  const size_t dash = name.find('-');
  if (!name.starts_with(kStart) || dash == std::string::npos) return std::nullopt;
  if (name.compare(dash, user.size(), user) != 0) return std::nullopt;
  LedgerEntry entry{std::string(kFolder) + "/" + name, name.substr(dash + user.size())};
  const char* end = name.data() + dash;
  const auto [rest, error] = std::from_chars(name.data() + kStart.size(), end, entry.version);
  // No digits at all: from_chars stays where it was, which is the end then.
  return rest == end && error != std::errc::result_out_of_range ? std::optional(entry)
                                                                : std::nullopt;
}

// The files of this user as they are opened, to look at each.
template <class Visit>
void for_each_file(Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(kFolder), closedir);
  if (!entries) return;
  while (const dirent* entry = readdir(entries.get())) {
    const auto found = read_name(entry->d_name);
    if (!found) continue;
    const int file = open(found->path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    struct stat status{};
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid()) {
      visit(file, *found);
    }
    close(file);
  }
}

}  // namespace

std::string ledger_prefix() {
  return std::string(kFolder) + "/ascendrt" + std::to_string(kLedgerVersion) + "-" +
         std::to_string(geteuid()) + "-";
}

bool is_removed(const LedgerFile& opened) {
  struct stat status{};
  return opened.path.starts_with(kFolder) && fstat(opened.file, &status) == 0 &&
         status.st_nlink == 0;
}

std::vector<LedgerEntry> ledger_files() {
  std::vector<LedgerEntry> found;
  for_each_file([&](int file, LedgerEntry entry) {
    entry.in_use = in_use(file);
    found.push_back(std::move(entry));
  });
  return found;
}

std::vector<std::string> remove_unused_ledgers() {
  std::vector<std::string> removed;
  for_each_file([&](int file, const LedgerEntry& entry) {
    if (in_use(file)) return;
    const FileLock lock(file);  // who opens it now sees that it is removed, and makes it anew
    if (!in_use(file) && unlink(entry.path.c_str()) == 0) removed.push_back(entry.path);
  });
  return removed;
}

FileLock::FileLock(int file) : file_(file) {
  struct flock lock = ledger_lock(F_WRLCK, 0);
  errno = ENOLCK;
  while (probe::fails("memory.ledger") || fcntl(file_, F_OFD_SETLKW, &lock) != 0) {
    if (errno == EINTR) continue;
    base::fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
               "cannot lock the capacity ledger: " + os::last_reason());
  }
}

FileLock::~FileLock() {
  struct flock lock = ledger_lock(F_UNLCK, 0);
  fcntl(file_, F_OFD_SETLK, &lock);
}

LedgerFile open_ledger_file(const std::string& machine) {
  check_name(machine);
  if (machine == "private") return open_private();
  const std::string path = ledger_prefix() + machine;
  const char* name = path.c_str() + std::string_view(kFolder).size();
  const int file = shm_open(name, O_RDWR | O_CREAT, 0600);  // sets close-on-exec
  if (file >= 0) return {file, path};
  if (errno == ENOENT || errno == ENOSYS || errno == EROFS) {
    base::warn_once("memory.ledger",
                    "no usable /dev/shm (" + os::last_reason() +
                        "): this process does not share its emulated devices with others");
    return make_private();
  }
  base::fail(
      ACL_ERROR_RT_DRV_INTERNAL_ERROR,
      "cannot open the ledger " + path + " of the emulated machine '" + machine +
          "': " + os::last_reason() +
          "; remove the file if it is a leftover, or choose another name with ASCENDRT_MACHINE");
}

}  // namespace ascendrt::memory
