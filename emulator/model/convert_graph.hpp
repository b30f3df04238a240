// Building a graph of GE operators, with constants folded on the way.
// Owns: GraphBuilder and the values it hands around. Must never: know ONNX.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/model.hpp"
#include "model/op_set.hpp"

namespace ascendrt::model {

// A constant was computed from these by DequantizeLinear: the integers, scale, zero point if any.
struct Dequantized {
  std::vector<Tensor> operands;
  int64_t axis = 1;
};
// Attributes of Const ops that carry this until operators are merged.
inline constexpr std::string_view kDequantizedFrom = "_dequantized_from";
inline constexpr std::string_view kDequantizedAxis = "_dequantized_axis";

// A tensor while the graph is built: bytes known now, or the output of an op.
struct GraphValue {
  TensorType type;
  std::string name;                       // of the tensor, for naming Const ops
  std::string ref;                        // "op:index"; empty while only a constant
  std::shared_ptr<const Bytes> constant;  // null when it is only known at run time
  std::shared_ptr<const Dequantized> from = nullptr;

  bool is_constant() const { return constant != nullptr; }
  // The values of an int32 or int64 constant; fails for anything else.
  std::vector<int64_t> ints() const;
};

class GraphBuilder {
 public:
  using Inputs = std::vector<std::optional<GraphValue>>;  // nullopt = not connected

  // All builders of one conversion share what constants may be computed in all, in bytes.
  using FoldBudget = std::shared_ptr<int64_t>;
  static FoldBudget new_budget() { return std::make_shared<int64_t>(int64_t{1} << 29); }
  explicit GraphBuilder(Graph& graph, FoldBudget budget = new_budget())
      : graph_(graph), budget_(std::move(budget)) {}
  const FoldBudget& budget() const { return budget_; }

  // parent_operand: the operand of the op around it that a body's input stands for.
  GraphValue add_data(const std::string& name, const TensorType& type, int64_t parent_operand = -1);
  // More of the Data op added last: attributes, and the format of its tensor.
  void annotate_data(const AttrMap& attrs, int32_t format);
  GraphValue constant(const std::string& name, const TensorType& type, Bytes bytes);
  GraphValue int_list(const std::string& name, const std::vector<int64_t>& values);
  GraphValue int_scalar(const std::string& name, int64_t value);
  GraphValue float_scalar(const std::string& name, float value);

  // Adds an op of the operator table, or computes it now when all its inputs are constants.
  // `name` is made unique. Fails when the operator refuses its inputs.
  std::vector<GraphValue> add(const std::string& type, const std::string& name, Inputs inputs,
                              AttrMap attrs);
  GraphValue add_one(const std::string& type, const std::string& name, Inputs inputs,
                     AttrMap attrs = {}) {
    return std::move(add(type, name, std::move(inputs), std::move(attrs)).front());
  }
  // Adds an op with bodies; the types of its results are given.
  std::vector<GraphValue> add_control(const std::string& type, const std::string& name,
                                      const Inputs& inputs, AttrMap attrs,
                                      std::vector<std::string> subgraphs,
                                      const std::vector<TensorType>& results);
  // Gives a value of open shape the shape that is declared for it.
  void declare(GraphValue& value, const ops::Shape& shape);
  // The one NetOutput; called last.
  void add_outputs(const std::vector<GraphValue>& values);

 private:
  std::string unique(const std::string& name);
  std::vector<GraphValue> emit(Op op, const std::string& name, const Inputs& inputs,
                               const std::vector<TensorType>& results);
  std::string reference(const GraphValue& value);  // makes the Const op of a constant

  bool may_fold(const OpType& type, const std::vector<Operand>& operands,
                const std::vector<TensorType>& results);

  Graph& graph_;
  FoldBudget budget_;
  std::map<std::string, int> names_;  // with the next number to try behind it
  std::unordered_map<const Bytes*, std::string> const_refs_;
  std::vector<std::shared_ptr<const Bytes>> kept_;  // keeps the keys of const_refs_ alive
};

TensorDesc describe(const TensorType& type);

// Takes out what no output depends on; inputs of the graph stay.
void remove_dead_ops(Graph& graph);

}  // namespace ascendrt::model
