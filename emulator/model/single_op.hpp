// One operator run by itself. Owns: an operator of the table with its attributes and operands.
// Must never: know streams, handles of clients or where the bytes come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/convert_graph.hpp"

namespace ascendrt::model {

// What is known of an operand before the operator runs.
struct SingleOperand {
  TensorType type;
  bool connected = true;
  std::shared_ptr<const Bytes> known = nullptr;  // its bytes; null: memory of the device holds them
  int32_t format = kNd;                          // the order of its axes
};

// Immutable: may run on several threads at once.
class SingleOp {
 public:
  // Raises 100024 for a type that is not in the table.
  SingleOp(const std::string& type, AttrMap attrs, std::vector<SingleOperand> inputs);

  const OpType& type() const { return *type_; }
  const std::vector<SingleOperand>& inputs() const { return inputs_; }
  // Types of the results; nullopt when values decide them. Raises when operands or attributes do
  // not fit the operator.
  std::optional<std::vector<TensorType>> results() const;
  // `bytes`: one span per input, not looked at for those that are known or not connected.
  std::vector<OwnedTensor> run(std::span<const std::span<const uint8_t>> bytes,
                               ops::Workers& workers) const;
  // The same as a part of a graph, with an input for every operand that is not known.
  std::vector<GraphValue> build(GraphBuilder& graph) const;

 private:
  OpView view(std::span<const std::span<const uint8_t>> bytes) const;
  void set_defaults();
  void set_turns();
  void turn_attribute(std::string_view name);

  const OpType* type_;
  Op op_;
  std::vector<SingleOperand> inputs_;
  // Kernels have the axes of images in the order NCHW: where each axis of an input is taken from,
  // and of results with as many axes as input 0. Empty: as they are.
  std::vector<Dims> turns_;
  Dims back_;
};

}  // namespace ascendrt::model
