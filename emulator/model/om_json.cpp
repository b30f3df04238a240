// Owns: the text of a described model. Must never: print weights.
#include "model/om_json.hpp"

#include <cmath>
#include <cstdio>

#include "base/error.hpp"
#include "base/json.hpp"
#include "model/gears.hpp"
#include "model/imported.hpp"
#include "model/program.hpp"

namespace ascendrt::model {
namespace {

using base::quoted;

template <class List, class F>
std::string array(const List& list, F&& text) {
  std::string out = "[";
  for (const auto& item : list) {
    if (out.size() > 1) out += ',';
    out += text(item);
  }
  return out + "]";
}

std::string number(int64_t value) { return std::to_string(value); }

std::string number(float value) {
  if (!std::isfinite(value)) return quoted(std::to_string(value));  // JSON has no such numbers
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  return text;
}

std::string field(std::string_view name, const std::string& value) {
  return quoted(name) + ":" + value;
}

std::string integers(const std::vector<int64_t>& list) {
  return array(list, [](int64_t value) { return number(value); });
}

// Plain values; tensors, graphs and the like are told by their kind only.
std::string attribute(const AttrValue& value) {
  if (const auto* v = value.as<std::string>()) return quoted(*v);
  if (const auto* v = value.as<int64_t>()) return number(*v);
  if (const auto* v = value.as<float>()) return number(*v);
  if (const auto* v = value.as<bool>()) return *v ? "true" : "false";
  if (const auto* v = value.as<DataTypeAttr>()) return number(v->value);
  if (const auto* v = value.as<std::vector<int64_t>>()) return integers(*v);
  if (const auto* v = value.as<std::vector<float>>()) {
    return array(*v, [](float x) { return number(x); });
  }
  if (const auto* v = value.as<std::vector<std::string>>()) {
    return array(*v, [](const std::string& x) { return quoted(x); });
  }
  if (const auto* v = value.as<std::vector<std::vector<int64_t>>>()) return array(*v, integers);
  return "null";
}

std::string tensor(const TensorDesc& desc) {
  return "{" + field("dtype", number(int64_t{desc.dtype})) + "," +
         field("shape", integers(desc.dims)) + "," +
         field("format", quoted(desc.layout.empty() ? format_name(desc.format) : desc.layout)) +
         "}";
}

std::string op_json(const Op& op) {
  const auto text = [](const std::string& word) { return quoted(word); };
  std::string attrs;
  for (const Attr& attr : op.attrs.items()) {
    if (!attrs.empty()) attrs += ',';
    attrs += field(attr.name, attribute(attr.value));
  }
  return "{" + field("name", quoted(op.name)) + "," + field("type", quoted(op.type)) + "," +
         field("inputs", array(op.inputs, text)) + "," +
         field("outputs", array(op.output_descs, tensor)) + "," +
         field("graphs", array(op.subgraphs, text)) + "," + field("attributes", "{" + attrs + "}") +
         "}";
}

std::string graph_json(const Graph& graph) {
  return "{" + field("name", quoted(graph.name)) + "," + field("ops", array(graph.ops, op_json)) +
         "}";
}

std::string plan_json(const PlanFacts& plan) {
  return "{" + field("planned_bytes", number(plan.planned)) + "," +
         field("bound_bytes", number(plan.bound)) + "," +
         field("activation_bytes", number(plan.activations)) + "," +
         field("scratch_bytes", number(plan.scratch)) + "," +
         field("in_place_bytes", number(plan.in_place)) + "}";
}

// Of the gear that needs most, when the model has gears.
Program compile_largest(const Model& model) {
  const bool one_program = !model.unresolved.empty() || model.plain != nullptr ||
                           find_gear_case(model.graphs.at(0)) == nullptr;
  if (one_program) return Program::compile(model);
  const Model largest = gear_model(model, largest_gear(model));
  return Program::compile(largest);
}

}  // namespace

std::string model_json(const Model& model) {
  const auto text = [](const std::string& line) { return quoted(line); };
  std::vector<std::string> missing;
  PlanFacts plan;
  try {
    const Program program = compile_largest(model);
    missing = program.missing();
    plan = program.plan();
  } catch (const base::Error& error) {
    missing.push_back(error.text);
  }
  return "{" + field("name", quoted(model.name)) + "," +
         field("soc_version", quoted(model.soc_version)) + "," +
         field("graphs", array(model.graphs, graph_json)) + "," +
         field("plan", missing.empty() && !is_imported(model) ? plan_json(plan) : "null") + "," +
         field("missing", array(missing, text)) + "," +
         field("inferred", array(model.inferred, text)) + "," +
         field("source", quoted(model.source)) + "}";
}

}  // namespace ascendrt::model
