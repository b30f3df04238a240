// Element types, formats and sizes of tensors, in acl numbers.
// Owns: the numbers the model layer uses by name and the conversions from the file's own enum.
// Must never: know graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ascendrt::model {

using Dims = std::vector<int64_t>;
inline const Dims kNoRank = {-2};  // of a tensor whose rank is not known, as files have it

// aclDataType numbers used by name inside the model layer (the file's own enum differs, see
// dtype_from_proto). -1 = undefined.
enum DType : int32_t {
  kUndefined = -1,
  kFloat = 0,
  kFloat16 = 1,
  kInt8 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kInt64 = 9,
  kUint64 = 10,
  kDouble = 11,
  kBool = 12,
  kString = 13,
  kComplex64 = 16,
  kComplex128 = 17,
  kBfloat16 = 27,
  kInt4 = 29,
  kUint1 = 30,
  kFp8E5m2 = 35,
  kFp8E4m3 = 36,
  kFp8E8m0 = 37,
  kFp4E2m1 = 40,
};

// aclFormat numbers used by name inside the model layer.
enum Format : int32_t {
  kFormatUndefined = -1,
  kNchw = 0,
  kNhwc = 1,
  kNd = 2,
  kNc1hwc0 = 3,
  kFractalZ = 4,
  kNc1hwc0C04 = 12,
  kHwcn = 16,
  kNdhwc = 27,
  kFractalNz = 29,
  kNcdhw = 30,
  kNdc1hwc0 = 32,
};

int32_t dtype_from_proto(int64_t proto);          // unknown or 0 -> kUndefined
int64_t dtype_to_proto(int32_t dtype);            // kUndefined -> 0
const char* dtype_name(int32_t dtype);            // "FLOAT16"; "UNDEFINED" when unknown
int32_t dtype_from_name(std::string_view name);   // unknown -> kUndefined
int32_t format_from_name(std::string_view name);  // "NCHW" -> 0; unknown -> kFormatUndefined
const char* format_name(int32_t format);          // 0 -> "NCHW"; unknown -> "ND"
// The letters of a format's axes, "NHWC"; empty for ND and for blocked layouts.
std::string_view axis_letters(int32_t format);
// For each axis of `to`, its place in `from`; empty when none moves, or when the formats do not
// name the axes of tensors of this rank.
Dims turn_of_axes(int32_t from, int32_t to, size_t rank);
Dims inverse_turn(const Dims& turn);
bool is_plain_format(int32_t format);                    // elements in the order of the dims
size_t dtype_size(int32_t dtype);                        // bytes of one element; 0 when unsized
std::optional<int64_t> element_count(const Dims& dims);  // nullopt: a dim < 0, or overflow
std::optional<int64_t> byte_size(const Dims& dims, int32_t dtype);
// Device memory one tensor takes in a plan: at least 32 spare bytes, 32 byte granules.
constexpr int64_t padded_size(int64_t bytes) { return (bytes + 63) / 32 * 32; }

}  // namespace ascendrt::model
