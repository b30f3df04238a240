// File images: bytes in the order in which they lie in a file. Must never: know what they mean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "model/ir.hpp"

namespace ascendrt::model {

class Image {
 public:
  explicit Image(size_t size) { data_.reserve(size); }

  template <class T>
  void put(T value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) data_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  void append(std::span<const uint8_t> bytes) {
    data_.insert(data_.end(), bytes.begin(), bytes.end());
  }
  void zeros_until(size_t offset) { data_.resize(offset); }
  // Cut so that a NUL always ends the field.
  void text(const std::string& value, size_t width) {
    const size_t end = data_.size() + width;
    const size_t used = std::min(value.size(), width - 1);
    data_.insert(data_.end(), value.begin(), value.begin() + static_cast<std::ptrdiff_t>(used));
    zeros_until(end);
  }
  Bytes take() { return std::move(data_); }

 private:
  Bytes data_;
};

}  // namespace ascendrt::model
