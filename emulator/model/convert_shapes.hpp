// Conversions for one shape, for several, and for shapes that only a run tells.
// Owns: how graphs of several shapes become one model. Must never: know node rules.
#pragma once

#include "model/convert.hpp"
#include "model/imported.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model {

// A model that is written bears its memory plan, one that runs at once is planned then; a trial
// only tells shapes.
enum class Purpose : uint8_t { kFile, kRun, kTrial };

// All dims are fixed by file and options. Complete. `tensors` gets what the tensors of the root
// graph are, by their names in the file. Raises 500002 when only shapes contradict each other,
// 145000 for what holds whatever the shapes are.
Model convert_fixed(const onnx::File& file, const ConvertOptions& options,
                    Purpose purpose = Purpose::kFile, TensorDescs* tensors = nullptr);

// Writes the memory plan of a complete model into its graph and its launch information.
void record_plan(Model& model);

// One model with a branch per gear, of which a run takes one. The weights are kept once.
Model convert_gears(const onnx::File& file, const ConvertOptions& options);

// Whether file and options leave a dim of an input open.
bool has_open_dims(const onnx::File& file, const ConvertOptions& options);
// Shapes that a run tells: Note [Open shapes], in convert_dynamic.cpp.
Model convert_dynamic(const onnx::File& file, const ConvertOptions& options);
// A model of convert_dynamic for inputs of these shapes. `weights`: its constants, wherever they
// lie now; the model made refers to them by their offsets there and holds only what it adds.
Model specialise(const Model& whole, std::span<const uint8_t> weights,
                 const std::vector<Dims>& shapes);

}  // namespace ascendrt::model
