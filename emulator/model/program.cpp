// Owns: running a compiled program on addresses. Must never: touch bytes outside the given buffers.
#include "model/program.hpp"

#include <algorithm>
#include <cstring>

namespace ascendrt::model {

ops::TensorView Program::bind(const Frame& frame, const Value& value) const {
  const void* address = nullptr;
  switch (value.place.home) {
    case Place::Home::kNone:
      break;
    case Place::Home::kWork:
      address = frame.work + value.place.offset;
      break;
    case Place::Home::kWeights:
      address = frame.weights + value.place.offset;
      break;
    case Place::Home::kHost:
      address = value.place.address;
      break;
    case Place::Home::kInput:
      address = frame.inputs[static_cast<size_t>(value.place.offset)];
      break;
    case Place::Home::kOpen:
      return (*frame.open)[static_cast<size_t>(value.place.offset)].view();
  }
  // Kernels do not write through the views of their inputs.
  return {const_cast<void*>(address), value.type.dtype, value.type.shape};
}

// A buffer that is a little short (the caller may be up to 64 bytes below the model's size) or not
// aligned for its type is copied into the work block; missing bytes are zero.
void Program::load_inputs(Frame& frame, std::span<const HostBuffer> buffers) const {
  frame.inputs.clear();
  frame.open = std::make_shared<std::vector<OwnedTensor>>(static_cast<size_t>(open_slots_));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const InputSlot& slot = inputs_[i];
    const HostBuffer& buffer = buffers[i];
    const auto bytes = static_cast<uint64_t>(slot.bytes);
    const size_t align = std::max<size_t>(1, std::min<size_t>(8, ops::dtype_size(slot.type.dtype)));
    if (buffer.size >= bytes && reinterpret_cast<uintptr_t>(buffer.data) % align == 0) {
      frame.inputs.push_back(buffer.data);
      continue;
    }
    char* copy = frame.work + slot.offset;
    const uint64_t given = std::min(bytes, buffer.size);
    if (given > 0) std::memcpy(copy, buffer.data, given);
    std::memset(copy + given, 0, bytes - given);
    frame.inputs.push_back(copy);
  }
}

void Program::run_step(const Frame& frame, size_t index, ops::Workers& workers,
                       const ops::Stop* stop) const {
  const Step& step = steps_[index];
  if (step.late != nullptr) return run_late(frame, step, {workers, nullptr, stop});
  std::vector<ops::TensorView> in;
  std::vector<ops::TensorView> out;
  in.reserve(step.inputs.size());
  out.reserve(step.outputs.size());
  for (const Value& value : step.inputs) in.push_back(bind(frame, value));
  for (const Value& value : step.outputs) out.push_back(bind(frame, value));
  run_kernel(step.kernel, in, out, {workers, frame.work + step.scratch_offset, stop});
}

// The results are made anew and moved to their places; late ops are rare and their data is small.
void Program::run_late(const Frame& frame, const Step& step, const ops::Exec& exec) const {
  const auto* weights = reinterpret_cast<const uint8_t*>(frame.weights);
  const size_t bytes = weights == nullptr ? 0 : weight_bytes_;
  OpView view{*step.late, {}, {model_, {weights, bytes}, kernels_.get()}};
  for (const Value& value : step.inputs) {
    const ops::TensorView tensor = bind(frame, value);
    Operand operand;
    operand.connected = value.place.home != Place::Home::kNone;
    if (operand.connected) {
      operand.type = {tensor.dtype, tensor.shape};
      operand.is_constant = true;
      operand.is_fixed =
          value.place.home == Place::Home::kWeights || value.place.home == Place::Home::kHost;
      operand.constant = {static_cast<const uint8_t*>(tensor.data), tensor.size_bytes()};
    }
    view.inputs.push_back(operand);
  }
  std::vector<OwnedTensor> results = kernels_->evaluate(*find_op_type(step.type), view, exec);
  if (results.size() < step.outputs.size()) {
    ops::fail(step.type, "gives " + std::to_string(results.size()) + " results, the model needs " +
                             std::to_string(step.outputs.size()));
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Value& value = step.outputs[i];
    const TensorType& type = results[i].type;
    if (type.dtype != value.type.dtype ||
        (!value.type.shape.is_open() && !(type.shape == value.type.shape))) {
      ops::fail(step.type, "'" + step.name + "' makes " + ops::dtype_name(type.dtype) + " " +
                               type.shape.text() + ", the model declares " +
                               ops::dtype_name(value.type.dtype) + " " + value.type.shape.text());
    }
    if (value.place.home == Place::Home::kOpen) {
      (*frame.open)[static_cast<size_t>(value.place.offset)] = std::move(results[i]);
    } else if (!results[i].bytes->empty()) {
      std::memcpy(bind(frame, value).data, results[i].bytes->data(), results[i].bytes->size());
    }
  }
}

TensorType Program::output_type(const Frame& frame, size_t i) const {
  const ops::TensorView view = bind(frame, outputs_[i].value);
  return {view.dtype, view.shape};
}

void Program::store_outputs(const Frame& frame, std::span<const HostBuffer> buffers) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const ops::TensorView view = bind(frame, outputs_[i].value);
    const uint64_t bytes = std::min<uint64_t>(view.size_bytes(), buffers[i].size);
    if (outputs_[i].bytes < 0 && bytes < view.size_bytes()) {
      ops::fail("output " + std::to_string(i),
                "has shape " + view.shape.text() + " in this run and takes " +
                    std::to_string(view.size_bytes()) + " bytes, its buffer has " +
                    std::to_string(buffers[i].size));
    }
    if (bytes > 0) std::memcpy(buffers[i].data, view.data, bytes);
  }
}

}  // namespace ascendrt::model
