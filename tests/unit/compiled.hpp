// Graphs as the vendor's compiler lays them out, built for tests: blocked layouts written by loops
// of their own. Owns: CompiledGraph. Must never: share code with the product's layouts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/vendor.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::test {

using model::AttrMap;
using model::Dims;
using model::TensorDesc;

inline TensorDesc desc_of(int32_t dtype, const Dims& dims, int32_t format, const Dims& origin,
                          int32_t origin_format) {
  TensorDesc d;
  d.dtype = dtype;
  d.dims = dims;
  d.format = format;
  d.layout = model::format_name(format);
  d.set_origin(origin, origin_format);
  return d;
}
inline TensorDesc plain(int32_t dtype, const Dims& dims, int32_t format = model::kNchw) {
  return desc_of(dtype, dims, format, dims, format);
}
// NC1HWC0 of an origin in NCHW or NHWC.
inline TensorDesc five(int32_t dtype, const Dims& origin, int32_t format = model::kNchw) {
  const bool nchw = format == model::kNchw;
  const int64_t c = nchw ? origin[1] : origin[3];
  const int64_t h = nchw ? origin[2] : origin[1];
  const int64_t w = nchw ? origin[3] : origin[2];
  return desc_of(dtype, {origin[0], (c + 15) / 16, h, w, 16}, model::kNc1hwc0, origin, format);
}
inline TensorDesc fractal_nz(int32_t dtype, int64_t rows, int64_t columns) {
  return desc_of(dtype, {(columns + 15) / 16, (rows + 15) / 16, 16, 16}, model::kFractalNz,
                 {rows, columns}, model::kNd);
}

// Root graph with one output; compile() is what a load does.
class CompiledGraph {
 public:
  explicit CompiledGraph(const std::string& framework = "Onnx") {
    model_.name = "net";
    model_.graphs.emplace_back();
    model_.graphs[0].name = "net_0";
    model_.attrs.set("framework_type", framework);
  }

  std::string data(const std::string& name, const TensorDesc& desc) {
    model_.graphs[0].ops.push_back(op(name, "Data", {}, {desc}, {desc}));
    model::IoDesc io;
    io.name = name;
    io.dtype = desc.dtype;
    io.dims = desc.dims;
    io.format = desc.format;
    model_.inputs.push_back(io);
    return name + ":0";
  }
  // float16; `at` tells the value at a place of the physical dims.
  std::string constant(const std::string& name, const TensorDesc& desc,
                       const std::function<float(const Dims&)>& at) {
    model::Tensor tensor{desc, {}};
    Dims place(desc.dims.size(), 0);
    bool more = true;
    while (more) {
      const uint16_t half = ops::float_to_half(at(place));
      tensor.data.push_back(static_cast<uint8_t>(half & 0xFF));
      tensor.data.push_back(static_cast<uint8_t>(half >> 8));
      more = false;
      for (size_t i = place.size(); i-- > 0 && !more;) {
        more = ++place[i] < desc.dims[i];
        if (!more) place[i] = 0;
      }
    }
    model::Op made = op(name, "Const", {}, {}, {desc});
    made.attrs.set("value", model::Box(std::move(tensor)));
    model_.graphs[0].ops.push_back(std::move(made));
    return name + ":0";
  }
  std::string add(const std::string& type, const std::string& name,
                  const std::vector<std::string>& inputs, const TensorDesc& out,
                  AttrMap attrs = {}) {
    model::Op made = op(name, type, inputs, {}, {out});
    for (const std::string& input : inputs) made.input_descs.push_back(desc_at(input));
    made.attrs = std::move(attrs);
    model_.graphs[0].ops.push_back(std::move(made));
    return name + ":0";
  }
  // An op merged out of those that its kernel names.
  std::string merged(const std::string& type, const std::string& parts, const std::string& name,
                     const std::vector<std::string>& inputs, const TensorDesc& out,
                     AttrMap attrs = {}) {
    attrs.set(name + "_kernelname", "te_fused_op_" + parts + "_0123456789abcdef_0__kernel0");
    return add(type, name, inputs, out, std::move(attrs));
  }
  void output(const std::string& input) {
    const TensorDesc desc = desc_at(input);
    model_.graphs[0].ops.push_back(op("Node_Output", "NetOutput", {input}, {desc}, {}));
    model::IoDesc io;
    io.name = "y";
    io.dtype = desc.dtype;
    io.dims = desc.dims;
    io.format = desc.format;
    io.size = static_cast<uint64_t>(model::byte_size(desc.dims, desc.dtype).value_or(0));
    model_.outputs.push_back(io);
  }

  model::Model& model() { return model_; }
  model::Plain compile(const model::VendorOptions& options = {}) const {
    return model::plain_graph(model_, options);
  }

 private:
  static model::Op op(const std::string& name, const std::string& type,
                      std::vector<std::string> inputs, std::vector<TensorDesc> in,
                      std::vector<TensorDesc> out) {
    model::Op made;
    made.name = name;
    made.type = type;
    made.inputs = std::move(inputs);
    made.input_descs = std::move(in);
    made.output_descs = std::move(out);
    return made;
  }
  TensorDesc desc_at(const std::string& input) const {
    const auto ref = model::parse_input(input);
    const model::Op* made = ref ? model_.graphs[0].find_op(ref->node) : nullptr;
    return made == nullptr ? TensorDesc{} : made->output_descs[0];
  }

  model::Model model_;
};

}  // namespace ascendrt::test
