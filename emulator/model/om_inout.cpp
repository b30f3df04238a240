// MODEL_INOUT_INFO. Owns: a bounds-checked cursor over little endian records and the inverse.
#include "model/om_inout.hpp"

#include <utility>

#include "model/wire.hpp"

namespace ascendrt::model {
namespace {

enum BlockType : uint32_t {
  kInputs = 0,
  kOutputs = 1,
  kBatchGears = 2,
  kImageGears = 3,
  kDimsGears = 4,
  kOutputShapes = 5,
  kDataNames = 6,
};

class Cursor {
 public:
  Cursor(std::span<const uint8_t> bytes, uint64_t base) : bytes_(bytes), base_(base) {}

  bool at_end() const { return position_ == bytes_.size(); }
  template <class T>
  T number() {
    need(sizeof(T));
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<uint64_t>(bytes_[position_ + i]) << (8 * i);
    }
    position_ += sizeof(T);
    return static_cast<T>(value);
  }
  std::span<const uint8_t> take(uint64_t size) {
    need(size);
    const auto part = bytes_.subspan(position_, static_cast<size_t>(size));
    position_ += static_cast<size_t>(size);
    return part;
  }
  Cursor sub(uint64_t size) {
    const uint64_t base = base_ + position_;
    return Cursor(take(size), base);
  }
  // A count of records of at least `least` bytes each must fit what is left.
  uint32_t count(uint64_t least) {
    const auto n = number<uint32_t>();
    need(n * least);
    return n;
  }
  [[noreturn]] void fail(const std::string& text) const {
    throw wire::Malformed{base_ + position_, text};
  }

 private:
  void need(uint64_t size) const {
    if (size > bytes_.size() - position_) fail("a record runs past the end");
  }
  std::span<const uint8_t> bytes_;
  uint64_t base_;
  size_t position_ = 0;
};

std::string take_string(Cursor& cursor, uint64_t size) {
  const auto raw = cursor.take(size);
  return std::string(raw.begin(), raw.end());
}

Dims take_dims(Cursor& cursor, uint64_t bytes) {
  if (bytes % 8 != 0) cursor.fail("a list of dims is not a multiple of 8 bytes");
  Cursor list = cursor.sub(bytes);
  Dims dims;
  while (!list.at_end()) dims.push_back(list.number<int64_t>());
  return dims;
}

IoDesc read_io(Cursor& cursor) {
  IoDesc io;
  io.size = cursor.number<uint64_t>();
  io.format = cursor.number<int32_t>();
  io.dtype = cursor.number<int32_t>();
  const auto name_bytes = cursor.number<uint32_t>();
  const auto dims_bytes = cursor.number<uint32_t>();
  const auto dims_v2_bytes = cursor.number<uint32_t>();
  const auto range_bytes = cursor.number<uint32_t>();
  io.name = take_string(cursor, name_bytes);
  io.dims = take_dims(cursor, dims_bytes);
  io.dims_v2 = take_dims(cursor, dims_v2_bytes);
  const Dims ranges = take_dims(cursor, range_bytes);
  if (ranges.size() % 2 != 0) cursor.fail("a shape range is not a list of pairs");
  for (size_t i = 0; i < ranges.size(); i += 2)
    io.shape_range.emplace_back(ranges[i], ranges[i + 1]);
  return io;
}

std::vector<IoDesc> read_ios(Cursor cursor) {
  constexpr uint64_t kRecordBytes = 32;
  std::vector<IoDesc> ios;
  for (uint32_t n = cursor.count(kRecordBytes); n > 0; --n) ios.push_back(read_io(cursor));
  return ios;
}

std::vector<std::vector<int64_t>> read_batches(Cursor cursor) {
  std::vector<std::vector<int64_t>> gears;
  for (uint32_t n = cursor.count(8); n > 0; --n) gears.push_back({cursor.number<int64_t>()});
  return gears;
}

std::vector<std::vector<int64_t>> read_gears(Cursor cursor) {
  std::vector<uint32_t> lengths(cursor.count(4));
  for (uint32_t& length : lengths) length = cursor.number<uint32_t>();
  std::vector<std::vector<int64_t>> gears;
  for (uint32_t length : lengths) gears.push_back(take_dims(cursor, uint64_t{8} * length));
  return gears;
}

std::vector<std::string> read_strings(Cursor cursor) {
  std::vector<uint32_t> lengths(cursor.count(4));
  for (uint32_t& length : lengths) length = cursor.number<uint32_t>();
  std::vector<std::string> strings;
  for (uint32_t length : lengths) strings.push_back(take_string(cursor, length));
  return strings;
}

void read_block(uint32_t type, Cursor cursor, InOutInfo& info) {
  const auto gears = [&](GearKind kind, std::vector<std::vector<int64_t>> values) {
    info.gears.kind = kind;
    info.gears.values = std::move(values);
  };
  switch (type) {
    case kInputs:
      info.inputs = read_ios(cursor);
      return;
    case kOutputs:
      info.outputs = read_ios(cursor);
      return;
    case kBatchGears:
      return gears(GearKind::kBatch, read_batches(cursor));
    case kImageGears:
      return gears(GearKind::kImage, read_gears(cursor));
    case kDimsGears:
      return gears(GearKind::kDims, read_gears(cursor));
    case kOutputShapes:
      info.gears.output_shapes = read_strings(cursor);
      return;
    case kDataNames:
      info.gears.data_names = read_strings(cursor);
      return;
    default:  // kinds added later
      return;
  }
}

class Output {
 public:
  template <class T>
  void number(T value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) data_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  void text(const std::string& value) { data_.insert(data_.end(), value.begin(), value.end()); }
  void block(uint32_t type, const Output& value) {
    number<uint32_t>(type);
    number<uint32_t>(static_cast<uint32_t>(value.data_.size()));
    data_.insert(data_.end(), value.data_.begin(), value.data_.end());
  }
  Bytes take() { return std::move(data_); }

 private:
  Bytes data_;
};

void write_ios(Output& out, uint32_t type, const std::vector<IoDesc>& ios) {
  if (ios.empty()) return;
  Output value;
  value.number(static_cast<uint32_t>(ios.size()));
  for (const IoDesc& io : ios) {
    value.number<uint64_t>(io.size);
    value.number<int32_t>(io.format);
    value.number<int32_t>(io.dtype);
    value.number(static_cast<uint32_t>(io.name.size()));
    value.number(static_cast<uint32_t>(io.dims.size() * 8));
    value.number(static_cast<uint32_t>(io.dims_v2.size() * 8));
    value.number(static_cast<uint32_t>(io.shape_range.size() * 16));
    value.text(io.name);
    for (int64_t dim : io.dims) value.number(dim);
    for (int64_t dim : io.dims_v2) value.number(dim);
    for (const auto& [low, high] : io.shape_range) {
      value.number(low);
      value.number(high);
    }
  }
  out.block(type, value);
}

void write_strings(Output& out, uint32_t type, const std::vector<std::string>& strings) {
  if (strings.empty()) return;
  Output value;
  value.number(static_cast<uint32_t>(strings.size()));
  for (const std::string& each : strings) value.number(static_cast<uint32_t>(each.size()));
  for (const std::string& each : strings) value.text(each);
  out.block(type, value);
}

void write_gears(Output& out, const Gears& gears) {
  if (gears.kind == GearKind::kNone) return;
  Output value;
  value.number(static_cast<uint32_t>(gears.values.size()));
  if (gears.kind != GearKind::kBatch) {
    for (const auto& gear : gears.values) value.number(static_cast<uint32_t>(gear.size()));
  }
  for (const auto& gear : gears.values) {
    for (int64_t each : gear) value.number(each);
  }
  const uint32_t types[] = {0, kBatchGears, kImageGears, kDimsGears};
  out.block(types[static_cast<size_t>(gears.kind)], value);
}

}  // namespace

InOutInfo parse_inout_info(std::span<const uint8_t> bytes) {
  InOutInfo info;
  Cursor cursor(bytes, 0);
  while (!cursor.at_end()) {
    const auto type = cursor.number<uint32_t>();
    const auto size = cursor.number<uint32_t>();
    read_block(type, cursor.sub(size), info);
  }
  return info;
}

Bytes serialize_inout_info(const InOutInfo& info) {
  Output out;
  write_ios(out, kInputs, info.inputs);
  write_ios(out, kOutputs, info.outputs);
  write_gears(out, info.gears);
  write_strings(out, kOutputShapes, info.gears.output_shapes);
  write_strings(out, kDataNames, info.gears.data_names);
  return out.take();
}

}  // namespace ascendrt::model
