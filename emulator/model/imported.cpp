// Owns: both directions of the encoding. Must never: know rules of operators.
#include "model/imported.hpp"

#include <deque>
#include <set>
#include <utility>

#include "model/om_container.hpp"

namespace ascendrt::model {
namespace {

constexpr std::string_view kDomains = "_onnx_domains";  // of the model, with kOpsets
constexpr std::string_view kOpsets = "_onnx_opsets";
constexpr std::string_view kInputs = "_onnx_inputs";  // of an op: names of tensors
constexpr std::string_view kOutputs = "_onnx_outputs";
constexpr std::string_view kDomain = "_onnx_domain";
constexpr std::string_view kBodies = "_onnx_bodies";      // attributes whose graphs are `subgraphs`
constexpr std::string_view kType = "_onnx_type";          // of an input, before the options
constexpr std::string_view kDeclared = "_onnx_declared";  // of a desc: dims that the file declares
constexpr int kDeepest = 12;

[[noreturn]] void refuse(const std::string& text) {
  fail_model(kGeParamInvalid, "imported network: " + text);
}

// --- to graphs ---

TensorDesc desc_of(const onnx::TensorData& tensor) {
  TensorDesc desc;
  desc.dtype = tensor.dtype;
  desc.dims = tensor.dims;
  desc.format = kNd;
  return desc;
}

AttrValue value_of(const onnx::Attribute& a) {
  using Kind = onnx::Attribute::Kind;
  switch (a.kind) {
    case Kind::kFloat:
      return a.f;
    case Kind::kInt:
      return a.i;
    case Kind::kString:
      return a.s;
    case Kind::kTensor:
      return Box(Tensor{desc_of(*a.tensor), a.tensor->bytes});
    case Kind::kFloats:
      return a.floats;
    case Kind::kInts:
      return a.ints;
    case Kind::kStrings:
      return a.strings;
    default:
      return {};
  }
}

bool is_fixed(const onnx::GraphInput& value) {
  bool fixed = value.has_shape;
  for (const int64_t dim : value.dims) fixed = fixed && dim >= 0;
  return fixed;
}

class Encoder {
 public:
  explicit Encoder(const TensorDescs& known) : known_(known) {}

  std::string add(const onnx::Graph& source, const std::string& name);
  std::deque<Graph> take() { return std::move(graphs_); }

 private:
  struct Part;

  const TensorDescs& known_;
  std::deque<Graph> graphs_;
};

// One graph.
struct Encoder::Part {
  Encoder& all;
  const onnx::Graph& source;
  Graph& graph;
  bool is_root;
  std::set<std::string, std::less<>> names;                 // of ops
  std::map<std::string, std::string, std::less<>> refs;     // tensor -> "op:index"
  std::map<std::string, Dims, std::less<>> declared_shape;  // tensor -> dims

  void fill() {
    for (const auto* list : {&source.declared, &source.outputs}) {
      for (const onnx::GraphInput& value : *list) {
        if (is_fixed(value)) declared_shape.emplace(value.name, value.dims);
      }
    }
    for (const onnx::GraphInput& input : source.inputs) add_input(input);
    for (const onnx::TensorData& tensor : source.initializers) add_constant(tensor.name, tensor);
    for (const onnx::Node& node : source.nodes) add_node(node);
    add_outputs();
  }

  std::string unique(const std::string& wanted) {
    std::string name = wanted.empty() ? "unnamed" : wanted;
    for (int i = 1; !names.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  TensorDesc desc(const std::string& tensor) const {
    const auto found = all.known_.find(tensor);
    TensorDesc made;
    if (is_root && found != all.known_.end()) {
      made = found->second;
    } else {
      made.dims = kNoRank;
      made.format = kNd;
    }
    const auto declared = declared_shape.find(tensor);
    if (declared != declared_shape.end()) made.attrs.set(kDeclared, declared->second);
    return made;
  }

  void put(Op op, const std::vector<std::string>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].empty()) continue;
      if (!refs.emplace(tensors[i], op.name + ":" + std::to_string(i)).second) {
        refuse("tensor '" + tensors[i] + "' is made twice");
      }
    }
    op.attrs.set(kOutputs, tensors);
    graph.ops.push_back(std::move(op));
  }

  void add_input(const onnx::GraphInput& input) {
    Op op;
    op.type = "Data";
    op.name = unique(input.name);
    op.input_descs = op.output_descs = {desc(input.name)};
    op.attrs.set(kType, int64_t{input.dtype});
    put(std::move(op), {input.name});
  }

  void add_constant(const std::string& name, const onnx::TensorData& tensor) {
    Op op;
    op.type = "Const";
    op.name = unique(name);
    op.output_descs = {desc_of(tensor)};
    op.attrs.set("value", Box(Tensor{desc_of(tensor), tensor.bytes}));
    put(std::move(op), {name});
  }

  void add_node(const onnx::Node& node) {
    const onnx::Attribute* value = node.find("value");
    const bool constant = node.op_type == "Constant" && node.domain.empty() && value != nullptr &&
                          value->tensor && node.outputs.size() == 1;
    if (constant) return add_constant(node.outputs[0], *value->tensor);
    Op op;
    op.type = node.op_type;
    op.name = unique(node.name.empty() ? node.op_type : node.name);
    for (const std::string& input : node.inputs) {
      const auto found = refs.find(input);
      op.inputs.push_back(found == refs.end() ? "" : found->second);  // of a graph around this one
      op.input_descs.push_back(input.empty() ? TensorDesc{} : desc(input));
    }
    for (const std::string& output : node.outputs) op.output_descs.push_back(desc(output));
    std::vector<std::string> bodies;
    for (const onnx::Attribute& a : node.attributes) {
      if (a.name.starts_with('_')) continue;  // an exporter's remark
      if (a.graph) {
        op.subgraphs.push_back(
            all.add(*a.graph, op.name + "_" + a.name + "_" + std::to_string(all.graphs_.size())));
        bodies.push_back(a.name);
      } else if (a.kind != onnx::Attribute::Kind::kOther) {
        op.attrs.set(a.name, value_of(a));
      }
    }
    if (!bodies.empty()) op.attrs.set(kBodies, std::move(bodies));
    if (!node.domain.empty()) op.attrs.set(kDomain, node.domain);
    op.attrs.set(kInputs, node.inputs);
    put(std::move(op), node.outputs);
  }

  void add_outputs() {
    Op op;
    op.type = "NetOutput";
    op.name = unique("Node_Output");
    std::vector<std::string> tensors;
    for (const onnx::GraphInput& output : source.outputs) {
      const auto found = refs.find(output.name);
      if (found == refs.end() && is_root) {
        refuse("output '" + output.name + "' is made by no node of the model");
      }
      op.inputs.push_back(found == refs.end() ? "" : found->second);
      op.input_descs.push_back(desc(output.name));
      if (found != refs.end()) graph.outputs.push_back(found->second);
      tensors.push_back(output.name);
    }
    op.attrs.set(kInputs, std::move(tensors));
    graph.ops.push_back(std::move(op));
  }
};

std::string Encoder::add(const onnx::Graph& source, const std::string& name) {
  const bool root = graphs_.empty();
  Graph& graph = graphs_.emplace_back();
  graph.name = name;
  Part{*this, source, graph, root, {}, {}, {}}.fill();
  return name;
}

// --- and back ---

onnx::TensorData tensor_of(const std::string& name, const TensorDesc& desc,
                           std::span<const uint8_t> bytes) {
  onnx::TensorData tensor{name, desc.dtype, desc.dims, Bytes(bytes.begin(), bytes.end()), {}};
  const auto size = byte_size(desc.dims, desc.dtype);
  if (!size || static_cast<uint64_t>(*size) != bytes.size()) {
    refuse("constant '" + name + "' holds " + std::to_string(bytes.size()) +
           " bytes, its shape and type need another number");
  }
  return tensor;
}

// False for values that no attribute of a node has.
bool read_value(const AttrValue& value, onnx::Attribute& a) {
  using Kind = onnx::Attribute::Kind;
  if (const auto* f = value.as<float>()) return a.f = *f, a.kind = Kind::kFloat, true;
  if (const auto* i = value.as<int64_t>()) return a.i = *i, a.kind = Kind::kInt, true;
  if (const auto* s = value.as<std::string>()) return a.s = *s, a.kind = Kind::kString, true;
  if (const auto* list = value.as<std::vector<float>>()) {
    return a.floats = *list, a.kind = Kind::kFloats, true;
  }
  if (const auto* list = value.as<std::vector<int64_t>>()) {
    return a.ints = *list, a.kind = Kind::kInts, true;
  }
  if (const auto* list = value.as<std::vector<std::string>>()) {
    return a.strings = *list, a.kind = Kind::kStrings, true;
  }
  if (const auto* tensor = value.as<Box<Tensor>>()) {
    a.tensor = tensor_of(a.name, (*tensor)->desc, (*tensor)->data);
    return a.kind = Kind::kTensor, true;
  }
  if (const auto* empty = value.as<EmptyList>()) {  // by val_type: 1 strings, 2 ints, 3 floats
    constexpr Kind kKinds[] = {Kind::kInts, Kind::kStrings, Kind::kInts, Kind::kFloats};
    return a.kind = kKinds[empty->val_type >= 0 && empty->val_type < 4 ? empty->val_type : 0], true;
  }
  return false;
}

std::vector<std::string> names_of(const Op& op, std::string_view attr) {
  const auto* names = op.attrs.get_strings(attr);
  return names == nullptr ? std::vector<std::string>{} : *names;
}

class Decoder {
 public:
  Decoder(const Model& model, std::span<const uint8_t> weights)
      : model_(model), weights_(weights) {}

  onnx::Graph graph(const Graph& source, int depth) {
    if (depth > kDeepest) refuse("bodies are nested too deeply");
    if (!used_.insert(source.name).second) {
      refuse("graph '" + source.name + "' is the body of several ops");
    }
    onnx::Graph made;
    made.name = source.name;
    for (const Op& op : source.ops) {
      if (op.type == "Data") {
        made.inputs.push_back(input(op));
      } else if (op.type == "Const") {
        made.initializers.push_back(constant(op));
      } else if (op.type == "NetOutput") {
        declare(names_of(op, kInputs), op.input_descs, made.outputs, true);
      } else {
        made.nodes.push_back(node(op, depth));
        declare(made.nodes.back().outputs, op.output_descs, made.declared, false);
      }
    }
    return made;
  }

 private:
  static std::string only_name(const Op& op) {
    const auto names = names_of(op, kOutputs);
    if (names.size() != 1) refuse("op '" + op.name + "' does not say which tensor it is");
    return names[0];
  }

  static onnx::GraphInput input(const Op& op) {
    onnx::GraphInput made;
    made.name = only_name(op);
    made.dtype = static_cast<int32_t>(op.attrs.int_or(kType, kUndefined));
    made.has_shape = !op.output_descs.empty() && op.output_descs[0].dims != kNoRank;
    if (made.has_shape) made.dims = op.output_descs[0].dims;
    return made;
  }

  onnx::TensorData constant(const Op& op) const {
    if (op.output_descs.size() != 1) refuse("constant '" + op.name + "' is not described");
    return tensor_of(only_name(op), op.output_descs[0], model_.constant_data(op, weights_));
  }

  // The tensors of which the file declares a fixed shape; all of them when `every`.
  static void declare(const std::vector<std::string>& names, const std::vector<TensorDesc>& descs,
                      std::vector<onnx::GraphInput>& list, bool every) {
    for (size_t i = 0; i < names.size(); ++i) {
      const auto* dims = i < descs.size() ? descs[i].attrs.get_ints(kDeclared) : nullptr;
      // A scalar's list is empty, which a file cannot tell from none.
      if (dims == nullptr && !every) continue;
      onnx::GraphInput value;
      value.name = names[i];
      value.has_shape = dims != nullptr;
      if (dims != nullptr) value.dims = *dims;
      list.push_back(std::move(value));
    }
  }

  onnx::Node node(const Op& op, int depth) {
    onnx::Node made;
    made.name = op.name;
    made.op_type = op.type;
    made.domain = op.attrs.string_or(kDomain, "");
    made.inputs = names_of(op, kInputs);
    made.outputs = names_of(op, kOutputs);
    for (const Attr& attr : op.attrs.items()) {
      onnx::Attribute a;
      a.name = attr.name;
      if (!attr.name.starts_with('_') && read_value(attr.value, a)) {
        made.attributes.push_back(std::move(a));
      }
    }
    const auto bodies = names_of(op, kBodies);
    if (bodies.size() != op.subgraphs.size()) refuse("op '" + op.name + "' lacks a body");
    for (size_t i = 0; i < bodies.size(); ++i) {
      const Graph* body = model_.find_graph(op.subgraphs[i]);
      if (body == nullptr) refuse("there is no graph '" + op.subgraphs[i] + "'");
      onnx::Attribute a;
      a.name = bodies[i];
      a.kind = onnx::Attribute::Kind::kGraph;
      a.graph = std::make_shared<onnx::Graph>(graph(*body, depth + 1));
      made.attributes.push_back(std::move(a));
    }
    return made;
  }

  const Model& model_;
  std::span<const uint8_t> weights_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

bool is_imported(const Model& model) { return model.attrs.find(kOpsets) != nullptr; }

void keep_imported(const onnx::File& file, const TensorDescs& known, Model& model) {
  Encoder encoder(known);
  encoder.add(file.graph, file.graph.name.empty() ? "graph" : file.graph.name);
  for (Graph& graph : encoder.take()) model.graphs.push_back(std::move(graph));
  std::vector<std::string> domains;
  std::vector<int64_t> versions;
  for (const auto& [domain, version] : file.opsets) {
    domains.push_back(domain);
    versions.push_back(version);
  }
  model.attrs.set(kDomains, std::move(domains));
  model.attrs.set(kOpsets, std::move(versions));
}

onnx::File imported_file(const Model& model, std::span<const uint8_t> weights) {
  const auto* domains = model.attrs.get_strings(kDomains);
  const auto* versions = model.attrs.get_ints(kOpsets);
  if (domains == nullptr || versions == nullptr || domains->size() != versions->size() ||
      model.root() == nullptr) {
    refuse("it does not say which opsets it uses");
  }
  onnx::File file;
  for (size_t i = 0; i < domains->size(); ++i) file.opsets[(*domains)[i]] = (*versions)[i];
  file.graph = Decoder(model, weights).graph(*model.root(), 0);
  return file;
}

}  // namespace ascendrt::model
