// A compiled model computed as the ONNX file says that it was made from. The compiled file keeps
// the say over names, order, types and layouts of inputs and outputs.
// Owns: matching the two files. Must never: accept a source that differs in what the caller sees.
#include <algorithm>

#include "base/error.hpp"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/onnx_reader.hpp"
#include "model/vendor.hpp"
#include "model/vendor_layout.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void differ(const std::string& text) { fail_model(kGeParamInvalid, text); }

std::string text_of(const IoDesc& io) {
  return std::string(dtype_name(io.dtype)) + " " + to_shape(io.dims).text();
}

// Place of a name in a list; the same place when no name is shared and the numbers agree.
template <class Names>
size_t place_of(const std::string& name, size_t i, const Names& names, size_t wanted,
                const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  if (names.size() == wanted) return i;
  std::string list;
  for (const std::string& each : names) list += " '" + each + "'";
  differ(std::string(what) + " '" + name + "' of the model is none of the source's:" + list);
}

// "op:0:tensor" -> "tensor", the name that the source gave it.
std::string tensor_name(const std::string& output) {
  const size_t colon = output.rfind(':');
  return colon == std::string::npos ? output : output.substr(colon + 1);
}

// Shapes of the model fix what the source leaves open.
ConvertOptions options_for(const Model& model, const onnx::File& file) {
  std::vector<std::string> names;
  for (const onnx::GraphInput& input : file.graph.inputs) names.push_back(input.name);
  if (names.size() != model.inputs.size()) {
    differ("it has " + std::to_string(names.size()) + " inputs, the model has " +
           std::to_string(model.inputs.size()));
  }
  ConvertOptions options;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const IoDesc& io = model.inputs[i];
    const size_t at = place_of(io.name, i, names, model.inputs.size(), "input");
    const onnx::GraphInput& input = file.graph.inputs[at];
    const bool open =
        std::any_of(input.dims.begin(), input.dims.end(), [](int64_t dim) { return dim < 0; });
    if (open || !input.has_shape) options.input_shape[input.name].dims = io.dims;
  }
  return options;
}

// Puts the source's graph behind the model's inputs and in front of its outputs.
class Adapter {
 public:
  Adapter(const Model& model, Model source) : model_(model), source_(std::move(source)) {}

  Model run() {
    for (const IoDesc& io : source_.inputs) in_names_.push_back(io.name);
    for (const IoDesc& io : source_.outputs) out_names_.push_back(tensor_name(io.name));
    for (size_t i = 0; i < model_.inputs.size(); ++i) take_input(i);
    take_outputs();
    complete(source_);
    return std::move(source_);
  }

 private:
  Graph& graph() { return source_.graphs.front(); }
  Op& op_named(const std::string& name) {
    return *std::find_if(graph().ops.begin(), graph().ops.end(),
                         [&](const Op& op) { return op.name == name; });
  }
  void take_input(size_t i);
  void take_outputs();
  std::string converted(const std::string& from, const TensorDesc& given, const IoDesc& to,
                        const std::string& name);

  const Model& model_;
  Model source_;
  std::vector<std::string> in_names_, out_names_;
};

// The layouts may differ by the order of NCHW and NHWC, the types as numbers may.
bool fits(const IoDesc& a, const IoDesc& b) {
  if (a.dims == b.dims) return true;
  Dims x = a.dims;
  Dims y = b.dims;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  return x == y && x.size() == 4 && axis_letters(a.format).size() == 4 &&
         axis_letters(b.format).size() == 4 && a.format != b.format;
}

TensorDesc desc_of(const IoDesc& io) {
  TensorDesc desc;
  desc.dtype = io.dtype;
  desc.dims = io.dims;
  desc.format = is_plain_format(io.format) ? io.format : kNd;
  return desc;
}

void Adapter::take_input(size_t i) {
  const IoDesc& wanted = model_.inputs[i];
  const size_t at = place_of(wanted.name, i, in_names_, model_.inputs.size(), "input");
  const IoDesc& own = source_.inputs[at];
  if (!fits(own, wanted)) {
    differ("input '" + own.name + "' is " + text_of(own) + ", the model has '" + wanted.name +
           "' of " + text_of(wanted));
  }
  Op& data = op_named(own.name);
  data.attrs.set("index", static_cast<int64_t>(i));
  if (own.dtype == wanted.dtype && own.dims == wanted.dims) return;
  const std::string before = data.name + ":0";
  data.input_descs = {desc_of(wanted)};
  data.output_descs = {desc_of(wanted)};
  const std::string after = converted(before, desc_of(wanted), own, data.name + "_as_source");
  for (Op& op : graph().ops) {
    if (op.name.starts_with(own.name + "_as_source")) continue;
    std::replace(op.inputs.begin(), op.inputs.end(), before, after);
  }
}

// Adds the ops that make the type and layout of `to` out of those of `given`.
std::string Adapter::converted(const std::string& from, const TensorDesc& given, const IoDesc& to,
                               const std::string& name) {
  GraphBuilder builder(graph());
  GraphValue value{tensor_type(given), name, from, nullptr};
  if (value.type.dtype != to.dtype) {
    AttrMap attrs;
    attrs.set("dst_type", int64_t{to.dtype});
    value = builder.add_one("Cast", name, {value}, std::move(attrs));
  }
  value.name = name;
  if (given.dims != to.dims) value = Layouts(builder).reorder(value, given.format, to.format);
  return value.ref;
}

void Adapter::take_outputs() {
  Op& net = *std::find_if(graph().ops.begin(), graph().ops.end(),
                          [](const Op& op) { return op.type == "NetOutput"; });
  const Op before = net;
  const std::string net_name = net.name;
  std::vector<std::string> inputs, names;
  std::vector<TensorDesc> descs;
  for (size_t i = 0; i < model_.outputs.size(); ++i) {
    const IoDesc& wanted = model_.outputs[i];
    const size_t at =
        place_of(tensor_name(wanted.name), i, out_names_, model_.outputs.size(), "output");
    const IoDesc& own = source_.outputs[at];
    if (!fits(own, wanted)) {
      differ("output '" + own.name + "' is " + text_of(own) + ", the model has '" + wanted.name +
             "' of " + text_of(wanted));
    }
    inputs.push_back(own.dtype == wanted.dtype && own.dims == wanted.dims
                         ? before.inputs[at]
                         : converted(before.inputs[at], desc_of(own), wanted,
                                     "output_" + std::to_string(i) + "_as_model"));
    descs.push_back(desc_of(wanted));
    names.push_back(wanted.name);
  }
  Op& after = op_named(net_name);  // ops were added meanwhile
  after.inputs = inputs;
  after.input_descs = std::move(descs);
  graph().outputs = std::move(inputs);
  source_.attrs.set("attr_model_out_nodes_name", std::move(names));
}

}  // namespace

Model plain_source(const Model& model, std::span<const uint8_t> onnx_bytes,
                   const std::string& folder) {
  const auto& inputs = model.inputs;
  const bool open =
      std::any_of(inputs.begin(), inputs.end(), [](auto& io) { return io.is_open(); });
  if (open || model.gears.kind != GearKind::kNone) {
    differ("gears and open shapes of compiled files are not computed");
  }
  ConvertOptions options = options_for(model, onnx::read(onnx_bytes, folder));
  options.folder = folder;
  return Adapter(model, convert_onnx(onnx_bytes, options)).run();
}

}  // namespace ascendrt::model
