#include "base/log.hpp"

#include <unistd.h>

#include <mutex>
#include <set>

#include "base/printable.hpp"

namespace ascendrt::base {

void log_line(std::string_view text) {
  std::string line = "ascendrt: ";
  line.append(printable(text, true));  // it may name things of files
  line.push_back('\n');
  // A full or closed stderr must not fail the call that wanted to say something.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void warn_once(const std::string& key, std::string_view text) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!seen->insert(key).second) return;
  }
  log_line(text);
}

}  // namespace ascendrt::base
