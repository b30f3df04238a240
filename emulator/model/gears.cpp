// Owns: finding gears and cutting a branch out of a model.
#include "model/gears.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "model/om_container.hpp"
#include "model/om_reader.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  fail_model(kGeParamInvalid, "model with gears: " + text);
}

// "1,0,8,3" -> {1, 0, 8, 3}; empty for anything else.
Dims numbers_of(std::string_view text) {
  Dims numbers;
  while (!text.empty()) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return {};
    numbers.push_back(value);
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return numbers;
}

// The graphs that a branch needs: itself first, then bodies of its ops.
void take_graphs(const Model& whole, const std::string& name, Model& out,
                 std::set<std::string>& taken) {
  if (!taken.insert(name).second) return;
  const Graph* graph = whole.find_graph(name);
  if (graph == nullptr) refuse("there is no graph '" + name + "'");
  out.graphs.push_back(*graph);
  for (const Op& op : graph->ops) {
    for (const std::string& body : op.subgraphs) take_graphs(whole, body, out, taken);
  }
}

// The input of the whole model that operand `operand` of the Case op is.
int64_t input_index(const Graph& root, const Op& choice, int64_t operand) {
  const auto ref = operand < 0 ? std::nullopt : choice.input(static_cast<size_t>(operand));
  const Op* data = ref ? root.find_op(ref->node) : nullptr;
  if (data == nullptr || data->type != "Data") {
    refuse("operand " + std::to_string(operand) + " of '" + choice.name + "' is no input");
  }
  int64_t place = 0;
  for (const Op& op : root.ops) {
    if (&op == data) break;
    place += op.type == "Data" ? 1 : 0;
  }
  return data->attrs.int_or("index", place);
}

// An input that the branch does not read keeps its place.
void add_unused_input(Graph& graph, const IoDesc& io, int64_t index) {
  Op op;
  op.name = io.name;
  op.type = "Data";
  TensorDesc desc;
  desc.dtype = io.dtype;
  desc.dims = io.dims_v2;
  for (int64_t& dim : desc.dims) dim = std::max<int64_t>(dim, 1);
  desc.format = io.format;
  op.input_descs = op.output_descs = {desc};
  op.attrs.set("index", index);
  graph.ops.push_back(std::move(op));
}

}  // namespace

const Op* find_gear_case(const Graph& root) {
  for (const Op& op : root.ops) {
    if (op.type == "Case" && op.attrs.find("_batch_num") != nullptr) return &op;
  }
  return nullptr;
}

std::optional<size_t> find_gear(const Gears& gears, GearKind kind,
                                const std::vector<int64_t>& values) {
  if (gears.kind != kind) return std::nullopt;
  const auto found = std::find(gears.values.begin(), gears.values.end(), values);
  if (found == gears.values.end()) return std::nullopt;
  return static_cast<size_t>(found - gears.values.begin());
}

size_t largest_gear(const Model& model) {
  size_t largest = 0;
  double most = -1;
  for (size_t i = 0; i < model.gears.values.size(); ++i) {
    double product = 1;
    for (const int64_t value : model.gears.values[i]) product *= static_cast<double>(value);
    if (product > most) largest = i;
    most = std::max(most, product);
  }
  return largest;
}

std::optional<Dims> gear_output_dims(const Gears& gears, size_t gear, size_t output) {
  for (const std::string& line : gears.output_shapes) {
    Dims numbers = numbers_of(line);
    if (numbers.size() < 2) continue;
    const bool same_gear = numbers[0] == -1 || numbers[0] == static_cast<int64_t>(gear);
    if (!same_gear || numbers[1] != static_cast<int64_t>(output)) continue;
    numbers.erase(numbers.begin(), numbers.begin() + 2);
    return numbers;
  }
  return std::nullopt;
}

std::vector<const IoDesc*> gear_inputs(const Gears& gears, const std::vector<IoDesc>& inputs) {
  std::vector<const IoDesc*> list;
  if (gears.data_names.empty()) {
    for (const IoDesc& io : inputs) {
      if (io.name != GearNames::kData) list.push_back(&io);
    }
    return list;
  }
  for (const std::string& name : gears.data_names) {
    for (const IoDesc& io : inputs) {
      if (io.name == name) list.push_back(&io);
    }
  }
  return list;
}

Model gear_model(const Model& whole, size_t gear) {
  const Graph& root = *whole.root();
  const Op* choice = find_gear_case(root);
  if (choice == nullptr || gear >= choice->subgraphs.size()) {
    refuse("there is no branch for gear " + std::to_string(gear));
  }
  Model out;
  out.name = whole.name;
  out.version = whole.version;
  out.attrs = whole.attrs;
  out.weights = whole.weights;
  out.soc_version = whole.soc_version;
  std::set<std::string> taken;
  take_graphs(whole, choice->subgraphs[gear], out, taken);
  Graph& graph = out.graphs.front();
  std::set<int64_t> used;
  for (Op& op : graph.ops) {
    if (op.type != "Data") continue;
    const int64_t index = input_index(root, *choice, op.attrs.int_or("_parent_node_index", -1));
    op.attrs.set("index", index);
    used.insert(index);
  }
  for (size_t i = 0; i < whole.inputs.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (!used.contains(index)) add_unused_input(graph, whole.inputs[i], index);
  }
  describe(out);
  if (out.outputs.size() != whole.outputs.size()) {
    refuse("gear " + std::to_string(gear) + " has another number of outputs");
  }
  return out;
}

}  // namespace ascendrt::model
