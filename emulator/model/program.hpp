// A graph made ready to run: steps in order, kernels with packed weights, offsets of all tensors.
// Owns: the compilation of a Model's root graph. Must never: know streams, device pointers or ABI
// functions; it runs on addresses it is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/kept_kernels.hpp"
#include "model/model.hpp"
#include "model/op_set.hpp"

namespace ascendrt::model {

// Where a tensor lies while the program runs.
struct Place {
  enum class Home : uint8_t { kNone, kWork, kWeights, kHost, kInput, kOpen };
  Home home = Home::kNone;
  int64_t offset = 0;  // kWork, kWeights: bytes; kInput: number of the input; kOpen: slot
  const void* address = nullptr;  // kHost: constants the file keeps beside the weights
};

struct Value {
  TensorType type;
  Place place;
};

struct Step {
  const char* type = "";            // name in the operator table; lives as long as the process
  std::string name;                 // of the op
  std::vector<std::string> joined;  // names of further ops that this step computes
  Kernel kernel;
  std::vector<Value> inputs;  // kNone: not connected
  std::vector<Value> outputs;
  int64_t scratch_offset = 0;
  const Op* late = nullptr;  // compiled when it runs: Note [Late ops]; kernel is empty then
  int64_t operations = 0;    // rough number of element operations, to judge whether sharing pays
};

struct InputSlot {
  TensorType type;
  int64_t bytes = 0;
  int64_t offset = 0;  // in the work block, used when the caller's buffer cannot be read in place
};

struct OutputSlot {
  Value value;
  int64_t bytes = 0;  // -1: only a run can tell
};

// How the work block is used. All counts are bytes.
struct PlanFacts {
  int64_t planned = 0;      // the block
  int64_t bound = 0;        // the most that is alive at one step: no plan is smaller
  int64_t activations = 0;  // results of all steps, as if each had a place of its own
  int64_t scratch = 0;      // the largest scratch memory of a step
  int64_t in_place = 0;     // results that lie on an operand
};

struct WeightPart {
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct HostBuffer {
  void* data = nullptr;
  uint64_t size = 0;
};

// Addresses of one execution.
struct Frame {
  char* work = nullptr;
  const char* weights = nullptr;
  std::vector<const void*> inputs;  // set by Program::load_inputs
  // Tensors whose shapes only a run can tell, by slot; made by load_inputs.
  std::shared_ptr<std::vector<OwnedTensor>> open;
};

class Program {
 public:
  // Never fails because of what the graph holds: what cannot be computed is listed in missing().
  // Keeps pointers into the model's graphs, but not into its weights.
  // With `forget` the memory of weights that no run reads is given back on the way.
  using Forget = std::function<void(std::span<const uint8_t>)>;
  static Program compile(const Model& model, const Forget& forget = {});

  // One line per op that cannot be computed and why; empty = the program can run.
  const std::vector<std::string>& missing() const { return missing_; }
  int64_t work_bytes() const { return plan_.planned; }
  const PlanFacts& plan() const { return plan_; }
  // Parts of the weights that runs read; the rest lies packed in kernels.
  const std::vector<WeightPart>& weight_parts() const { return weight_parts_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<InputSlot>& inputs() const { return inputs_; }
  const std::vector<OutputSlot>& outputs() const { return outputs_; }

  // Running: load_inputs, run_step for every step in order, store_outputs. Concurrent executions
  // need frames with different work blocks.
  void load_inputs(Frame& frame, std::span<const HostBuffer> buffers) const;
  void run_step(const Frame& frame, size_t step, ops::Workers& workers,
                const ops::Stop* stop = nullptr) const;
  void store_outputs(const Frame& frame, std::span<const HostBuffer> buffers) const;
  // The shape output `i` has after a run.
  TensorType output_type(const Frame& frame, size_t i) const;

 private:
  friend class ProgramBuilder;
  ops::TensorView bind(const Frame& frame, const Value& value) const;
  void run_late(const Frame& frame, const Step& step, const ops::Exec& exec) const;

  std::vector<Step> steps_;
  std::vector<InputSlot> inputs_;
  std::vector<OutputSlot> outputs_;
  std::vector<std::string> missing_;
  PlanFacts plan_;
  std::vector<WeightPart> weight_parts_;
  int64_t open_slots_ = 0;
  const Model* model_ = nullptr;  // for subgraphs of late ops
  size_t weight_bytes_ = 0;
  std::shared_ptr<KeptKernels> kernels_ = std::make_shared<KeptKernels>();  // of late ops
};

}  // namespace ascendrt::model
