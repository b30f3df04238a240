// How a block lies in pages. Owns: the rule which pages a size gets.
#pragma once

#include <cstdint>

#include "memory/memory.hpp"

namespace ascendrt::memory {

inline constexpr uint64_t kHugePage = 2ULL << 20;
inline constexpr uint64_t kGiantPage = 1ULL << 30;
// src: hicann/runtime npu_driver_mem.cc: huge pages are tried above 1 MiB
inline constexpr uint64_t kHugeAbove = 1ULL << 20;

// Bytes, by kind of page.
struct Parts {
  uint64_t normal = 0;
  uint64_t huge = 0;
  uint64_t total() const { return normal + huge; }
};

// Note [Shapes]
// kNormal: normal pages. kMixed (the default above 1 MiB): huge pages, and normal ones for what is
// left behind the last whole one; between 1 and 2 MiB one huge page. kWhole, kGiant: huge pages
// alone, as the *_ONLY policies ask. So the default wastes less than a page above 2 MiB, and a
// block's span says by itself how much of it lies in which pages.
struct Shape {
  enum Tag : uint8_t { kNormal, kMixed, kWhole, kGiant };
  uint64_t span = 0;
  uint8_t tag = kNormal;

  uint64_t huge() const { return tag == kNormal ? 0 : span & ~(kHugePage - 1); }
  // Names the shape among all shapes.
  uint64_t key(unsigned page_shift) const { return span >> page_shift << 2 | tag; }
};

inline uint64_t round_up(uint64_t bytes, uint64_t grain) {
  return (bytes + grain - 1) & ~(grain - 1);
}

// Of the default policy.
inline Shape default_shape(uint64_t bytes, unsigned page_shift) {
  const uint64_t page = 1ULL << page_shift;
  if (bytes <= kHugeAbove) return {round_up(bytes, page), Shape::kNormal};
  return {bytes < kHugePage ? kHugePage : round_up(bytes, page), Shape::kMixed};
}

Shape shape_of(uint64_t bytes, aclrtMemMallocPolicy policy);

}  // namespace ascendrt::memory
