#include "core/version_info.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "base/error.hpp"

namespace ascendrt::core {
namespace {

// Folder names below share/info, indexed by aclCANNPackageName. "cann" is a guess; the others stand
// in real installations.
constexpr std::array<const char*, 8> kPackages = {"cann",    "runtime", "compiler",   "hccl",
                                                  "toolkit", "opp",     "opp_kernel", "driver"};

// Value of a KEY=VALUE line, if the file has one.
std::optional<std::string> value_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.size() > key.size() && line.compare(0, key.size(), key) == 0 &&
        line[key.size()] == '=') {
      return line.substr(key.size() + 1);
    }
  }
  return std::nullopt;
}

std::string version_file(aclCANNPackageName package) {
  if (package == ACL_PKG_NAME_DRIVER) {
    const auto root = value_in("/etc/ascend_install.info", "Driver_Install_Path_Param");
    return root ? *root + "/driver/version.info" : "";
  }
  const auto home = base::env("ASCEND_HOME_PATH");
  if (!home || home->empty()) return "";
  return *home + "/share/info/" + kPackages[static_cast<size_t>(package)] + "/version.info";
}

template <size_t n>
void put(char (&field)[n], std::string_view text) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

}  // namespace

void read_package_version(aclCANNPackageName package, aclCANNPackageVersion& version) {
  if (package < 0 || static_cast<size_t>(package) >= kPackages.size()) {
    base::fail(ACL_ERROR_INVALID_PARAM, "package " + std::to_string(package) + " is unknown",
               base::Layer::kAcl);
  }
  const std::string path = version_file(package);
  const auto text = value_in(path, "Version");
  if (!text) {
    base::fail(ACL_ERROR_INVALID_FILE,
               path.empty() ? "ASCEND_HOME_PATH is not set, no version file can be found"
                            : "version file '" + path + "' is missing or names no Version",
               base::Layer::kAcl);
  }
  version = {};
  put(version.version, *text);
  std::vector<std::string> parts(1);
  for (const char c : *text) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  parts.resize(4);
  put(version.majorVersion, parts[0]);
  put(version.minorVersion, parts[1]);
  put(version.releaseVersion, parts[2]);
  put(version.patchVersion, parts[3]);
}

bool log_enabled(aclLogLevel level) {
  static const int64_t threshold = base::env_int("ASCEND_GLOBAL_LOG_LEVEL", ACL_ERROR, 0, 4);
  return level >= threshold;
}

}  // namespace ascendrt::core
