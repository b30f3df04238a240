// Protobuf wire format: a bounds-checked reader and a writer.
// Owns: varints, tags, nesting, limits. Must never: know any message of any schema.
//
// Reading (no copy; spans point into the input, which must outlive them):
//   wire::Budget budget(bytes.size());
//   wire::Reader r(bytes, budget, "ModelDef");
//   while (r.next()) {                       // false at the end of the message
//     switch (r.field()) {
//       case 1: name = r.string(); break;    // wrong wire type -> Malformed
//       case 2: version = r.u64(); break;
//       case 3: r.ints(dims); break;         // repeated: appends, packed or not
//       case 7: read_graph(r.message("GraphDef")); break;
//       default: break;                      // unknown fields are skipped
//     }
//   }
// Every fault throws wire::Malformed with the byte offset from the start of the outermost message.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ascendrt::model::wire {

struct Malformed {
  uint64_t offset;   // from the start of the outermost message
  std::string text;  // "OpDef: length 900 runs past the end"
};

// Bounds what one hostile message can make the process do: nesting and memory for parsed objects.
class Budget {
 public:
  static constexpr int kMaxDepth = 100;  // the limit of the usual protobuf libraries

  explicit Budget(uint64_t input_bytes) : left_(kFloor + kPerByte * input_bytes) {}
  // Throws Malformed once the objects made outgrow what an input of this size can honestly need.
  void charge(uint64_t bytes, uint64_t offset);

 private:
  // A field of two bytes may stand for an object of some hundred; genuine files need about 15.
  static constexpr uint64_t kFloor = 16U << 20;
  static constexpr uint64_t kPerByte = 64;
  uint64_t left_;
};

enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Reader {
 public:
  // `what` names the message in error texts and must be a literal.
  Reader(std::span<const uint8_t> bytes, Budget& budget, const char* what)
      : Reader(bytes, budget, what, 0, 0) {}

  bool next();  // steps to the next field and reads its value
  uint32_t field() const { return field_; }
  Type type() const { return type_; }
  uint64_t offset() const { return base_ + position_; }  // behind the current field

  uint64_t u64() const;  // varint
  int64_t i64() const { return static_cast<int64_t>(u64()); }
  bool boolean() const { return u64() != 0; }
  float f32() const;
  double f64() const;
  std::span<const uint8_t> bytes() const;
  std::string string() const;
  std::string_view view() const;
  Reader message(const char* what) const;  // charges nothing; depth + 1

  // Repeated scalars: one element or a packed run is appended; the memory is charged.
  void ints(std::vector<int64_t>& out) const;
  void bools(std::vector<bool>& out) const;
  void floats(std::vector<float>& out) const;
  void doubles(std::vector<double>& out) const;
  void strings(std::vector<std::string>& out) const;

  void charge(uint64_t bytes) const { budget_->charge(bytes, offset()); }
  [[noreturn]] void fail(std::string text) const;

 private:
  Reader(std::span<const uint8_t> bytes, Budget& budget, const char* what, uint64_t base,
         int depth);
  uint64_t read_varint(size_t& at, size_t end) const;
  uint64_t read_fixed(size_t& at, size_t width) const;
  void want(Type type) const;

  std::span<const uint8_t> bytes_;
  Budget* budget_;
  const char* what_;
  uint64_t base_;
  int depth_;
  size_t position_ = 0;
  uint32_t field_ = 0;
  Type type_ = Type::kVarint;
  uint64_t scalar_ = 0;     // varint and fixed values
  size_t value_begin_ = 0;  // length-delimited values, in bytes_
  size_t value_size_ = 0;
};

// Builds a message. Nested messages are built on their own and put in with message().
// Scalars equal to the proto3 default are left out by the *_opt forms only.
class Writer {
 public:
  void varint(uint32_t field, uint64_t value);
  void i64(uint32_t field, int64_t value) { varint(field, static_cast<uint64_t>(value)); }
  void i64_opt(uint32_t field, int64_t value) {
    if (value != 0) i64(field, value);
  }
  void boolean_opt(uint32_t field, bool value) { i64_opt(field, value ? 1 : 0); }
  void f32(uint32_t field, float value);
  void bytes(uint32_t field, std::span<const uint8_t> value);
  void string(uint32_t field, std::string_view value);
  void string_opt(uint32_t field, std::string_view value) {
    if (!value.empty()) string(field, value);
  }
  void message(uint32_t field, const Writer& nested) { bytes(field, nested.data()); }
  void packed_ints(uint32_t field, std::span<const int64_t> values);  // nothing when empty
  void packed_bools(uint32_t field, const std::vector<bool>& values);
  void packed_floats(uint32_t field, std::span<const float> values);
  void strings(uint32_t field, std::span<const std::string> values);

  std::span<const uint8_t> data() const { return data_; }
  std::vector<uint8_t> take() { return std::move(data_); }

 private:
  void raw_varint(uint64_t value);
  void tag(uint32_t field, Type type);
  std::vector<uint8_t> data_;
};

}  // namespace ascendrt::model::wire
