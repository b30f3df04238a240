// What two-phase operators take, behind its handles. Owns: fields only; memory of tensors is the
// client's. Not synchronised: a client changes one object from one thread at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/handle.hpp"
#include "gen/abi.h"

namespace ascendrt::abi {

// aclTensor: a view (dims, strides, offset in elements) of a storage.
struct Tensor : base::Object {
  static constexpr base::Kind kKind = base::Kind::kOperatorTensor;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  std::vector<int64_t> storage_dims;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  int64_t offset = 0;
  void* data = nullptr;
};

// aclScalar
struct Scalar : base::Object {
  static constexpr base::Kind kKind = base::Kind::kScalar;
  aclDataType dtype = ACL_DT_UNDEFINED;
  alignas(8) uint8_t value[16] = {};
};

// aclIntArray, aclFloatArray, aclBoolArray
template <class T, base::Kind kind>
struct ValueArray : base::Object {
  static constexpr base::Kind kKind = kind;
  explicit ValueArray(std::vector<T> values) : members(std::move(values)) {}
  std::vector<T> members;
};
using IntArray = ValueArray<int64_t, base::Kind::kIntArray>;
using FloatArray = ValueArray<float, base::Kind::kFloatArray>;
using BoolArray = ValueArray<uint8_t, base::Kind::kBoolArray>;

// aclTensorList, aclScalarList: the handles of the members, which end with the list.
template <base::Kind kind>
struct HandleList : base::Object {
  static constexpr base::Kind kKind = kind;
  std::vector<void*> members;
};
using TensorList = HandleList<base::Kind::kTensorList>;
using ScalarList = HandleList<base::Kind::kScalarList>;

// Says on stderr how many of them are left, if any are.
void tell_undestroyed();

}  // namespace ascendrt::abi
