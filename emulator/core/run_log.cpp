#include "core/run_log.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "base/config.hpp"
#include "clock/clock.hpp"

namespace ascendrt::core {
namespace {

// The vendor's variables take what they do not know for their default.
int64_t digit(const char* name, int64_t fallback, char most) {
  const auto value = base::env(name);
  const bool known = value && value->size() == 1 && (*value)[0] >= '0' && (*value)[0] <= most;
  return known ? (*value)[0] - '0' : fallback;
}

bool asked_for_stdout() {
  const char* name = base::env("ASCEND_LOG_PRINT_TO_STDOUT") ? "ASCEND_LOG_PRINT_TO_STDOUT"
                                                             : "ASCEND_SLOG_PRINT_TO_STDOUT";
  return digit(name, 0, '1') == 1;
}

std::string stamp(int64_t microseconds) {
  const time_t seconds = microseconds / 1'000'000;
  tm parts{};
  localtime_r(&seconds, &parts);
  char date[32];
  const size_t length = std::strftime(date, sizeof date, "%Y-%m-%d-%H:%M:%S", &parts);
  const std::string fraction = std::to_string(1'000'000 + microseconds % 1'000'000);
  return std::string(date, length) + "." + fraction.substr(1, 3) + "." + fraction.substr(4);
}

}  // namespace

bool log_enabled(aclLogLevel level) {
  static const int64_t threshold = digit("ASCEND_GLOBAL_LOG_LEVEL", ACL_ERROR, '4');
  return level >= threshold && threshold <= ACL_ERROR;
}

bool log_to_stdout() {
  static const bool asked = asked_for_stdout();
  return asked;
}

const char* level_name(aclLogLevel level) {
  switch (level) {
    case ACL_DEBUG:
      return "DEBUG";
    case ACL_INFO:
      return "INFO";
    case ACL_WARNING:
      return "WARNING";
    case ACL_ERROR:
      return "ERROR";
    default:
      return "?";
  }
}

void print_log(aclLogLevel level, const char* module, std::string_view place,
               std::string_view function, std::string_view text) {
  std::string line = "[" + std::string(level_name(level)) + "] " + module + "(";
  line += std::to_string(getpid()) + "," + program_invocation_short_name + "):";
  line += stamp(clock::wall_us()) + " [";
  line.append(place);
  line += "]" + std::to_string(syscall(SYS_gettid)) + " ";
  line.append(function).append(": ").append(text);
  line.push_back('\n');
  // A full or closed output must not fail the call that wanted to say something.
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
}

}  // namespace ascendrt::core
