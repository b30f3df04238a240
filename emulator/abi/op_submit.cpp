// Owns: checks of a single operator's buffers, and its task.
#include <algorithm>
#include <cstring>
#include <optional>

#include "abi/op_objects.hpp"
#include "core/stream.hpp"
#include "memory/memory.hpp"
#include "model/loaded.hpp"

namespace ascendrt::abi {
namespace {

uint64_t bytes_of(const model::TensorType& type) {
  return static_cast<uint64_t>(type.shape.elements()) * ops::dtype_size(type.dtype);
}

void check_buffer(const char* what, size_t index, const OpBuffer& buffer,
                  const model::TensorType& type) {
  const std::string which = std::string(what) + " " + std::to_string(index);
  const uint64_t wanted = bytes_of(type);
  if (buffer.size < wanted) {
    refuse_argument(which + " has a buffer of " + std::to_string(buffer.size) +
                    " bytes, its description needs " + std::to_string(wanted));
  }
  if (wanted == 0) return;
  const auto place = memory::locate(buffer.data).place;
  const bool reachable = place == memory::Place::kDevice || place == memory::Place::kManaged ||
                         (place == memory::Place::kPinned && memory::open_mode());
  if (reachable) return;
  refuse_argument(which + " is no device memory; allocate it with aclrtMalloc and copy to it");
}

struct Run {
  DescribedOp described;
  std::vector<OpBuffer> inputs;
  std::vector<OpBuffer> outputs;

  void operator()() const {
    const model::SingleOp& op = *described.op;
    std::vector<std::span<const uint8_t>> bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const model::SingleOperand& input = op.inputs()[i];
      const uint64_t size = input.connected && input.known == nullptr ? bytes_of(input.type) : 0;
      const auto* data =
          size == 0 ? nullptr : static_cast<const uint8_t*>(memory::view(inputs[i].data, size));
      bytes.emplace_back(data, size);
    }
    const auto results = op.run(bytes, model::compute_workers());
    if (results.size() < outputs.size()) {
      base::fail(ACL_ERROR_GE_FAILURE, "the operator has " + std::to_string(results.size()) +
                                           " results, buffers for " +
                                           std::to_string(outputs.size()) + " were given");
    }
    for (size_t i = 0; i < outputs.size(); ++i) store(i, results[i]);
  }

 private:
  // Only here when a value decided the shape.
  void store(size_t i, const model::OwnedTensor& result) const {
    const std::vector<uint8_t>& from = *result.bytes;
    const uint64_t size = bytes_of(result.type);
    if (size > outputs[i].size || result.type.dtype != described.outputs[i].dtype) {
      base::fail(ACL_ERROR_GE_FAILURE,
                 "output " + std::to_string(i) + " is " + ops::dtype_name(result.type.dtype) + " " +
                     result.type.shape.text() + " (" + std::to_string(size) +
                     " bytes), described was " + ops::dtype_name(described.outputs[i].dtype) +
                     " in a buffer of " + std::to_string(outputs[i].size));
    }
    if (size > 0) std::memcpy(memory::view(outputs[i].data, size), from.data(), size);
  }
};

}  // namespace

DescribedOp describe_op(const std::string& type, model::AttrMap attrs,
                        std::vector<model::SingleOperand> inputs,
                        std::vector<model::TensorType> outputs) {
  DescribedOp made{
      std::make_shared<const model::SingleOp>(type, std::move(attrs), std::move(inputs)),
      std::move(outputs)};
  std::optional<std::vector<model::TensorType>> results;
  try {
    results = made.op->results();
  } catch (const base::Error& error) {
    base::fail(ACL_ERROR_OP_NOT_FOUND, "no operator fits: " + error.text, base::Layer::kAcl);
  }
  for (size_t i = 0; results && i < made.outputs.size(); ++i) {
    if (i < results->size() && (*results)[i] == made.outputs[i]) continue;
    const std::string wanted = i < results->size()
                                   ? std::string("output ") + std::to_string(i) + " of " + type +
                                         " is " + ops::dtype_name((*results)[i].dtype) + " " +
                                         (*results)[i].shape.text()
                                   : type + " has " + std::to_string(results->size()) + " outputs";
    base::fail(ACL_ERROR_OP_OUTPUT_NOT_MATCH,
               wanted + ", described is " + ops::dtype_name(made.outputs[i].dtype) + " " +
                   made.outputs[i].shape.text(),
               base::Layer::kAcl);
  }
  return made;
}

void submit_op(const DescribedOp& op, const std::vector<OpBuffer>& inputs,
               const std::vector<OpBuffer>& outputs, aclrtStream stream) {
  core::Load load;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const model::SingleOperand& input = op.op->inputs()[i];
    if (!input.connected || input.known != nullptr) continue;
    check_buffer("input", i, inputs[i], input.type);
    load.bytes += bytes_of(input.type);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_buffer("output", i, outputs[i], op.outputs[i]);
    load.bytes += bytes_of(op.outputs[i]);
    load.flops += static_cast<double>(op.outputs[i].shape.elements());
  }
  load.label = op.op->type().name.data();
  const auto target = core::resolve_stream_of_current(stream);
  target->submit(
      core::Engine::kVector, load.label,
      [run = Run{op, inputs, outputs}]() -> base::Code {
        run();
        return 0;
      },
      load);
}

aclopHandle* new_op_handle(DescribedOp op) {
  return static_cast<aclopHandle*>(base::handles().insert(base::make_ref<OpHandle>(std::move(op))));
}

}  // namespace ascendrt::abi
