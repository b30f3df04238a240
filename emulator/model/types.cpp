// Element types, formats and sizes of tensors. Owns: the name and size tables.
#include "model/types.hpp"

#include <array>
#include <limits>

namespace ascendrt::model {
namespace {

// Indexed by the file's enum (ge proto); value = acl number. 18..26 are kinds acl has no name for
// (quantised integers, resources); both numberings agree there.
constexpr std::array<int32_t, 42> kFromProto = {
    kUndefined, kFloat,  kFloat16, kInt8,   kUint8,  kInt16, kUint16, kInt32,     kInt64,
    kUint32,    kUint64, kBool,    kDouble, kString, 14,     15,      kComplex64, kComplex128,
    18,         19,      20,       21,      22,      23,     24,      25,         26,
    kBfloat16,  kInt4,   kUint1,   31,      32,      33,     34,      35,         36,
    37,         38,      39,       40,      41,      42};

struct TypeRow {
  int32_t dtype;
  const char* name;
  uint8_t size;
};
// Packed types (INT4, UINT1, FP4) count as the bytes the acl layer reports for one element.
constexpr TypeRow kTypes[] = {
    {kFloat, "FLOAT", 4},
    {kFloat16, "FLOAT16", 2},
    {kInt8, "INT8", 1},
    {kInt32, "INT32", 4},
    {kUint8, "UINT8", 1},
    {kInt16, "INT16", 2},
    {kUint16, "UINT16", 2},
    {kUint32, "UINT32", 4},
    {kInt64, "INT64", 8},
    {kUint64, "UINT64", 8},
    {kDouble, "DOUBLE", 8},
    {kBool, "BOOL", 1},
    {kString, "STRING", 0},
    {kComplex64, "COMPLEX64", 8},
    {kComplex128, "COMPLEX128", 16},
    {kBfloat16, "BF16", 2},
    {kInt4, "INT4", 1},
    {kUint1, "UINT1", 1},
    {31, "INT2", 1},
    {32, "UINT2", 1},
    {33, "COMPLEX32", 4},
    {34, "HIFLOAT8", 1},
    {35, "FLOAT8_E5M2", 1},
    {36, "FLOAT8_E4M3FN", 1},
    {37, "FLOAT8_E8M0", 1},
    {38, "FLOAT6_E3M2", 1},
    {39, "FLOAT6_E2M3", 1},
    {40, "FLOAT4_E2M1", 1},
    {41, "FLOAT4_E1M2", 1},
};

struct FormatRow {
  int32_t format;
  const char* name;
};
constexpr FormatRow kFormats[] = {
    {kNchw, "NCHW"},
    {kNhwc, "NHWC"},
    {kNd, "ND"},
    {kNc1hwc0, "NC1HWC0"},
    {kFractalZ, "FRACTAL_Z"},
    {kNc1hwc0C04, "NC1HWC0_C04"},
    {kHwcn, "HWCN"},
    {kNdhwc, "NDHWC"},
    {kFractalNz, "FRACTAL_NZ"},
    {kNcdhw, "NCDHW"},
    {kNdc1hwc0, "NDC1HWC0"},
    {33, "FRACTAL_Z_3D"},
    {35, "NC"},
    {47, "NCL"},
};

}  // namespace

int32_t dtype_from_proto(int64_t proto) {
  const bool known = proto >= 0 && proto < static_cast<int64_t>(kFromProto.size());
  return known ? kFromProto[static_cast<size_t>(proto)] : static_cast<int32_t>(kUndefined);
}

int64_t dtype_to_proto(int32_t dtype) {
  for (size_t i = 1; i < kFromProto.size(); ++i) {
    if (kFromProto[i] == dtype) return static_cast<int64_t>(i);
  }
  return 0;
}

const char* dtype_name(int32_t dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "UNDEFINED";
}

int32_t dtype_from_name(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.dtype;
  }
  return kUndefined;
}

size_t dtype_size(int32_t dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.size;
  }
  return 0;
}

int32_t format_from_name(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (name == row.name) return row.format;
  }
  return kFormatUndefined;
}

const char* format_name(int32_t format) {
  for (const FormatRow& row : kFormats) {
    if (row.format == format) return row.name;
  }
  return "ND";
}

std::optional<int64_t> element_count(const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::optional<int64_t> byte_size(const Dims& dims, int32_t dtype) {
  std::optional<int64_t> count = element_count(dims);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<int64_t>(dtype_size(dtype)), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

Dims turn_of_axes(int32_t from, int32_t to, size_t rank) {
  const std::string_view have = axis_letters(from);
  const std::string_view want = axis_letters(to);
  Dims turn;
  if (have.size() != rank || want.size() != rank || have == want) return turn;
  for (const char axis : want) {
    const size_t at = have.find(axis);
    if (at == std::string_view::npos) return {};
    turn.push_back(static_cast<int64_t>(at));
  }
  return turn;
}

Dims inverse_turn(const Dims& turn) {
  Dims out(turn.size());
  for (size_t i = 0; i < turn.size(); ++i) {
    out[static_cast<size_t>(turn[i])] = static_cast<int64_t>(i);
  }
  return out;
}

bool is_plain_format(int32_t format) { return format == kNd || !axis_letters(format).empty(); }

std::string_view axis_letters(int32_t format) {
  switch (format) {
    case kNchw:
      return "NCHW";
    case kNhwc:
      return "NHWC";
    case kHwcn:
      return "HWCN";
    case kNcdhw:
      return "NCDHW";
    case kNdhwc:
      return "NDHWC";
    default:
      return {};
  }
}

}  // namespace ascendrt::model
