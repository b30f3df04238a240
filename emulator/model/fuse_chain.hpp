// Element-wise operators that become the steps of one: a region of the graph that grows reader by
// reader. Owns: what may join and how the steps are described. Must never: change the graph.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "model/fuse_graph.hpp"
#include "ops/chain.hpp"

namespace ascendrt::model {

class ChainRegion {
 public:
  using Index = FusionGraph::Index;

  struct Start {
    std::string root;    // the value that the steps start from
    TensorDesc y;        // every step has its shape and type
    Index ready_before;  // tensors beside the root are made before this op
    bool takes_rows;     // one value per column may lie beside the root
  };

  ChainRegion(const FusionGraph& graph, Start start) : g_(&graph), start_(std::move(start)) {}

  std::vector<Index>& parts() { return parts_; }
  size_t steps() const { return steps_.size(); }
  // Adds an op that reads the region. False: it is no step; the region must not grow any more.
  bool absorb(Index next);
  // Only the last part is read from outside, and the temporary tiles suffice.
  bool is_whole() const;
  // Appends the tensors beside the root to the inputs and sets the attributes of the steps.
  void describe(Op& op) const;

 private:
  bool operand(Index next, size_t input, int64_t& code);
  bool find_beside(Index next, size_t input, int64_t& code);
  void add(const ops::ChainStep& step, std::string_view type, int64_t a, int64_t b);

  const FusionGraph* g_;
  Start start_;
  std::vector<Index> parts_;
  std::unordered_map<Index, int64_t> made_by_;  // a part's last step
  std::vector<std::string> beside_;
  std::vector<TensorDesc> beside_descs_;
  std::vector<std::string> types_;
  std::vector<int64_t> operands_;
  std::vector<float> params_;
  std::vector<ops::ChainStep> steps_;
};

}  // namespace ascendrt::model
