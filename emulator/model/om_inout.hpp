// MODEL_INOUT_INFO: the type-length-value description of inputs, outputs and gears.
// Owns: its layout in both directions. Must never: know graphs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace ascendrt::model {

struct InOutInfo {
  std::vector<IoDesc> inputs;
  std::vector<IoDesc> outputs;
  Gears gears;
};

// Throws wire::Malformed.
InOutInfo parse_inout_info(std::span<const uint8_t> bytes);
Bytes serialize_inout_info(const InOutInfo& info);

}  // namespace ascendrt::model
