#include "core/version_info.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
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

std::string version_file(const std::string& package) {
  for (const auto& [name, key] : {std::pair{"driver", "Driver_Install_Path_Param"},
                                  std::pair{"firmware", "Firmware_Install_Path_Param"}}) {
    if (package != name) continue;
    const auto root = value_in("/etc/ascend_install.info", key);
    return root ? *root + "/" + package + "/version.info" : "";
  }
  const auto home = base::env("ASCEND_HOME_PATH");
  if (!home || home->empty()) return "";
  return *home + "/share/info/" + package + "/version.info";
}

std::string other_spelling(std::string package) {
  const char from = package.find('-') != std::string::npos ? '-' : '_';
  std::replace(package.begin(), package.end(), from, from == '-' ? '_' : '-');
  return package;
}

// Number of decimal digits at the start of the text; takes them off.
int32_t take_number(std::string_view& text, int32_t most) {
  int32_t number = 0;
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0 &&
         number < most) {
    number = number * 10 + (text[digits++] - '0');
  }
  if (digits == 0 || number >= most) return -1;
  text.remove_prefix(digits);
  return number;
}

// What "-alpha.1", ".beta2", "rc3" and so on take from the number; nullopt for another form.
std::optional<int32_t> prerelease_offset(std::string_view text) {
  if (text.empty()) return 0;
  for (const auto& [word, weight] :
       {std::pair{"alpha", 300}, std::pair{"beta", 200}, std::pair{"rc", 100}}) {
    const size_t at = text.find(word);
    if (at == std::string_view::npos) continue;
    if (at > 1) return std::nullopt;
    std::string_view rest = text.substr(at + std::strlen(word));
    while (!rest.empty() && (rest[0] == '.' || rest[0] == '-')) rest.remove_prefix(1);
    if (rest.empty()) return -weight;
    const int32_t number = take_number(rest, 1000);
    if (number < 0) return std::nullopt;
    return number - weight;
  }
  return std::nullopt;
}

template <size_t n>
void put(char (&field)[n], std::string_view text) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

}  // namespace

std::string package_version(const std::string& package) {
  for (const std::string& name : {package, other_spelling(package)}) {
    if (const auto text = value_in(version_file(name), "Version")) return *text;
  }
  const std::string path = version_file(package);
  base::fail(ACL_ERROR_INVALID_FILE,
             path.empty()
                 ? "no version file can be found: ASCEND_HOME_PATH (for the driver and the "
                   "firmware /etc/ascend_install.info) names no installation"
                 : "version file '" + path + "' is missing or names no Version",
             base::Layer::kAcl);
}

int32_t version_number(const std::string& version) {
  std::string_view rest = version;
  int32_t number = 0;
  for (const int32_t weight : {10'000'000, 100'000, 1'000}) {
    const int32_t part = take_number(rest, weight == 10'000'000 ? 200 : 100);
    if (part < 0) break;
    number += part * weight;
    if (weight == 1'000) {
      if (const auto offset = prerelease_offset(rest)) return number + *offset;
      break;
    }
    if (rest.empty() || rest[0] != '.') break;
    rest.remove_prefix(1);
  }
  base::fail(ACL_ERROR_INTERNAL_ERROR,
             "version '" + version + "' is not of the form X.Y.Z, with -alpha.N, -beta.N or -rc.N",
             base::Layer::kAcl);
}

void read_package_version(aclCANNPackageName package, aclCANNPackageVersion& version) {
  if (package < 0 || static_cast<size_t>(package) >= kPackages.size()) {
    base::fail(ACL_ERROR_INVALID_PARAM, "package " + std::to_string(package) + " is unknown",
               base::Layer::kAcl);
  }
  const std::string text = package_version(kPackages[static_cast<size_t>(package)]);
  version = {};
  put(version.version, text);
  std::vector<std::string> parts(1);
  for (const char c : text) {
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

}  // namespace ascendrt::core
