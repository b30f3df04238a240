// Owns: the way from a described operator to the table's.
#include "model/single_op.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ops/move.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void not_found(const std::string& text) {
  base::fail(ACL_ERROR_OP_NOT_FOUND, text, base::Layer::kAcl);
}

const OpType& find_type(const std::string& name) {
  if (const OpType* found = find_op_type(name)) return *found;
  not_found("operator type '" + name +
            "' is none that the emulator computes; names are those of the graph engine, such as "
            "Add, MatMulV2 or ReduceSum, not those of ONNX");
}

// Types that know their axes by place. Results of the second part would not come out right by
// turning operands: they hold places in images, or take sizes as values.
constexpr std::string_view kTurned[] = {
    "AvgPool3D",    "AvgPoolV2", "BatchNorm",         "Conv2D",      "Conv3D",
    "DepthToSpace", "GroupNorm", "InstanceNorm",      "LRN",         "LpPool",
    "MaxPool3D",    "MaxPoolV3", "GlobalAveragePool", "SpaceToDepth"};
constexpr std::string_view kChannelsFirst[] = {
    "AffineGrid", "Col2ImV2", "Conv2DTranspose",    "Conv3DTranspose", "ConvInteger", "DeformConv",
    "GridSample", "Resize",   "MaxPoolWithIndices", "MaxUnpool",       "RoiAlign"};
constexpr std::string_view kOfAxes[] = {"strides", "dilations", "ksize"};  // attributes

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Where the axes of `format` come from so that channels are first; empty: they are where they are.
Dims turn_of(int32_t format, size_t rank) {
  return turn_of_axes(format, rank == 5 ? kNcdhw : kNchw, rank);
}

template <class T>
std::vector<T> turned(const std::vector<T>& values, const Dims& turn) {
  std::vector<T> out;
  for (const int64_t from : turn) out.push_back(values[static_cast<size_t>(from)]);
  return out;
}

ops::Shape turned(const ops::Shape& shape, const Dims& turn) {
  return to_shape(turned(to_dims(shape), turn));
}

OwnedTensor turned(const ops::TensorView& view, const Dims& turn, const ops::Exec& exec) {
  OwnedTensor out = make_tensor({view.dtype, turned(view.shape, turn)});
  ops::transpose(view, turn, out.view(), exec);
  return out;
}

}  // namespace

SingleOp::SingleOp(const std::string& type, AttrMap attrs, std::vector<SingleOperand> inputs)
    : type_(&find_type(type)), inputs_(std::move(inputs)), turns_(inputs_.size()) {
  op_.name = op_.type = type;
  op_.attrs = std::move(attrs);
  set_defaults();
  set_turns();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    TensorDesc desc;
    desc.dtype = inputs_[i].type.dtype;
    desc.dims = to_dims(inputs_[i].type.shape);
    if (!turns_[i].empty()) desc.dims = turned(desc.dims, turns_[i]);
    op_.input_descs.push_back(std::move(desc));
  }
}

// What an operator of a file may not do: there a list that is missing was dropped by a compiler.
//
// src: hicann/ops-nn conv2d_proto.h, max_pool_v3_proto.h
void SingleOp::set_defaults() {
  const auto set = [this](const char* name, int64_t each) {
    if (op_.attrs.find(name) == nullptr) op_.attrs.set(name, std::vector<int64_t>(4, each));
  };
  if (op_.type == "Conv2D") set("dilations", 1);
  if (op_.type == "MaxPoolV3" || op_.type == "AvgPoolV2") set("pads", 0);
}

void SingleOp::set_turns() {
  const bool first = is_among(kChannelsFirst, op_.type);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SingleOperand& input = inputs_[i];
    if (!input.connected) continue;
    const std::string which = "input " + std::to_string(i) + " of " + op_.type;
    if (input.format != kFormatUndefined && !is_plain_format(input.format)) {
      const std::string name = format_name(input.format);
      const bool known = format_from_name(name) == input.format;
      not_found(which + " has the " +
                (known ? "blocked format " + name : "format " + std::to_string(input.format)) +
                "; single operators are computed in plain formats");
    }
    const Dims turn = turn_of(input.format, input.type.shape.rank());
    if (turn.empty()) continue;
    if (first) {
      not_found(which + " has the format " + format_name(input.format) +
                ", it is computed with channels first only");
    }
    if (is_among(kTurned, op_.type)) turns_[i] = turn;
  }
  if (turns_.empty() || turns_[0].empty()) return;
  back_ = inverse_turn(turns_[0]);
  for (const std::string_view name : kOfAxes) turn_attribute(name);
  const std::string format = format_name(inputs_[0].format);
  if (op_.attrs.string_or("data_format", format) != format) {
    not_found("attribute data_format of " + op_.type + " is " +
              op_.attrs.string_or("data_format", "") + ", input 0 is " + format);
  }
  op_.attrs.erase("data_format");
}

// In the order of input 0, one number per axis.
void SingleOp::turn_attribute(std::string_view name) {
  const auto* values = op_.attrs.get_ints(name);
  if (values != nullptr && values->size() == turns_[0].size()) {
    op_.attrs.set(name, turned(*values, turns_[0]));
  }
}

OpView SingleOp::view(std::span<const std::span<const uint8_t>> bytes) const {
  OpView view{op_, {}, {}};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SingleOperand& input = inputs_[i];
    Operand operand;
    operand.type = {input.type.dtype, to_shape(op_.input_descs[i].dims)};
    operand.connected = input.connected;
    if (input.connected && i < bytes.size() && bytes[i].data() != nullptr) {
      operand.is_constant = true;
      operand.constant = bytes[i];
    } else if (input.connected && input.known != nullptr && turns_[i].empty()) {
      operand.is_constant = true;
      operand.constant = *input.known;
    } else if (input.connected && i < bytes.size()) {
      operand.is_constant = true;  // of no elements
    }
    view.inputs.push_back(operand);
  }
  return view;
}

std::optional<std::vector<TensorType>> SingleOp::results() const {
  if (type_->infer == nullptr) return std::nullopt;
  const auto turned_back = [&](std::vector<TensorType> types) {
    for (TensorType& type : types) {
      if (back_.empty() || type.shape.rank() != back_.size()) continue;
      type.shape = turned(type.shape, back_);
    }
    return types;
  };
  std::optional<std::vector<TensorType>> types;
  try {
    types = infer_op(*type_, view({}));
    // Only the kernel's maker looks at all attributes.
    static_cast<void>(build_op(*type_, view({}), *types));
  } catch (const ops::NotKnown&) {
    if (!types) return std::nullopt;  // values decide: what is missing is seen when they are there
  }
  return turned_back(*types);
}

std::vector<OwnedTensor> SingleOp::run(std::span<const std::span<const uint8_t>> bytes,
                                       ops::Workers& workers) const {
  const ops::Exec exec{workers};
  std::vector<std::span<const uint8_t>> operands(bytes.begin(), bytes.end());
  std::vector<OwnedTensor> owned;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SingleOperand& input = inputs_[i];
    if (turns_[i].empty()) continue;
    const std::span<const uint8_t> from = input.known ? std::span(*input.known) : operands[i];
    // Only read from.
    const ops::TensorView view{const_cast<uint8_t*>(from.data()), input.type.dtype,
                               input.type.shape};
    owned.push_back(turned(view, turns_[i], exec));
    operands[i] = *owned.back().bytes;
  }
  auto results = evaluate(*type_, view(operands), exec);
  for (OwnedTensor& result : results) {
    if (back_.empty() || result.type.shape.rank() != back_.size()) continue;
    result = turned(result.view(), back_, exec);
  }
  return results;
}

std::vector<GraphValue> SingleOp::build(GraphBuilder& graph) const {
  GraphBuilder::Inputs operands;
  const auto turn = [&](const GraphValue& x, const Dims& places) {
    return graph.add_one("Transpose", x.name + "_turned", {x, graph.int_list("perm", places)});
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SingleOperand& input = inputs_[i];
    operands.emplace_back();
    if (!input.connected) continue;
    const std::string name = "x" + std::to_string(i);
    if (input.known) {
      operands.back() = graph.constant(name, input.type, *input.known);
    } else {
      operands.back() = graph.add_data(name, input.type);
      graph.annotate_data({}, input.format);
    }
    if (!turns_[i].empty()) operands.back() = turn(*operands.back(), turns_[i]);
  }
  auto results = graph.add(op_.type, op_.type, std::move(operands), op_.attrs);
  for (GraphValue& result : results) {
    if (back_.empty() || result.type.shape.rank() != back_.size()) continue;
    result = turn(result, back_);
  }
  return results;
}

}  // namespace ascendrt::model
