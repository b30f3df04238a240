// Memory of packed weights. Owns: its pages. Must never: be written after packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ascendrt::ops {

// Kernels read weights straight through, once in a run, so large ones lie on huge
// pages where the system grants them: fewer misses of the address cache.
class PackedFloats {
 public:
  PackedFloats() = default;
  enum class Contents : uint8_t { kZeros, kAny };  // kAny: the maker writes every value
  explicit PackedFloats(int64_t count, Contents contents = Contents::kZeros);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace ascendrt::ops
