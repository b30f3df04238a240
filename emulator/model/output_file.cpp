// Owns: names of temporary files.
#include "model/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "model/om_container.hpp"

namespace ascendrt::model {
namespace {

// Behind links. Only regular files are replaced: renaming over a device or a pipe would end it.
std::string place_of(const std::string& target, bool& exists) {
  struct stat info = {};
  exists = ::stat(target.c_str(), &info) == 0;
  if (!exists) return target;
  if (!S_ISREG(info.st_mode)) {
    fail_model(kAclWriteFile, "output '" + target +
                                  "' exists and is no regular file; name a new file or one that "
                                  "may be replaced");
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(target.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : target;
}

}  // namespace

OutputFile::OutputFile(const std::string& target) : target_(place_of(target, replaces_)) {
  static std::atomic<uint32_t> serial{0};  // relaxed: only uniqueness matters
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && fd_ < 0; ++i) {
    temporary_ = target_ + ".tmp-" + std::to_string(::getpid()) + "-" +
                 std::to_string(serial.fetch_add(1, std::memory_order_relaxed));
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("cannot be created");
}

OutputFile::~OutputFile() {
  close();
  if (!renamed_) ::unlink(temporary_.c_str());
}

void OutputFile::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void OutputFile::write(std::span<const uint8_t> data) {
  while (!data.empty()) {
    const ssize_t done = ::write(fd_, data.data(), data.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    data = data.subspan(static_cast<size_t>(done));
  }
  if (::fsync(fd_) != 0) fail("cannot be brought to disk");
  close();
}

void OutputFile::rename() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be put in place");
  renamed_ = true;
}

void OutputFile::fail(const char* what) const {
  const std::string reason = std::strerror(errno);
  fail_model(kAclWriteFile, "output file '" + target_ + "' " + what + ": " + reason +
                                "; nothing was left behind, check the directory, its permissions "
                                "and the free space");
}

}  // namespace ascendrt::model
