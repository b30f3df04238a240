// Owns: the allocation of packed weights.
#include "ops/packed.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace ascendrt::ops {
namespace {

constexpr size_t kHugePage = size_t{2} << 20U;
constexpr size_t kLine = 64;

}  // namespace

PackedFloats::PackedFloats(int64_t count, Contents contents) : size_(count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t align = bytes < kHugePage ? kLine : kHugePage;
  void* block = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (block == nullptr) throw std::bad_alloc();
  // Whole pages only, so that none is mostly empty. A refusal costs speed, nothing else.
  if (align == kHugePage) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  if (contents == Contents::kZeros) std::memset(block, 0, bytes);
  data_.reset(static_cast<float*>(block));
}

}  // namespace ascendrt::ops
