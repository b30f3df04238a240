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

// One node with its inputs resolved.
struct NodeCall {
  GraphBuilder& graph;
  const onnx::Node& node;
  int64_t opset;
  std::string name;  // for the main op; helpers add a suffix
  std::vector<std::optional<GraphValue>> inputs;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  const GraphValue& in(size_t i) const;  // fails when it is not connected
  size_t rank(size_t i) const { return in(i).type.shape.rank(); }
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
  // A list that older opsets keep in an attribute and newer ones in input i.
  std::optional<std::vector<int64_t>> list(std::string_view attribute, size_t i) const;
};

struct NodeRule {
  std::string_view op_type;
  std::vector<GraphValue> (*convert)(const NodeCall& call);  // one value per output it gives
};

// Null when there is none.
const NodeRule* find_node_rule(std::string_view op_type);

// The parts of the table, one per file.
std::span<const NodeRule> compute_rules();
std::span<const NodeRule> elementwise_rules();
std::span<const NodeRule> shape_rules();

AttrMap attributes(std::initializer_list<Attr> items);

}  // namespace ascendrt::model
