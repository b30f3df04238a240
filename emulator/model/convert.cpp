// Owns: the walk over the nodes, inputs and outputs of the model, the report of what cannot be
// converted. Must never: write before everything is converted.
#include "model/convert.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "base/error.hpp"
#include "gen/soc.inc"
#include "model/convert_node.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/program.hpp"

namespace ascendrt::model {
namespace {

// Opsets whose operators the rules know.
constexpr int64_t kOldestOpset = 7;
constexpr int64_t kNewestOpset = 26;

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

std::string label(const onnx::Node& node, int64_t opset) {
  const std::string domain = node.domain.empty() ? "" : " of domain '" + node.domain + "'";
  const std::string name = !node.name.empty()      ? "'" + node.name + "'"
                           : !node.outputs.empty() ? "that makes '" + node.outputs[0] + "'"
                                                   : "without a name";
  return "op type " + node.op_type + domain + ", node " + name + ", opset " + std::to_string(opset);
}

class Converter {
 public:
  Converter(const onnx::File& file, const ConvertOptions& options)
      : file_(file), options_(options) {
    model_.graphs.emplace_back();
    model_.graphs[0].name = file.graph_name.empty() ? "graph" : file.graph_name;
    model_.name = model_.graphs[0].name;
    model_.soc_version = options.soc_version;
    if (!options.command_line.empty()) model_.attrs.set("atc_cmdline", options.command_line);
  }

  Model run() {
    find_opset();
    check_nodes();
    GraphBuilder graph(model_.graphs[0]);
    add_inputs(graph);
    for (const onnx::TensorData& tensor : file_.initializers) {
      const TensorType type{static_cast<aclDataType>(tensor.dtype), to_shape(tensor.dims)};
      define(tensor.name, graph.constant(tensor.name, type, tensor.bytes));
    }
    for (size_t i = 0; i < file_.nodes.size(); ++i) convert(graph, file_.nodes[i], i);
    add_outputs(graph);
    complete(model_);
    record_plan();
    return std::move(model_);
  }

 private:
  void find_opset();
  void check_nodes() const;
  void add_inputs(GraphBuilder& graph);
  Dims fixed_dims(const onnx::GraphInput& input) const;
  void convert(GraphBuilder& graph, const onnx::Node& node, size_t position);
  void add_outputs(GraphBuilder& graph);
  void record_plan();
  void define(const std::string& name, GraphValue value);

  const onnx::File& file_;
  const ConvertOptions& options_;
  int64_t opset_ = 0;
  Model model_;
  std::unordered_map<std::string, GraphValue> values_;
};

void Converter::find_opset() {
  const auto found = file_.opsets.find("");
  if (found == file_.opsets.end()) refuse("the model does not say which ONNX opset it uses");
  opset_ = found->second;
  if (opset_ < kOldestOpset || opset_ > kNewestOpset) {
    refuse("the model uses ONNX opset " + std::to_string(opset_) + ", opsets " +
           std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset) +
           " can be converted; use onnx.version_converter");
  }
}

// All unsupported types at once, so that one look tells how far away a model is.
void Converter::check_nodes() const {
  std::string list;
  size_t count = 0;
  for (const onnx::Node& node : file_.nodes) {
    const bool standard = node.domain.empty() || node.domain == "ai.onnx";
    if (standard && find_node_rule(node.op_type) != nullptr) continue;
    const auto opset = standard ? file_.opsets.find("") : file_.opsets.find(node.domain);
    list += "\n  " + label(node, opset == file_.opsets.end() ? 0 : opset->second);
    ++count;
  }
  if (count == 0) return;
  refuse(std::to_string(count) + (count == 1 ? " node" : " nodes") +
         " of the model cannot be converted, no such operator is implemented:" + list);
}

Dims Converter::fixed_dims(const onnx::GraphInput& input) const {
  const auto given = options_.input_shape.find(input.name);
  if (!input.has_shape && given == options_.input_shape.end()) {
    refuse("input '" + input.name +
           "' has no shape in the file; give one: input_shape=" + input.name + ":1,3,224,224");
  }
  Dims dims = input.dims;
  if (given != options_.input_shape.end()) {
    if (input.has_shape && given->second.size() != dims.size()) {
      refuse("input_shape gives " + std::to_string(given->second.size()) + " dims for input '" +
             input.name + "', which has " + std::to_string(dims.size()));
    }
    dims = given->second;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t in_file = input.has_shape ? input.dims[i] : -1;
    if (dims[i] >= 0 && in_file >= 0 && in_file != dims[i]) {
      refuse("input_shape gives " + std::to_string(dims[i]) + " for dim " + std::to_string(i) +
             " of input '" + input.name + "', the file fixes it to " + std::to_string(in_file));
    }
    if (dims[i] < 0) {
      refuse("dim " + std::to_string(i) + " of input '" + input.name +
             "' is not fixed; give the whole shape: input_shape=" + input.name + ":...");
    }
  }
  return dims;
}

void Converter::add_inputs(GraphBuilder& graph) {
  for (const auto& [name, dims] : options_.input_shape) {
    const bool known = std::any_of(file_.inputs.begin(), file_.inputs.end(),
                                   [&](const auto& input) { return input.name == name; });
    if (known) continue;
    std::string names;
    for (const onnx::GraphInput& input : file_.inputs) names += " '" + input.name + "'";
    refuse("input_shape names '" + name + "', the inputs of the model are:" + names);
  }
  for (const onnx::GraphInput& input : file_.inputs) {
    if (ops::dtype_size(static_cast<aclDataType>(input.dtype)) == 0) {
      refuse("input '" + input.name + "' is no tensor of a type that can be converted");
    }
    const TensorType type{static_cast<aclDataType>(input.dtype), to_shape(fixed_dims(input))};
    static_cast<void>(type.shape.elements());
    define(input.name, graph.add_data(input.name, type));
  }
}

void Converter::define(const std::string& name, GraphValue value) {
  if (!values_.emplace(name, std::move(value)).second) {
    refuse("tensor '" + name + "' is made twice in the model");
  }
}

void Converter::convert(GraphBuilder& graph, const onnx::Node& node, size_t position) {
  const std::string name =
      node.name.empty() ? node.op_type + "_" + std::to_string(position) : node.name;
  NodeCall call{graph, node, opset_, name, {}};
  for (const std::string& input : node.inputs) {
    if (input.empty()) {
      call.inputs.emplace_back(std::nullopt);
      continue;
    }
    const auto found = values_.find(input);
    if (found == values_.end()) {
      refuse(label(node, opset_) + ": input '" + input + "' is made by no earlier node");
    }
    call.inputs.emplace_back(found->second);
  }
  std::vector<GraphValue> results;
  try {
    results = find_node_rule(node.op_type)->convert(call);
  } catch (const base::Error& error) {
    refuse(label(node, opset_) + ": " + error.text);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= results.size()) {
      refuse(label(node, opset_) + ": output " + std::to_string(i) + " cannot be converted");
    }
    define(node.outputs[i], results[i]);
  }
}

// Output names have the form of the real compiler: "op:index:tensor".
void Converter::add_outputs(GraphBuilder& graph) {
  std::vector<GraphValue> outputs;
  for (const std::string& name : file_.outputs) {
    const auto found = values_.find(name);
    if (found == values_.end()) refuse("output '" + name + "' is made by no node of the model");
    outputs.push_back(found->second);
  }
  if (outputs.empty()) refuse("the model has no output");
  graph.add_outputs(outputs);
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    names.push_back(model_.graphs[0].outputs[i] + ":" + file_.outputs[i]);
  }
  model_.attrs.set("attr_model_out_nodes_name", std::move(names));
}

// Writes the memory plan into the graph and its size into the launch information.
void Converter::record_plan() {
  const Program program = Program::compile(model_);
  if (!program.missing().empty()) refuse("the converted model cannot run: " + program.missing()[0]);
  std::unordered_map<std::string_view, const Step*> steps;
  for (const Step& step : program.steps()) steps.emplace(step.name, &step);
  for (Op& op : model_.graphs[0].ops) {
    const auto found = steps.find(op.name);
    if (found == steps.end()) continue;
    const Step& step = *found->second;
    for (const Value& value : step.outputs) op.output_offsets.push_back(value.place.offset);
    for (const Value& value : step.inputs) {
      if (value.place.home != Place::Home::kNone) op.input_offsets.push_back(value.place.offset);
    }
    if (step.kernel.scratch_bytes > 0) {
      op.workspace_offsets.push_back(step.scratch_offset);
      op.workspace_bytes.push_back(step.kernel.scratch_bytes);
    }
  }
  model_.task_info.memory_size = static_cast<uint64_t>(program.work_bytes());
  complete(model_);  // repeats the size in the attributes
}

// --- options ---

[[noreturn]] void bad_option(const std::string& text) { fail_model(kAclInvalidParam, text); }

Dims parse_dims(std::string_view entry, std::string_view text) {
  Dims dims;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || stop != part.data() + part.size() || value < 1) {
      bad_option("input_shape: '" + std::string(entry) + "' is not of the form name:1,3,224,224");
    }
    dims.push_back(value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return dims;
}

// "a:1,3,48,192;b:1,4". Names may hold colons, shapes may not.
void parse_input_shape(std::string_view text, ConvertOptions& options) {
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string_view entry = text.substr(0, end);
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
      bad_option("input_shape: '" + std::string(entry) + "' is not of the form name:1,3,224,224");
    }
    options.input_shape[std::string(entry.substr(0, colon))] =
        parse_dims(entry, entry.substr(colon + 1));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

// A chip or a family of chips that exists: a model for any other could be loaded nowhere.
void check_soc(std::string_view name) {
  for (const gen::Soc& soc : gen::kSocs) {
    if (name == soc.name || name == soc.short_name) return;
  }
  bad_option("soc_version: no chip is called '" + std::string(name) +
             "'; names are like Ascend910B1 or Ascend310P3");
}

Bytes read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  Bytes bytes(size > 0 ? static_cast<size_t>(size) : 0);
  if (size >= 0) {
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), size);
  }
  if (!file) {
    const char* reason = errno != 0 ? std::strerror(errno) : "not a readable file";
    fail_model(kGePathInvalid, "ONNX file '" + path + "' cannot be read: " + reason);
  }
  return bytes;
}

}  // namespace

ConvertOptions parse_convert_options(std::string_view text) {
  ConvertOptions options;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t equals = line.find('=');
    if (!line.empty()) {
      const std::string_view key = line.substr(0, equals);
      const std::string_view value =
          equals == std::string_view::npos ? std::string_view{} : line.substr(equals + 1);
      if (key == "soc_version") {
        check_soc(value);
        options.soc_version = value;
      } else if (key == "input_shape") {
        parse_input_shape(value, options);
      } else if (key == "command_line") {
        options.command_line = value;
      } else {
        bad_option("option '" + std::string(key) +
                   "' is not known; known are soc_version, input_shape and command_line");
      }
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return options;
}

Model convert_onnx(std::span<const uint8_t> onnx_bytes, const ConvertOptions& options) {
  const onnx::File file = onnx::read(onnx_bytes);
  try {
    return Converter(file, options).run();
  } catch (const base::Error& error) {
    if (error.code == kGeParamInvalid) throw;
    refuse(error.text);  // a refusal of a kernel or of the planner
  }
}

Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options) {
  const Bytes bytes = read_file(origin);
  try {
    Model model = convert_onnx(bytes, options);
    write_om(model, target);
    return model;
  } catch (const base::Error& error) {
    if (error.code != kGeParamInvalid) throw;
    fail_model(error.code, "'" + origin + "': " + error.text);
  }
}

// --- rules ---

const NodeRule* find_node_rule(std::string_view op_type) {
  static const auto* map = [] {
    auto* built = new std::unordered_map<std::string_view, const NodeRule*>;
    for (const auto part : {compute_rules(), elementwise_rules(), shape_rules()}) {
      for (const NodeRule& rule : part) built->emplace(rule.op_type, &rule);
    }
    return built;
  }();
  const auto found = map->find(op_type);
  return found == map->end() ? nullptr : found->second;
}

const GraphValue& NodeCall::in(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs[i];
}

void NodeCall::fail(std::string_view what) const {
  fail_model(kGeParamInvalid, std::string(what) + " cannot be converted");
}

std::optional<std::vector<int64_t>> NodeCall::list(std::string_view attribute, size_t i) const {
  if (has(i)) return in(i).ints();
  const onnx::Attribute* a = node.find(attribute);
  if (a == nullptr || a->kind != onnx::Attribute::Kind::kInts) return std::nullopt;
  return a->ints;
}

AttrMap attributes(std::initializer_list<Attr> items) {
  AttrMap map;
  for (const Attr& item : items) map.append(item.name, item.value);
  return map;
}

}  // namespace ascendrt::model
