// Objects of the model calls that clients hold by handle: data buffers, tensor descs, datasets.
// Owns: their fields and the look-up that turns a dead or foreign pointer into a code.
// Must never: own client memory. Not synchronised: a client uses one object from one thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi/boundary.hpp"
#include "base/handle.hpp"
#include "gen/abi.h"

namespace ascendrt::abi {

// aclDataBuffer: an address and a size, neither checked.
struct DataBuffer : base::Object {
  static constexpr base::Kind kKind = base::Kind::kDataBuffer;
  DataBuffer(void* address, size_t bytes) : data(address), size(bytes) {}
  void* data;
  size_t size;
};

// The value inside a tensor desc; copied as a whole.
struct TensorFields {
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> dims;
  aclFormat storage_format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  std::string name;
  std::string dynamic_input;
  std::vector<std::pair<int64_t, int64_t>> shape_range;
  std::vector<std::pair<int64_t, int64_t>> value_range;
  std::optional<std::vector<uint8_t>> constant;  // bytes of a tensor known when compiling
  aclMemType placement = ACL_MEMTYPE_DEVICE;
  void* address = nullptr;

  // 0 for a negative dim or a product that overflows; 1 without dims.
  size_t element_count() const;
  size_t size_bytes() const;
};

struct TensorDesc : base::Object {
  static constexpr base::Kind kKind = base::Kind::kTensorDesc;
  TensorFields fields;
  std::vector<base::Ref<TensorDesc>> behind;  // the rest of an array of which this is the first

  TensorDesc() = default;
  ~TensorDesc() override;
};

// aclmdlDataset: buffers in order of addition. Buffers belong to the client and are kept as the
// pointers the client gave; tensor descs are copies that belong to the dataset.
struct Dataset : base::Object {
  static constexpr base::Kind kKind = base::Kind::kDataset;
  struct Entry {
    aclDataBuffer* buffer = nullptr;
    base::Ref<TensorDesc> desc;  // null: none set
  };
  std::vector<Entry> entries;

  // Gear chosen by aclmdlSetDynamic*: 0 or empty = not chosen.
  uint64_t batch = 0;
  uint64_t height = 0;
  uint64_t width = 0;
  std::vector<int64_t> gear_dims;

  ~Dataset() override;
};

// Bytes of one element by the rules of the acl layer, which differ for packed and unknown types.
size_t acl_type_size(aclDataType dtype);

// The live object behind a handle. Null, dead, foreign and wrong-kind pointers answer 100000 and
// are named in the text.
template <class T>
base::Ref<T> live(const void* handle, const char* argument) {
  check_not_null(handle, argument);
  base::Ref<T> found = base::handles().get<T>(handle);
  if (!found) {
    refuse_argument(std::string("argument ") + argument +
                    " is no live object of its kind: it was destroyed, or it never came from the "
                    "call that makes such objects");
  }
  return found;
}

// Takes a handle out of use; same failures as live().
template <class T>
base::Ref<T> take(const void* handle, const char* argument) {
  check_not_null(handle, argument);
  base::Ref<T> found = base::handles().remove<T>(handle);
  if (!found) {
    refuse_argument(
        std::string("argument ") + argument +
        " is no live object of its kind: it was destroyed before, or it never came from "
        "the call that makes such objects");
  }
  return found;
}

}  // namespace ascendrt::abi
