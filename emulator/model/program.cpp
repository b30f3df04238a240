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
  }
  // Kernels do not write through the views of their inputs.
  return {const_cast<void*>(address), value.type.dtype, value.type.shape};
}

// A buffer that is a little short (the caller may be up to 64 bytes below the model's size) or not
// aligned for its type is copied into the work block; missing bytes are zero.
void Program::load_inputs(Frame& frame, std::span<const HostBuffer> buffers) const {
  frame.inputs.clear();
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

void Program::run_step(const Frame& frame, size_t index, ops::Workers& workers) const {
  const Step& step = steps_[index];
  std::vector<ops::TensorView> in;
  std::vector<ops::TensorView> out;
  in.reserve(step.inputs.size());
  out.reserve(step.outputs.size());
  for (const Value& value : step.inputs) in.push_back(bind(frame, value));
  for (const Value& value : step.outputs) out.push_back(bind(frame, value));
  step.kernel.run(in, out, {workers, frame.work + step.scratch_offset});
}

void Program::store_outputs(const Frame& frame, std::span<const HostBuffer> buffers) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const uint64_t bytes = std::min(static_cast<uint64_t>(outputs_[i].bytes), buffers[i].size);
    if (bytes > 0) std::memcpy(buffers[i].data, bind(frame, outputs_[i].value).data, bytes);
  }
}

}  // namespace ascendrt::model
