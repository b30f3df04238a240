// Protobuf wire format. Owns: decoding of tags, varints, packed runs; encoding of the same.
#include "model/wire.hpp"

#include <bit>
#include <cstring>

namespace ascendrt::model::wire {
namespace {

constexpr uint32_t kMaxField = (1U << 29) - 1;

}  // namespace

void Budget::charge(uint64_t bytes, uint64_t offset) {
  if (bytes > left_) {
    throw Malformed{offset, "describes more objects than a message of its size can hold"};
  }
  left_ -= bytes;
}

Reader::Reader(std::span<const uint8_t> bytes, Budget& budget, const char* what, uint64_t base,
               int depth)
    : bytes_(bytes), budget_(&budget), what_(what), base_(base), depth_(depth) {
  if (depth > Budget::kMaxDepth) fail("nested deeper than 100 levels");
}

void Reader::fail(std::string text) const {
  throw Malformed{offset(), std::string(what_) + ": " + std::move(text)};
}

uint64_t Reader::read_varint(size_t& at, size_t end) const {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at >= end) fail("a number runs past the end");
    const uint8_t byte = bytes_[at++];
    // The tenth byte holds only the top bit of 64; more is not a number any writer makes.
    if (shift == 63 && byte > 1) fail("a number has more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than 64 bits");
}

uint64_t Reader::read_fixed(size_t& at, size_t width) const {
  if (bytes_.size() - at < width) fail("a fixed size number runs past the end");
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= static_cast<uint64_t>(bytes_[at + i]) << (8 * i);
  at += width;
  return value;
}

bool Reader::next() {
  if (position_ == bytes_.size()) return false;
  const uint64_t key = read_varint(position_, bytes_.size());
  if (key >> 3 == 0 || key >> 3 > kMaxField) fail("field number out of range");
  field_ = static_cast<uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      type_ = Type::kVarint;
      scalar_ = read_varint(position_, bytes_.size());
      return true;
    case 1:
      type_ = Type::kFixed64;
      scalar_ = read_fixed(position_, 8);
      return true;
    case 5:
      type_ = Type::kFixed32;
      scalar_ = read_fixed(position_, 4);
      return true;
    case 2: {
      type_ = Type::kBytes;
      const uint64_t size = read_varint(position_, bytes_.size());
      if (size > bytes_.size() - position_) {
        fail("field " + std::to_string(field_) + " of " + std::to_string(size) +
             " bytes runs past the end");
      }
      value_begin_ = position_;
      value_size_ = static_cast<size_t>(size);
      position_ += value_size_;
      return true;
    }
    default:
      fail("wire type " + std::to_string(key & 7) + " is not supported");
  }
}

void Reader::want(Type type) const {
  if (type_ == type) return;
  fail("field " + std::to_string(field_) + " has wire type " +
       std::to_string(static_cast<int>(type_)) + ", expected " +
       std::to_string(static_cast<int>(type)));
}

uint64_t Reader::u64() const {
  want(Type::kVarint);
  return scalar_;
}

float Reader::f32() const {
  want(Type::kFixed32);
  return std::bit_cast<float>(static_cast<uint32_t>(scalar_));
}

double Reader::f64() const {
  want(Type::kFixed64);
  return std::bit_cast<double>(scalar_);
}

std::span<const uint8_t> Reader::bytes() const {
  want(Type::kBytes);
  return bytes_.subspan(value_begin_, value_size_);
}

std::string_view Reader::view() const {
  const std::span<const uint8_t> raw = bytes();
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

std::string Reader::string() const { return std::string(view()); }

Reader Reader::message(const char* what) const {
  return Reader(bytes(), *budget_, what, base_ + value_begin_, depth_ + 1);
}

void Reader::ints(std::vector<int64_t>& out) const {
  if (type_ != Type::kBytes) {
    charge(sizeof(int64_t));
    out.push_back(i64());
    return;
  }
  charge(value_size_ * sizeof(int64_t));
  for (size_t at = value_begin_; at < value_begin_ + value_size_;) {
    out.push_back(static_cast<int64_t>(read_varint(at, value_begin_ + value_size_)));
  }
}

void Reader::bools(std::vector<bool>& out) const {
  if (type_ != Type::kBytes) {
    out.push_back(boolean());
    return;
  }
  for (size_t at = value_begin_; at < value_begin_ + value_size_;) {
    out.push_back(read_varint(at, value_begin_ + value_size_) != 0);
  }
}

void Reader::floats(std::vector<float>& out) const {
  if (type_ != Type::kBytes) {
    out.push_back(f32());
    return;
  }
  if (value_size_ % sizeof(float) != 0) fail("packed floats do not fill their field");
  charge(value_size_);
  for (size_t at = value_begin_; at < value_begin_ + value_size_;) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(read_fixed(at, 4))));
  }
}

void Reader::doubles(std::vector<double>& out) const {
  if (type_ != Type::kBytes) {
    out.push_back(f64());
    return;
  }
  if (value_size_ % sizeof(double) != 0) fail("packed doubles do not fill their field");
  charge(value_size_);
  for (size_t at = value_begin_; at < value_begin_ + value_size_;) {
    out.push_back(std::bit_cast<double>(read_fixed(at, 8)));
  }
}

void Reader::strings(std::vector<std::string>& out) const {
  charge(sizeof(std::string) + bytes().size());
  out.push_back(string());
}

void Writer::raw_varint(uint64_t value) {
  while (value >= 0x80) {
    data_.push_back(static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  data_.push_back(static_cast<uint8_t>(value));
}

void Writer::tag(uint32_t field, Type type) {
  raw_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

void Writer::varint(uint32_t field, uint64_t value) {
  tag(field, Type::kVarint);
  raw_varint(value);
}

void Writer::f32(uint32_t field, float value) {
  tag(field, Type::kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (unsigned i = 0; i < 4; ++i) data_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
}

void Writer::bytes(uint32_t field, std::span<const uint8_t> value) {
  tag(field, Type::kBytes);
  raw_varint(value.size());
  data_.insert(data_.end(), value.begin(), value.end());
}

void Writer::string(uint32_t field, std::string_view value) {
  bytes(field, {reinterpret_cast<const uint8_t*>(value.data()), value.size()});
}

void Writer::packed_ints(uint32_t field, std::span<const int64_t> values) {
  if (values.empty()) return;
  Writer run;
  for (int64_t value : values) run.raw_varint(static_cast<uint64_t>(value));
  message(field, run);
}

void Writer::packed_bools(uint32_t field, const std::vector<bool>& values) {
  if (values.empty()) return;
  Writer run;
  for (bool value : values) run.raw_varint(value ? 1 : 0);
  message(field, run);
}

void Writer::packed_floats(uint32_t field, std::span<const float> values) {
  if (values.empty()) return;
  tag(field, Type::kBytes);
  raw_varint(values.size() * sizeof(float));
  for (float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned i = 0; i < 4; ++i) data_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
}

void Writer::strings(uint32_t field, std::span<const std::string> values) {
  for (const std::string& value : values) string(field, value);
}

}  // namespace ascendrt::model::wire
