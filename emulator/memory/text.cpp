#include "memory/text.hpp"

#include <array>
#include <bit>
#include <cstdio>

namespace ascendrt::memory {

std::string size_text(uint64_t bytes) {
  std::string exact = std::to_string(bytes) + " bytes";
  if (bytes < 1024) return exact;
  const auto unit = static_cast<unsigned>(std::bit_width(bytes) - 1) / 10;
  std::array<char, 32> rounded{};
  std::snprintf(rounded.data(), rounded.size(), "%.4g %ciB",
                static_cast<double>(bytes) / static_cast<double>(1ULL << (10 * unit)),
                "BKMGTPE"[unit]);
  return std::string(rounded.data()) + " (" + exact + ")";
}

std::string address_text(const void* address) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%p", address);
  return text.data();
}

}  // namespace ascendrt::memory
