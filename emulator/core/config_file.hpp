// The JSON file given to aclInit. Owns: reading it with its limits, and the keys the core
// understands. Must never: keep state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ascendrt::core {

// Text of the file; empty when the path is null or empty. Raises 100003 when it cannot be resolved,
// is no regular file, cannot be read or is larger than 10 MiB.
std::string read_config_file(const char* path);

// Id in {"defaultDevice": {"default_device": "<n>"}}, if any. Raises 100006 when the text is no
// JSON or nests deeper than 10 objects or 10 arrays, 500001 when the id is no decimal string.
std::optional<int32_t> default_device_of(const std::string& text);

// The members of the "memory" section, names and values. Raises 100000 when the section is no
// object, or a value no string.
std::vector<std::pair<std::string, std::string>> memory_section_of(const std::string& text);

}  // namespace ascendrt::core
