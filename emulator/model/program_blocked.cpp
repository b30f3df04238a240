// Owns: which steps work on blocked tensors, what is computed in one step, and the conversions.
// Must never: change a result by more than rounding; what does not fit takes the general path.
//
// Note [Blocked tensors]: convolutions compute on tensors in blocks of 16 channels, the NC1HWC0 of
// the device. A chain of a convolution and what follows it is one step that leaves its result
// blocked, with the border of zeros that the next convolutions need. Pooling and element-wise steps
// stay in the layout of their operands. Halves that one dense convolution alone reads, which
// computes with floats, lie as floats of the same values: it widens nothing. Any other reader gets
// a row-major twin through a TransData step, made once. Bytes of quantised steps lie in the same
// blocks. A tensor of one pixel whose channels fill their blocks is both at once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "model/fuse.hpp"
#include "model/program_builder.hpp"
#include "ops/blocked.hpp"
#include "ops/byte_conv.hpp"
#include "ops/conv_blocked.hpp"

namespace ascendrt::model {
namespace {

// A picture of few channels is read as it is.
constexpr int64_t kPlanarChannels = 8;

int64_t element_bytes(const TensorType& type) {
  return static_cast<int64_t>(ops::dtype_size(type.dtype));
}

ops::Stored stored_as(const TensorType& type) {
  return type.dtype == ACL_FLOAT16 ? ops::Stored::kHalf : ops::Stored::kFloat;
}

ops::BlockedShape blocked_shape(const ops::Shape& shape, const ops::Border& border) {
  return {shape[0], shape[1], shape[2], shape[3], border};
}

bool is_both(const ops::BlockedShape& s) {
  return s.h == 1 && s.w == 1 && s.channels % ops::kLanes == 0 && s.border.empty();
}

bool is_blockable(const TensorType& type) {
  return (type.dtype == ACL_FLOAT || type.dtype == ACL_FLOAT16) && type.shape.rank() == 4 &&
         !type.shape.is_open();
}

OpView as_floats(OpView view) {
  for (Operand& operand : view.inputs) {
    if (operand.type.dtype == ACL_FLOAT16) operand.type.dtype = ACL_FLOAT;
  }
  return view;
}

// One value in, one out, or operands that broadcast.
bool is_elementwise(std::string_view type) {
  constexpr std::string_view kTypes[] = {
      "Relu", "Relu6",   "LeakyRelu", "Elu",     "HardSigmoid", "HardSwish",   "Sigmoid",
      "Tanh", "Gelu",    "Mish",      "Swish",   "Softplus",    "Abs",         "Neg",
      "Exp",  "Sqrt",    "Square",    "Adds",    "Muls",        "Add",         "Sub",
      "Mul",  "RealDiv", "Div",       "Maximum", "Minimum",     "ClipByValue", kFusedElementwise};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

struct Filter {
  std::vector<float> weights;
  std::vector<float> bias;
};

Filter filter_of(const OpView& conv) {
  const auto outputs = static_cast<size_t>(conv.shape(1)[0]);
  return {conv.constant_floats(1),
          conv.has(2) ? conv.constant_floats(2) : std::vector<float>(outputs, 0.0F)};
}

// Folds the normalization into the filter: y = (conv(x) + b - mean) * factor + offset.
void fold(const OpView& norm, Filter& filter) {
  const auto scale = norm.constant_floats(1);
  const auto offset = norm.constant_floats(2);
  const auto mean = norm.constant_floats(3);
  const auto variance = norm.constant_floats(4);
  const double epsilon = norm.op.attrs.float_or("epsilon", kBatchNormEpsilon);
  const size_t per_output = filter.weights.size() / scale.size();
  for (size_t o = 0; o < scale.size(); ++o) {
    const double factor = scale[o] / std::sqrt(variance[o] + epsilon);
    for (size_t i = o * per_output; i < (o + 1) * per_output; ++i) {
      filter.weights[i] = static_cast<float>(filter.weights[i] * factor);
    }
    filter.bias[o] =
        static_cast<float>((static_cast<double>(filter.bias[o]) - mean[o]) * factor + offset[o]);
  }
}

void shift(const OpView& sum, const ConvChain& chain, Filter& filter) {
  const auto more = sum.constant_floats(chain.biased);
  std::transform(more.begin(), more.end(), filter.bias.begin(), filter.bias.begin(), std::plus());
}

void set_bounds(const OpView& clamp, ops::BlockedConvSpec& spec) {
  spec.low = clamp.op.type == "ClipByValue" ? clamp.constant_float(1) : 0.0F;
  if (clamp.op.type == "ClipByValue") spec.high = clamp.constant_float(2);
  if (clamp.op.type == "Relu6") spec.high = 6.0F;
}

// Operands are the input, constants and then, if there is one, the addend.
Kernel chain_kernel(const ops::BlockedConvSpec& spec, const Filter& filter, size_t constants) {
  const auto conv = std::make_shared<const ops::BlockedConvolution>(spec, filter.weights.data(),
                                                                    filter.bias.data());
  Kernel kernel;
  kernel.scratch_bytes = ops::BlockedConvolution::scratch_bytes(spec);
  kernel.run = [conv](Inputs in, Outputs out, const ops::Exec& exec) {
    conv->run(in[0].data, in.back().data, out[0].data, exec);
  };
  const bool onto = spec.add == spec.out && spec.stored != ops::Stored::kRounded;
  if (onto) kernel.in_place = 1U << (constants + 1);
  for (size_t i = 1; i <= constants; ++i) kernel.unread |= static_cast<uint8_t>(1U << i);
  return kernel;
}

}  // namespace

// False: the op takes the general path.
bool ProgramBuilder::add_blocked(const Op& op, const OpType& type) {
  if (const ConvChain* chain = chains_.of(op)) {
    check_part(op, type);
    if (&chain->tail() == &op) add_chain(*chain);
    return true;
  }
  return add_quantized(op, type) || add_pool(op, type) || add_elementwise(op, type);
}

// Checks one op of a chain as if it stood alone; its result exists only when it is the last one.
void ProgramBuilder::check_part(const Op& op, const OpType& type) {
  const std::vector<TensorType> types = infer_op(type, view(op, find_inputs(op)));
  check_outputs(op, types);
  set(op, {Made{types[0], {}, -1, {}, false, {}}});
}

// A step with its places. `result` says how the result lies.
ProgramBuilder::Made ProgramBuilder::emit(Step step, const std::vector<const Made*>& sources,
                                          Made result) {
  const auto in_memory = [](const Made& made) {
    return made.blocked ? TensorType{made.type.dtype, made.blocked->physical()} : made.type;
  };
  const auto now = static_cast<int64_t>(program_.steps_.size());
  for (const Made* source : sources) {
    if (source != nullptr) use(*source, now);
    step.inputs.push_back(source == nullptr ? Value{} : value_of(*source, in_memory(*source)));
  }
  const TensorType type = in_memory(result);
  result.place = {Place::Home::kWork, 0, nullptr};
  // Rounded halves count as halves wherever the step is told of or its time is modelled.
  const auto bytes = result.is_rounded ? int64_t{sizeof(float)} : element_bytes(type);
  result.buffer = new_buffer(type.shape.elements() * bytes, now);
  step.outputs.push_back(value_of(result, type));
  const int64_t scratch = step.kernel.scratch_bytes;
  scratch_buffers_.push_back(scratch > 0 ? new_buffer(scratch, now) : -1);
  program_.steps_.push_back(std::move(step));
  return result;
}

ProgramBuilder::Made ProgramBuilder::converted(const Made& from, Made to, Kernel kernel) {
  Step step;
  step.type = "TransData";
  step.name = "trans_TransData_" + std::to_string(conversions_++);
  step.kernel = std::move(kernel);
  step.operations = from.type.shape.elements();
  to = emit(std::move(step), {&from}, to);
  if (from.buffer >= 0) twins_[from.buffer].push_back(to);
  return to;
}

// The row-major form of a value.
const ProgramBuilder::Made* ProgramBuilder::plain(const Made* made) {
  if (made == nullptr || !made->blocked) return made;
  for (const Made& twin : twins_[made->buffer]) {
    if (!twin.blocked) return &twin;
  }
  Made result{made->type, {}, -1, {}, false, {}};
  converted(*made, result,
            make_kernel([s = *made->blocked](Inputs in, Outputs out, const ops::Exec& exec) {
              ops::bytes_from_blocked(in[0].data, s, out[0], exec);
            }));
  return &twins_[made->buffer].back();
}

// The blocked form of a value of that shape with at least that border.
ProgramBuilder::Made ProgramBuilder::blocked(const Made& made, const ops::Shape& shape,
                                             const ops::Border& border) {
  const auto fits = [&](const Made& m) {
    return m.blocked && m.blocked->border.holds(border) && m.type.shape == shape;
  };
  if (fits(made)) return made;
  const ops::BlockedShape wanted = blocked_shape(shape, border);
  if (!made.blocked && is_both(wanted) && made.type.dtype != ACL_INT8) {
    Made same = made;
    same.type.shape = shape;
    same.blocked = wanted;
    return same;
  }
  if (made.buffer >= 0) {
    const auto& twins = twins_[made.buffer];
    const auto found = std::find_if(twins.begin(), twins.end(), fits);
    if (found != twins.end()) return *found;
  }
  Made result{{made.type.dtype, shape}, {}, -1, {}, false, wanted};
  if (made.blocked && made.type.shape == shape) {
    const auto bytes = element_bytes(made.type);
    return converted(made, result,
                     make_kernel([from = *made.blocked, wanted, bytes](Inputs in, Outputs out,
                                                                       const ops::Exec& exec) {
                       ops::change_border(in[0].data, from, out[0].data, wanted, bytes, exec);
                     }));
  }
  const Made& source = *plain(&made);
  return converted(source, result,
                   make_kernel([wanted](Inputs in, Outputs out, const ops::Exec& exec) {
                     ops::bytes_to_blocked(in[0], wanted, out[0].data, exec);
                   }));
}

// Emits a step whose result is the op's, blocked.
void ProgramBuilder::finish_blocked(const Op& op, Step step,
                                    const std::vector<const Made*>& sources, Made result) {
  result.type.shape = result.blocked->logical();
  if (is_both(*result.blocked) && result.type.dtype != ACL_INT8) result.blocked.reset();
  set(op, {emit(std::move(step), sources, result)});
}

void ProgramBuilder::add_chain(const ConvChain& chain) {
  const Op& op = *chain.conv;
  const std::vector<const Made*> sources = find_inputs(op);
  const OpView conv = view(op, sources);
  Filter filter = filter_of(conv);
  if (chain.norm != nullptr) fold(view(*chain.norm, find_inputs(*chain.norm)), filter);
  if (chain.bias != nullptr) shift(view(*chain.bias, find_inputs(*chain.bias)), chain, filter);
  ops::BlockedConvSpec spec;
  spec.shape = conv_shape(as_floats(conv));
  if (chain.clamp != nullptr) set_bounds(view(*chain.clamp, find_inputs(*chain.clamp)), spec);
  const ops::ConvShape& s = spec.shape;
  const bool planar = !sources[0]->blocked && s.groups == 1 && s.in_channels <= kPlanarChannels;
  if (planar) spec.layout = ops::InputLayout::kPlanar;
  spec.out = {s.batch, s.out_channels, s.out_h, s.out_w, chains_.border_behind(chain.tail())};
  const Made x = planar ? *sources[0] : blocked(*sources[0], conv.shape(0), spec.reach());
  if (x.blocked) spec.in = *x.blocked;
  const TensorType& type = conv.inputs[0].type;
  const bool rounded = chains_.is_widened_behind(chain.tail()) && !is_both(spec.out);
  spec.stored = rounded ? ops::Stored::kRounded : stored_as(type);
  spec.in_stored = x.is_rounded ? ops::Stored::kRounded : stored_as(type);
  std::vector<const Made*> operands = {&x};
  operands.insert(operands.end(), sources.begin() + 1, sources.end());
  Made addend;
  if (chain.add != nullptr) {
    addend = blocked(*find(*chain.add, chain.addend), spec.out.logical(), {});
    spec.add = addend.blocked;
    operands.push_back(&addend);
  }
  Step step;
  step.type = find_op_type(op.type)->name.data();
  step.name = op.name;
  step.kernel = chain_kernel(spec, filter, sources.size() - 1);
  step.operations = spec.out.logical().elements() * conv.shape(1).elements(1, 4);
  for (const Op* part : chain.parts()) {
    if (part != &op) step.joined.push_back(part->name);
  }
  finish_blocked(chain.tail(), std::move(step), operands,
                 {type, {}, -1, {}, false, spec.out, rounded});
}

bool ProgramBuilder::add_pool(const Op& op, const OpType& type) {
  const bool global = op.type == "GlobalAveragePool";
  if (!global && op.type != "MaxPoolV3" && op.type != "AvgPoolV2") return false;
  const std::vector<const Made*> sources = find_inputs(op);
  if (sources.empty() || sources[0] == nullptr || !sources[0]->blocked) return false;
  const OpView operands = view(op, sources);
  if (!(operands.shape(0) == sources[0]->type.shape)) return false;
  const std::vector<TensorType> types = infer_op(type, operands);
  check_outputs(op, types);
  const ops::BlockedShape from = *sources[0]->blocked;
  ops::PoolShape window;
  if (global) {
    window.in_h = window.kernel_h = from.h;
    window.in_w = window.kernel_w = from.w;
    window.resolve();
  } else {
    window = pool_shape(as_floats(operands));
  }
  const bool exclusive = op.attrs.get_bool("exclusive").value_or(true);
  const auto kind = op.type == "MaxPoolV3" ? ops::PoolKind::kMax
                    : global || exclusive  ? ops::PoolKind::kAverage
                                           : ops::PoolKind::kAverageWithPads;
  const auto to = blocked_shape(types[0].shape, chains_.border_behind(op));
  const ops::Stored stored = stored_as(types[0]);
  Step step;
  step.type = type.name.data();
  step.name = op.name;
  step.operations = std::max(from.logical().elements(),
                             to.logical().elements() * window.kernel_h * window.kernel_w);
  step.kernel = make_kernel([=](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::pool_blocked(kind, window, in[0].data, from, out[0].data, to, stored, exec);
  });
  finish_blocked(op, std::move(step), {sources[0]}, {types[0], {}, -1, {}, false, to});
  return true;
}

// Whether some operand lies in blocks and the others are small or do; `operands` get the shapes
// that they have in blocks.
bool ProgramBuilder::in_blocks(const std::vector<const Made*>& sources, OpView& operands) {
  bool any = false;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == nullptr) return false;
    const Made& made = *sources[i];
    if (made.is_number()) continue;
    if (!is_blockable(made.type) || !(operands.shape(i) == made.type.shape)) return false;
    const bool fits =
        made.blocked ? made.blocked->border.empty() : made.type.shape.elements(2, 4) == 1;
    if (!fits) return false;
    any = any || made.blocked;
    operands.inputs[i].type.shape = blocked_shape(made.type.shape, {}).physical();
  }
  return any;
}

// The kernel of the op itself on the physical shapes; blocks of one pixel broadcast as channels do.
// One channel does not: it would have to spread over the lanes of a block.
bool ProgramBuilder::add_elementwise(const Op& op, const OpType& type) {
  if (!is_elementwise(op.type)) return false;
  const std::vector<const Made*> sources = find_inputs(op);
  OpView operands = view(op, sources);
  if (!in_blocks(sources, operands)) return false;
  const std::vector<TensorType> declared = infer_op(type, view(op, sources));
  check_outputs(op, declared);
  const std::vector<TensorType> types = infer_op(type, operands);
  const auto to = blocked_shape(declared[0].shape, {});
  const bool spreads = std::any_of(sources.begin(), sources.end(), [&](const Made* made) {
    return !made->is_number() && made->type.shape[1] != to.channels;
  });
  if (types.size() != 1 || spreads || !(types[0].shape == to.physical())) return false;
  std::vector<Made> kept(sources.size());
  std::vector<const Made*> used = sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]->is_number()) continue;
    kept[i] = blocked(*sources[i], sources[i]->type.shape, {});
    used[i] = &kept[i];
  }
  Step step;
  step.type = type.name.data();
  step.name = op.name;
  step.operations = types[0].shape.elements();
  step.kernel = build_op(type, operands, types);
  finish_blocked(op, std::move(step), used, {declared[0], {}, -1, {}, false, to});
  return true;
}

}  // namespace ascendrt::model
