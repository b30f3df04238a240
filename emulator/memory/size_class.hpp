// The sizes of small blocks. Owns: which size a request gets.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace ascendrt::memory {

// Small blocks come in 48 sizes, eight steps per power of two.
inline constexpr uint64_t kSmallMax = 16384;
inline constexpr uint32_t kSizeClasses = 48;

constexpr uint64_t class_bytes(uint32_t size_class) {
  if (size_class < 8) return (size_class + 1) * 64ULL;
  const uint32_t top = 9 + (size_class - 8) / 8;
  return (1ULL << top) + ((size_class - 8) % 8 + 1) * (1ULL << (top - 3));
}

constexpr uint32_t class_of(uint64_t bytes) {
  if (bytes <= 512) return static_cast<uint32_t>((bytes + 63) / 64 - 1);
  const auto top = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // >= 9
  return 8 + (top - 9) * 8 + static_cast<uint32_t>(((bytes - 1) >> (top - 3)) & 7);
}

// index in a slab = offset * reciprocal >> 32: exact below 256 KiB, where all slabs end.
constexpr uint64_t class_reciprocal(uint32_t size_class) {
  return ((1ULL << 32) + class_bytes(size_class) - 1) / class_bytes(size_class);
}

struct ClassRow {
  uint32_t bytes;
  uint32_t reciprocal;
};
inline constexpr auto kClassTable = [] {
  std::array<ClassRow, kSizeClasses> rows{};
  for (uint32_t i = 0; i < kSizeClasses; ++i) {
    rows[i] = {static_cast<uint32_t>(class_bytes(i)), static_cast<uint32_t>(class_reciprocal(i))};
  }
  return rows;
}();

}  // namespace ascendrt::memory
