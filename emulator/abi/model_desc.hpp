// aclmdlDesc: what a client may ask about a model. Owns: a copy of the description and the texts
// that getters hand out. Must never: keep a model loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "abi/boundary.hpp"
#include "abi/model_objects.hpp"
#include "model/registry.hpp"

namespace ascendrt::abi {

struct ModelDesc : base::Object {
  static constexpr base::Kind kKind = base::Kind::kModelDesc;

  uint32_t model_id = 0;  // 0: described from a file, not loaded
  bool dynamic = false;   // run by the executor for dynamic shapes
  std::vector<model::IoDesc> inputs;
  std::vector<model::IoDesc> outputs;
  model::Gears gears;
  std::map<std::string, std::string> op_attrs;  // answers of aclmdlGetOpAttr, kept for the client

  void clear();
  void fill(const model::Model& model, uint32_t id);
};

enum class Direction : uint8_t { kInput, kOutput };

inline const std::vector<model::IoDesc>& list(const ModelDesc& desc, Direction direction) {
  return direction == Direction::kInput ? desc.inputs : desc.outputs;
}

// Element `index`, or 100000 with the number there are.
const model::IoDesc& at(const ModelDesc& desc, Direction direction, size_t index);

// Names that do not fit the 128 bytes of aclmdlIODims get a short stand-in.
std::string short_name(const ModelDesc& desc, Direction direction, size_t index);

// Name and dims into the client's struct; 300000 for more than 128 dims.
void copy_dims(const std::string& name, const model::Dims& dims, aclmdlIODims& out);

// Calls on loaded models need aclInit: 145001.
void check_initialised();

}  // namespace ascendrt::abi
