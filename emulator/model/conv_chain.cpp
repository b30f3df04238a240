// Owns: what may join a chain. Must never: join ops whose types or shapes are not all declared.
#include "model/conv_chain.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/op_set_quantized.hpp"
#include "ops/conv_blocked.hpp"

namespace ascendrt::model {
namespace {

// A border that only one reader wants costs every other one; wide ones are made by that reader.
constexpr int64_t kWidestBorder = 4;

bool is_type(const TensorDesc& desc, const TensorDesc& other) {
  return desc.dtype == other.dtype && desc.dims == other.dims;
}

bool is_fixed(const TensorDesc& desc) {
  return (desc.dtype == ACL_FLOAT || desc.dtype == ACL_FLOAT16) && desc.dims.size() == 4 &&
         std::all_of(desc.dims.begin(), desc.dims.end(), [](int64_t dim) { return dim > 0; });
}

bool is_narrow(const ops::Border& b) {
  return std::max({b.top, b.bottom, b.left, b.right}) <= kWidestBorder;
}

ops::Border reach_of(const ops::ConvShape& shape) {
  ops::BlockedConvSpec spec;
  spec.shape = shape;
  return spec.reach();
}

// One value for each channel of `whole`, along the axis of channels.
bool is_per_channel(const TensorDesc& desc, const TensorDesc& whole) {
  Dims wanted = {1, whole.dims[1], 1, 1};
  if (desc.dims.size() == 3) wanted.erase(wanted.begin());
  return desc.dtype == whole.dtype && desc.dims == wanted;
}

bool is_nchw(const Op& op) { return op.attrs.string_or("data_format", "NCHW") == "NCHW"; }

}  // namespace

OpView declared_view(const Op& op) {
  OpView view{op, {}, {}};
  for (size_t i = 0; i < op.input_descs.size(); ++i) {
    Operand operand;
    operand.connected = op.input(i).has_value();
    operand.type = tensor_type(op.input_descs[i]);
    if (operand.type.dtype == ACL_FLOAT16) operand.type.dtype = ACL_FLOAT;
    view.inputs.push_back(operand);
  }
  return view;
}

std::vector<const Op*> ConvChain::parts() const {
  std::vector<const Op*> all = {conv, norm, bias, add, clamp};
  std::erase(all, nullptr);
  return all;
}

ConvChains::ConvChains(const Graph& graph) {
  for (const Op& op : graph.ops) ops_.emplace(op.name, &op);
  for (const Op& op : graph.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto ref = op.input(i);
      if (!ref) continue;
      if (ref->index == 0) readers_[ref->node].emplace_back(&op, i);
      if (ref->index > 0) ++other_outputs_read_[ref->node];
    }
  }
  for (const Op& op : graph.ops) {
    if (chain_of_.contains(&op) || !can_start(op)) continue;
    ConvChain& chain = chains_.emplace_back();
    chain.conv = &op;
    extend(chain);
    for (const Op* part : chain.parts()) chain_of_.emplace(part, &chain);
  }
}

const ConvChain* ConvChains::of(const Op& op) const {
  const auto found = chain_of_.find(&op);
  return found == chain_of_.end() ? nullptr : found->second;
}

const Op* ConvChains::maker(const Op& op, size_t input) const {
  const auto ref = op.input(input);
  const auto found = ref ? ops_.find(ref->node) : ops_.end();
  return found == ops_.end() ? nullptr : found->second;
}

bool ConvChains::is_constant(const Op& op, size_t input) const {
  const Op* from = maker(op, input);
  return from != nullptr && (from->type == "Const" || from->type == "Constant");
}

bool ConvChains::can_start(const Op& op) const {
  if (op.type != "Conv2D" || !is_nchw(op) || op.input_descs.size() < 2) return false;
  if (op.output_descs.size() != 1 || !is_fixed(op.output_descs[0])) return false;
  const bool same_type = op.input_descs[0].dtype == op.output_descs[0].dtype;
  if (!is_fixed(op.input_descs[0]) || !same_type || !is_constant(op, 1)) return false;
  for (size_t i = 2; i < op.inputs.size(); ++i) {
    if (op.input(i) && !is_constant(op, i)) return false;
  }
  try {
    return ops::BlockedConvSpec::takes(conv_shape(declared_view(op)));
  } catch (const base::Error&) {
    return false;  // the op itself tells what is wrong when it is compiled
  }
}

// The one op that reads the result, if nothing else does, and declares it as `op` does.
const ConvChains::Reader* ConvChains::only_reader(const Op& op) const {
  const auto found = readers_.find(op.name);
  if (found == readers_.end() || found->second.size() != 1) return nullptr;
  if (other_outputs_read_.contains(op.name)) return nullptr;
  const auto& [reader, input] = found->second[0];
  const bool declared = input < reader->input_descs.size() && !op.output_descs.empty() &&
                        is_type(reader->input_descs[input], op.output_descs[0]);
  return declared ? &found->second[0] : nullptr;
}

// The same, when its own result has the same type too.
const ConvChains::Reader* ConvChains::next_part(const Op& op) const {
  const Reader* reader = only_reader(op);
  if (reader == nullptr || reader->first->output_descs.empty()) return nullptr;
  return is_type(reader->first->output_descs[0], op.output_descs[0]) ? reader : nullptr;
}

void ConvChains::extend(ConvChain& chain) const {
  const Reader* reader = next_part(*chain.conv);
  if (reader != nullptr && reader->first->type == "BatchNorm" && reader->second == 0 &&
      is_nchw(*reader->first) && reader->first->inputs.size() == 5 &&
      is_constant(*reader->first, 1) && is_constant(*reader->first, 2) &&
      is_constant(*reader->first, 3) && is_constant(*reader->first, 4)) {
    chain.norm = reader->first;
    reader = next_part(*chain.norm);
  }
  const auto is_sum = [&] {
    return reader != nullptr && reader->first->type == "Add" && reader->first->inputs.size() == 2;
  };
  if (is_sum() && is_constant(*reader->first, 1 - reader->second) &&
      is_per_channel(reader->first->input_descs[1 - reader->second], chain.conv->output_descs[0])) {
    chain.bias = reader->first;
    chain.biased = 1 - reader->second;
    reader = next_part(*chain.bias);
  }
  if (is_sum()) {
    const Op& add = *reader->first;
    const size_t other = 1 - reader->second;
    const bool free = !chain_of_.contains(&add) && !is_constant(add, other) &&
                      add.inputs[0] != add.inputs[1] && add.input(other) &&
                      is_type(add.input_descs[other], add.output_descs[0]);
    if (free) {
      chain.add = &add;
      chain.addend = other;
      reader = next_part(add);
    }
  }
  if (reader == nullptr || reader->second != 0 || chain_of_.contains(reader->first)) return;
  const Op& op = *reader->first;
  const bool clip = op.type == "ClipByValue" && is_constant(op, 1) && is_constant(op, 2);
  if (clip || op.type == "Relu" || op.type == "Relu6") chain.clamp = &op;
}

// What `reach` says of the readers of output 0, all together; borders of another fill are left out.
template <class Reach>
ops::Border ConvChains::joined(const Op& op, const Reach& reach) const {
  ops::Border border;
  const auto found = readers_.find(op.name);
  if (found == readers_.end()) return border;
  for (const auto& [reader, input] : found->second) {
    const ops::Border wanted = input == 0 ? reach(*reader) : ops::Border{};
    const bool fits = border.empty() || border.fill == wanted.fill;
    if (!wanted.empty() && fits && is_narrow(wanted)) border = border.joined(wanted);
  }
  return border;
}

ops::Border ConvChains::border_behind(const Op& op) const {
  return joined(op, [&](const Op& reader) {
    const ConvChain* chain = of(reader);
    const bool reads = chain != nullptr && chain->conv == &reader;
    return reads ? reach_of(conv_shape(declared_view(reader))) : ops::Border{};
  });
}

bool ConvChains::is_widened_behind(const Op& op) const {
  const Reader* reader = only_reader(op);
  const ConvChain* chain = reader == nullptr ? nullptr : of(*reader->first);
  if (chain == nullptr || chain->conv != reader->first || reader->second != 0) return false;
  const ops::ConvShape shape = conv_shape(declared_view(*chain->conv));
  return op.output_descs[0].dtype == ACL_FLOAT16 && !shape.is_depthwise() &&
         is_narrow(reach_of(shape));
}

ops::Border ConvChains::byte_border_behind(const Op& op) const {
  return joined(op, [](const Op& reader) -> ops::Border {
    if (reader.type != kQuantizedConv) return {};
    try {
      const OpView view = declared_view(reader);
      ops::Border reach = reach_of(byte_conv_shape(view));
      reach.fill = static_cast<uint8_t>(byte_scale(view, "x", view.dtype(0)).zero);
      return reach;
    } catch (const base::Error&) {
      return {};  // the op itself tells what is wrong when it is compiled
    }
  });
}

}  // namespace ascendrt::model
