// What the harnesses do with a model they got. Owns: the limits within which it is run.
// Must never: hide a fault; only errors that the callers of the product get are caught.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "model/om_json.hpp"
#include "model/program.hpp"

namespace ascendrt::fuzz {

constexpr int64_t kMostBytes = 1 << 20;

// Ends a run that is right but long: a hostile model may ask for any amount of work. Kernels are
// ended after a second, bodies after so many ops.
class Limit final : public ops::Stop {
 public:
  Limit() : ops::Stop(&late()) {
    static std::once_flag once;
    std::call_once(once, [] { std::thread(watch).detach(); });
    ++run();
    late().store(false);
  }
  void look() const override {
    if (++looks_ > 2000) ops::fail("fuzz", "runs too long");
    ops::Stop::look();
  }

 private:
  static void watch() {
    for (unsigned seen = 0;; seen = run().load()) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (seen == run().load()) late().store(true);
    }
  }
  static std::atomic<bool>& late() {
    static std::atomic<bool> flag{false};
    return flag;
  }
  static std::atomic<unsigned>& run() {
    static std::atomic<unsigned> number{0};
    return number;
  }
  mutable int64_t looks_ = 0;
};

// Bytes of the file over and over: the values that a run reads are hostile too.
inline void fill(std::vector<char>& to, std::span<const uint8_t> noise) {
  for (size_t i = 0; i < to.size() && !noise.empty(); ++i) {
    to[i] = static_cast<char>(noise[i % noise.size()]);
  }
}

// Compiles the model and runs it when it is small: on zeros, and on what the file holds.
inline void compile_and_run(const model::Model& model, std::span<const uint8_t> noise) {
  constexpr int64_t kMostOperations = 10'000'000;
  static_cast<void>(model::model_json(model));
  const model::Program program = model::Program::compile(model);
  if (!program.missing().empty() || program.work_bytes() > kMostBytes) return;
  for (const model::Step& step : program.steps()) {
    if (step.operations > kMostOperations) return;
  }
  const auto is_large = [](const auto& slot) { return slot.bytes > kMostBytes; };
  if (std::any_of(program.inputs().begin(), program.inputs().end(), is_large)) return;
  if (std::any_of(program.outputs().begin(), program.outputs().end(), is_large)) return;
  for (const auto values : {std::span<const uint8_t>(), noise}) {
    std::vector<char> work(static_cast<size_t>(program.work_bytes()) + 64);
    model::Frame frame;
    frame.work = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(work.data()) + 63) / 64 * 64);
    frame.weights = reinterpret_cast<const char*>(model.weights.bytes.data());
    std::vector<std::vector<char>> memory;
    std::vector<model::HostBuffer> in, out;
    const auto buffer = [&](int64_t bytes) -> model::HostBuffer {
      fill(memory.emplace_back(static_cast<size_t>(bytes)), values);
      return {memory.back().data(), memory.back().size()};
    };
    for (const model::InputSlot& slot : program.inputs()) in.push_back(buffer(slot.bytes));
    for (const model::OutputSlot& slot : program.outputs()) {
      out.push_back(buffer(slot.bytes < 0 ? 4096 : slot.bytes));
    }
    program.load_inputs(frame, in);
    const Limit limit;
    for (size_t i = 0; i < program.steps().size(); ++i) {
      program.run_step(frame, i, ops::Workers::serial(), &limit);
    }
    program.store_outputs(frame, out);
  }
}

}  // namespace ascendrt::fuzz
