// Owns: the walk over the nodes, inputs and outputs of the model, the report of what cannot be
// converted. Must never: write before everything is converted.
#include "model/convert.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "base/log.hpp"
#include "model/convert_io.hpp"
#include "model/convert_node.hpp"
#include "model/convert_shapes.hpp"
#include "model/fuse.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/program.hpp"

namespace ascendrt::model {
namespace {

// Opsets whose operators the rules know.
constexpr int64_t kOldestOpset = 7;
constexpr int64_t kNewestOpset = 28;

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

// What all graphs of one conversion share.
struct Session {
  const onnx::File& file;
  const ConvertOptions& options;
  TensorDescs* tensors;  // of the root graph; null: nobody asks
  int64_t opset = 0;
  std::deque<Graph> subgraphs;
  struct Unsupported {
    std::string line;
    bool contradiction;  // of shapes: an operator that is known refuses its inputs
  };
  std::vector<Unsupported> unsupported;  // one per node

  int64_t opset_of(const onnx::Node& node) const {
    const auto found = file.opsets.find(node.domain == "ai.onnx" ? "" : node.domain);
    return found == file.opsets.end() ? opset : found->second;
  }
};

std::string label(const onnx::Node& node, int64_t opset) {
  using base::printable;  // a line end in a name would begin a line of its own
  const std::string domain =
      node.domain.empty() ? "" : " of domain '" + printable(node.domain) + "'";
  const std::string name = !node.name.empty() ? "'" + printable(node.name) + "'"
                           : !node.outputs.empty()
                               ? "that makes '" + printable(node.outputs[0]) + "'"
                               : "without a name";
  return "op type " + printable(node.op_type) + domain + ", node " + name + ", opset " +
         std::to_string(opset);
}

// One graph of the file: the root, or a body that reads tensors of the graphs around it.
class GraphConverter final : public SubgraphConverter {
 public:
  GraphConverter(Session& session, const onnx::Graph& source, Graph& target, GraphConverter* outer)
      : session_(session),
        source_(source),
        graph_(target, outer ? outer->graph_.budget() : GraphBuilder::new_budget()),
        outer_(outer),
        depth_(outer ? outer->depth_ + 1 : 0) {
    target.name = source.name.empty() ? "graph" : source.name;
    for (const auto* list : {&source.declared, &source.outputs}) {
      for (const onnx::GraphInput& value : *list) declared_[value.name] = &value;
    }
  }

  GraphBuilder& builder() { return graph_; }
  void add_initializers();
  void convert_nodes();
  // False when an output depends on a node that cannot be converted.
  bool add_outputs(std::vector<TensorType>& types);
  void define(const std::string& name, GraphValue value);
  Body convert_body(const NodeCall& call, const onnx::Graph& body,
                    const std::vector<TensorType>& inputs, std::vector<std::string>& captured,
                    size_t first_operand) override;
  Body convert_branch(const NodeCall& call, const onnx::Graph& body,
                      std::vector<std::string>& captured) override;
  Body refusing_body(const NodeCall& call, const std::string& text,
                     const std::vector<TensorType>& outputs) override;
  GraphValue outer_value(const std::string& name) override { return *find(name); }
  std::vector<GraphValue> inline_body(const NodeCall& call, const onnx::Graph& body,
                                      const std::vector<GraphValue>& inputs) override;

 private:
  void convert(const onnx::Node& node, size_t position);
  std::vector<GraphValue> convert_checked(const onnx::Node& node, size_t position);
  const GraphValue* find(const std::string& name);
  void declare(GraphValue& value, const std::string& name);

  Session& session_;
  const onnx::Graph& source_;
  GraphBuilder graph_;
  GraphConverter* outer_;
  int depth_;  // of bodies in bodies
  std::unordered_map<std::string, const onnx::GraphInput*> declared_;
  std::unordered_map<std::string, GraphValue> values_;
  std::set<std::string> spoiled_;                 // made by nodes that cannot be converted
  std::vector<std::string>* captured_ = nullptr;  // names of outer tensors this body reads
  size_t first_captured_ = 0;                     // operand number of the first one
};

void GraphConverter::define(const std::string& name, GraphValue value) {
  if (outer_ == nullptr && session_.tensors != nullptr) {
    (*session_.tensors)[name] = describe(value.type);
  }
  if (!values_.emplace(name, std::move(value)).second) {
    refuse("tensor '" + name + "' is made twice in the model");
  }
}

void GraphConverter::add_initializers() {
  for (const onnx::TensorData& tensor : source_.initializers) {
    const TensorType type{static_cast<aclDataType>(tensor.dtype), to_shape(tensor.dims)};
    define(tensor.name, graph_.constant(tensor.name, type, tensor.bytes));
  }
}

// Outer constants are repeated in the body, other outer tensors become inputs of the body.
const GraphValue* GraphConverter::find(const std::string& name) {
  const auto found = values_.find(name);
  if (found != values_.end()) return &found->second;
  if (outer_ == nullptr || spoiled_.contains(name)) return nullptr;
  const GraphValue* value = outer_->find(name);
  if (value == nullptr) {
    if (outer_->spoiled_.contains(name)) spoiled_.insert(name);
    return nullptr;
  }
  if (value->is_constant()) return &values_.emplace(name, *value).first->second;
  const auto& list = *captured_;
  const auto at = static_cast<size_t>(std::find(list.begin(), list.end(), name) - list.begin());
  if (at == list.size()) captured_->push_back(name);
  GraphValue inner = graph_.add_data(name, value->type, static_cast<int64_t>(first_captured_ + at));
  return &values_.emplace(name, std::move(inner)).first->second;
}

// The shape that the file declares for a tensor whose shape could not be inferred.
void GraphConverter::declare(GraphValue& value, const std::string& name) {
  const auto found = declared_.find(name);
  if (!value.type.shape.is_open() || found == declared_.end() || !found->second->has_shape) return;
  const Dims& dims = found->second->dims;
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) return;
  graph_.declare(value, to_shape(dims));
}

std::vector<GraphValue> GraphConverter::convert_checked(const onnx::Node& node, size_t position) {
  const std::string name =
      node.name.empty() ? node.op_type + "_" + std::to_string(position) : node.name;
  const NodeRule* rule = find_node_rule(node.domain, node.op_type);
  if (rule == nullptr) fail_model(kGeParamInvalid, "no such operator is implemented");
  NodeCall call{graph_, node, session_.opset_of(node), name, {}, *this};
  for (const std::string& input : node.inputs) {
    if (input.empty()) {
      call.inputs.emplace_back(std::nullopt);
      continue;
    }
    const GraphValue* value = find(input);
    if (value == nullptr) {
      fail_model(kGeParamInvalid, "input '" + input + "' is made by no earlier node");
    }
    call.inputs.emplace_back(*value);
  }
  std::vector<GraphValue> results = rule->convert(call);
  for (size_t i = results.size(); i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) {
      fail_model(kGeParamInvalid, "output " + std::to_string(i) + " cannot be converted");
    }
  }
  return results;
}

void GraphConverter::convert(const onnx::Node& node, size_t position) {
  const auto spoil = [&] { spoiled_.insert(node.outputs.begin(), node.outputs.end()); };
  const bool reads_spoiled =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
        return !input.empty() && find(input) == nullptr && spoiled_.contains(input);
      });
  if (reads_spoiled && find_node_rule(node.domain, node.op_type) != nullptr) return spoil();
  try {
    std::vector<GraphValue> results = convert_checked(node, position);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      declare(results[i], node.outputs[i]);
      define(node.outputs[i], results[i]);
    }
  } catch (const Spoiled&) {
    spoil();
  } catch (const base::Error& error) {
    session_.unsupported.push_back({label(node, session_.opset_of(node)) + ": " + error.text,
                                    error.code == ACL_ERROR_GE_FAILURE});
    spoil();
  }
}

void GraphConverter::convert_nodes() {
  for (size_t i = 0; i < source_.nodes.size(); ++i) convert(source_.nodes[i], i);
}

bool GraphConverter::add_outputs(std::vector<TensorType>& types) {
  std::vector<GraphValue> outputs;
  for (const onnx::GraphInput& output : source_.outputs) {
    const GraphValue* value = find(output.name);
    if (value == nullptr) {
      if (!spoiled_.contains(output.name)) {
        refuse("output '" + output.name + "' is made by no node of the model");
      }
      return false;
    }
    outputs.push_back(*value);
    types.push_back(value->type);
  }
  graph_.add_outputs(outputs);
  return true;
}

Body GraphConverter::convert_body(const NodeCall& call, const onnx::Graph& body,
                                  const std::vector<TensorType>& inputs,
                                  std::vector<std::string>& captured, size_t first_operand) {
  // A body may be converted twice, so that the work doubles with each level.
  constexpr int kDeepest = 12;
  if (depth_ == kDeepest) call.fail("a body inside of " + std::to_string(kDeepest) + " others");
  Graph& target = session_.subgraphs.emplace_back();
  GraphConverter inner(session_, body, target, this);
  inner.captured_ = &captured;
  inner.first_captured_ = first_operand;
  target.name = call.name + "_" + target.name + "_" + std::to_string(session_.subgraphs.size());
  const std::string name = target.name;
  if (body.inputs.size() != inputs.size()) call.fail("a body with another number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    inner.define(body.inputs[i].name,
                 inner.builder().add_data(body.inputs[i].name, inputs[i], static_cast<int64_t>(i)));
  }
  inner.add_initializers();
  inner.convert_nodes();
  Body result{name, {}, ""};
  if (!inner.add_outputs(result.outputs)) throw Spoiled{};
  return result;
}

// Exporters write branches for shapes that a model with fixed ones never has.
Body GraphConverter::convert_branch(const NodeCall& call, const onnx::Graph& body,
                                    std::vector<std::string>& captured) {
  auto& list = session_.unsupported;
  const size_t listed = list.size();
  const size_t graphs = session_.subgraphs.size();
  const std::vector<std::string> captured_before = captured;
  try {
    return convert_body(call, body, {}, captured, 1);
  } catch (const Spoiled&) {
    const auto first = list.begin() + static_cast<std::ptrdiff_t>(listed);
    const auto told = [](const Session::Unsupported& entry) { return entry.contradiction; };
    if (first == list.end() || !std::all_of(first, list.end(), told)) throw;
    Body refused{"", {}, first->line};
    list.erase(first, list.end());
    while (session_.subgraphs.size() > graphs) session_.subgraphs.pop_back();
    captured = captured_before;
    return refused;
  }
}

Body GraphConverter::refusing_body(const NodeCall& call, const std::string& text,
                                   const std::vector<TensorType>& outputs) {
  base::warn_once(call.name, "a branch of '" + call.name + "' can never run: " + text);
  Graph& target = session_.subgraphs.emplace_back();
  target.name = call.name + "_refused_" + std::to_string(session_.subgraphs.size());
  GraphBuilder builder(target);
  builder.add_outputs(
      builder.add_control("Refusal", call.name, {}, attributes({{"text", text}}), {}, outputs));
  return {target.name, outputs, ""};
}

// The nodes of the body become nodes of this graph.
std::vector<GraphValue> GraphConverter::inline_body(const NodeCall& call, const onnx::Graph& body,
                                                    const std::vector<GraphValue>& inputs) {
  if (body.inputs.size() != inputs.size()) call.fail("a body with another number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    values_.insert_or_assign(body.inputs[i].name, inputs[i]);
  }
  for (const onnx::TensorData& tensor : body.initializers) {
    const TensorType type{static_cast<aclDataType>(tensor.dtype), to_shape(tensor.dims)};
    values_.insert_or_assign(tensor.name, graph_.constant(tensor.name, type, tensor.bytes));
  }
  for (size_t i = 0; i < body.nodes.size(); ++i) convert(body.nodes[i], i);
  std::vector<GraphValue> results;
  for (const onnx::GraphInput& output : body.outputs) {
    const GraphValue* value = find(output.name);
    if (value == nullptr) throw Spoiled{};
    results.push_back(*value);
  }
  return results;
}

class Converter {
 public:
  Converter(const onnx::File& file, const ConvertOptions& options, TensorDescs* tensors)
      : session_{file, options, tensors, 0, {}, {}} {
    model_.graphs.emplace_back();
    model_.soc_version = options.soc_version;
    if (!options.command_line.empty()) model_.attrs.set("atc_cmdline", options.command_line);
  }

  Model run(Purpose purpose) {
    find_opset();
    GraphConverter root(session_, session_.file.graph, model_.graphs[0], nullptr);
    model_.name = model_.graphs[0].name;
    add_inputs(root);
    root.add_initializers();
    root.convert_nodes();
    report_unsupported();
    add_outputs(root);
    for (Graph& graph : session_.subgraphs) remove_dead_ops(graph);
    remove_dead_ops(model_.graphs[0]);
    fuse_quantized(model_.graphs[0], session_.options.fuses);
    for (Graph& graph : session_.subgraphs) fuse_quantized(graph, false);
    apply_precision(model_.graphs[0], session_.options.precision);
    if (session_.options.fuses) fuse(model_.graphs[0]);
    for (Graph& graph : session_.subgraphs) model_.graphs.push_back(std::move(graph));
    complete(model_);
    if (purpose == Purpose::kFile) record_plan(model_);
    return std::move(model_);
  }

 private:
  void find_opset();
  void report_unsupported() const;
  void add_inputs(GraphConverter& root);
  void add_outputs(GraphConverter& root);

  Session session_;
  Model model_;
};

void Converter::find_opset() {
  const auto found = session_.file.opsets.find("");
  if (session_.file.opsets.empty()) refuse("the model does not say which ONNX opset it uses");
  // Models that use other domains only need no version of the standard one.
  session_.opset = found == session_.file.opsets.end() ? kNewestOpset : found->second;
  if (session_.opset < kOldestOpset || session_.opset > kNewestOpset) {
    refuse("the model uses ONNX opset " + std::to_string(session_.opset) + ", opsets " +
           std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset) +
           " can be converted; use onnx.version_converter");
  }
}

// All unsupported nodes at once, so that one look tells how far away a model is.
void Converter::report_unsupported() const {
  const auto& lines = session_.unsupported;
  if (lines.empty()) return;
  std::string list;
  for (const Session::Unsupported& entry : lines) list += "\n  " + entry.line;
  const bool shapes_only = std::all_of(lines.begin(), lines.end(),
                                       [](const auto& entry) { return entry.contradiction; });
  fail_model(shapes_only ? kGeFailure : kGeParamInvalid,
             std::to_string(lines.size()) + (lines.size() == 1 ? " node" : " nodes") +
                 " of the model cannot be converted:" + list);
}

void Converter::add_inputs(GraphConverter& root) {
  const auto& inputs = session_.file.graph.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    root.define(inputs[i].name, add_input(root.builder(), inputs[i], i, session_.options));
  }
  number_inputs(model_.graphs[0]);
}

// Output names have the form of the real compiler: "op:index:tensor".
void Converter::add_outputs(GraphConverter& root) {
  if (session_.file.graph.outputs.empty()) refuse("the model has no output");
  std::vector<TensorType> types;
  if (!root.add_outputs(types)) refuse("an output of the model cannot be made");
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(model_.graphs[0].outputs[i] + ":" + session_.file.graph.outputs[i].name);
  }
  model_.attrs.set("attr_model_out_nodes_name", std::move(names));
  apply_edge_types(model_.graphs[0], session_.options);
  apply_input_format(model_.graphs[0], session_.options.input_format);
}

}  // namespace

void record_plan(Model& model) {
  const Program program = Program::compile(model);
  if (!program.missing().empty()) refuse("the converted model cannot run: " + program.missing()[0]);
  std::unordered_map<std::string_view, const Step*> steps;
  for (const Step& step : program.steps()) steps.emplace(step.name, &step);
  for (Op& op : model.graphs[0].ops) {
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
  model.task_info.memory_size = static_cast<uint64_t>(program.work_bytes());
  complete(model);  // repeats the size in the attributes
}

Model convert_fixed(const onnx::File& file, const ConvertOptions& options, Purpose purpose,
                    TensorDescs* tensors) {
  return Converter(file, options, tensors).run(purpose);
}

Model convert_onnx(std::span<const uint8_t> onnx_bytes, const ConvertOptions& options) {
  onnx::File file = onnx::read(onnx_bytes, options.folder);
  try {
    check_names(file.graph, options);
    select_outputs(file.graph, options);
    if (options.gears.kind != GearKind::kNone) return convert_gears(file, options);
    return has_open_dims(file, options) ? convert_dynamic(file, options)
                                        : convert_fixed(file, options);
  } catch (const base::Error& error) {
    if (error.code == kGeParamInvalid) throw;
    refuse(error.text);  // a refusal of a kernel or of the planner
  }
}

// --- rules ---

namespace {

using RuleMap = std::unordered_map<std::string_view, const NodeRule*>;

RuleMap* new_rules(std::initializer_list<std::span<const NodeRule>> parts) {
  auto* built = new RuleMap;
  for (const auto part : parts) {
    for (const NodeRule& rule : part) built->emplace(rule.op_type, &rule);
  }
  return built;
}

}  // namespace

const NodeRule* find_node_rule(std::string_view domain, std::string_view op_type) {
  static const auto* standard =
      new_rules({compute_rules(), elementwise_rules(), shape_rules(), window_rules(), plain_rules(),
                 composite_rules(), control_rules(), quantized_rules()});
  static const auto* microsoft = new_rules({microsoft_rules()});
  constexpr std::string_view kDomains[] = {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview"};
  const bool known =
      std::find(std::begin(kDomains), std::end(kDomains), domain) != std::end(kDomains);
  if (!known && domain != "com.microsoft") return nullptr;
  const RuleMap& rules = known ? *standard : *microsoft;
  const auto found = rules.find(op_type);
  return found == rules.end() ? nullptr : found->second;
}

const GraphValue& NodeCall::in(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs[i];
}

const ops::Shape& NodeCall::shape(size_t i) const {
  if (open(i)) fail("input " + std::to_string(i) + ", whose shape is not known before a run,");
  return in(i).type.shape;
}

std::optional<GraphValue> NodeCall::list_value(std::string_view attribute, size_t i) const {
  if (has(i)) return in(i);
  const auto values = list(attribute, i);
  if (!values) return std::nullopt;
  return graph.int_list(name + "_" + std::string(attribute), *values);
}

void NodeCall::fail(std::string_view what) const {
  fail_model(kGeParamInvalid, std::string(what) + " cannot be converted");
}

std::optional<std::vector<int64_t>> NodeCall::list(std::string_view attribute, size_t i) const {
  if (has(i)) return in(i).ints();
  if (!node.has(attribute)) return std::nullopt;
  return node.ints_or(attribute, {});
}

AttrMap node_attributes(const onnx::Node& node) {
  using Kind = onnx::Attribute::Kind;
  AttrMap map;
  for (const onnx::Attribute& a : node.attributes) {
    if (a.kind == Kind::kFloat) map.set(a.name, a.f);
    if (a.kind == Kind::kInt) map.set(a.name, a.i);
    if (a.kind == Kind::kString) map.set(a.name, a.s);
    if (a.kind == Kind::kFloats) map.set(a.name, a.floats);
    if (a.kind == Kind::kInts) map.set(a.name, a.ints);
    if (a.kind == Kind::kStrings) map.set(a.name, a.strings);
  }
  return map;
}

AttrMap attributes(std::initializer_list<Attr> items) {
  AttrMap map;
  for (const Attr& item : items) map.append(item.name, item.value);
  return map;
}

}  // namespace ascendrt::model
