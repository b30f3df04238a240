// Conversions for one shape, for several, and for shapes that only a run tells.
// Owns: how graphs of several shapes become one model. Must never: know node rules.
#pragma once

#include "model/convert.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model {

// All dims are fixed by file and options. Complete, with its plan recorded.
Model convert_fixed(const onnx::File& file, const ConvertOptions& options);

// One model with a branch per gear, of which a run takes one. The weights are kept once.
Model convert_gears(const onnx::File& file, const ConvertOptions& options);

}  // namespace ascendrt::model
