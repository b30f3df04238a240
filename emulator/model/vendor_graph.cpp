// Making a compiled graph plain: the walk over its ops, reading operands by the consumer's
// descriptor, checking every result against its own.
//
// Note [Logical values]: a tensor is held in its logical view, the origin shape and the order of
// the origin format, whatever blocks it lies in. A TransData then moves nothing, constants are
// unpacked once, axes in attributes mean what they say. Only where a consumer reads the bytes of
// its producer under another shape (compilers drop Reshape) the layout in memory comes back.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/vendor_call.hpp"

namespace ascendrt::model {
namespace {

bool one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// Schedules only; no data passes through them.
bool is_bookkeeping(const Op& op) {
  return one_of(op.type, {"NoOp", "AtomicAddrClean", "MemSet", "Send", "Recv", "StreamActive",
                          "StreamSwitch", "LabelSet"});
}

bool is_float(int32_t dtype) { return dtype == kFloat || dtype == kFloat16 || dtype == kBfloat16; }

// An optional input that is not connected has a descriptor without a type.
bool is_described(const TensorDesc& desc) { return desc.dtype != kUndefined; }

// Whether a shape is what a descriptor says, as far as it says it.
bool agrees(const ops::Shape& shape, const Dims& described) {
  if (described == kNoRank) return true;
  if (described.size() != shape.rank()) return false;
  for (size_t i = 0; i < described.size(); ++i) {
    if (described[i] >= 0 && described[i] != shape[i]) return false;
  }
  return true;
}

class PlainBuilder {
 public:
  PlainBuilder(const Model& model, const VendorOptions& options)
      : model_(model), options_(options) {
    plain_ = std::make_shared<Model>();
    plain_->name = model.name;
    plain_->graphs.emplace_back();
    plain_->graphs[0].name = model.root()->name;
    graph_.emplace(plain_->graphs[0]);
    layouts_.emplace(*graph_);
  }

  Plain build();

 private:
  struct Made {
    GraphValue value;
    const TensorDesc* desc = nullptr;
  };

  void walk(const Graph& graph);
  void add(const Op& op);
  void add_call(const Op& op);
  void add_parameter(const Op& data, const Op& call,
                     const std::vector<std::optional<GraphValue>>& inputs);
  std::vector<Made> results_of(const Op& net_output, const Op& call);
  void add_data();
  void add_constant(const Op& op);
  void add_outputs(const Op& op);
  void add_op(const Op& op);
  void stand_in(const Op& op);
  std::vector<std::optional<GraphValue>> read_inputs(const Op& op);
  std::optional<GraphValue> read(const Op& op, size_t at, size_t number);
  GraphValue view(const Made& made, const TensorDesc& desc);
  GraphValue checked(const VendorCall& call, GraphValue value, size_t i);
  void miss(const Op& op, const std::string& why) {
    result_.unresolved.push_back(op.type + " '" + op.name + "': " + why);
  }

  const Model& model_;
  const VendorOptions& options_;
  std::shared_ptr<Model> plain_;
  std::optional<GraphBuilder> graph_;
  std::optional<Layouts> layouts_;
  std::unordered_map<std::string_view, std::vector<Made>> made_;
  int depth_ = 0;  // of calls
  int calls_ = 0;
  Plain result_;
};

Plain PlainBuilder::build() {
  add_data();
  walk(*model_.root());
  if (!result_.unresolved.empty()) return std::move(result_);
  try {
    complete(*plain_);
    result_.model = std::move(plain_);
  } catch (const base::Error& error) {
    result_.unresolved.push_back(error.text);
  }
  return std::move(result_);
}

void PlainBuilder::walk(const Graph& graph) {
  const std::vector<const Op*> order = execution_order(graph);
  if (order.size() != graph.ops.size()) {
    result_.unresolved.emplace_back("the graph has a cycle");
    return;
  }
  for (const Op* op : order) {
    try {
      add(*op);
    } catch (const base::Error& error) {
      miss(*op, error.text);
      stand_in(*op);
    }
  }
}

void PlainBuilder::add(const Op& op) {
  if (one_of(op.type, {"Data", "AnnData", "AippData", "QueueData", "RefData"})) return;
  if (is_bookkeeping(op)) return;
  if (one_of(op.type, {"Const", "Constant"})) return add_constant(op);
  if (op.type == "NetOutput") return depth_ == 0 ? add_outputs(op) : void();  // see results_of
  add_op(op);
}

// In the order of the description, so that the inputs keep their numbers.
void PlainBuilder::add_data() {
  for (const IoDesc& input : model_.inputs) {
    const Op* op = model_.root()->find_op(input.name);
    if (op == nullptr || op->output_descs.empty()) {
      result_.unresolved.push_back("input '" + input.name + "' has no Data op");
      continue;
    }
    try {
      const TensorDesc& desc = op->output_descs[0];
      const TensorType type = tensor_type(desc);
      if (type.shape.is_open()) {
        ops::fail("shape", "is open; compiled files are computed for fixed shapes only");
      }
      static_cast<void>(type.shape.elements());
      const GraphValue value = graph_->add_data(op->name, type);
      made_[op->name] = {{layouts_->unpack(value, desc), &desc}};
    } catch (const base::Error& error) {
      miss(*op, error.text);
      stand_in(*op);
    }
  }
}

// The graph is lost with the first op that cannot be made plain. The walk goes on with what its
// descriptors promise, so that one list names all such ops.
void PlainBuilder::stand_in(const Op& op) {
  std::vector<Made> made;
  for (const TensorDesc& desc : op.output_descs) {
    const Dims dims = desc.origin_dims();
    if (dims.size() > ops::Shape::kMaxRank) break;
    const TensorType type{static_cast<aclDataType>(desc.dtype), to_shape(dims)};
    made.push_back({{type, op.name, op.name + ":" + std::to_string(made.size()), nullptr}, &desc});
  }
  made_[op.name] = std::move(made);
}

void PlainBuilder::add_constant(const Op& op) {
  if (op.output_descs.empty()) ops::fail("outputs", "there are none");
  const TensorDesc& desc = op.output_descs[0];
  const TensorType type = tensor_type(desc);
  const size_t width = ops::dtype_size(type.dtype);
  const auto bytes = static_cast<size_t>(type.shape.elements()) * width;
  const std::span<const uint8_t> data = model_.constant_data(op);
  if (width == 0 || data.size() < bytes) ops::fail("data", "is not in the file");
  const GraphValue value = graph_->constant(
      op.name, type, Bytes(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes)));
  made_[op.name] = {{layouts_->unpack(value, desc), &desc}};
}

// The caller gets what the descriptors of the outputs say, layout included.
void PlainBuilder::add_outputs(const Op& op) {
  std::vector<GraphValue> values;
  for (size_t i = 0, number = 0; i < op.inputs.size(); ++i) {
    const auto ref = op.input(i);
    if (!ref || ref->index < 0) continue;
    const auto value = read(op, i, number);
    values.push_back(layouts_->pack(*value, op.input_descs.at(number)));
    ++number;
  }
  if (values.size() != model_.outputs.size()) ops::fail("outputs", "some have no source");
  graph_->add_outputs(values);
}

GraphValue PlainBuilder::view(const Made& made, const TensorDesc& desc) {
  const TensorDesc& from = *made.desc;
  if (from.format == desc.format && from.dims == desc.dims &&
      from.origin_dims() == desc.origin_dims() && from.origin_format() == desc.origin_format()) {
    return made.value;
  }
  const bool plain = is_plain_format(from.format) && is_plain_format(desc.format);
  if (!plain && !(from.format == desc.format && from.dims == desc.dims)) {
    ops::fail("layout", std::string(format_name(from.format)) + " " + to_shape(from.dims).text() +
                            " is read as " + format_name(desc.format) + " " +
                            to_shape(desc.dims).text());
  }
  const GraphValue bytes = layouts_->reshape(layouts_->pack(made.value, from), desc.dims);
  return layouts_->unpack(bytes, desc);
}

std::optional<GraphValue> PlainBuilder::read(const Op& op, size_t at, size_t number) {
  const auto ref = op.input(at);
  if (!ref) return std::nullopt;
  const auto found = made_.find(ref->node);
  if (found == made_.end() || static_cast<size_t>(ref->index) >= found->second.size()) {
    ops::fail("input " + std::to_string(number), "'" + op.inputs[at] + "' is not made by any op");
  }
  const Made& made = found->second[static_cast<size_t>(ref->index)];
  if (number >= op.input_descs.size() || !is_described(op.input_descs[number])) return made.value;
  const TensorDesc& desc = op.input_descs[number];
  if (desc.dtype != made.value.type.dtype) {
    ops::fail("input " + std::to_string(number),
              std::string("is described as ") + dtype_name(desc.dtype) + ", its producer makes " +
                  dtype_name(made.value.type.dtype));
  }
  return view(made, desc);
}

std::vector<std::optional<GraphValue>> PlainBuilder::read_inputs(const Op& op) {
  std::vector<std::optional<GraphValue>> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto ref = op.input(i);
    if (ref && ref->index < 0) continue;  // order only
    inputs.push_back(read(op, i, inputs.size()));
  }
  return inputs;
}

// A result must be what the file says it is: a rule that misread an attribute ends here.
GraphValue PlainBuilder::checked(const VendorCall& call, GraphValue value, size_t i) {
  const TensorDesc& desc = call.op.output_descs[i];
  if (desc.dtype != value.type.dtype && is_float(desc.dtype) && is_float(value.type.dtype)) {
    value = call.cast(value, desc.dtype, "_result");
  }
  const TensorType wanted{static_cast<aclDataType>(desc.dtype), to_shape(desc.origin_dims())};
  if (value.type.dtype != wanted.dtype || !agrees(value.type.shape, desc.origin_dims())) {
    call.fail("output " + std::to_string(i) + " is described as " + ops::dtype_name(wanted.dtype) +
              " " + wanted.shape.text() + ", its inputs give " + ops::dtype_name(value.type.dtype) +
              " " + value.type.shape.text());
  }
  return value;
}

void PlainBuilder::add_op(const Op& op) {
  if (op.output_descs.empty()) ops::fail("outputs", "there are none");
  if (one_of(op.type, {"PartitionedCall", "StatefulPartitionedCall"})) return add_call(op);
  if (!op.subgraphs.empty()) ops::fail("subgraphs", "those of compiled files are not computed");
  const VendorCall call{op,        model_,          options_,        *graph_,
                        *layouts_, read_inputs(op), result_.inferred};
  std::vector<GraphValue> results;
  if (is_merged(op)) {
    results = make_merged(call);
  } else if (const VendorRule* rule = find_vendor_rule(op.type)) {
    results = rule->make(call);
  } else if (find_op_type(op.type) != nullptr) {
    results = graph_->add(op.type, op.name, call.inputs, op.attrs);
  } else {
    return ops::fail("operator", "is not implemented");
  }
  std::vector<Made> made;
  for (size_t i = 0; i < results.size() && i < op.output_descs.size(); ++i) {
    made.push_back({checked(call, std::move(results[i]), i), &op.output_descs[i]});
  }
  made_[op.name] = std::move(made);
}

// --- calls: parts of the network that the compiler put apart, as those of known shapes ---

// The ops of the body take the place of the call; names count within a body only.
void PlainBuilder::add_call(const Op& op) {
  constexpr int kDeepest = 8;
  constexpr int kMostCalls = 4096;
  const Graph* body = op.subgraphs.size() == 1 ? model_.find_graph(op.subgraphs[0]) : nullptr;
  if (body == nullptr) ops::fail("subgraphs", "the graph it calls is not in the file");
  if (depth_ == kDeepest || ++calls_ > kMostCalls) ops::fail("subgraphs", "too many calls");
  const auto inputs = read_inputs(op);
  auto outer = std::exchange(made_, {});
  ++depth_;
  const Op* last = nullptr;
  for (const Op& inner : body->ops) {
    if (inner.type == "Data") add_parameter(inner, op, inputs);
    if (inner.type == "NetOutput") last = &inner;
  }
  walk(*body);
  std::vector<Made> results;
  if (last != nullptr) results = results_of(*last, op);
  --depth_;
  made_ = std::move(outer);
  if (results.size() != op.output_descs.size())
    ops::fail("subgraphs", "some outputs have no source");
  made_[op.name] = std::move(results);
}

void PlainBuilder::add_parameter(const Op& data, const Op& call,
                                 const std::vector<std::optional<GraphValue>>& inputs) {
  const int64_t index = data.attrs.int_or("_parent_node_index", data.attrs.int_or("index", -1));
  const auto at = static_cast<size_t>(index);
  if (data.output_descs.empty() || index < 0 || at >= inputs.size() || !inputs[at] ||
      at >= call.input_descs.size()) {
    return miss(data, "the call gives it no tensor");
  }
  const TensorDesc& desc = data.output_descs[0];
  try {
    if (desc.dtype != inputs[at]->type.dtype) ops::fail("the call", "gives it another type");
    made_[data.name] = {{view({*inputs[at], &call.input_descs[at]}, desc), &desc}};
  } catch (const base::Error& error) {
    miss(data, error.text);
    stand_in(data);
  }
}

std::vector<PlainBuilder::Made> PlainBuilder::results_of(const Op& net_output, const Op& call) {
  std::vector<std::optional<Made>> found(call.output_descs.size());
  try {
    for (size_t i = 0, number = 0; i < net_output.inputs.size(); ++i) {
      const auto ref = net_output.input(i);
      if (!ref || ref->index < 0) continue;
      const auto value = read(net_output, i, number);
      const TensorDesc& from = net_output.input_descs.at(number);
      const auto place = static_cast<int64_t>(number++);
      const auto to = static_cast<size_t>(from.attrs.int_or("_parent_node_index", place));
      if (to >= found.size()) continue;
      const TensorDesc& desc = call.output_descs[to];
      found[to] = Made{view({*value, &from}, desc), &desc};
    }
  } catch (const base::Error& error) {
    miss(net_output, error.text);
  }
  std::vector<Made> results;
  for (std::optional<Made>& made : found) {
    if (made) results.push_back(std::move(*made));
  }
  return results;
}

}  // namespace

Plain plain_graph(const Model& model, const VendorOptions& options) {
  if (model.root() == nullptr) return {nullptr, {"the model has no graph"}, {}};
  if (model.gears.kind != GearKind::kNone) {
    return {nullptr, {"gears of compiled files are not computed"}, {}};
  }
  return PlainBuilder(model, options).build();
}

// --- what rules ask for ---

void VendorCall::fail(const std::string& what) const {
  base::fail(kGeFailure, what, base::Layer::kAcl);
}

void VendorCall::infer(const std::string& what) const {
  inferred.push_back(op.type + " '" + op.name + "': " + what);
}

const GraphValue& VendorCall::in(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs[i];
}

const TensorDesc& VendorCall::in_desc(size_t i) const {
  if (i >= op.input_descs.size()) fail("input " + std::to_string(i) + " is not described");
  return op.input_descs[i];
}

const TensorDesc& VendorCall::out_desc() const { return op.output_descs.front(); }

GraphValue VendorCall::nchw(size_t i) const {
  return layouts.reorder(in(i), in_desc(i).origin_format(), kNchw);
}

GraphValue VendorCall::from_nchw(const GraphValue& y) const {
  return layouts.reorder(y, kNchw, out_desc().origin_format());
}

Dims VendorCall::four(std::string_view attr) const {
  const auto* values = op.attrs.get_ints(attr);
  if (values == nullptr || values->size() != 4) {
    fail("attribute " + std::string(attr) + " of four numbers is not in the file");
  }
  const std::string_view letters =
      axis_letters(format_from_name(op.attrs.string_or("data_format", "NCHW")));
  Dims out;
  for (const char axis : std::string_view("NCHW")) {
    const size_t at = letters.find(axis);
    if (letters.size() != 4 || at == std::string_view::npos) fail("attribute data_format");
    out.push_back((*values)[at]);
  }
  return out;
}

GraphValue VendorCall::per_channel(size_t i) const {
  const GraphValue& x = in(0);
  const GraphValue& value = in(i);
  const std::string_view letters = axis_letters(in_desc(0).origin_format());
  const size_t rank = x.type.shape.rank();
  if (value.type.shape.rank() != 1 || rank < 2) return value;
  const size_t axis = letters.size() == rank ? letters.find('C') : 1;
  Dims dims(rank, 1);
  dims[axis] = value.type.shape[0];
  return layouts.reshape(value, dims);
}

GraphValue VendorCall::cast(const GraphValue& x, int32_t dtype, const std::string& suffix) const {
  if (x.type.dtype == dtype) return x;
  AttrMap attrs;
  attrs.set("dst_type", int64_t{dtype});
  return graph.add_one("Cast", op.name + suffix, {x}, std::move(attrs));
}

GraphValue VendorCall::as_result(const GraphValue& x) const {
  const bool widens =
      out_desc().dtype == kFloat && x.type.dtype != ACL_FLOAT && is_float(x.type.dtype);
  return widens ? cast(x, kFloat, "_" + x.name + "_wide") : x;
}

GraphValue VendorCall::make(const std::string& type, GraphBuilder::Inputs operands,
                            AttrMap attrs) const {
  return graph.add_one(type, op.name, std::move(operands), std::move(attrs));
}

const VendorRule* find_vendor_rule(std::string_view type) {
  for (const auto rules : {vendor_window_rules(), vendor_list_rules()}) {
    for (const VendorRule& rule : rules) {
      if (rule.type == type) return &rule;
    }
  }
  return nullptr;
}

}  // namespace ascendrt::model
