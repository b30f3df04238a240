// A graph while patterns are replaced in it: who makes and who reads a value, constants.
// Owns: the bookkeeping of replacements. Must never: know patterns.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/model.hpp"

namespace ascendrt::model {

class FusionGraph {
 public:
  using Index = size_t;
  static constexpr Index kNone = static_cast<Index>(-1);

  explicit FusionGraph(Graph& graph);

  size_t size() const { return ops_.size(); }
  bool alive(Index i) const { return !gone_[i]; }
  const Op& op(Index i) const { return ops_[i]; }

  Index maker(const std::string& value) const;             // of "op:index"
  Index producer(Index i, size_t input) const;             // kNone: not connected
  Index only_reader(Index i) const;                        // kNone: none or several
  Index first_reader(const std::vector<Index>& of) const;  // outside of them, in order
  bool is_constant(Index i, size_t input) const { return constant(i, input) != nullptr; }
  const Tensor* constant(Index i, size_t input) const;               // null: it is none
  std::optional<float> constant_float(Index i, size_t input) const;  // one number, as float32
  std::optional<std::vector<int64_t>> constant_ints(Index i, size_t input) const;

  // Nobody outside of the parts reads any of them but the last.
  bool closed(const std::vector<Index>& parts, Index last) const;
  // Adds those of the candidates that only parts read.
  void add_unread(std::vector<Index>& parts, const std::vector<Index>& candidates) const;
  // Whether the value is made by one of the parts.
  bool reads_one_of(Index reader, const std::string& value, const std::vector<Index>& parts) const;
  // Puts the op at the place of `last`, whose readers read it now; the other parts go.
  void replace(const std::vector<Index>& parts, Index last, Op op);
  // Adds a Const, whose name is made unique, and returns its reference.
  std::string add_constant(const std::string& name, Tensor tensor);
  // Gives the ops back to the graph, without constants that nobody reads any more.
  void finish();

  static bool is_known(const Dims& dims);

 private:
  void link(Index reader, bool add);
  Graph& graph_;
  std::vector<Op> ops_;
  std::vector<bool> gone_;
  std::unordered_map<std::string, Index> index_;  // by name
  std::vector<std::vector<Index>> readers_;       // once per operand
  size_t given_;                                  // ops behind these are constants that were added
};

}  // namespace ascendrt::model
