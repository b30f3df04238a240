// What the importer's harness does with a model it got. Owns: the limits within which it is run.
// Must never: hide a fault; only errors that the callers of the product get are caught.
#pragma once

#include <exception>
#include <vector>

#include "model/om_json.hpp"
#include "model/program.hpp"

namespace ascendrt::fuzz {

// Compiles the model and runs it on zeros when it is small and has no loops: a hostile model may
// ask for any amount of work, which is the right of its owner and not what is looked for here.
inline void compile_and_run(const model::Model& model) {
  constexpr int64_t kMostBytes = 1 << 20;
  constexpr int64_t kMostOperations = 10'000'000;
  static_cast<void>(model::model_json(model));
  const model::Program program = model::Program::compile(model);
  if (!program.missing().empty() || program.work_bytes() > kMostBytes) return;
  for (const model::Step& step : program.steps()) {
    if (step.late != nullptr || step.operations > kMostOperations) return;
  }
  std::vector<char> work(static_cast<size_t>(program.work_bytes()) + 64);
  model::Frame frame;
  frame.work = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(work.data()) + 63) / 64 * 64);
  frame.weights = reinterpret_cast<const char*>(model.weights.bytes.data());
  std::vector<std::vector<char>> memory;
  std::vector<model::HostBuffer> in, out;
  const auto buffer = [&](int64_t bytes) -> model::HostBuffer {
    memory.emplace_back(static_cast<size_t>(bytes));
    return {memory.back().data(), memory.back().size()};
  };
  for (const model::InputSlot& slot : program.inputs()) {
    if (slot.bytes > kMostBytes) return;
    in.push_back(buffer(slot.bytes));
  }
  for (const model::OutputSlot& slot : program.outputs()) {
    if (slot.bytes > kMostBytes) return;
    out.push_back(buffer(slot.bytes < 0 ? 0 : slot.bytes));
  }
  program.load_inputs(frame, in);
  for (size_t i = 0; i < program.steps().size(); ++i) {
    program.run_step(frame, i, ops::Workers::serial());
  }
  program.store_outputs(frame, out);
}

}  // namespace ascendrt::fuzz
