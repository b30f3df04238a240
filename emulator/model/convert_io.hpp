// Inputs and outputs of a conversion as the options want them. Owns: their shapes, types, formats
// and the choice of outputs. Must never: know operators.
#pragma once

#include <string>
#include <vector>

#include "model/convert.hpp"
#include "model/convert_graph.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model {

// The image preparation of input number `place`; null: none.
const AippConfig* find_aipp(const ConvertOptions& options, const std::string& name, size_t place);

// Refuses options that name inputs or outputs the network does not have.
void check_names(const onnx::Graph& graph, const ConvertOptions& options);

// Makes the outputs of the network those that the options name and drops the nodes that they do not
// need. Nothing happens without such options.
void select_outputs(onnx::Graph& graph, const ConvertOptions& options);

// The dims of an input after the options: -1 stays where a gear or a run decides.
Dims wanted_dims(const onnx::GraphInput& input, const ConvertOptions& options);

// The types that the options want at the edge; of an output kUndefined: as it is.
int32_t input_type(const ConvertOptions& options, const onnx::GraphInput& input);
int32_t output_type(const ConvertOptions& options, size_t output);

// The Data op of input number `place`, with the preparation of images behind it. All dims must be
// fixed.
GraphValue add_input(GraphBuilder& graph, const onnx::GraphInput& input, size_t place,
                     const ConvertOptions& options);

// Numbers the Data ops: parameters of image preparation stand behind the network's own inputs.
void number_inputs(Graph& graph);

// Writes the types and formats that the options want for inputs and outputs to the finished root
// graph; the precision pass behind makes them true.
void apply_edge_types(Graph& graph, const ConvertOptions& options);
void apply_input_format(Graph& graph, int32_t format);

}  // namespace ascendrt::model
