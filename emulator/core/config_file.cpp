#include "core/config_file.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "base/json.hpp"
#include "gen/abi.h"

namespace ascendrt::core {
namespace {

// src: hicann/runtime src/acl/common/json_parser.cpp (size), manual of aclInit (depth)
constexpr uintmax_t kMaxFileBytes = 10 * 1024 * 1024;
constexpr size_t kMaxDepth = 10;

[[noreturn]] void refuse_file(const char* path, const std::string& reason) {
  base::fail(ACL_ERROR_INVALID_FILE,
             "configuration file '" + std::string(path) + "' " + reason +
                 "; give an existing JSON file or a null path for the defaults",
             base::Layer::kAcl);
}

}  // namespace

std::string read_config_file(const char* path) {
  if (path == nullptr || *path == '\0') return {};
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::path real = fs::canonical(path, problem);
  if (problem) refuse_file(path, "cannot be opened: " + problem.message());
  if (!fs::is_regular_file(real, problem)) refuse_file(path, "is no regular file");
  const uintmax_t size_bytes = fs::file_size(real, problem);
  if (problem || size_bytes > kMaxFileBytes) refuse_file(path, "is larger than 10 MiB");
  std::ifstream file(real, std::ios::binary);
  if (!file) refuse_file(path, std::string("cannot be read: ") + std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<int32_t> default_device_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto json = base::parse_json(text, kMaxDepth);
  if (!json) {
    base::fail(ACL_ERROR_PARSE_FILE,
               "the configuration is no valid JSON, or nests deeper than 10 objects or 10 arrays",
               base::Layer::kAcl);
  }
  const base::Json* section = json->find("defaultDevice");
  const base::Json* entry = section == nullptr ? nullptr : section->find("default_device");
  if (entry == nullptr) return std::nullopt;
  int32_t id = -1;
  const std::string* value = entry->string();
  const char* end = value == nullptr ? nullptr : value->data() + value->size();
  const bool number = value != nullptr && !value->empty() &&
                      value->find_first_not_of("0123456789") == std::string::npos &&
                      std::from_chars(value->data(), end, id).ec == std::errc();
  if (!number) {
    base::fail(
        ACL_ERROR_FAILURE,
        "defaultDevice.default_device in the configuration must be a decimal string such as \"0\"",
        base::Layer::kAcl);
  }
  return id;
}

std::vector<std::pair<std::string, std::string>> memory_section_of(const std::string& text) {
  const auto json = text.empty() ? std::nullopt : base::parse_json(text, kMaxDepth);
  const base::Json* section = json ? json->find("memory") : nullptr;
  std::vector<std::pair<std::string, std::string>> knobs;
  if (section == nullptr) return knobs;
  const auto* members = std::get_if<base::JsonObject>(&section->value);
  if (members == nullptr) {
    base::fail(ACL_ERROR_INVALID_PARAM,
               "memory in the configuration must be an object of strings such as "
               "{\"pool_size\": \"64M\"}");
  }
  for (const auto& [name, value] : *members) {
    const std::string* word = value.string();
    if (word == nullptr) {
      base::fail(ACL_ERROR_INVALID_PARAM, "memory." + name +
                                              " in the configuration is no string; write it as "
                                              "\"64M\" or \"5\", in quotes");
    }
    knobs.emplace_back(name, *word);
  }
  return knobs;
}

}  // namespace ascendrt::core
