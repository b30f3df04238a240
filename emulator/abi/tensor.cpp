// Entries: the objects that two-phase operators take: tensors, scalars, arrays, lists of them.
// Must never: touch what a tensor's address points to.
//
// src: hicann/opbase common/api/acl_op_api.cpp
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "abi/model_objects.hpp"
#include "abi/tensor_objects.hpp"
#include "base/log.hpp"
#include "gen/codes.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

constexpr base::Code kNullPointer = code_named("ACLNN_ERR_PARAM_NULLPTR");
constexpr base::Code kInvalid = code_named("ACLNN_ERR_PARAM_INVALID");
// Numbers of values, of dims: more is a length that was never set.
constexpr uint64_t kMostValues = 1ULL << 32;

[[noreturn]] void refuse(base::Code code, const std::string& text) {
  base::fail(code, text, base::Layer::kAcl);
}

void check_given(const void* argument, const char* name) {
  if (argument != nullptr) return;
  refuse(kNullPointer, std::string("argument ") + name + " is a null pointer");
}

[[noreturn]] void refuse_dead(const char* name) {
  refuse(kInvalid,
         std::string("argument ") + name +
             " is no live object of its kind: it was destroyed, by its own call or with a list it "
             "was in (aclDestroyTensorList and aclDestroyScalarList destroy the members)");
}

template <class T>
base::Ref<T> alive(const void* handle, const char* name) {
  check_given(handle, name);
  base::Ref<T> found = base::handles().get<T>(handle);
  if (!found) refuse_dead(name);
  return found;
}

template <class T>
void destroy(const void* handle, const char* name) {
  if (handle != nullptr && !base::handles().remove<T>(handle)) refuse_dead(name);
}

template <class Handle, class T>
Handle* inserted(const base::Ref<T>& object) {
  return static_cast<Handle*>(base::handles().insert(object));
}

template <class T, class From>
std::vector<T> copied(const From* values, uint64_t count, const char* name) {
  if (count > 0) check_given(values, name);
  if (count > kMostValues) {
    refuse(kInvalid, std::string("argument ") + name + " has " + std::to_string(count) + " values");
  }
  return {values, values + count};
}

std::vector<int64_t> contiguous(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) {
    if (__builtin_mul_overflow(strides[i], dims[i], &strides[i - 1])) strides[i - 1] = 0;
  }
  return strides;
}

struct TensorCall {
  const int64_t* dims;
  uint64_t dim_count;
  aclDataType dtype;
  const int64_t* strides;
  int64_t offset;
  aclFormat format;
  const int64_t* storage_dims;
  uint64_t storage_dim_count;
  void* data;
};

void describe(Tensor& tensor, const TensorCall& c) {
  tensor.dims = copied<int64_t>(c.dims, c.dim_count, "viewDims");
  tensor.storage_dims = copied<int64_t>(c.storage_dims, c.storage_dim_count, "storageDims");
  tensor.strides = c.strides == nullptr ? contiguous(tensor.dims)
                                        : copied<int64_t>(c.strides, c.dim_count, "stride");
  tensor.dtype = c.dtype;
  tensor.format = c.format;
  tensor.offset = c.offset;
  tensor.data = c.data;
}

template <class T>
void destroy_all(std::vector<void*>& members) {
  for (void* member : members) base::handles().remove<T>(member);
}

template <class List, class Member, class Handle, class Given>
Handle* new_list(const Given* const* values, uint64_t count) {
  const auto list = base::make_ref<List>();
  for (const Given* member : copied<const Given*>(values, count, "value")) {
    list->members.push_back(alive<Member>(member, "value[i]")->handle());
  }
  return inserted<Handle>(list);
}

template <class List, class Member>
void destroy_list(const void* handle, const char* name) {
  if (handle == nullptr) return;
  const auto list = base::handles().remove<List>(handle);
  if (!list) refuse_dead(name);
  destroy_all<Member>(list->members);
}

// The array belongs to the caller, who deletes it with delete[].
void give(const std::vector<int64_t>& values, int64_t** array, uint64_t* count,
          const char* array_name, const char* count_name) {
  check_given(array, array_name);
  check_given(count, count_name);
  auto* made = new int64_t[values.size()];
  std::copy(values.begin(), values.end(), made);
  *array = made;
  *count = values.size();
}

template <class T>
void size_of(const void* handle, const char* name, uint64_t* size) {
  const auto object = alive<T>(handle, name);
  check_given(size, "size");
  *size = object->members.size();
}

}  // namespace

void tell_undestroyed() {
  const std::pair<base::Kind, const char*> kinds[] = {
      {base::Kind::kTensorList, "aclTensorList"}, {base::Kind::kScalarList, "aclScalarList"},
      {base::Kind::kOperatorTensor, "aclTensor"}, {base::Kind::kScalar, "aclScalar"},
      {base::Kind::kIntArray, "aclIntArray"},     {base::Kind::kFloatArray, "aclFloatArray"},
      {base::Kind::kBoolArray, "aclBoolArray"},
  };
  std::string text;
  for (const auto& [kind, name] : kinds) {
    const uint32_t count = base::handles().live(kind);
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  if (text.empty()) return;
  base::log_line("aclFinalize: never destroyed: " + text +
                 "; each aclCreate* needs its aclDestroy*, a list takes its members along");
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclTensor* art_emu_aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum,
                                   aclDataType dataType, const int64_t* stride, int64_t offset,
                                   aclFormat format, const int64_t* storageDims,
                                   uint64_t storageDimsNum, void* tensorData) {
  return value<ApiId::aclCreateTensor>(static_cast<aclTensor*>(nullptr), [&] {
    const auto tensor = base::make_ref<Tensor>();
    describe(*tensor, {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                       storageDimsNum, tensorData});
    return inserted<aclTensor>(tensor);
  });
}

aclnnStatus art_emu_aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                  aclDataType dataType, const int64_t* stride, int64_t offset,
                                  aclFormat format, const int64_t* storageDims,
                                  uint64_t storageDimsNum, void* tensorDataAddr) {
  return call<ApiId::aclInitTensor>([&] {
    describe(*alive<Tensor>(tensor, "tensor"),
             {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
              tensorDataAddr});
  });
}

aclnnStatus art_emu_aclDestroyTensor(const aclTensor* tensor) {
  return call<ApiId::aclDestroyTensor>([&] { destroy<Tensor>(tensor, "tensor"); });
}

aclTensorList* art_emu_aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return ascendrt::abi::value<ApiId::aclCreateTensorList>(
      static_cast<aclTensorList*>(nullptr),
      [&] { return new_list<TensorList, Tensor, aclTensorList>(value, size); });
}

aclnnStatus art_emu_aclDestroyTensorList(const aclTensorList* array) {
  return call<ApiId::aclDestroyTensorList>(
      [&] { destroy_list<TensorList, Tensor>(array, "array"); });
}

aclScalar* art_emu_aclCreateScalar(void* value, aclDataType dataType) {
  return ascendrt::abi::value<ApiId::aclCreateScalar>(static_cast<aclScalar*>(nullptr), [&] {
    check_given(value, "value");
    const auto scalar = base::make_ref<Scalar>();
    scalar->dtype = dataType;
    const size_t bytes = acl_type_size(dataType);
    if (bytes == 0 || bytes > sizeof scalar->value) {
      refuse(kInvalid,
             "argument dataType is " + std::to_string(raw(dataType)) + ", no type of a scalar");
    }
    std::memcpy(scalar->value, value, bytes);
    return inserted<aclScalar>(scalar);
  });
}

aclnnStatus art_emu_aclDestroyScalar(const aclScalar* scalar) {
  return call<ApiId::aclDestroyScalar>([&] { destroy<Scalar>(scalar, "scalar"); });
}

aclScalarList* art_emu_aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return ascendrt::abi::value<ApiId::aclCreateScalarList>(
      static_cast<aclScalarList*>(nullptr),
      [&] { return new_list<ScalarList, Scalar, aclScalarList>(value, size); });
}

aclnnStatus art_emu_aclDestroyScalarList(const aclScalarList* array) {
  return call<ApiId::aclDestroyScalarList>(
      [&] { destroy_list<ScalarList, Scalar>(array, "array"); });
}

aclIntArray* art_emu_aclCreateIntArray(const int64_t* value, uint64_t size) {
  return ascendrt::abi::value<ApiId::aclCreateIntArray>(static_cast<aclIntArray*>(nullptr), [&] {
    return inserted<aclIntArray>(base::make_ref<IntArray>(copied<int64_t>(value, size, "value")));
  });
}

aclnnStatus art_emu_aclDestroyIntArray(const aclIntArray* array) {
  return call<ApiId::aclDestroyIntArray>([&] { destroy<IntArray>(array, "array"); });
}

aclFloatArray* art_emu_aclCreateFloatArray(const float* value, uint64_t size) {
  return ascendrt::abi::value<ApiId::aclCreateFloatArray>(
      static_cast<aclFloatArray*>(nullptr), [&] {
        return inserted<aclFloatArray>(
            base::make_ref<FloatArray>(copied<float>(value, size, "value")));
      });
}

aclnnStatus art_emu_aclDestroyFloatArray(const aclFloatArray* array) {
  return call<ApiId::aclDestroyFloatArray>([&] { destroy<FloatArray>(array, "array"); });
}

aclBoolArray* art_emu_aclCreateBoolArray(const bool* value, uint64_t size) {
  return ascendrt::abi::value<ApiId::aclCreateBoolArray>(static_cast<aclBoolArray*>(nullptr), [&] {
    return inserted<aclBoolArray>(base::make_ref<BoolArray>(copied<uint8_t>(value, size, "value")));
  });
}

aclnnStatus art_emu_aclDestroyBoolArray(const aclBoolArray* array) {
  return call<ApiId::aclDestroyBoolArray>([&] { destroy<BoolArray>(array, "array"); });
}

aclnnStatus art_emu_aclGetViewShape(const aclTensor* tensor, int64_t** viewDims,
                                    uint64_t* viewDimsNum) {
  return call<ApiId::aclGetViewShape>([&] {
    give(alive<Tensor>(tensor, "tensor")->dims, viewDims, viewDimsNum, "viewDims", "viewDimsNum");
  });
}

aclnnStatus art_emu_aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                       uint64_t* storageDimsNum) {
  return call<ApiId::aclGetStorageShape>([&] {
    give(alive<Tensor>(tensor, "tensor")->storage_dims, storageDims, storageDimsNum, "storageDims",
         "storageDimsNum");
  });
}

aclnnStatus art_emu_aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                      uint64_t* stridesNum) {
  return call<ApiId::aclGetViewStrides>([&] {
    give(alive<Tensor>(tensor, "tensor")->strides, stridesValue, stridesNum, "stridesValue",
         "stridesNum");
  });
}

aclnnStatus art_emu_aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return call<ApiId::aclGetViewOffset>([&] {
    const auto found = alive<Tensor>(tensor, "tensor");
    check_given(offset, "offset");
    *offset = found->offset;
  });
}

aclnnStatus art_emu_aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return call<ApiId::aclGetDataType>([&] {
    const auto found = alive<Tensor>(tensor, "tensor");
    check_given(dataType, "dataType");
    *dataType = found->dtype;
  });
}

aclnnStatus art_emu_aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return call<ApiId::aclGetFormat>([&] {
    const auto found = alive<Tensor>(tensor, "tensor");
    check_given(format, "format");
    *format = found->format;
  });
}

aclnnStatus art_emu_aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return call<ApiId::aclGetRawTensorAddr>([&] {
    const auto found = alive<Tensor>(tensor, "tensor");
    check_given(addr, "addr");
    *addr = found->data;
  });
}

aclnnStatus art_emu_aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  return call<ApiId::aclSetRawTensorAddr>([&] { alive<Tensor>(tensor, "tensor")->data = addr; });
}

aclnnStatus art_emu_aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return call<ApiId::aclGetIntArraySize>([&] { size_of<IntArray>(array, "array", size); });
}

aclnnStatus art_emu_aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return call<ApiId::aclGetFloatArraySize>([&] { size_of<FloatArray>(array, "array", size); });
}

aclnnStatus art_emu_aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return call<ApiId::aclGetBoolArraySize>([&] { size_of<BoolArray>(array, "array", size); });
}

aclnnStatus art_emu_aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return call<ApiId::aclGetTensorListSize>(
      [&] { size_of<TensorList>(tensorList, "tensorList", size); });
}

aclnnStatus art_emu_aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return call<ApiId::aclGetScalarListSize>(
      [&] { size_of<ScalarList>(scalarList, "scalarList", size); });
}

}  // extern "C"
