// Entries: tensor descs. Must never: touch the memory a desc may name.
#include "abi/model_objects.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

constexpr int64_t kUnknownRank = -2;

std::vector<int64_t> copy_dims(int count, const int64_t* dims) {
  if (count < 0) {
    refuse_argument("argument numDims is " + std::to_string(count) + ", it must not be negative");
  }
  if (count > 0) check_not_null(dims, "dims");
  return count == 0 ? std::vector<int64_t>{} : std::vector<int64_t>(dims, dims + count);
}

std::vector<std::pair<int64_t, int64_t>> copy_ranges(size_t count, const int64_t (*ranges)[2]) {
  if (count > 0) check_not_null(ranges, "range");
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < count; ++i) pairs.emplace_back(ranges[i][0], ranges[i][1]);
  return pairs;
}

template <class T>
void check_index(size_t index, const std::vector<T>& list, const char* what) {
  if (index < list.size()) return;
  refuse_argument("argument index is " + std::to_string(index) + ", the desc has " +
                  std::to_string(list.size()) + " " + what);
}

// A null desc is success for the format setters; a dead one is not.
template <class F>
void set_format(aclTensorDesc* desc, F&& set) {
  if (desc != nullptr) set(live<TensorDesc>(desc, "desc")->fields);
}

}  // namespace

size_t TensorFields::element_count() const {
  size_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<size_t>(dim), &count)) return 0;
  }
  return count;
}

size_t TensorFields::size_bytes() const {
  size_t bytes = 0;
  return __builtin_mul_overflow(element_count(), acl_type_size(dtype), &bytes) ? 0 : bytes;
}

TensorDesc::~TensorDesc() {
  for (const auto& next : behind) base::handles().remove<TensorDesc>(next->handle());
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclTensorDesc* art_emu_aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                           aclFormat format) {
  return value<ApiId::aclCreateTensorDesc>(static_cast<aclTensorDesc*>(nullptr), [&] {
    const auto desc = base::make_ref<TensorDesc>();
    desc->fields.dtype = dataType;
    desc->fields.format = format;
    desc->fields.dims = copy_dims(numDims, dims);
    return static_cast<aclTensorDesc*>(base::handles().insert(desc));
  });
}

void art_emu_aclDestroyTensorDesc(const aclTensorDesc* desc) {
  if (desc == nullptr) return;
  call<ApiId::aclDestroyTensorDesc>([&] { take<TensorDesc>(desc, "desc"); });
}

// Of the arrays that aclmdlCreateAndGetOpDesc makes; any other desc is an array of one.
aclTensorDesc* art_emu_aclGetTensorDescByIndex(aclTensorDesc* desc, size_t index) {
  return value<ApiId::aclGetTensorDescByIndex>(static_cast<aclTensorDesc*>(nullptr), [&] {
    const auto first = live<TensorDesc>(desc, "desc");
    if (index == 0) return desc;
    if (index > first->behind.size()) {
      refuse_argument("argument index is " + std::to_string(index) + ", the array has " +
                      std::to_string(first->behind.size() + 1) + " descs");
    }
    return static_cast<aclTensorDesc*>(first->behind[index - 1]->handle());
  });
}

aclDataType art_emu_aclGetTensorDescType(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescType>(
      ACL_DT_UNDEFINED, [&] { return live<TensorDesc>(desc, "desc")->fields.dtype; });
}

aclFormat art_emu_aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescFormat>(
      ACL_FORMAT_UNDEFINED, [&] { return live<TensorDesc>(desc, "desc")->fields.format; });
}

size_t art_emu_aclGetTensorDescSize(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescSize>(
      size_t{0}, [&] { return live<TensorDesc>(desc, "desc")->fields.size_bytes(); });
}

size_t art_emu_aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescElementCount>(
      size_t{0}, [&] { return live<TensorDesc>(desc, "desc")->fields.element_count(); });
}

size_t art_emu_aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescNumDims>(size_t{0}, [&]() -> size_t {
    const auto found = live<TensorDesc>(desc, "desc");
    const std::vector<int64_t>& dims = found->fields.dims;
    return !dims.empty() && dims[0] == kUnknownRank ? ACL_UNKNOWN_RANK : dims.size();
  });
}

int64_t art_emu_aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  return value<ApiId::aclGetTensorDescDim>(int64_t{-1}, [&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_index(index, found->fields.dims, "dims");
    return found->fields.dims[index];
  });
}

aclError art_emu_aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  return call<ApiId::aclGetTensorDescDimV2>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dimSize, "dimSize");
    check_index(index, found->fields.dims, "dims");
    *dimSize = found->fields.dims[index];
  });
}

aclError art_emu_aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index,
                                          size_t dimRangeNum, int64_t* dimRange) {
  return call<ApiId::aclGetTensorDescDimRange>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dimRange, "dimRange");
    if (dimRangeNum < 2) {
      refuse_argument("argument dimRangeNum is " + std::to_string(dimRangeNum) +
                      ", a range takes 2 numbers");
    }
    check_index(index, found->fields.shape_range, "ranges (aclSetTensorShapeRange sets them)");
    dimRange[0] = found->fields.shape_range[index].first;
    dimRange[1] = found->fields.shape_range[index].second;
  });
}

const char* art_emu_aclGetTensorDescName(aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescName>(
      "", [&] { return live<TensorDesc>(desc, "desc")->fields.name.c_str(); });
}

void art_emu_aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc == nullptr) return;
  call<ApiId::aclSetTensorDescName>(
      [&] { live<TensorDesc>(desc, "desc")->fields.name = name == nullptr ? "" : name; });
}

void* art_emu_aclGetTensorDescAddress(const aclTensorDesc* desc) {
  return value<ApiId::aclGetTensorDescAddress>(
      static_cast<void*>(nullptr), [&] { return live<TensorDesc>(desc, "desc")->fields.address; });
}

aclError art_emu_aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return call<ApiId::aclSetTensorFormat>(
      [&] { set_format(desc, [&](TensorFields& fields) { fields.storage_format = format; }); });
}

aclError art_emu_aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
  return call<ApiId::aclSetTensorStorageFormat>(
      [&] { set_format(desc, [&](TensorFields& fields) { fields.storage_format = format; }); });
}

// "Origin" is the view that the desc was made with: these replace it.
aclError art_emu_aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  return call<ApiId::aclSetTensorOriginFormat>(
      [&] { set_format(desc, [&](TensorFields& fields) { fields.format = format; }); });
}

aclError art_emu_aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return call<ApiId::aclSetTensorOriginShape>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dims, "dims");
    found->fields.dims = copy_dims(numDims, dims);
  });
}

aclError art_emu_aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return call<ApiId::aclSetTensorShape>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dims, "dims");
    found->fields.storage_dims = copy_dims(numDims, dims);
  });
}

aclError art_emu_aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return call<ApiId::aclSetTensorStorageShape>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dims, "dims");
    found->fields.storage_dims = copy_dims(numDims, dims);
  });
}

aclError art_emu_aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount,
                                        int64_t dimsRange[][2]) {
  return call<ApiId::aclSetTensorShapeRange>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    found->fields.shape_range = copy_ranges(dimsCount, dimsRange);
  });
}

aclError art_emu_aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount,
                                        int64_t valueRange[][2]) {
  return call<ApiId::aclSetTensorValueRange>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    found->fields.value_range = copy_ranges(valueCount, valueRange);
  });
}

aclError art_emu_aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
  return call<ApiId::aclSetTensorDynamicInput>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dynamicInputName, "dynamicInputName");
    found->fields.dynamic_input = dynamicInputName;
  });
}

aclError art_emu_aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
  return call<ApiId::aclSetTensorConst>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    check_not_null(dataBuffer, "dataBuffer");
    check_positive(length, "length");
    const auto* bytes = static_cast<const uint8_t*>(dataBuffer);
    found->fields.constant.emplace(bytes, bytes + length);
  });
}

aclError art_emu_aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  return call<ApiId::aclSetTensorPlaceMent>([&] {
    const auto found = live<TensorDesc>(desc, "desc");
    if (memType < ACL_MEMTYPE_DEVICE || memType > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT) {
      refuse_argument("argument memType is " + std::to_string(memType) + ", it must be 0, 1 or 2");
    }
    found->fields.placement = memType;
  });
}

}  // extern "C"
