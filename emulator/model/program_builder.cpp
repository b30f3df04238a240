// Owns: order, checks of descriptors, aliases, lifetimes of a compilation.
// Must never: trust a number of the file; a graph that contradicts itself is listed as missing.
#include "model/program_builder.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "model/imported.hpp"

namespace ascendrt::model {
namespace {

bool one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool is_data(const Op& op) { return op.type == "Data"; }
bool is_constant(const Op& op) { return one_of(op.type, {"Const", "Constant"}); }

// Schedules only; no data passes through them.
bool is_bookkeeping(const Op& op) {
  return one_of(op.type, {"NoOp", "AtomicAddrClean", "Send", "Recv", "StreamActive", "LabelSet"});
}

TensorType checked_type(const TensorDesc& desc) {
  if (!is_plain_format(desc.format)) {
    const std::string name = desc.layout.empty() ? format_name(desc.format) : desc.layout;
    ops::fail("layout", name + " is not computed");
  }
  TensorType type = tensor_type(desc);
  if (!type.shape.is_open()) static_cast<void>(type.shape.elements());
  return type;
}

// Multiply-adds of products, else elements read or written.
int64_t operations_of(const Op& op, const std::vector<Operand>& inputs,
                      const std::vector<TensorType>& results) {
  int64_t largest = 0;
  for (const TensorType& result : results) {
    if (!result.shape.is_open()) largest = std::max(largest, result.shape.elements());
  }
  int64_t per_output = 1;
  if (results.empty() || results[0].shape.is_open() ||
      std::any_of(inputs.begin(), inputs.end(),
                  [](const Operand& input) { return input.type.shape.is_open(); })) {
    return largest;
  }
  const bool transposed = op.type.find("Transpose") != std::string::npos;
  const size_t filter = transposed ? 2 : 1;
  if (op.type.find("Conv") != std::string::npos && inputs.size() > filter) {
    const ops::Shape& w = inputs[filter].type.shape;
    per_output = w.elements(1, w.rank());
    if (transposed) largest = inputs[1].type.shape.elements();  // each meets the whole filter
  } else if (op.type.find("MatMul") != std::string::npos) {
    const ops::Shape& a = inputs[0].type.shape;  // the depth is one of its last two dims
    per_output = std::max(a[a.rank() - 1], a[a.rank() - 2]);
  } else if (op.type.find("Attention") != std::string::npos && inputs.size() > 1) {
    const ops::Shape& k = inputs[1].type.shape;  // its rows are one of the middle dims
    for (size_t i = 1; i + 1 < k.rank(); ++i) per_output = std::max(per_output, 2 * k[i]);
  } else {
    for (const Operand& input : inputs) {
      if (input.connected && !input.type.shape.is_open())
        largest = std::max(largest, input.type.shape.elements());
    }
  }
  int64_t total = 0;
  return __builtin_mul_overflow(largest, per_output, &total) ? INT64_MAX : total;
}

}  // namespace

Program ProgramBuilder::build() {
  program_.model_ = &model_;
  program_.weight_bytes_ = model_.weights.bytes.size();
  count_uses();
  for (const Op* op : ordered()) {
    const size_t first_step = program_.steps_.size();
    try {
      add(*op);
    } catch (const base::Error& error) {
      miss(*op, error.text);
    }
    finish_op(*op, first_step);
  }
  if (program_.missing_.empty()) plan();
  collect_weight_parts();
  return std::move(program_);
}

void ProgramBuilder::miss(const Op& op, std::string_view why) {
  program_.missing_.push_back(op.type + " '" + op.name + "': " + std::string(why));
}

std::vector<const Op*> ProgramBuilder::ordered() {
  std::vector<const Op*> order = execution_order(graph_);
  if (order.size() == graph_.ops.size()) return order;
  for (const Op& op : graph_.ops) {
    if (std::find(order.begin(), order.end(), &op) == order.end()) {
      miss(op, "is part of a cycle or behind one");
    }
  }
  return order;
}

void ProgramBuilder::add(const Op& op) {
  if (is_data(op)) return add_data(op);
  if (is_constant(op)) return add_constant(op);
  if (op.type == "NetOutput") return add_outputs(op);
  if (!is_bookkeeping(op)) add_step(op);
}

int64_t ProgramBuilder::new_buffer(int64_t bytes, int64_t first) {
  place_of_.push_back(lifetimes_.size());
  lifetimes_.push_back({bytes, first, first});
  return static_cast<int64_t>(lifetimes_.size()) - 1;
}

void ProgramBuilder::use(const Made& made, int64_t step) {
  if (made.buffer < 0) return;
  Lifetime& life = lifetimes_[static_cast<size_t>(made.buffer)];
  life.last = std::max(life.last, step);
}

void ProgramBuilder::add_data(const Op& op) {
  if (op.output_descs.empty()) return miss(op, "has no output");
  const TensorDesc& desc = op.input_descs.empty() ? op.output_descs[0] : op.input_descs[0];
  Made made;
  made.type = checked_type(desc);
  const int64_t index = op.attrs.int_or("index", static_cast<int64_t>(program_.inputs_.size()));
  const auto count = static_cast<int64_t>(model_.inputs.size());
  if (index < 0 || index >= count) return miss(op, "its index is none of the model's inputs");
  if (program_.inputs_.size() < model_.inputs.size()) {
    program_.inputs_.resize(model_.inputs.size());
    input_buffers_.resize(model_.inputs.size(), -1);
  }
  InputSlot& slot = program_.inputs_[static_cast<size_t>(index)];
  if (ops::dtype_size(made.type.dtype) == 0) return miss(op, "its type is not computed");
  slot.type = made.type;
  slot.bytes = made.type.shape.elements() * static_cast<int64_t>(ops::dtype_size(made.type.dtype));
  made.place = {Place::Home::kInput, index, nullptr};
  made.buffer = new_buffer(slot.bytes, 0);
  input_buffers_[static_cast<size_t>(index)] = made.buffer;
  set(op, {made});
}

void ProgramBuilder::add_constant(const Op& op) {
  if (op.output_descs.empty()) return miss(op, "has no output");
  Made made;
  made.type = checked_type(op.output_descs[0]);
  made.constant = model_.constant_data(op);
  made.is_constant = true;
  const auto size = static_cast<int64_t>(ops::dtype_size(made.type.dtype));
  const int64_t bytes = made.type.shape.elements() * size;
  if (size == 0 || static_cast<int64_t>(made.constant.size()) < bytes) {
    return miss(op, "its data is not in the file");
  }
  made.constant = made.constant.first(static_cast<size_t>(bytes));
  const auto weights = model_.weights.bytes;
  const bool inside = bytes > 0 && made.constant.data() >= weights.data() &&
                      made.constant.data() < weights.data() + weights.size();
  if (inside) {
    made.place = {Place::Home::kWeights, made.constant.data() - weights.data(), nullptr};
    if (made.place.offset % size != 0) return miss(op, "its data is not aligned for its type");
  } else {
    made.place = {Place::Home::kHost, 0, made.constant.data()};
  }
  set(op, {made});
}

const ProgramBuilder::Made* ProgramBuilder::find(const Op& op, size_t input) {
  const auto ref = op.input(input);
  if (!ref || ref->index < 0) return nullptr;
  const auto found = made_.find(ref->node);
  if (found == made_.end() || static_cast<size_t>(ref->index) >= found->second.size()) {
    ops::fail("input " + std::to_string(input), "'" + op.inputs[input] + "' is not computed");
  }
  return &found->second[static_cast<size_t>(ref->index)];
}

std::vector<const ProgramBuilder::Made*> ProgramBuilder::find_inputs(const Op& op) {
  std::vector<const Made*> sources;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto ref = op.input(i);
    if (ref && ref->index < 0) continue;  // order only
    sources.push_back(find(op, i));
  }
  return sources;
}

OpView ProgramBuilder::view(const Op& op, const std::vector<const Made*>& sources) {
  OpView result{op, {}, {&model_, model_.weights.bytes}};
  for (size_t i = 0; i < sources.size(); ++i) {
    Operand operand;
    if (sources[i] != nullptr) {
      operand.connected = true;
      operand.is_constant = sources[i]->is_constant;
      operand.constant = sources[i]->constant;
      operand.type = sources[i]->type;
      // The consumer's descriptor decides the shape: compilers drop pure reshapes.
      if (i < op.input_descs.size() && op.input_descs[i].dtype != kUndefined) {
        operand.type = checked_type(op.input_descs[i]);
        if (operand.type.shape.is_open() || sources[i]->type.shape.is_open()) {
          operand.type = sources[i]->type;
        }
        if (operand.type.dtype != sources[i]->type.dtype ||
            (!operand.type.shape.is_open() &&
             operand.type.shape.elements() != sources[i]->type.shape.elements())) {
          ops::fail("input " + std::to_string(i), "is described as " + operand.type.shape.text() +
                                                      ", its producer makes " +
                                                      sources[i]->type.shape.text());
        }
      }
    }
    result.inputs.push_back(operand);
  }
  return result;
}

void ProgramBuilder::check_outputs(const Op& op, const std::vector<TensorType>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i >= op.output_descs.size()) ops::fail("output " + std::to_string(i), "is not described");
    const TensorType described = checked_type(op.output_descs[i]);
    if (described.dtype != types[i].dtype ||
        !(described.shape == types[i].shape || described.shape.is_open())) {
      ops::fail("output " + std::to_string(i), "is described as " + described.shape.text() +
                                                   ", its inputs give " + types[i].shape.text());
    }
  }
}

Value ProgramBuilder::value_of(const Made& made, const TensorType& type) {
  Value value{type, made.place};
  if (value.place.home == Place::Home::kWork) value.place.offset = made.buffer;  // until plan()
  return value;
}

// False when only a run can tell the shapes: Note [Late ops].
bool ProgramBuilder::compile_op(const OpType& type, const OpView& operands, Kernel& kernel,
                                std::vector<TensorType>& types) {
  if (type.compute != nullptr) return false;
  try {
    types = infer_op(type, operands);
    check_outputs(operands.op, types);
    kernel = build_op(type, operands, types);
    return true;
  } catch (const ops::NotKnown&) {
    types.clear();
    return false;
  }
}

// Room for the results of a step.
std::vector<ProgramBuilder::Made> ProgramBuilder::make_results(Step& step,
                                                               const std::vector<TensorType>& types,
                                                               int64_t now) {
  std::vector<Made> results;
  for (const TensorType& result : types) {
    Made made{result, {Place::Home::kWork, 0, nullptr}, -1, {}, false, {}};
    if (result.shape.is_open()) {
      made.place = {Place::Home::kOpen, program_.open_slots_++, nullptr};
    } else {
      made.buffer = new_buffer(
          result.shape.elements() * static_cast<int64_t>(ops::dtype_size(result.dtype)), now);
    }
    step.outputs.push_back(value_of(made, result));
    results.push_back(made);
  }
  return results;
}

void ProgramBuilder::add_step(const Op& op) {
  const OpType* type = find_op_type(op.type);
  if (type == nullptr) return miss(op, "this operator is not implemented");
  if (add_blocked(op, *type)) return;
  std::vector<const Made*> sources = find_inputs(op);
  for (const Made*& source : sources) source = plain(source);
  const OpView operands = view(op, sources);
  Step step;
  std::vector<TensorType> types;
  if (!compile_op(*type, operands, step.kernel, types)) {
    step.late = &op;
    for (const TensorDesc& desc : op.output_descs) types.push_back(checked_type(desc));
  }
  if (step.kernel.is_view) {
    Made alias = *sources[0];
    alias.type = types[0];
    return set(op, {alias});
  }
  const auto now = static_cast<int64_t>(program_.steps_.size());
  step.type = type->name.data();
  step.name = op.name;
  step.operations = operations_of(op, operands.inputs, types);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] != nullptr) use(*sources[i], now);
    step.inputs.push_back(sources[i] == nullptr ? Value{}
                                                : value_of(*sources[i], operands.inputs[i].type));
  }
  std::vector<Made> results = make_results(step, types, now);
  const int64_t scratch = step.kernel.scratch_bytes;
  scratch_buffers_.push_back(scratch > 0 ? new_buffer(scratch, now) : -1);
  program_.steps_.push_back(std::move(step));
  set(op, std::move(results));
}

void ProgramBuilder::add_outputs(const Op& op) {
  std::vector<const Made*> sources = find_inputs(op);
  for (const Made*& source : sources) source = plain(source);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == nullptr) return miss(op, "output " + std::to_string(i) + " has no source");
    const TensorType& type = sources[i]->type;
    if (type.shape.is_open()) {
      program_.outputs_.push_back({value_of(*sources[i], type), -1});
      continue;
    }
    const int64_t bytes = type.shape.elements() * static_cast<int64_t>(ops::dtype_size(type.dtype));
    if (i >= model_.outputs.size() || bytes != static_cast<int64_t>(model_.outputs[i].size)) {
      return miss(op, "output " + std::to_string(i) + " is described with another size");
    }
    use(*sources[i], INT64_MAX);
    program_.outputs_.push_back({value_of(*sources[i], type), bytes});
  }
  if (program_.outputs_.size() != model_.outputs.size()) miss(op, "an output is missing");
}

// Lets results lie on operands that nobody reads later, where the kernel allows it.
void ProgramBuilder::share_places() {
  const auto buffer_of = [&](const Value& value) {
    return place_of_[static_cast<size_t>(value.place.offset)];
  };
  const auto in_work = [](const Value& v) { return v.place.home == Place::Home::kWork; };
  for (size_t step = 0; step < program_.steps_.size(); ++step) {
    const Step& s = program_.steps_[step];
    if (s.kernel.in_place == 0 || s.outputs.size() != 1 || !in_work(s.outputs[0])) continue;
    const auto result = static_cast<size_t>(s.outputs[0].place.offset);
    const auto allowed = [&](size_t i) { return i < 8 && ((s.kernel.in_place >> i) & 1U) != 0; };
    for (size_t i = 0; i < s.inputs.size() && place_of_[result] == result; ++i) {
      if (!allowed(i) || !in_work(s.inputs[i])) continue;
      const size_t under = buffer_of(s.inputs[i]);
      const auto conflicts = [&](size_t k) {
        return in_work(s.inputs[k]) && buffer_of(s.inputs[k]) == under &&
               (!allowed(k) || !(s.inputs[k].type.shape == s.inputs[i].type.shape));
      };
      bool blocked = lifetimes_[under].last != static_cast<int64_t>(step) ||
                     lifetimes_[under].bytes != lifetimes_[result].bytes ||
                     s.inputs[i].type.shape.elements() != s.outputs[0].type.shape.elements();
      for (size_t k = 0; k < s.inputs.size(); ++k) blocked = blocked || conflicts(k);
      if (blocked) continue;
      place_of_[result] = under;
      lifetimes_[under].last = lifetimes_[result].last;
      program_.plan_.in_place += lifetimes_[result].bytes;
      lifetimes_[result].bytes = 0;
    }
  }
}

// Turns buffer numbers into offsets.
void ProgramBuilder::plan() {
  if (program_.inputs_.size() != model_.inputs.size()) {
    program_.missing_.emplace_back("an input of the model has no Data op");
    return;
  }
  for (const Step& step : program_.steps_) {
    for (const Value& value : step.outputs) {
      if (value.place.home != Place::Home::kWork) continue;
      program_.plan_.activations += lifetimes_[static_cast<size_t>(value.place.offset)].bytes;
    }
  }
  share_places();
  const MemoryPlan plan = plan_memory(lifetimes_);
  const auto offset = [&](int64_t buffer) {
    return plan.offsets[place_of_[static_cast<size_t>(buffer)]];
  };
  const auto settle = [&](Value& value) {
    if (value.place.home == Place::Home::kWork) value.place.offset = offset(value.place.offset);
  };
  for (size_t i = 0; i < program_.steps_.size(); ++i) {
    Step& step = program_.steps_[i];
    for (Value& value : step.inputs) settle(value);
    for (Value& value : step.outputs) settle(value);
    if (scratch_buffers_[i] < 0) continue;
    step.scratch_offset = offset(scratch_buffers_[i]);
    program_.plan_.scratch = std::max(program_.plan_.scratch, step.kernel.scratch_bytes);
  }
  for (size_t i = 0; i < program_.inputs_.size(); ++i) {
    if (input_buffers_[i] < 0) {
      program_.missing_.emplace_back("input " + std::to_string(i) + " has no Data op");
      return;
    }
    program_.inputs_[i].offset = offset(input_buffers_[i]);
  }
  for (OutputSlot& output : program_.outputs_) settle(output.value);
  program_.plan_.planned = plan.total_bytes;
  program_.plan_.bound = plan.bound_bytes;
}

Program Program::compile(const Model& model, const Forget& forget) {
  if (model.plain != nullptr) return compile(*model.plain, forget);
  if (!model.unresolved.empty()) {
    Program program;
    program.missing_ = model.unresolved;
    return program;
  }
  if (model.root() == nullptr) {
    Program program;
    program.missing_.emplace_back("the model has no graph");
    return program;
  }
  if (is_imported(model) && model.is_dynamic())
    return {};  // each choice of shapes has a program of its own
  if (model.is_dynamic()) {
    Program program;
    program.missing_.emplace_back(
        "a compiled model of unknown shapes does not hold the network it was made from; convert "
        "that network with `ascendrt om convert`");
    return program;
  }
  if (model.gears.kind != GearKind::kNone) return {};  // each gear has a program of its own
  return ProgramBuilder(model, forget).build();
}

}  // namespace ascendrt::model
