// The container of an offline model: 256 byte header, partition tables, blocks.
// Owns: offsets, ids and limits of the container, and its fault codes.
// Must never: look inside a partition, allocate by a number found in the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace ascendrt::model {

// Codes of the graph engine; none of them becomes a thread's last error.
enum GeCode : int32_t {
  kGeParamInvalid = 145000,
  kGeNotInitialised = 145001,
  kGePathInvalid = 145002,
  kGeModelIdInvalid = 145003,
  kGeDataSizeInvalid = 145006,
  kGeTaskPartition = 545004,
  kGeFailure = 500002,  // what every code outside the public range becomes
  kAclInvalidParam = 100000,
  kAclWriteFile = 100004,
};
[[noreturn]] void fail_model(int32_t code, const std::string& text);

enum PartId : uint32_t {
  kPartModelDef = 0,
  kPartWeights = 1,
  kPartTaskInfo = 2,
  kPartKernels = 3,
  kPartFlowModel = 6,
  kPartInOutInfo = 8,
  kPartBundleModel = 24,
  kPartBundleVariables = 25,
};
const char* part_name(uint32_t id);

enum ModelType : uint8_t { kTypeIr = 0, kTypeFlow = 3, kTypeBundle = 5 };

// Where things are in the header; little endian.
inline constexpr size_t kHeaderSize = 256;
inline constexpr uint32_t kOmMagic = 0x444F4D49;  // "IMOD"
inline constexpr uint32_t kVersionOld = 0x10000000;
inline constexpr uint32_t kVersionNew = 0x20000000;
struct HeaderAt {
  static constexpr size_t kMagic = 0, kHeadSize = 4, kVersion = 8, kLength = 76, kEncrypt = 80;
  static constexpr size_t kType = 82, kName = 84, kIrVersion = 152;
  static constexpr size_t kOldPlatform = 156;  // old layout; the new one has model_num there
  static constexpr size_t kModelNum = 156, kPlatform = 160, kPlatformType = 180;
  static constexpr size_t kModelLength = 184, kUnknownShape = 193;
  static constexpr size_t kNameBytes = 32, kPlatformBytes = 20;
};

template <class T>
T load_le(std::span<const uint8_t> bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

// Of 64 bit partition tables, in bytes.
constexpr uint64_t kTableHead = 8;
constexpr uint64_t kTableRow = 24;

struct Part {
  uint32_t id = 0;
  std::span<const uint8_t> bytes;
};

struct Block {
  std::vector<Part> parts;
  // First partition of that id; empty when there is none.
  std::span<const uint8_t> find(uint32_t id) const;
};

struct Container {
  HeaderInfo header;
  bool wide_table = false;  // 64 bit partition tables
  std::vector<Block> blocks;
};

// Made by the toolkit for phones, whose versions start at 3: the same container and graph, other
// operators and tasks.
bool is_phone_file(const HeaderInfo& header);
// For texts about files that are no models.
bool looks_like_onnx(std::span<const uint8_t> file);
inline constexpr const char* kOnnxAdvice =
    "looks like an ONNX network; convert it first (ascendrt om convert, or atc)";
// Fields of a header; needs 256 bytes, checks nothing.
HeaderInfo read_header(std::span<const uint8_t> file);
// Header tests and all tables. `origin` starts every text.
Container read_container(std::span<const uint8_t> file, const std::string& origin);

}  // namespace ascendrt::model
