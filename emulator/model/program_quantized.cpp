// Owns: which quantised steps work on blocked bytes. Must never: change a result; what does not fit
// takes the general path, whose bits are the same.
//
// Blocked bytes are unsigned: signed tensors have their top bits turned in blocks, so they are
// never blocked and row-major at once.
#include <utility>

#include "model/fuse.hpp"
#include "model/op_set_quantized.hpp"
#include "model/program_builder.hpp"

namespace ascendrt::model {
namespace {

// A picture of few channels is read as it is.
constexpr int64_t kPlanarChannels = 4;

ops::BlockedShape blocked_shape(const ops::Shape& s, const ops::Border& border) {
  return {s[0], s[1], s[2], s[3], border};
}

bool is_fixed(const TensorType& type) {
  return type.shape.rank() == 4 && !type.shape.is_open() && type.shape.elements() > 0;
}

}  // namespace

// False: the op takes the general path.
bool ProgramBuilder::add_quantized(const Op& op, const OpType& type) {
  const bool conv = op.type == kQuantizedConv;
  if (!conv && op.type != kQuantizedMaxPool && op.type != kQuantizedAverage &&
      op.type != kQuantizedAdd) {
    return false;
  }
  const std::vector<const Made*> sources = find_inputs(op);
  if (sources.empty() || sources[0] == nullptr) return false;
  const OpView operands = view(op, sources);
  if (!is_fixed(operands.inputs[0].type)) return false;
  const std::vector<TensorType> types = infer_op(type, operands);
  check_outputs(op, types);
  Step step;
  step.type = type.name.data();
  step.name = op.name;
  if (const auto* names = op.attrs.get_strings(kOriginalNames)) {
    for (const std::string& name : *names) {
      if (name != op.name) step.joined.push_back(name);
    }
  }
  if (conv) return add_byte_conv(op, operands, sources, std::move(step));
  return op.type == kQuantizedAdd ? add_byte_sum(op, operands, sources, std::move(step))
                                  : add_byte_pool(op, operands, types[0], std::move(step));
}

bool ProgramBuilder::add_byte_conv(const Op& op, const OpView& operands,
                                   const std::vector<const Made*>& sources, Step step) {
  ops::ByteConvSpec spec = byte_conv_spec(operands);
  ops::BlockedConvSpec& g = spec.geometry;
  const ops::ConvShape& s = g.shape;
  if (!sources[0]->blocked && s.groups == 1 && s.in_channels <= kPlanarChannels) {
    g.layout = ops::InputLayout::kPlanar;
  }
  ops::Border reach = g.reach();
  reach.fill = static_cast<uint8_t>(spec.x.zero);
  const Made x = g.layout == ops::InputLayout::kPlanar
                     ? *sources[0]
                     : blocked(*sources[0], operands.shape(0), reach);
  if (x.blocked) g.in = *x.blocked;
  g.out = {s.batch, s.out_channels, s.out_h, s.out_w, chains_.byte_border_behind(op)};
  std::vector<const Made*> used = {&x};
  used.insert(used.end(), sources.begin() + 1, sources.end());
  Made addend;
  if (operands.has(kAddendInput)) {
    addend = blocked(*sources[kAddendInput], g.out.logical(), {});
    g.add = addend.blocked;
    used[kAddendInput] = &addend;
  }
  const auto conv = make_byte_conv(operands, spec);
  step.kernel.scratch_bytes = ops::ByteConvolution::scratch_bytes(spec);
  step.kernel.run = [conv](Inputs in, Outputs out, const ops::Exec& exec) {
    conv->run(in[0].as<const uint8_t>(),
              in.size() > kAddendInput ? in[kAddendInput].as<const uint8_t>() : nullptr,
              out[0].as<uint8_t>(), exec);
  };
  if (g.add == g.out) step.kernel.in_place = 1U << kAddendInput;
  step.operations = g.out.logical().elements() * operands.shape(1).elements(1, 4);
  finish_blocked(op, std::move(step), used,
                 {{byte_result(operands), g.out.logical()}, {}, -1, {}, false, g.out});
  return true;
}

bool ProgramBuilder::add_byte_pool(const Op& op, const OpView& operands, const TensorType& type,
                                   Step step) {
  const Made* source = find_inputs(op)[0];
  if (!source->blocked || !(operands.shape(0) == source->type.shape)) return false;
  const ops::BlockedShape from = *source->blocked;
  ops::Border border = chains_.byte_border_behind(op);
  step.operations = from.logical().elements();
  if (op.type == kQuantizedAverage) border = {};
  const ops::BlockedShape to = blocked_shape(type.shape, border);
  if (op.type == kQuantizedAverage) {
    const ops::ByteScale x = byte_scale(operands, "x", operands.dtype(0));
    const ops::ByteScale y = byte_scale(operands, "y", type.dtype);
    step.kernel = make_kernel([=](Inputs in, Outputs out, const ops::Exec& exec) {
      ops::average_planes(in[0].as<const uint8_t>(), from, x, out[0].as<uint8_t>(), y, exec);
    });
  } else {
    const ops::PoolShape window = byte_pool_shape(operands);
    step.operations *= window.kernel_h * window.kernel_w;
    step.kernel = make_kernel([=](Inputs in, Outputs out, const ops::Exec& exec) {
      ops::max_pool_bytes(window, in[0].as<const uint8_t>(), from, out[0].as<uint8_t>(), to, exec);
    });
  }
  finish_blocked(op, std::move(step), {source}, {type, {}, -1, {}, false, to});
  return true;
}

bool ProgramBuilder::add_byte_sum(const Op& op, const OpView& operands,
                                  const std::vector<const Made*>& sources, Step step) {
  if (!sources[0]->blocked && !sources[1]->blocked) return false;
  const TensorType type{byte_result(operands), operands.shape(0)};
  const ops::BlockedShape shape = blocked_shape(type.shape, {});
  const auto borderless = [&](const Made& m) {
    return !m.blocked || (m.blocked->border.empty() && m.type.shape == type.shape);
  };
  // A border would have to be taken off first: the general path does.
  if (!borderless(*sources[0]) || !borderless(*sources[1])) return false;
  const Made a = blocked(*sources[0], type.shape, {});
  const Made b = blocked(*sources[1], type.shape, {});
  const ops::ByteScale a_scale = byte_scale(operands, "a", operands.dtype(0));
  const ops::ByteScale b_scale = byte_scale(operands, "b", operands.dtype(1));
  const ops::ByteScale y_scale = byte_scale(operands, "y", type.dtype);
  const int32_t low = byte_bound(operands, "low", type.dtype);
  const int32_t high = byte_bound(operands, "high", type.dtype);
  step.operations = shape.elements();
  step.kernel = make_kernel([=](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::add_bytes(in[0].as<const uint8_t>(), a_scale, in[1].as<const uint8_t>(), b_scale,
                   out[0].as<uint8_t>(), y_scale, low, high, shape.elements(), exec);
  });
  step.kernel.in_place = 3;
  finish_blocked(op, std::move(step), {&a, &b}, {type, {}, -1, {}, false, shape});
  return true;
}

}  // namespace ascendrt::model
