// How ONNX nodes become GE operators: the form of a rule and the tables of rules.
// Owns: NodeCall. Must never: see more than one node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/convert_graph.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model {

struct NodeCall;

// Thrown when what a node reads cannot be made; the cause is on the list of nodes already.
struct Spoiled {};

// A body made to a graph of the model.
struct Body {
  std::string graph;
  std::vector<TensorType> outputs;
  std::string contradiction;  // not empty: no graph, its shapes refuse the tensors around it
};

// What rules of nodes with bodies need from the walk over the graph.
class SubgraphConverter {
 public:
  virtual ~SubgraphConverter() = default;
  // Outer tensors that the body reads are added to `captured`; they are the operands of the op from
  // number `first_operand` on.
  virtual Body convert_body(const NodeCall& call, const onnx::Graph& body,
                            const std::vector<TensorType>& inputs,
                            std::vector<std::string>& captured, size_t first_operand) = 0;
  // A body without inputs that perhaps never runs: shapes that contradict each other are told in
  // the result instead of refusing the model.
  virtual Body convert_branch(const NodeCall& call, const onnx::Graph& body,
                              std::vector<std::string>& captured) = 0;
  // A graph that raises `text` when it runs.
  virtual Body refusing_body(const NodeCall& call, const std::string& text,
                             const std::vector<TensorType>& outputs) = 0;
  virtual GraphValue outer_value(const std::string& name) = 0;
  // Puts the nodes of a body into the graph around it.
  virtual std::vector<GraphValue> inline_body(const NodeCall& call, const onnx::Graph& body,
                                              const std::vector<GraphValue>& inputs) = 0;
};

// One node with its inputs resolved.
struct NodeCall {
  GraphBuilder& graph;
  const onnx::Node& node;
  int64_t opset;
  std::string name;  // for the main op; helpers add a suffix
  std::vector<std::optional<GraphValue>> inputs;
  SubgraphConverter& bodies;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  const GraphValue& in(size_t i) const;  // fails when it is not connected
  size_t rank(size_t i) const { return shape(i).rank(); }
  const ops::Shape& shape(size_t i) const;  // fails when it is not known yet
  bool open(size_t i) const { return in(i).type.shape.is_open(); }
  bool wants_output(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  [[noreturn]] void fail(std::string_view what) const;

  // The main op of the node, with the node's name.
  std::vector<GraphValue> make(const std::string& type, GraphBuilder::Inputs operands,
                               AttrMap attrs = {}) const {
    return graph.add(type, name, std::move(operands), std::move(attrs));
  }
  GraphValue helper(const std::string& type, const char* suffix, GraphBuilder::Inputs operands,
                    AttrMap attrs = {}) const {
    return graph.add_one(type, name + suffix, std::move(operands), std::move(attrs));
  }
  GraphValue ints(const char* suffix, const std::vector<int64_t>& values) const {
    return graph.int_list(name + suffix, values);
  }
  // Input i as it is, or the attribute that older opsets have in its place; nullopt: neither.
  std::optional<GraphValue> list_value(std::string_view attribute, size_t i) const;
  // A list that older opsets keep in an attribute and newer ones in input i.
  std::optional<std::vector<int64_t>> list(std::string_view attribute, size_t i) const;
};

struct NodeRule {
  std::string_view op_type;
  std::vector<GraphValue> (*convert)(const NodeCall& call);  // one value per output it gives
};

// Null when there is none.
const NodeRule* find_node_rule(std::string_view domain, std::string_view op_type);

// The parts of the table, one per file.
std::span<const NodeRule> compute_rules();
std::span<const NodeRule> elementwise_rules();
std::span<const NodeRule> shape_rules();
std::span<const NodeRule> window_rules();
std::span<const NodeRule> plain_rules();
std::span<const NodeRule> composite_rules();
std::span<const NodeRule> control_rules();
std::span<const NodeRule> quantized_rules();
std::span<const NodeRule> microsoft_rules();  // of the domain com.microsoft

AttrMap node_attributes(const onnx::Node& node);  // all that are no graphs, by their ONNX names
AttrMap attributes(std::initializer_list<Attr> items);

}  // namespace ascendrt::model
