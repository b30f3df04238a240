// The bytes of a file in memory of their own, whose parts can be given back one by one.
// Owns: the pages. Must never: map the file itself; it may be cut short while it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ascendrt::model {

class FileBytes {
 public:
  explicit FileBytes(size_t size);  // zeros
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  uint8_t* data() { return data_; }
  size_t size() const { return size_; }
  void shorten(size_t size) { size_ = size; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  // Whole pages inside the part go back to the system; they read as zeros from then on.
  void forget(std::span<const uint8_t> part) const noexcept;

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

}  // namespace ascendrt::model
