// Owns: the conversion for every gear and the graph that chooses between the results.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "model/convert_io.hpp"
#include "model/convert_shapes.hpp"
#include "model/gears.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/program.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

std::string text_of(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

// Inputs in the order in which the user named them: that of the values of a gear.
std::vector<std::string> open_inputs(const ConvertOptions& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.shape_order) {
    if (!options.input_shape.at(name).is_fixed()) names.push_back(name);
  }
  return names;
}

// Which dims of an image input are its height and width.
void fill_image(const std::string& name, const std::vector<int64_t>& gear, Dims& dims) {
  if (std::count(dims.begin(), dims.end(), -1) != 2) {
    refuse("dynamic_image_size: input '" + name +
           "' must have -1 for height and width and nowhere else");
  }
  size_t next = 0;
  for (int64_t& dim : dims) dim = dim < 0 ? gear[next++] : dim;
}

void fill_batch(const std::string& name, const std::vector<int64_t>& gear, Dims& dims) {
  if (dims.empty() || dims[0] != -1 || std::count(dims.begin(), dims.end(), -1) != 1) {
    refuse("dynamic_batch_size: input '" + name +
           "' must have -1 as its first dim and nowhere else; use dynamic_dims for other dims");
  }
  dims[0] = gear[0];
}

// The options of one gear: every -1 has its value.
ConvertOptions options_of(const ConvertOptions& options, size_t gear) {
  ConvertOptions fixed = options;
  fixed.gears = {};
  const std::vector<int64_t>& values = options.gears.values[gear];
  size_t next = 0;
  for (const std::string& name : open_inputs(options)) {
    Dims& dims = fixed.input_shape[name].dims;
    if (options.gears.kind == GearKind::kBatch) fill_batch(name, values, dims);
    if (options.gears.kind == GearKind::kImage) fill_image(name, values, dims);
    if (options.gears.kind != GearKind::kDims) continue;
    for (int64_t& dim : dims) dim = dim < 0 ? values[next++] : dim;
  }
  return fixed;
}

// The constants of all gears, each content once.
class WeightPool {
 public:
  int64_t place(std::span<const uint8_t> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t hash = std::hash<std::string_view>()(text);
    const auto [first, last] = places_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      const auto [offset, size] = it->second;
      if (size == bytes.size() && std::memcmp(bytes_.data() + offset, bytes.data(), size) == 0) {
        return static_cast<int64_t>(offset);
      }
    }
    constexpr size_t kAlign = 512;
    const size_t offset = (bytes_.size() + kAlign - 1) / kAlign * kAlign;
    bytes_.resize(offset);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize((bytes_.size() + kAlign - 1) / kAlign * kAlign);
    places_.emplace(hash, std::pair(offset, bytes.size()));
    return static_cast<int64_t>(offset);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
  std::unordered_multimap<size_t, std::pair<size_t, size_t>> places_;
};

class Merger {
 public:
  Merger(const onnx::File& file, const ConvertOptions& options) : options_(options) {
    for (size_t gear = 0; gear < options.gears.values.size(); ++gear) {
      add(convert_fixed(file, options_of(options, gear)), gear);
    }
  }

  Model finish();

 private:
  void add(Model model, size_t gear);
  void add_input_dims(const Model& model, bool first);
  void move_constants(Model& model);
  void add_graph(Graph graph, size_t gear, bool is_branch);
  Op data_op(size_t input) const;
  void add_inputs();
  void add_choice();
  void add_outputs();

  const ConvertOptions& options_;
  Model whole_;
  Graph root_;
  WeightPool pool_;
  std::vector<IoDesc> inputs_;   // with the dims of the largest gear
  std::vector<Op> data_;         // their ops
  std::vector<Dims> open_dims_;  // dims of the inputs, -1 where gears differ
  std::vector<IoDesc> outputs_;  // each with the dims of the gear where it is largest
  std::vector<std::string> branches_;
  std::vector<std::string> output_dims_;  // "gear,output,dims"
};

// Offsets become those of the pool.
void Merger::move_constants(Model& model) {
  for (Graph& graph : model.graphs) {
    for (Op& op : graph.ops) {
      const auto bytes = model.constant_data(op);
      if (bytes.empty()) continue;
      Tensor tensor = *op.constant();
      tensor.desc.data_offset = pool_.place(bytes);
      op.output_descs[0].data_offset = tensor.desc.data_offset;
      op.attrs.set("value", Box(std::move(tensor)));
    }
  }
}

// The ops of a branch bear the names of their nodes with the number of the gear behind.
void Merger::add_graph(Graph graph, size_t gear, bool is_branch) {
  const std::string suffix = std::string(GearNames::kBranch) + std::to_string(gear);
  graph.name += suffix;
  for (Op& op : graph.ops) {
    for (std::string& body : op.subgraphs) body += suffix;
    if (!is_branch) continue;
    op.name += suffix;
    for (std::string& input : op.inputs) {
      const size_t colon = input.rfind(':');
      if (colon != std::string::npos) input.insert(colon, suffix);
    }
    if (op.type == "Data") {  // operand 0 of the Case op chooses
      op.attrs.set("_parent_node_index", op.attrs.int_or("index", 0) + 1);
    }
  }
  for (std::string& output : graph.outputs) output.insert(output.rfind(':'), suffix);
  if (is_branch) branches_.push_back(graph.name);
  whole_.graphs.push_back(std::move(graph));
}

int64_t elements(const IoDesc& io) { return element_count(io.dims).value_or(0); }

int64_t total_elements(const std::vector<IoDesc>& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0},
                         [](int64_t sum, const IoDesc& io) { return sum + elements(io); });
}

void Merger::add_input_dims(const Model& model, bool first) {
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const Dims& dims = model.inputs[i].dims;
    if (first) open_dims_.push_back(dims);
    for (size_t k = 0; k < dims.size(); ++k) {
      if (open_dims_[i][k] != dims[k]) open_dims_[i][k] = -1;
    }
  }
  if (!first && total_elements(model.inputs) <= total_elements(inputs_)) return;
  inputs_ = model.inputs;
  data_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) data_.push_back(*input_op(model, i));
}

void Merger::add(Model model, size_t gear) {
  move_constants(model);
  const bool first = gear == 0;
  if (first) {
    whole_.name = model.name;
    whole_.attrs = model.attrs;
    whole_.soc_version = model.soc_version;
    outputs_ = model.outputs;
    root_.name = model.name;
  }
  add_input_dims(model, first);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const IoDesc& output = model.outputs[i];
    if (element_count(output.dims) == std::nullopt) {
      refuse("gears need outputs of known shape; that of '" + output.name +
             "' is decided by values");
    }
    if (elements(output) > elements(outputs_[i])) outputs_[i] = output;
    output_dims_.push_back(std::to_string(gear) + "," + std::to_string(i) +
                           (output.dims.empty() ? "" : "," + text_of(output.dims)));
  }
  for (size_t i = 0; i < model.graphs.size(); ++i) {
    add_graph(std::move(model.graphs[i]), gear, i == 0);
  }
}

TensorDesc desc_of(const IoDesc& io) {
  TensorDesc desc;
  desc.dtype = io.dtype;
  desc.dims = io.dims;
  desc.format = io.format;
  return desc;
}

// An input with preprocessing keeps its attributes; its dims are those of the images.
void add_image(Op& op, const Op& made, const Dims& open) {
  op.input_descs = op.output_descs = made.input_descs;
  for (const std::string_view name : {kAippAttrs, kAippMode, kAippMap, kAippDims}) {
    if (const AttrValue* value = made.attrs.find(name)) op.attrs.set(name, *value);
  }
  if (made.attrs.find("_dynamic_aipp_input_dims") == nullptr) return;  // parameters
  op.attrs.set("_dynamic_aipp_input_dims", open);
  op.attrs.set("_mbatch_origin_input_dims", open);
}

Op Merger::data_op(size_t input) const {
  const IoDesc& io = inputs_[input];
  Op op;
  op.name = io.name;
  op.type = "Data";
  op.input_descs = op.output_descs = {desc_of(io)};
  op.attrs.set("index", static_cast<int64_t>(input));
  if (data_[input].attrs.find(kAippMode) != nullptr) {
    add_image(op, data_[input], open_dims_[input]);
    return op;
  }
  const auto shape = options_.input_shape.find(io.name);
  const bool open = shape != options_.input_shape.end() && !shape->second.is_fixed();
  op.attrs.set("_mbatch_origin_input_dims", open ? shape->second.dims : io.dims);
  return op;
}

void Merger::add_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) root_.ops.push_back(data_op(i));
  const auto count = static_cast<int64_t>(options_.gears.values[0].size());
  Op shape;
  shape.name = GearNames::kData;
  shape.type = "Data";
  shape.input_descs = shape.output_descs = {desc_of({"", {count}, {}, kInt32, kNd, 0, {}})};
  shape.attrs.set("index", static_cast<int64_t>(inputs_.size()));
  shape.attrs.set("_is_multi_batch_shape_data", true);
  shape.attrs.set("mbatch-inserted-node", true);
  root_.ops.push_back(std::move(shape));
}

Op table_op(const std::vector<std::vector<int64_t>>& gears) {
  Op op;
  op.name = GearNames::kConst;
  op.type = "Const";
  TensorDesc desc;
  desc.dtype = kInt32;
  desc.dims = {static_cast<int64_t>(gears.size()), static_cast<int64_t>(gears[0].size())};
  desc.format = kNd;
  Bytes bytes;
  for (const auto& gear : gears) {
    for (const int64_t value : gear) {
      for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
  }
  op.output_descs = {desc};
  op.attrs.set("value", Box(Tensor{desc, std::move(bytes)}));
  op.attrs.set("mbatch-inserted-node", true);
  return op;
}

void Merger::add_choice() {
  root_.ops.push_back(table_op(options_.gears.values));
  Op index;
  index.name = GearNames::kMapIndex;
  index.type = "MapIndex";
  index.inputs = {std::string(GearNames::kData) + ":0", std::string(GearNames::kConst) + ":0"};
  const size_t data = inputs_.size();
  index.input_descs = {root_.ops[data].output_descs[0], root_.ops[data + 1].output_descs[0]};
  index.output_descs = {desc_of({"", {}, {}, kInt32, kNd, 0, {}})};
  index.attrs.set("mbatch-inserted-node", true);
  Op choice;
  choice.name = GearNames::kCase;
  choice.type = "Case";
  choice.inputs = {index.name + ":0"};
  choice.input_descs = {index.output_descs[0]};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    choice.inputs.push_back(inputs_[i].name + ":0");
    choice.input_descs.push_back(root_.ops[i].output_descs[0]);
  }
  for (const IoDesc& io : outputs_) choice.output_descs.push_back(desc_of(io));
  choice.subgraphs = branches_;
  AttrMap& attrs = choice.attrs;
  attrs.set("_batch_num", static_cast<int64_t>(options_.gears.values.size()));
  attrs.set("mbatch_dynamic_type", static_cast<int64_t>(options_.gears.kind));
  attrs.set("mbatch-inserted-node", true);
  for (size_t i = 0; i < options_.gears.values.size(); ++i) {
    attrs.set("_pred_value_" + std::to_string(i), options_.gears.values[i]);
    attrs.set("_combined_batch_" + std::to_string(i), options_.gears.values[i]);
  }
  std::vector<std::string> order = options_.shape_order;
  for (const IoDesc& io : inputs_) {
    if (std::find(order.begin(), order.end(), io.name) == order.end()) order.push_back(io.name);
  }
  attrs.set("user_designate_shape_order", std::move(order));
  root_.ops.push_back(std::move(index));
  root_.ops.push_back(std::move(choice));
}

void Merger::add_outputs() {
  Op op;
  op.name = "Node_Output";
  op.type = "NetOutput";
  for (size_t i = 0; i < outputs_.size(); ++i) {
    op.inputs.push_back(std::string(GearNames::kCase) + ":" + std::to_string(i));
    op.input_descs.push_back(desc_of(outputs_[i]));
    root_.outputs.push_back(op.inputs.back());
  }
  op.attrs.set("_dynamic_output_dims", output_dims_);
  root_.ops.push_back(std::move(op));
}

Model Merger::finish() {
  add_inputs();
  add_choice();
  add_outputs();
  whole_.graphs.insert(whole_.graphs.begin(), std::move(root_));
  whole_.weights = Blob::own(pool_.take());
  complete(whole_);
  // What the branches need as they are cut out again to run: a block of this size always does.
  for (size_t gear = 0; gear < branches_.size(); ++gear) {
    const Model branch = gear_model(whole_, gear);
    const auto needed = static_cast<uint64_t>(Program::compile(branch).work_bytes());
    whole_.task_info.memory_size = std::max(whole_.task_info.memory_size, needed);
  }
  complete(whole_);  // repeats the size in the attributes
  return std::move(whole_);
}

}  // namespace

Model convert_gears(const onnx::File& file, const ConvertOptions& options) {
  for (const std::string& name : open_inputs(options)) {
    for (const auto& [low, high] : options.input_shape.at(name).ranges) {
      if (low == high || high == -1) continue;
      refuse("input_shape gives a range for input '" + name + "'; with gears only -1 is possible");
    }
  }
  return Merger(file, options).finish();
}

}  // namespace ascendrt::model
