// Completing a freshly built graph. Owns: the checks and defaults that make a graph a valid model.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "model/om_container.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"

namespace ascendrt::model {
namespace {

constexpr size_t kWeightAlign = 512;

using OpIndex = std::unordered_map<std::string_view, Op*>;

[[noreturn]] void refuse(const Graph& graph, const Op& op, const std::string& text) {
  fail_model(kGeParamInvalid,
             "graph '" + graph.name + "', op '" + op.name + "' of type " + op.type + ": " + text);
}

OpIndex index_ops(Graph& graph) {
  OpIndex index;
  for (Op& op : graph.ops) {
    if (op.name.empty() || op.type.empty()) refuse(graph, op, "has no name or no type");
    if (!index.emplace(op.name, &op).second) refuse(graph, op, "the name is used twice");
  }
  return index;
}

void check_inputs(const Graph& graph, const OpIndex& index) {
  for (const Op& op : graph.ops) {
    for (const std::string& input : op.inputs) {
      if (input.empty()) continue;
      const auto ref = parse_input(input);
      const auto found = ref ? index.find(ref->node) : index.end();
      if (found == index.end()) refuse(graph, op, "input '" + input + "' names no op of the graph");
      const auto outputs = static_cast<int64_t>(found->second->output_descs.size());
      if (ref->index >= outputs) {
        refuse(graph, op,
               "input '" + input + "' does not exist, that op has " + std::to_string(outputs) +
                   " outputs");
      }
    }
  }
}

void check_root(const Graph& root) {
  const auto count = std::count_if(root.ops.begin(), root.ops.end(),
                                   [](const Op& op) { return op.type == "NetOutput"; });
  if (count != 1) {
    fail_model(kGeParamInvalid, "graph '" + root.name + "' has " + std::to_string(count) +
                                    " NetOutput ops, it needs exactly one");
  }
}

void number_ops(Graph& graph) {
  const bool numbered =
      std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.id != 0; });
  if (numbered) return;
  int64_t id = 0;
  for (Op& op : graph.ops) op.id = id++;
}

void fill_desc(TensorDesc& desc, int64_t size) {
  if (desc.dtype == kUndefined) return;  // an optional input that is not connected
  if (desc.format == kFormatUndefined && desc.layout.empty()) desc.format = kNd;
  if (desc.layout.empty()) desc.layout = format_name(desc.format);
  if (desc.attrs.find("origin_shape") == nullptr) desc.set_origin(desc.dims, desc.format);
  if (desc.size == 0) desc.size = size;
}

int64_t exact_bytes(const TensorDesc& desc) { return byte_size(desc.dims, desc.dtype).value_or(0); }

// Operator input and output names -> positions, which consumers of single ops look up.
void fill_names(Op& op, const std::vector<TensorDesc>& descs, const char* key, const char* value,
                const char* prefix) {
  if (op.attrs.find(key) != nullptr) return;
  std::vector<std::string> names;
  std::vector<int64_t> positions;
  for (size_t i = 0; i < descs.size(); ++i) {
    names.push_back(descs[i].name.empty() ? prefix + std::to_string(i) : descs[i].name);
    positions.push_back(static_cast<int64_t>(i));
  }
  op.attrs.set(key, std::move(names));
  op.attrs.set(value, std::move(positions));
}

void fill_op(Op& op) {
  const bool is_data = op.type == "Data";
  for (TensorDesc& desc : op.input_descs) {
    fill_desc(desc, is_data ? exact_bytes(desc) : padded_size(exact_bytes(desc)));
  }
  for (TensorDesc& desc : op.output_descs) fill_desc(desc, padded_size(exact_bytes(desc)));
  fill_names(op, op.input_descs, "_input_name_key", "_input_name_value", "__input");
  fill_names(op, op.output_descs, "_output_name_key", "_output_name_value", "__output");
}

void number_data(Graph& graph) {
  int64_t next = 0;
  for (Op& op : graph.ops) {
    if (op.type != "Data") continue;
    if (op.attrs.find("index") == nullptr) op.attrs.set("index", next);
    ++next;
  }
}

// src_* name the producers of an op's data inputs, dst_* its consumers.
void link_ops(Graph& graph, const OpIndex& index) {
  for (Op& op : graph.ops) {
    op.src_names.clear();
    op.src_indices.clear();
    op.dst_names.clear();
    op.dst_indices.clear();
  }
  for (Op& op : graph.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto ref = op.input(i);
      if (!ref || ref->index < 0) continue;
      op.src_names.emplace_back(ref->node);
      op.src_indices.push_back(ref->index);
      Op& producer = *index.at(ref->node);
      producer.dst_names.push_back(op.name);
      producer.dst_indices.push_back(static_cast<int64_t>(i));
    }
  }
}

// Moves the bytes of one constant into the weights.
void place_constant(Op& op, Bytes& weights) {
  if (op.constant() == nullptr || op.constant()->data.empty()) return;
  Tensor tensor = *op.constant();
  weights.resize((weights.size() + kWeightAlign - 1) / kWeightAlign * kWeightAlign);
  const auto bytes = static_cast<int64_t>(tensor.data.size());
  tensor.desc.data_offset = static_cast<int64_t>(weights.size());
  tensor.desc.size = bytes;
  tensor.desc.weight_size = bytes;
  weights.insert(weights.end(), tensor.data.begin(), tensor.data.end());
  tensor.data.clear();
  fill_desc(tensor.desc, bytes);
  for (TensorDesc& desc : op.output_descs) {
    desc.data_offset = tensor.desc.data_offset;
    desc.weight_size = bytes;
  }
  op.attrs.set("value", Box(std::move(tensor)));
}

// Consumers repeat which of their inputs are constants and where those lie.
void note_constants(Graph& graph, const OpIndex& index) {
  for (Op& op : graph.ops) {
    op.is_input_const.clear();
    for (size_t i = 0; i < op.inputs.size() && i < op.input_descs.size(); ++i) {
      const auto ref = op.input(i);
      const Op* producer = ref ? index.at(ref->node) : nullptr;
      const bool constant = producer != nullptr && producer->type == "Const";
      op.is_input_const.push_back(constant);
      if (!constant || producer->output_descs.empty()) continue;
      op.input_descs[i].data_offset = producer->output_descs.front().data_offset;
      op.input_descs[i].weight_size = producer->output_descs.front().weight_size;
    }
  }
}

void place_constants(Model& model) {
  Bytes weights(model.weights.bytes.begin(), model.weights.bytes.end());
  const size_t before = weights.size();
  for (Graph& graph : model.graphs) {
    for (Op& op : graph.ops) {
      if (op.type == "Const") place_constant(op, weights);
    }
  }
  if (weights.size() != before) {
    weights.resize((weights.size() + kWeightAlign - 1) / kWeightAlign * kWeightAlign);
    model.weights = Blob::own(std::move(weights));
  }
}

void complete_graph(Graph& graph) {
  const OpIndex index = index_ops(graph);
  check_inputs(graph, index);
  number_ops(graph);
  number_data(graph);
  for (Op& op : graph.ops) fill_op(op);
  link_ops(graph, index);
  note_constants(graph, index);
}

void set_default(AttrMap& attrs, std::string_view name, AttrValue value) {
  if (attrs.find(name) == nullptr) attrs.set(name, std::move(value));
}

std::vector<std::string> output_names(const Graph& root) {
  for (const Op& op : root.ops) {
    if (op.type != "NetOutput") continue;
    std::vector<std::string> names;
    for (size_t i = 0; i < op.src_names.size(); ++i) {
      names.push_back(op.src_names[i] + ":" + std::to_string(op.src_indices[i]));
    }
    return names;
  }
  return {};
}

void fill_model_attrs(Model& model) {
  AttrMap& attrs = model.attrs;
  TaskInfo& tasks = model.task_info;
  tasks.present = true;
  tasks.weight_size = model.weights.bytes.size();
  tasks.stream_num = std::max<uint64_t>(tasks.stream_num, 1);
  const auto number = [](uint64_t value) { return static_cast<int64_t>(value); };
  attrs.set("memory_size", number(tasks.memory_size));
  attrs.set("weight_size", number(tasks.weight_size));
  attrs.set("stream_num", number(tasks.stream_num));
  attrs.set("event_num", number(tasks.event_num));
  attrs.set("soc_version", model.soc_version);
  attrs.set(Model::kNativeMarker, int64_t{1});
  for (const char* name : {"zero_copy_memory_size", "label_num", "task_gen_base_addr",
                           "task_gen_weight_addr", "core_type"}) {
    set_default(attrs, name, int64_t{0});
  }
  set_default(attrs, "target_type", "MINI");
  set_default(attrs, "framework_type", "Onnx");
  set_default(attrs, "atc_cmdline", "ascendrt om convert");
  set_default(attrs, "attr_model_out_nodes_name", output_names(*model.root()));
}

}  // namespace

void complete(Model& model) {
  if (model.graphs.empty())
    fail_model(kGeParamInvalid, "a model without a graph cannot be written");
  check_root(model.graphs.front());
  place_constants(model);
  for (Graph& graph : model.graphs) complete_graph(graph);
  if (model.version == 0) model.version = 2;
  if (model.custom_version.empty()) model.custom_version = "1.11.z.0";
  fill_model_attrs(model);
  describe(model);
}

}  // namespace ascendrt::model
