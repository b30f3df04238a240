// Owns: names, shapes and types at the edge of a network.
#include "model/convert_io.hpp"

#include <algorithm>
#include <set>

#include "model/convert_node.hpp"
#include "model/om_container.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

template <class Range>
std::string names_of(const Range& list) {
  std::string names;
  for (const auto& item : list) names += " '" + item.name + "'";
  return names;
}

void check_input_name(const onnx::Graph& graph, const char* option, const std::string& name) {
  const auto same = [&](const onnx::GraphInput& input) { return input.name == name; };
  if (std::any_of(graph.inputs.begin(), graph.inputs.end(), same)) return;
  refuse(std::string(option) + " names '" + name +
         "', the inputs of the model are:" + names_of(graph.inputs));
}

// The tensor that an entry of out_nodes means.
std::string tensor_of(const onnx::Graph& graph, const NodeOutput& wanted) {
  for (const onnx::Node& node : graph.nodes) {
    if (node.name != wanted.node) continue;
    const auto index = static_cast<size_t>(wanted.index);
    if (index >= node.outputs.size() || node.outputs[index].empty()) {
      refuse("out_nodes names output " + std::to_string(index) + " of node '" + node.name +
             "', which has " + std::to_string(node.outputs.size()));
    }
    return node.outputs[index];
  }
  refuse("out_nodes names the node '" + wanted.node + "', the model has none of that name");
}

onnx::GraphInput declared_as(const onnx::Graph& graph, const std::string& tensor) {
  for (const auto* list : {&graph.outputs, &graph.declared}) {
    for (const onnx::GraphInput& value : *list) {
      if (value.name == tensor) return value;
    }
  }
  onnx::GraphInput value;
  value.name = tensor;
  return value;
}

// Everything a node reads, its bodies included: a name that a body makes itself does no harm.
void read_names(const onnx::Node& node, std::set<std::string, std::less<>>& names) {
  names.insert(node.inputs.begin(), node.inputs.end());
  for (const onnx::Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const onnx::Node& inner : attribute.graph->nodes) read_names(inner, names);
    for (const onnx::GraphInput& output : attribute.graph->outputs) names.insert(output.name);
  }
}

void drop_unused_nodes(onnx::Graph& graph) {
  std::set<std::string, std::less<>> wanted;
  for (const onnx::GraphInput& output : graph.outputs) wanted.insert(output.name);
  std::vector<onnx::Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](const std::string& name) { return wanted.contains(name); });
    if (!used) continue;
    read_names(*node, wanted);
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

bool is_fp16_node(const ConvertOptions& options, const std::string& name) {
  const auto& nodes = options.input_fp16_nodes;
  return std::find(nodes.begin(), nodes.end(), name) != nodes.end();
}

bool is_real(int32_t dtype) { return dtype == kFloat || dtype == kFloat16 || dtype == kBfloat16; }

// The Data ops of an image and of its parameters; what the op behind them takes.
GraphBuilder::Inputs image_operands(GraphBuilder& graph, const std::string& name, const Dims& dims,
                                    const AippConfig& config, const ops::AippParams* params) {
  AttrMap attrs;
  attrs.set(kAippAttrs, Box(aipp_attributes(config, params)));
  if (params == nullptr) {
    const std::string block =
        std::string(kAippData) +
        (config.input_rank == 0 ? "" : "_" + std::to_string(config.input_rank));
    attrs.set(kAippMode, "dynamic_aipp");
    attrs.set(kAippMap, block);
    attrs.set("_dynamic_aipp_input_dims", dims);
    attrs.set("input_dims", dims);
    const GraphValue image = graph.add_data(name, {ACL_UINT8, {config.max_src_bytes}});
    graph.annotate_data(attrs, kNchw);
    const GraphValue data = graph.add_data(block, {ACL_UINT8, {aipp_data_bytes(dims[0])}});
    graph.annotate_data(attributes({{std::string(kAippMode), "dynamic_aipp_conf"}}), kNd);
    return {image, data};
  }
  const auto format = static_cast<ops::ImageFormat>(params->head.format);
  const int64_t width = params->head.src_w;
  const int64_t height = params->head.src_h;
  const Dims bytes = image_dims_v2(format, dims[0], width, height);
  attrs.set(kAippMode, "static_aipp");
  attrs.set("_dynamic_aipp_input_dims", image_dims(format, dims[0], width, height));
  attrs.set("input_dims", bytes);
  const GraphValue image = graph.add_data(name, {ACL_UINT8, to_shape(bytes)});
  graph.annotate_data(attrs, kNhwc);
  Bytes block = params->block();
  const TensorType type{ACL_UINT8, {static_cast<int64_t>(block.size())}};
  return {image, graph.constant(name + "_aipp_parameters", type, std::move(block))};
}

// An image and the op that makes of it what the network takes.
GraphValue add_image(GraphBuilder& graph, const std::string& name, const TensorType& type,
                     const AippConfig& config) {
  const bool bytes = type.dtype == ACL_UINT8;
  if (type.shape.rank() != 4 || (!bytes && !is_real(type.dtype))) {
    refuse("AIPP: input '" + name + "' is " + dtype_name(type.dtype) + " " + type.shape.text() +
           "; images go to inputs [N, C, H, W] of float or uint8");
  }
  const Dims dims = to_dims(type.shape);
  std::optional<ops::AippParams> params;
  if (!config.dynamic) params = static_params(config, dims);
  const auto operands = image_operands(graph, name, dims, config, params ? &*params : nullptr);
  const int64_t made = bytes ? kUint8 : kFloat;
  GraphValue y = graph.add_one(
      "Aipp", name + "_aipp", operands,
      attributes(
          {{"output_shape", dims}, {"dst_type", made}, {"padding_value", config.padding_value}}));
  if (bytes || type.dtype == ACL_FLOAT) return y;
  return graph.add_one("Cast", name + "_cast", {y},
                       attributes({{"dst_type", static_cast<int64_t>(type.dtype)}}));
}

// Between output `i` of the graph and what makes it.
void add_cast(Graph& graph, Op& net_output, size_t i, int32_t dtype) {
  Op cast;
  cast.type = "Cast";
  cast.name = net_output.name + "_cast_" + std::to_string(i);
  cast.attrs.set("dst_type", static_cast<int64_t>(dtype));
  cast.inputs = {net_output.inputs[i]};
  cast.input_descs = {net_output.input_descs[i]};
  cast.output_descs = cast.input_descs;
  cast.output_descs[0].dtype = dtype;
  net_output.inputs[i] = graph.outputs[i] = cast.name + ":0";
  graph.ops.push_back(std::move(cast));
}

}  // namespace

const AippConfig* find_aipp(const ConvertOptions& options, const std::string& name, size_t place) {
  for (const AippConfig& config : options.aipp) {
    const bool same = config.input_name.empty() ? config.input_rank == static_cast<int64_t>(place)
                                                : config.input_name == name;
    if (same) return &config;
  }
  return nullptr;
}

void check_names(const onnx::Graph& graph, const ConvertOptions& options) {
  for (const auto& [name, shape] : options.input_shape) {
    check_input_name(graph, "input_shape", name);
  }
  for (const std::string& name : options.input_fp16_nodes) {
    check_input_name(graph, "input_fp16_nodes", name);
  }
  for (const AippConfig& config : options.aipp) {
    if (!config.input_name.empty()) {
      check_input_name(graph, "related_input_name", config.input_name);
    } else if (config.input_rank >= static_cast<int64_t>(graph.inputs.size())) {
      refuse("related_input_rank is " + std::to_string(config.input_rank) + ", the model has " +
             std::to_string(graph.inputs.size()) + " inputs");
    }
  }
  for (const OutputType& type : options.output_types) {
    const auto& nodes = options.out_nodes;
    if (type.output.node.empty()) continue;
    const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const NodeOutput& output) {
      return output.node == type.output.node && output.index == type.output.index;
    });
    if (!known) {
      refuse("output_type names '" + type.output.node + ":" + std::to_string(type.output.index) +
             "', which out_nodes does not list");
    }
  }
}

void select_outputs(onnx::Graph& graph, const ConvertOptions& options) {
  if (options.out_nodes.empty() && options.out_names.empty()) return;
  std::vector<onnx::GraphInput> outputs;
  for (const NodeOutput& node : options.out_nodes) {
    outputs.push_back(declared_as(graph, tensor_of(graph, node)));
  }
  for (const std::string& name : options.out_names) {
    const auto found =
        std::find_if(graph.outputs.begin(), graph.outputs.end(),
                     [&](const onnx::GraphInput& output) { return output.name == name; });
    if (found == graph.outputs.end()) {
      refuse("out_nodes names '" + name + "'; write node_name:0 for a node, or one of the outputs" +
             names_of(graph.outputs));
    }
    outputs.push_back(*found);
  }
  graph.outputs = std::move(outputs);
  drop_unused_nodes(graph);
}

Dims wanted_dims(const onnx::GraphInput& input, const ConvertOptions& options) {
  const auto given = options.input_shape.find(input.name);
  if (given == options.input_shape.end()) {
    return input.has_shape ? input.dims : kNoRank;
  }
  const Dims& dims = given->second.dims;
  if (!input.has_shape) return dims;
  if (dims.size() != input.dims.size()) {
    refuse("input_shape gives " + std::to_string(dims.size()) + " dims for input '" + input.name +
           "', which has " + std::to_string(input.dims.size()));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (input.dims[i] < 0 || dims[i] == input.dims[i]) continue;
    refuse("input_shape gives " + std::to_string(dims[i]) + " for dim " + std::to_string(i) +
           " of input '" + input.name + "', the file fixes it to " + std::to_string(input.dims[i]));
  }
  return dims;
}

int32_t output_type(const ConvertOptions& options, size_t i) {
  int32_t dtype = kUndefined;
  for (const OutputType& type : options.output_types) {
    const bool all = type.output.node.empty();
    const bool same = i < options.out_nodes.size() &&
                      options.out_nodes[i].node == type.output.node &&
                      options.out_nodes[i].index == type.output.index;
    if (same || (all && dtype == kUndefined)) dtype = type.dtype;
  }
  return dtype;
}

int32_t input_type(const ConvertOptions& options, const onnx::GraphInput& input) {
  return is_fp16_node(options, input.name) ? int32_t{kFloat16} : input.dtype;
}

GraphValue add_input(GraphBuilder& graph, const onnx::GraphInput& input, size_t place,
                     const ConvertOptions& options) {
  const auto dtype = static_cast<aclDataType>(input.dtype);
  if (ops::dtype_size(dtype) == 0) {
    refuse("input '" + input.name + "' is no tensor of a type that can be converted");
  }
  const Dims dims = wanted_dims(input, options);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    if (dims == kNoRank) {
      refuse("input '" + input.name +
             "' has no shape in the file; give one: input_shape=" + input.name + ":1,3,224,224");
    }
    refuse("dim " + std::to_string(i) + " of input '" + input.name +
           "' is not fixed and no value of a gear; give the whole shape: input_shape=" +
           input.name + ":...");
  }
  const TensorType type{dtype, to_shape(dims)};
  static_cast<void>(type.shape.elements());
  const AippConfig* aipp = find_aipp(options, input.name, place);
  return aipp == nullptr ? graph.add_data(input.name, type)
                         : add_image(graph, input.name, type, *aipp);
}

void number_inputs(Graph& graph) {
  int64_t next = 0;
  for (const bool parameters : {false, true}) {
    for (Op& op : graph.ops) {
      const bool is_data = op.type == "Data" && op.name.starts_with(kAippData) == parameters;
      if (is_data) op.attrs.set("index", next++);
    }
  }
}

// Casts between the types that the precision pass chooses from are the pass's.
void apply_edge_types(Graph& graph, const ConvertOptions& options) {
  for (Op& op : graph.ops) {
    if (op.type != "Data" || !is_fp16_node(options, op.name)) continue;
    if (!is_real(op.output_descs[0].dtype)) {
      refuse("input_fp16_nodes names '" + op.name + "', whose type is " +
             dtype_name(op.output_descs[0].dtype) + "; only float inputs can become float16");
    }
    op.input_descs[0].dtype = op.output_descs[0].dtype = kFloat16;
  }
  Op net_output = std::move(graph.ops.back());  // GraphBuilder adds it last
  graph.ops.pop_back();
  for (size_t i = 0; i < net_output.input_descs.size(); ++i) {
    const int32_t dtype = output_type(options, i);
    TensorDesc& desc = net_output.input_descs[i];
    if (dtype == kUndefined || dtype == desc.dtype) continue;
    if (!is_real(dtype) || !is_real(desc.dtype)) add_cast(graph, net_output, i, dtype);
    desc.dtype = dtype;
  }
  graph.ops.push_back(std::move(net_output));
}

void apply_input_format(Graph& graph, int32_t format) {
  if (format == kFormatUndefined) return;
  for (Op& op : graph.ops) {
    if (op.type != "Data" || op.attrs.find(kAippMode) != nullptr) continue;
    for (auto* descs : {&op.input_descs, &op.output_descs}) {
      for (TensorDesc& desc : *descs) {
        const size_t rank = desc.dims.size();
        const bool fits = (format == kNchw && rank == 4) || (format == kNcdhw && rank == 5);
        desc.format = fits ? format : kNd;
      }
    }
  }
}

}  // namespace ascendrt::model
