#include "base/config.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/error.hpp"

namespace ascendrt::base {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& wanted) {
  fail(100000, "environment variable " + std::string(name) + "='" + value + "' is not " + wanted +
                   "; correct or unset it");
}

// Number of bits to shift for a size suffix; nothing when it is none.
std::optional<unsigned> suffix_shift(std::string_view text) {
  if (text.empty() || text == "B") return 0;
  constexpr std::string_view kUnits = "KMGT";
  const size_t unit = kUnits.find(static_cast<char>(std::toupper(text.front())));
  if (unit == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB" && rest != "b") return std::nullopt;
  return static_cast<unsigned>(10 * (unit + 1));
}

}  // namespace

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

int64_t env_int(const char* name, int64_t fallback, int64_t min, int64_t max) {
  const auto text = env(name);
  if (!text || text->empty()) return fallback;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, status] = std::from_chars(text->data(), end, value);
  if (status != std::errc() || stop != end || value < min || value > max) {
    refuse(name, *text, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

std::optional<uint64_t> size_bytes(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  const auto shift = suffix_shift({stop, static_cast<size_t>(end - stop)});
  if (status != std::errc() || !shift) return std::nullopt;
  if (value > std::numeric_limits<uint64_t>::max() >> *shift) return std::nullopt;
  return value << *shift;
}

uint64_t env_size_bytes(const char* name, uint64_t fallback) {
  const auto text = env(name);
  if (!text || text->empty()) return fallback;
  const auto bytes = size_bytes(*text);
  if (!bytes || *bytes == 0) refuse(name, *text, "a size such as 32G, 512M or 1073741824");
  return *bytes;
}

}  // namespace ascendrt::base
