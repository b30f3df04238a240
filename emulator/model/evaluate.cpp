// Running single ops: widening of halves, late ops, folding. Owns: the temporary tensors of one op.
// Must never: know programs or graphs.
#include <algorithm>
#include <cstring>

#include "memory/budget.hpp"
#include "model/op_set.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

bool is_half(aclDataType dtype) { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

// The half type of an op, ACL_DT_UNDEFINED when it has none.
aclDataType half_of(const OpType& type, const OpView& view) {
  if (type.halves == Halves::kNative) return ACL_DT_UNDEFINED;
  for (const Operand& operand : view.inputs) {
    if (operand.connected && is_half(operand.type.dtype)) return operand.type.dtype;
  }
  return ACL_DT_UNDEFINED;
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t bytes_of(const TensorType& type) {
  return type.shape.elements() * static_cast<int64_t>(ops::dtype_size(type.dtype));
}

// The same op with float operands. `kept` owns constants that were widened.
OpView widened(const OpView& view, std::vector<OwnedTensor>& kept) {
  OpView wide = view;
  for (Operand& operand : wide.inputs) {
    if (!operand.connected || !is_half(operand.type.dtype)) continue;
    const TensorType before = operand.type;
    operand.type.dtype = ACL_FLOAT;
    if (!operand.is_constant) continue;
    kept.push_back(make_tensor(operand.type));
    void* data = const_cast<uint8_t*>(operand.constant.data());
    ops::cast({data, before.dtype, before.shape}, kept.back().view(), {});
    operand.constant = *kept.back().bytes;
  }
  return wide;
}

// The kernel has taken the values over; nobody looks at them any more.
void release(std::vector<OwnedTensor>& kept, const uint8_t* constant) {
  for (OwnedTensor& tensor : kept) {
    if (tensor.bytes->data() == constant) *tensor.bytes = Bytes();
  }
}

std::vector<TensorType> narrowed(std::vector<TensorType> types, aclDataType half) {
  for (TensorType& type : types) {
    if (type.dtype == ACL_FLOAT) type.dtype = half;
  }
  return types;
}

// A kernel on floats made to work on halves: operands and results pass through scratch memory.
class HalfKernel {
 public:
  // constants: the widened form of input i, or null.
  HalfKernel(Kernel inner, std::vector<TensorType> inputs, std::vector<TensorType> outputs,
             std::vector<const uint8_t*> constants)
      : inner_(std::move(inner)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        constants_(std::move(constants)) {}

  int64_t scratch_bytes() const {
    int64_t total = rounded(inner_.scratch_bytes);
    for (const auto* list : {&inputs_, &outputs_}) {
      for (const TensorType& type : *list) total += type.dtype == ACL_FLOAT ? room(type) : 0;
    }
    return total;
  }

  void run(Inputs in, Outputs out, const ops::Exec& exec) const {
    char* next = static_cast<char*>(exec.scratch) + rounded(inner_.scratch_bytes);
    std::vector<ops::TensorView> wide_in(in.begin(), in.end());
    std::vector<ops::TensorView> wide_out(out.begin(), out.end());
    const auto take = [&next](ops::TensorView& view) {
      view.data = next;
      view.dtype = ACL_FLOAT;
      next += room({ACL_FLOAT, view.shape});
    };
    const size_t first = takes_halves() ? 1 : 0;
    float* const spare = reinterpret_cast<float*>(next);
    if (first == 1 && is_half(in[0].dtype)) next += room({ACL_FLOAT, in[0].shape});
    for (size_t i = first; i < wide_in.size(); ++i) {
      ops::TensorView& view = wide_in[i];
      if (!is_half(view.dtype) || view.data == nullptr) continue;
      if (constants_[i] != nullptr) {  // widened when the op was built
        view.data = const_cast<uint8_t*>(constants_[i]);
        view.dtype = ACL_FLOAT;
        continue;
      }
      const ops::TensorView half = view;
      take(view);
      ops::cast(half, view, exec);
    }
    for (size_t i = first; i < wide_out.size(); ++i) {
      if (is_half(wide_out[i].dtype)) take(wide_out[i]);
    }
    if (first == 1) {
      inner_.run_halves(wide_in, wide_out, exec, spare);
    } else {
      inner_.run(wide_in, wide_out, exec);
    }
    for (size_t i = first; i < out.size(); ++i) {
      if (is_half(out[i].dtype)) ops::cast(wide_out[i], out[i], exec);
    }
  }

 private:
  static int64_t room(const TensorType& type) { return rounded(bytes_of(type)); }
  bool takes_halves() const { return inner_.run_halves != nullptr && constants_[0] == nullptr; }

  Kernel inner_;
  std::vector<TensorType> inputs_;  // as the inner kernel sees them
  std::vector<TensorType> outputs_;
  std::vector<const uint8_t*> constants_;
};

}  // namespace

void run_kernel(const Kernel& kernel, Inputs in, Outputs out, const ops::Exec& exec) {
  const auto is_empty = [](const ops::TensorView& view) { return view.elements() == 0; };
  if (!out.empty() && std::all_of(out.begin(), out.end(), is_empty)) return;
  kernel.run(in, out, exec);
}

void want_memory(int64_t bytes, const std::string& what) {
  constexpr int64_t kWorthAsking = int64_t{64} << 20;
  if (bytes >= kWorthAsking) memory::want_host(static_cast<uint64_t>(bytes), what);
}

OwnedTensor make_tensor(const TensorType& type) {
  const int64_t bytes = bytes_of(type);
  want_memory(bytes, "a tensor of shape " + type.shape.text());
  return {type, std::make_shared<Bytes>(static_cast<size_t>(bytes))};
}

std::vector<TensorType> infer_op(const OpType& type, const OpView& view) {
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    if (view.inputs[i].connected && view.inputs[i].type.shape.is_open()) {
      ops::fail_open(view.op.type, "the shape of input " + std::to_string(i) + " is not known");
    }
  }
  const aclDataType half = half_of(type, view);
  if (half == ACL_DT_UNDEFINED) return type.infer(view);
  std::vector<OwnedTensor> kept;
  return narrowed(type.infer(widened(view, kept)), half);
}

Kernel build_op(const OpType& type, const OpView& view, std::span<const TensorType> outputs) {
  const aclDataType half = half_of(type, view);
  if (half == ACL_DT_UNDEFINED) return type.build(view, outputs);
  auto kept = std::make_shared<std::vector<OwnedTensor>>();
  const OpView wide = widened(view, *kept);
  const std::vector<TensorType> results = type.infer(wide);
  Kernel inner = type.build(wide, results);
  if (inner.is_view) return inner;
  const uint8_t in_place = inner.in_place;
  const uint8_t taken = inner.unread;
  uint8_t unread = taken;
  std::vector<TensorType> inputs;
  std::vector<const uint8_t*> constants;
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    const bool known = wide.inputs[i].connected && wide.inputs[i].is_constant &&
                       is_half(view.inputs[i].type.dtype);
    const bool bit = i < 8 && ((taken >> i) & 1U) != 0;
    constants.push_back(known ? wide.inputs[i].constant.data() : nullptr);
    if (known && i < 8) unread |= static_cast<uint8_t>(1U << i);
    if (known && bit) release(*kept, constants.back());
    // Only what is widened takes scratch memory.
    TensorType wide_type = wide.inputs[i].type;
    if (wide_type.dtype == view.inputs[i].type.dtype) wide_type.dtype = ACL_DT_UNDEFINED;
    if (!view.inputs[i].connected || known) wide_type = {};
    inputs.push_back(wide_type);
  }
  std::vector<TensorType> made(outputs.begin(), outputs.end());
  for (size_t i = 0; i < made.size(); ++i) {
    if (!is_half(made[i].dtype)) continue;
    const bool as_it_is = i == 0 && inner.run_halves != nullptr && constants[0] == nullptr;
    made[i].dtype = as_it_is ? ACL_DT_UNDEFINED : ACL_FLOAT;  // undefined: needs no room
  }
  const auto kernel = std::make_shared<const HalfKernel>(std::move(inner), inputs, made, constants);
  return {
      [kernel, kept](Inputs in, Outputs out, const ops::Exec& exec) { kernel->run(in, out, exec); },
      kernel->scratch_bytes(), false, in_place, unread};
}

std::vector<TensorType> late_types(const OpType& type, const OpView& view) {
  std::vector<TensorType> out;
  const auto dtypes =
      type.dtypes != nullptr ? type.dtypes(view) : std::vector<aclDataType>{view.dtype(0)};
  for (const aclDataType dtype : dtypes) out.push_back({dtype, open_shape()});
  return out;
}

BuiltOp make_built(const OpType& type, const OpView& view) {
  BuiltOp built{infer_op(type, view), {}};
  for (const TensorType& result : built.results) {
    if (result.shape.is_open()) ops::fail_open(view.op.type, "the shape of a result is not known");
  }
  built.kernel = build_op(type, view, built.results);
  return built;
}

std::vector<OwnedTensor> evaluate(const OpType& type, const OpView& view, const ops::Exec& exec) {
  if (type.compute != nullptr) return type.compute(view, {exec.workers, nullptr, exec.stop});
  return run_built(make_built(type, view), view, exec);
}

std::vector<OwnedTensor> run_built(const BuiltOp& op, const OpView& view, const ops::Exec& exec) {
  const Kernel& kernel = op.kernel;
  std::vector<OwnedTensor> out;
  std::vector<ops::TensorView> from;
  std::vector<ops::TensorView> to;
  for (const TensorType& result : op.results) out.push_back(make_tensor(result));
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    from.push_back(view.inputs[i].connected ? view.constant_view(i) : ops::TensorView{});
  }
  if (kernel.is_view) {
    const auto source = view.inputs[0].constant;
    std::copy(source.begin(), source.end(), out[0].bytes->begin());
    return out;
  }
  for (const OwnedTensor& tensor : out) to.push_back(tensor.view());
  want_memory(kernel.scratch_bytes, "scratch memory of " + view.op.type);
  std::vector<uint8_t> scratch(static_cast<size_t>(kernel.scratch_bytes) + 64);
  const auto address = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
  run_kernel(kernel, from, to, {exec.workers, reinterpret_cast<void*>(address), exec.stop});
  return out;
}

}  // namespace ascendrt::model
