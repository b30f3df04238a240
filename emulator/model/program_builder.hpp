// Compiles a graph to a program. Owns: the state of one compilation. Private to program_*.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/conv_chain.hpp"
#include "model/planner.hpp"
#include "model/program.hpp"

namespace ascendrt::model {

class ProgramBuilder {
 public:
  ProgramBuilder(const Model& model, const Program::Forget& forget)
      : model_(model), graph_(*model.root()), forget_(forget), chains_(graph_) {}

  Program build();

 private:
  // A value while the graph is walked: which buffer holds it.
  struct Made {
    TensorType type;
    Place place;
    int64_t buffer = -1;  // index in lifetimes_; -1 = not in the work block
    std::span<const uint8_t> constant;
    bool is_constant = false;
    std::optional<ops::BlockedShape> blocked;  // how it lies in memory; none: row-major
    bool is_rounded = false;  // halves that lie as floats; see Note [Blocked tensors]

    bool is_number() const { return is_constant && type.shape.elements() == 1; }
  };

  void miss(const Op& op, std::string_view why);

  std::vector<const Op*> ordered();
  void add(const Op& op);
  void add_data(const Op& op);
  void add_constant(const Op& op);
  void add_outputs(const Op& op);
  void add_step(const Op& op);
  std::vector<const Made*> find_inputs(const Op& op);
  OpView view(const Op& op, const std::vector<const Made*>& sources);
  void check_outputs(const Op& op, const std::vector<TensorType>& types);
  bool compile_op(const OpType& type, const OpView& operands, Kernel& kernel,
                  std::vector<TensorType>& types);
  std::vector<Made> make_results(Step& step, const std::vector<TensorType>& types, int64_t now);
  const Made* find(const Op& op, size_t input);
  void set(const Op& op, std::vector<Made> values) { made_[op.name] = std::move(values); }
  int64_t new_buffer(int64_t bytes, int64_t first);
  void use(const Made& made, int64_t step);
  Value value_of(const Made& made, const TensorType& type);
  void share_places();
  void plan();

  // Note [Weights that kernels took over], in program_weights.cpp.
  void count_uses();
  void finish_op(const Op& op, size_t first_step);
  void end_use(const Op& op, bool keep);
  void collect_weight_parts();

  // Note [Blocked tensors], in program_blocked.cpp.
  bool add_blocked(const Op& op, const OpType& type);
  void check_part(const Op& op, const OpType& type);
  void add_chain(const ConvChain& chain);
  bool add_pool(const Op& op, const OpType& type);
  static bool in_blocks(const std::vector<const Made*>& sources, OpView& operands);
  bool add_elementwise(const Op& op, const OpType& type);
  bool add_quantized(const Op& op, const OpType& type);  // and its kinds, in program_quantized.cpp
  bool add_byte_conv(const Op& op, const OpView& operands, const std::vector<const Made*>& sources,
                     Step step);
  bool add_byte_pool(const Op& op, const OpView& operands, const TensorType& type, Step step);
  bool add_byte_sum(const Op& op, const OpView& operands, const std::vector<const Made*>& sources,
                    Step step);
  const Made* plain(const Made* made);
  Made blocked(const Made& made, const ops::Shape& shape, const ops::Border& border);
  Made converted(const Made& from, Made to, Kernel kernel);
  Made emit(Step step, const std::vector<const Made*>& sources, Made result);
  void finish_blocked(const Op& op, Step step, const std::vector<const Made*>& sources,
                      Made result);

  const Model& model_;
  const Graph& graph_;
  const Program::Forget& forget_;
  ConvChains chains_;
  Program program_;
  std::unordered_map<std::string_view, std::vector<Made>> made_;
  std::vector<Lifetime> lifetimes_;
  std::vector<size_t> place_of_;               // per buffer: the buffer it lies on, often itself
  std::vector<int64_t> input_buffers_;         // per input
  std::vector<int64_t> scratch_buffers_;       // per step, -1 = none
  std::map<int64_t, std::deque<Made>> twins_;  // by buffer: the same tensor in other layouts
  int64_t conversions_ = 0;
  struct Use {
    int64_t left = 0;      // operands of ops that are not compiled yet
    bool is_read = false;  // by a run
  };
  std::unordered_map<int64_t, Use> uses_;  // of weights, by offset
};

}  // namespace ascendrt::model
