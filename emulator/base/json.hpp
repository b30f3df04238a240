// A small JSON reader for configuration files. Owns: parsing into a tree, with a depth limit.
// Must never: be fed unbounded input; callers limit the size first.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ascendrt::base {

struct Json;
using JsonArray = std::vector<Json>;
using JsonObject = std::vector<std::pair<std::string, Json>>;

struct Json {
  std::variant<std::nullptr_t, bool, double, std::string, JsonArray, JsonObject> value = nullptr;

  // Member of an object by key, null when this is no object or has no such key.
  const Json* find(std::string_view key) const;
  const std::string* string() const { return std::get_if<std::string>(&value); }
};

// Nothing when the text is no JSON, or when objects or arrays nest deeper than max_depth each.
std::optional<Json> parse_json(std::string_view text, size_t max_depth);

// The text as a JSON string.
std::string quoted(std::string_view text);

}  // namespace ascendrt::base
