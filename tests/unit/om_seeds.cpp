// Offline model files of every container variant. Owns: the packer and the attribute enumerator.
#include "om_seeds.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "model/om_inout.hpp"
#include "model/om_proto.hpp"

namespace ascendrt::test {

using namespace model;  // NOLINT: the whole file is about these types

namespace {

TensorDesc desc(const char* name, Dims dims, int32_t dtype = kFloat, int32_t format = kNchw) {
  TensorDesc d;
  d.name = name;
  d.dtype = dtype;
  d.dims = std::move(dims);
  d.format = format;
  d.layout = format_name(format);
  return d;
}

Op op(const char* name, const char* type, std::vector<std::string> inputs,
      std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
  Op o;
  o.name = name;
  o.type = type;
  o.inputs = std::move(inputs);
  o.input_descs = std::move(in);
  o.output_descs = std::move(out);
  return o;
}

Op constant(const char* name, const std::vector<float>& values, const Dims& dims) {
  Op o = op(name, "Const", {}, {}, {desc("y", dims)});
  Tensor tensor;
  tensor.desc = desc("", dims);
  const auto* raw = reinterpret_cast<const uint8_t*>(values.data());
  tensor.data.assign(raw, raw + values.size() * sizeof(float));
  o.attrs.set("value", Box(tensor));
  return o;
}

// One attribute of every kind the file knows.
void add_all_kinds(AttrMap& attrs) {
  attrs.set("mode", "nearest");
  attrs.set("empty_text", "");
  attrs.set("axis", int64_t{-1});
  attrs.set("alpha", 0.25F);
  attrs.set("keep", true);
  attrs.set("blob", RawBytes{std::string("\x00\x01\xff", 3)});
  attrs.set("T", DataTypeAttr{kFloat16});
  attrs.set("symbol", Expression{"s0 * 2"});
  NamedAttrs named{"branch", {}};
  named.attrs.set("nested", std::vector<int64_t>{1, -2, 3});
  attrs.set("func", Box(named));
  attrs.set("template", Box(desc("t", {2, 2})));
  Graph inner;
  inner.name = "inner";
  inner.ops.push_back(op("inner_data", "Data", {}, {desc("x", {1})}, {desc("y", {1})}));
  attrs.set("graph", Box(inner));
  attrs.set("strings", std::vector<std::string>{"a", "", "c"});
  attrs.set("no_strings", std::vector<std::string>{});
  attrs.set("ints", std::vector<int64_t>{0, -1, INT64_MAX, INT64_MIN});
  attrs.set("no_ints", std::vector<int64_t>{});
  attrs.set("floats", std::vector<float>{0.0F, -1.5F});
  attrs.set("flags", std::vector<bool>{true, false, true});
  attrs.set("blobs", RawBytesList{{"x", "yz"}});
  attrs.set("types", DataTypeList{{kFloat, kInt8}});
  attrs.set("branches", std::vector<NamedAttrs>{named, named});
  attrs.set("descs", std::vector<TensorDesc>{desc("d", {4})});
  attrs.set("tensors", std::vector<Tensor>{{desc("d", {1}, kUint8), {7}}});
  attrs.set("graphs", std::vector<Graph>{inner});
  attrs.set("rows", std::vector<std::vector<int64_t>>{{1, 2}, {}, {3}});
  attrs.set("float_rows", std::vector<std::vector<float>>{{1.0F}, {2.0F, 3.0F}});
}

Graph small_graph() {
  const Dims shape = {1, 3, 4, 4};
  Graph graph;
  graph.name = "net_0";
  graph.ops.push_back(op("x", "Data", {}, {desc("x", shape)}, {desc("y", shape)}));
  graph.ops.push_back(constant("scale", {0.5F, 2.0F, -1.0F}, {1, 3, 1, 1}));
  graph.ops.push_back(op("mul", "Mul", {"x:0", "scale:0"},
                         {desc("x1", shape), desc("x2", {1, 3, 1, 1})}, {desc("y", shape)}));
  Op relu = op("relu", "Relu", {"mul:0", "x:-1"}, {desc("x", shape)}, {desc("y", shape)});
  add_all_kinds(relu.attrs);
  graph.ops.push_back(std::move(relu));
  graph.ops.push_back(op("Node_Output", "NetOutput", {"relu:0"}, {desc("x", shape)}, {}));
  return graph;
}

Model finished(Graph graph) {
  Model m;
  m.name = "net";
  m.graphs.push_back(std::move(graph));
  m.task_info.memory_size = 4096;
  complete(m);
  return m;
}

std::vector<std::pair<uint32_t, Bytes>> parts_of(const Model& m, bool with_inout) {
  std::vector<std::pair<uint32_t, Bytes>> parts;
  if (with_inout) parts.emplace_back(8, serialize_inout_info({m.inputs, m.outputs, m.gears}));
  parts.emplace_back(0, serialize_model_def(m));
  parts.emplace_back(1, Bytes(m.weights.bytes.begin(), m.weights.bytes.end()));
  parts.emplace_back(2, serialize_task_info(m.task_info));
  return parts;
}

// Numbers for names and string values, as newer converters write them.
class Enumerator {
 public:
  void number(AttrMap& attrs) {
    for (Attr& attr : attrs.items()) {
      const bool text = attr.value.as<std::string>() != nullptr ||
                        attr.value.as<std::vector<std::string>>() != nullptr;
      if (const auto* s = attr.value.as<std::string>()) {
        attr.value = value_number(std::string(*s));
      } else if (const auto* list = attr.value.as<std::vector<std::string>>()) {
        std::vector<int64_t> numbers;
        for (const std::string& each : *list) numbers.push_back(value_number(each));
        attr.value = numbers;
      }
      attr.name = coded(name_number(attr.name, text));
    }
  }
  void add_to(AttrMap& attrs) const {
    attrs.set("om_compress_version", int64_t{1});
    attrs.set("attr_name_enum", names_);
    attrs.set("attr_value_enum", values_);
    attrs.set("attrs_use_string_value", is_text_);
  }

 private:
  static std::string coded(size_t number) {
    std::string name(1, '\0');
    do {
      name.push_back(static_cast<char>(number % 127 + 1));
      number /= 127;
    } while (number > 0);
    return name;
  }
  size_t name_number(const std::string& name, bool text) {
    const auto [at, added] = name_numbers_.emplace(std::make_pair(name, text), names_.size());
    if (added) {
      names_.push_back(name);
      is_text_.push_back(text);
    }
    return at->second;
  }
  int64_t value_number(const std::string& value) {
    const auto found = std::find(values_.begin(), values_.end(), value);
    if (found != values_.end()) return found - values_.begin();
    values_.push_back(value);
    return static_cast<int64_t>(values_.size()) - 1;
  }

  std::map<std::pair<std::string, bool>, size_t> name_numbers_;
  std::vector<std::string> names_;
  std::vector<std::string> values_;
  std::vector<bool> is_text_;
};

}  // namespace

Model small_network() { return finished(small_graph()); }

Model gear_network() {
  Graph graph = small_graph();
  Op& data = graph.ops.front();
  for (auto* descs : {&data.input_descs, &data.output_descs}) descs->front().dims[0] = 8;
  data.attrs.set("_mbatch_origin_input_dims", std::vector<int64_t>{-1, 3, 4, 4});
  Op gear = op("ascend_mbatch_shape_data", "Data", {}, {desc("x", {1}, kInt32, kNd)},
               {desc("y", {1}, kInt32, kNd)});
  gear.attrs.set("_is_multi_batch_shape_data", true);
  Op choose = op("ascend_mbatch_shape_case", "Case", {"ascend_mbatch_shape_data:0", "x:0"},
                 {desc("branch_index", {1}, kInt32, kNd), desc("input0", {8, 3, 4, 4})}, {});
  choose.attrs.set("_batch_num", int64_t{3});
  for (const auto& [name, batch] : {std::pair("_pred_value_2", 8), std::pair("_pred_value_0", 1),
                                    std::pair("_pred_value_1", 4)}) {
    choose.attrs.set(name, std::vector<int64_t>{batch});
  }
  choose.attrs.set("mbatch_dynamic_type", int64_t{1});
  choose.attrs.set("user_designate_shape_order", std::vector<std::string>{"x"});
  Op output = graph.ops.back();
  output.attrs.set("_dynamic_output_dims", std::vector<std::string>{"0,0,1,3,4,4"});
  graph.ops.pop_back();
  graph.ops.push_back(std::move(gear));
  graph.ops.push_back(std::move(choose));
  graph.ops.push_back(std::move(output));
  return finished(std::move(graph));
}

Model numbered_network() {
  Model m = small_network();
  Enumerator numbers;
  for (int i = 0; i < 200; ++i) {  // so that names take two digits
    AttrMap filler;
    filler.set("filler_" + std::to_string(i), int64_t{i});
    numbers.number(filler);
  }
  for (Graph& graph : m.graphs) {
    for (Op& each : graph.ops) {
      numbers.number(each.attrs);
      for (auto* descs : {&each.input_descs, &each.output_descs}) {
        for (TensorDesc& d : *descs) numbers.number(d.attrs);
      }
    }
  }
  numbers.add_to(m.attrs);
  return m;
}

Bytes pack(const PackSpec& spec) {
  Bytes file(256, 0);
  const auto put = [&](size_t at, uint64_t value, size_t width) {
    if (file.size() < at + width) file.resize(at + width);
    for (size_t i = 0; i < width; ++i) file[at + i] = static_cast<uint8_t>(value >> (8 * i));
  };
  const auto text = [&](size_t at, const std::string& value) {
    std::copy(value.begin(), value.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (const auto& block : spec.blocks) {
    const size_t head = spec.wide ? 8 : 4;
    const size_t row = spec.wide ? 24 : 12;
    size_t at = file.size();
    put(at, block.size(), 4);
    if (spec.wide) put(at + 4, 0, 4);
    at += head;
    uint64_t offset = 0;
    for (const auto& [id, bytes] : block) {
      put(at, id, 4);
      put(at + 4, spec.wide ? 0 : offset, 4);
      put(at + 8, spec.wide ? offset : bytes.size(), spec.wide ? 8 : 4);
      if (spec.wide) put(at + 16, bytes.size(), 8);
      offset += bytes.size();
      at += row;
    }
    for (const auto& [id, bytes] : block) file.insert(file.end(), bytes.begin(), bytes.end());
  }
  put(0, 0x444F4D49, 4);
  put(4, 256, 4);
  put(8, spec.version, 4);
  put(82, spec.model_type, 1);
  text(84, "net");
  put(152, 2, 4);
  put(spec.wide ? 184 : 76, file.size() - 256, spec.wide ? 8 : 4);
  if (spec.version < 0x20000000) {
    text(156, spec.platform);
    put(176, 1, 1);
  } else {
    put(156, spec.model_num, 4);
    text(160, spec.platform);
    put(180, 1, 1);
    put(193, spec.unknown_shape ? 1 : 0, 1);
  }
  return file;
}

namespace {

Seed make_seed(std::string name, const PackSpec& spec) {
  const size_t head = spec.wide ? 8 : 4;
  const size_t row = spec.wide ? 24 : 12;
  return {std::move(name), pack(spec), 256 + head + row * spec.blocks[0].size(), head, row,
          spec.wide};
}

}  // namespace

std::vector<Seed> all_seeds() {
  const Model plain = small_network();
  const auto with_inout = parts_of(plain, true);
  const auto without = parts_of(plain, false);
  std::vector<Seed> seeds;
  seeds.push_back({"writer", serialize_om(plain), 256 + 8 + 24 * 4, 8, 24, true});
  seeds.push_back(make_seed("new_64bit", {.blocks = {with_inout}}));
  seeds.push_back(make_seed("new_32bit", {.wide = false, .blocks = {without}}));
  seeds.push_back(
      make_seed("old_32bit", {.version = 0x10000000, .wide = false, .blocks = {without}}));
  seeds.push_back(
      make_seed("multi_block",
                {.model_num = 3, .unknown_shape = true, .blocks = {without, without, without}}));
  seeds.push_back(make_seed("multi_block_32bit",
                            {.wide = false, .model_num = 2, .blocks = {without, without}}));
  seeds.push_back(make_seed("numbered", {.blocks = {parts_of(numbered_network(), true)}}));
  seeds.push_back(make_seed("gears", {.blocks = {parts_of(gear_network(), true)}}));
  auto flow = without;
  flow.emplace_back(6, Bytes(20, 1));
  flow.emplace_back(7, Bytes(30, 2));
  seeds.push_back(make_seed("flow", {.model_type = 3, .blocks = {flow}}));
  seeds.push_back(make_seed("phone_32bit", {.version = 0x10000000,
                                            .model_type = 3,
                                            .wide = false,
                                            .platform = "3.51.z.0",
                                            .blocks = {without}}));
  return seeds;
}

Seed seed(const std::string& name) {
  for (Seed& each : all_seeds()) {
    if (each.name == name) return each;
  }
  base::fail(500000, "no seed is called " + name);
}

}  // namespace ascendrt::test
