// What the caller of a model sees, derived from its graph.
// Owns: the rules for names, dims, sizes of inputs and outputs, and for gears.
#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "model/om_container.hpp"
#include "model/om_reader.hpp"

namespace ascendrt::model {
namespace {

bool is_data(const Op& op) {
  constexpr std::string_view kTypes[] = {"Data", "AnnData", "AippData", "QueueData", "RefData"};
  return std::find(std::begin(kTypes), std::end(kTypes), op.type) != std::end(kTypes);
}

// shape_range is a list of [low, high] pairs in the tensor's attributes.
std::vector<std::pair<int64_t, int64_t>> shape_range(const TensorDesc& desc) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const AttrValue* value = desc.attrs.find("shape_range");
  const auto* rows = value == nullptr ? nullptr : value->as<std::vector<std::vector<int64_t>>>();
  if (rows == nullptr) return ranges;
  for (const auto& row : *rows) {
    if (row.size() == 2) ranges.emplace_back(row[0], row[1]);
  }
  return ranges;
}

// Bytes the dims take; 0 when a dim is open.
uint64_t exact_size(const Dims& dims, int32_t dtype) {
  return static_cast<uint64_t>(byte_size(dims, dtype).value_or(0));
}

int64_t special_size(const std::vector<TensorDesc>& descs, size_t i, std::string_view attr) {
  return i < descs.size() ? descs[i].attrs.int_or(attr, 0) : 0;
}

// The dims a caller passes: those before dynamic AIPP, else with -1 for gears, else the plain
// shape.
Dims visible_dims(const Op& op, const TensorDesc& desc) {
  if (const auto* aipp = op.attrs.get_ints("_dynamic_aipp_input_dims")) return *aipp;
  if (const auto* gears = op.attrs.get_ints("_mbatch_origin_input_dims")) return *gears;
  return desc.dims;
}

IoDesc describe_input(const Op& op) {
  static const TensorDesc kNone;
  const TensorDesc& desc = !op.input_descs.empty()    ? op.input_descs.front()
                           : !op.output_descs.empty() ? op.output_descs.front()
                                                      : kNone;
  IoDesc io;
  io.name = op.name;
  io.dtype = desc.dtype;
  io.format = desc.format;
  io.dims = visible_dims(op, desc);
  io.dims_v2 = op.attrs.ints_or("input_dims", io.dims);
  io.shape_range = shape_range(desc);
  const int64_t special = special_size(op.output_descs, 0, "_special_input_size");
  if (special > 0) {
    io.size = static_cast<uint64_t>(special);
  } else {
    io.size = desc.size > 0 ? static_cast<uint64_t>(desc.size) : exact_size(desc.dims, desc.dtype);
  }
  return io;
}

std::vector<IoDesc> describe_inputs(const Graph& root) {
  std::vector<std::tuple<int64_t, int64_t, const Op*>> ordered;  // index, place in the graph
  for (const Op& op : root.ops) {
    if (!is_data(op)) continue;
    const auto position = static_cast<int64_t>(ordered.size());
    ordered.emplace_back(op.attrs.int_or("index", position), position, &op);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<IoDesc> inputs;
  for (const auto& [index, position, op] : ordered) inputs.push_back(describe_input(*op));
  return inputs;
}

std::string output_name(const Model& model, const Op& net_output, size_t i) {
  const std::string source = std::to_string(net_output.src_indices[i]);
  const auto* names = model.attrs.get_strings("attr_model_out_nodes_name");
  if (names != nullptr && names->size() == net_output.input_descs.size()) {
    const std::string& name = (*names)[i];
    return name.find(':') != std::string::npos ? name : name + ":" + source;
  }
  return "output_" + std::to_string(i) + "_" + net_output.src_names[i] + "_" + source;
}

IoDesc describe_output(const Model& model, const Op& net_output, size_t i) {
  const TensorDesc& desc = net_output.input_descs[i];
  IoDesc io;
  io.name = output_name(model, net_output, i);
  io.dtype = desc.dtype;
  io.format = desc.format;
  io.dims = desc.dims;
  const int64_t special = special_size(net_output.input_descs, i, "_special_output_size");
  io.size = special > 0 ? static_cast<uint64_t>(special) : exact_size(desc.dims, desc.dtype);
  io.shape_range = shape_range(desc);
  if (desc.format == kFractalZ && io.dims.size() == 4) {
    io.format = kHwcn;
    io.dims = {desc.dims[2], desc.dims[3], desc.dims[1], desc.dims[0]};
  }
  io.dims_v2 = io.dims;
  return io;
}

std::vector<IoDesc> describe_outputs(const Model& model, const Graph& root) {
  std::vector<IoDesc> outputs;
  for (const Op& op : root.ops) {
    if (op.type != "NetOutput") continue;
    const size_t count = op.input_descs.size();
    if (op.src_names.size() < count || op.src_indices.size() < count) {
      fail_model(kGeFailure,
                 "graph '" + root.name + "': output op '" + op.name + "' has " +
                     std::to_string(count) + " inputs but names the source of only " +
                     std::to_string(std::min(op.src_names.size(), op.src_indices.size())));
    }
    for (size_t i = 0; i < count; ++i) outputs.push_back(describe_output(model, op, i));
    break;  // a graph has one
  }
  return outputs;
}

// Attribute "_pred_value_<i>" -> i.
std::optional<size_t> gear_number(std::string_view name) {
  constexpr std::string_view kPrefix = "_pred_value_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  size_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

Gears gears_of_case(const Op& op) {
  Gears gears;
  const int64_t kind = op.attrs.int_or("mbatch_dynamic_type", 0);
  if (kind < 1 || kind > 3) return gears;
  gears.kind = static_cast<GearKind>(kind);
  std::vector<std::pair<size_t, const std::vector<int64_t>*>> found;
  for (const Attr& attr : op.attrs.items()) {
    const auto number = gear_number(attr.name);
    const auto* values = attr.value.as<std::vector<int64_t>>();
    if (number && values != nullptr) found.emplace_back(*number, values);
  }
  std::sort(found.begin(), found.end());
  const auto count = static_cast<size_t>(std::max<int64_t>(op.attrs.int_or("_batch_num", 0), 0));
  if (found.size() > count) found.resize(count);
  for (const auto& [number, values] : found) gears.values.push_back(*values);
  if (const auto* order = op.attrs.get_strings("user_designate_shape_order")) {
    gears.data_names = *order;
  }
  return gears;
}

Gears describe_gears(const Graph& root) {
  Gears gears;
  for (const Op& op : root.ops) {
    if (op.type == "Case" && op.attrs.find("_batch_num") != nullptr) {
      gears = gears_of_case(op);
      break;
    }
  }
  if (gears.kind == GearKind::kNone) return gears;
  for (const Op& op : root.ops) {
    if (op.type != "NetOutput") continue;
    if (const auto* shapes = op.attrs.get_strings("_dynamic_output_dims")) {
      gears.output_shapes = *shapes;
    }
    break;
  }
  return gears;
}

}  // namespace

void describe(Model& model) {
  model.soc_version = model.attrs.string_or("soc_version", "");
  const Graph* root = model.root();
  if (root == nullptr) return;
  model.inputs = describe_inputs(*root);
  model.outputs = describe_outputs(model, *root);
  model.gears = describe_gears(*root);
}

}  // namespace ascendrt::model
