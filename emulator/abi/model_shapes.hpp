// Shapes and buffers of a run whose shapes the model leaves open. Owns: their checks.
// Must never: change a dataset.
#pragma once

#include <vector>

#include "abi/model_objects.hpp"
#include "model/loaded.hpp"

namespace ascendrt::abi {

using DataBuffers = std::vector<base::Ref<DataBuffer>>;

// One shape per input of the model: that of its tensor desc, else the model's. Raises 100000 for
// too few inputs, a dim that nobody gave and one outside its range.
std::vector<model::Dims> run_shapes(const std::vector<model::IoDesc>& inputs, const Dataset& given);

// Raise 500002 for buffers that are smaller than the tensors. Datasets may have more inputs than
// the model. `allocates`: the run gives memory to outputs without.
std::vector<model::DeviceBuffer> check_run_inputs(const std::vector<model::IoDesc>& inputs,
                                                  const std::vector<model::Dims>& shapes,
                                                  const DataBuffers& given);
std::vector<model::DeviceBuffer> check_run_outputs(const std::vector<model::IoDesc>& outputs,
                                                   const model::Program& program,
                                                   const DataBuffers& given, bool allocates);

}  // namespace ascendrt::abi
