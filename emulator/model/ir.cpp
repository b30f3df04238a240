// Attribute look-ups and small queries on graphs. Owns: nothing but the functions of ir.hpp.
#include "model/ir.hpp"

#include <algorithm>
#include <charconv>
#include <queue>
#include <unordered_map>

#include "model/om_container.hpp"

namespace ascendrt::model {

const AttrValue* AttrMap::find(std::string_view name) const {
  for (const Attr& attr : items_) {
    if (attr.name == name) return &attr.value;
  }
  return nullptr;
}

AttrValue* AttrMap::find(std::string_view name) {
  return const_cast<AttrValue*>(std::as_const(*this).find(name));
}

void AttrMap::set(std::string_view name, AttrValue value) {
  if (AttrValue* old = find(name)) {
    *old = std::move(value);
  } else {
    append(std::string(name), std::move(value));
  }
}

void AttrMap::append(std::string name, AttrValue value) {
  items_.push_back(Attr{std::move(name), std::move(value)});
}

bool AttrMap::erase(std::string_view name) {
  return std::erase_if(items_, [&](const Attr& attr) { return attr.name == name; }) > 0;
}

void AttrMap::keep_last() {
  std::unordered_map<std::string_view, size_t> last;
  for (size_t i = 0; i < items_.size(); ++i) last[items_[i].name] = i;
  if (last.size() == items_.size()) return;
  std::vector<bool> keep(items_.size(), false);
  for (const auto& [name, i] : last) keep[i] = true;
  std::vector<Attr> kept;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (keep[i]) kept.push_back(std::move(items_[i]));
  }
  items_ = std::move(kept);
}

namespace {

template <class T>
const T* typed(const AttrMap& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  return value == nullptr ? nullptr : value->as<T>();
}

template <class T>
std::optional<T> scalar(const AttrMap& attrs, std::string_view name) {
  const T* value = typed<T>(attrs, name);
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

}  // namespace

std::optional<int64_t> AttrMap::get_int(std::string_view name) const {
  if (const auto* dtype = typed<DataTypeAttr>(*this, name)) return dtype->value;
  return scalar<int64_t>(*this, name);
}
std::optional<float> AttrMap::get_float(std::string_view name) const {
  return scalar<float>(*this, name);
}
std::optional<bool> AttrMap::get_bool(std::string_view name) const {
  return scalar<bool>(*this, name);
}
const std::string* AttrMap::get_string(std::string_view name) const {
  return typed<std::string>(*this, name);
}
const std::vector<int64_t>* AttrMap::get_ints(std::string_view name) const {
  return typed<std::vector<int64_t>>(*this, name);
}
const std::vector<float>* AttrMap::get_floats(std::string_view name) const {
  return typed<std::vector<float>>(*this, name);
}
const std::vector<std::string>* AttrMap::get_strings(std::string_view name) const {
  return typed<std::vector<std::string>>(*this, name);
}

namespace {

const char* kind_name(const AttrValue& value) {
  if (value.as<std::string>() != nullptr) return "a text";
  if (value.as<int64_t>() != nullptr) return "a whole number";
  if (value.as<float>() != nullptr) return "a number with a point";
  if (value.as<std::vector<int64_t>>() != nullptr) return "a list of whole numbers";
  if (value.as<std::vector<float>>() != nullptr) return "a list of numbers with a point";
  if (value.as<std::vector<std::string>>() != nullptr) return "a list of texts";
  if (value.as<bool>() != nullptr) return "a yes or no";
  if (value.as<std::vector<bool>>() != nullptr) return "a list of yes and no";
  if (value.as<DataTypeAttr>() != nullptr) return "a data type";
  if (value.as<DataTypeList>() != nullptr) return "a list of data types";
  if (value.as<std::vector<std::vector<int64_t>>>() != nullptr) return "a list of lists";
  if (value.as<Box<Tensor>>() != nullptr) return "a tensor";
  return "of another type";
}

// What the caller wanted is not there: right when nothing is, or an empty list without a kind.
void want_absent(const AttrMap& attrs, std::string_view name, const char* wanted) {
  const AttrValue* value = attrs.find(name);
  if (value == nullptr || value->as<EmptyList>() != nullptr) return;
  fail_model(kGeParamInvalid, "attribute '" + std::string(name) + "' is " + kind_name(*value) +
                                  ", " + wanted + " is needed");
}

}  // namespace

int64_t AttrMap::int_or(std::string_view name, int64_t fallback) const {
  if (const auto value = get_int(name)) return *value;
  if (const auto value = get_bool(name)) return *value ? 1 : 0;
  want_absent(*this, name, "a whole number");
  return fallback;
}
float AttrMap::float_or(std::string_view name, float fallback) const {
  if (const auto value = get_float(name)) return *value;
  want_absent(*this, name, "a number with a point");
  return fallback;
}
std::string AttrMap::string_or(std::string_view name, std::string_view fallback) const {
  if (const std::string* value = get_string(name)) return *value;
  want_absent(*this, name, "a text");
  return std::string(fallback);
}
std::vector<int64_t> AttrMap::ints_or(std::string_view name, std::vector<int64_t> fallback) const {
  if (const auto* value = get_ints(name)) return *value;
  want_absent(*this, name, "a list of whole numbers");
  return fallback;
}

bool AttrMap::operator==(const AttrMap& other) const {
  if (items_.size() != other.items_.size()) return false;
  return std::all_of(items_.begin(), items_.end(), [&](const Attr& attr) {
    const AttrValue* value = other.find(attr.name);
    return value != nullptr && *value == attr.value;
  });
}

Dims TensorDesc::origin_dims() const {
  const auto* origin = attrs.get_ints("origin_shape");
  if (origin != nullptr) return *origin;
  // A scalar's origin shape is an empty list; the flag tells it from "not given".
  return attrs.get_bool("origin_shape_initialized").value_or(false) ? Dims{} : dims;
}

int32_t TensorDesc::origin_format() const {
  const std::string* name = attrs.get_string("origin_format");
  const int32_t origin = name == nullptr ? kFormatUndefined : format_from_name(*name);
  return origin == kFormatUndefined ? format : origin;
}

void TensorDesc::set_origin(const Dims& origin, int32_t origin_format_id) {
  attrs.set("origin_shape", origin);
  attrs.set("origin_shape_initialized", true);
  attrs.set("origin_format", std::string(format_name(origin_format_id)));
}

std::optional<InputRef> parse_input(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  InputRef ref{text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, ref.index);
  if (error != std::errc() || stop != end || ref.index < -1) return std::nullopt;
  return ref;
}

const Tensor* Op::constant() const {
  const AttrValue* value = type == "Const" || type == "Constant" ? attrs.find("value") : nullptr;
  const auto* boxed = value == nullptr ? nullptr : value->as<Box<Tensor>>();
  return boxed == nullptr ? nullptr : &**boxed;
}

std::optional<InputRef> Op::input(size_t i) const {
  return i < inputs.size() ? parse_input(inputs[i]) : std::nullopt;
}

const Op* Graph::find_op(std::string_view op_name) const {
  for (const Op& op : ops) {
    if (op.name == op_name) return &op;
  }
  return nullptr;
}

std::vector<const Op*> execution_order(const Graph& graph) {
  const std::vector<Op>& ops = graph.ops;
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < ops.size(); ++i) index.emplace(ops[i].name, i);
  std::vector<std::vector<size_t>> followers(ops.size());
  std::vector<size_t> open(ops.size(), 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    for (const std::string& input : ops[i].inputs) {
      const auto ref = parse_input(input);
      const auto found = ref ? index.find(ref->node) : index.end();
      if (found == index.end()) continue;  // reported where the input is needed
      followers[found->second].push_back(i);
      ++open[i];
    }
  }
  const auto later = [&](size_t a, size_t b) {
    return ops[a].id != ops[b].id ? ops[a].id > ops[b].id : a > b;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (open[i] == 0) ready.push(i);
  }
  std::vector<const Op*> order;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(&ops[i]);
    for (const size_t next : followers[i]) {
      if (--open[next] == 0) ready.push(next);
    }
  }
  return order;
}

}  // namespace ascendrt::model
