// Owns: links between ops. Must never: leave a reference to an op that is gone.
#include "model/fuse_graph.hpp"

#include <algorithm>
#include <cstring>

#include "model/fuse.hpp"
#include "model/op_set.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

bool contains(const std::vector<size_t>& list, size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

std::string node_of(const std::string& value) {
  const auto ref = parse_input(value);
  return ref ? std::string(ref->node) : std::string();
}

}  // namespace

FusionGraph::FusionGraph(Graph& graph)
    : graph_(graph),
      ops_(std::move(graph.ops)),
      gone_(ops_.size()),
      readers_(ops_.size()),
      given_(ops_.size()) {
  for (Index i = 0; i < ops_.size(); ++i) index_.emplace(ops_[i].name, i);
  for (Index i = 0; i < ops_.size(); ++i) link(i, true);
}

void FusionGraph::link(Index reader, bool add) {
  for (const std::string& input : ops_[reader].inputs) {
    const Index from = maker(input);
    if (from == kNone) continue;
    auto& list = readers_[from];
    if (add) {
      list.push_back(reader);
    } else {
      list.erase(std::find(list.begin(), list.end(), reader));
    }
  }
}

FusionGraph::Index FusionGraph::maker(const std::string& value) const {
  const auto found = index_.find(node_of(value));
  return found == index_.end() ? kNone : found->second;
}

FusionGraph::Index FusionGraph::producer(Index i, size_t input) const {
  return input < ops_[i].inputs.size() ? maker(ops_[i].inputs[input]) : kNone;
}

FusionGraph::Index FusionGraph::only_reader(Index i) const {
  return readers_[i].size() == 1 ? readers_[i][0] : kNone;
}

FusionGraph::Index FusionGraph::first_reader(const std::vector<Index>& of) const {
  Index first = kNone;
  for (const Index i : of) {
    for (const Index reader : readers_[i]) {
      if (!contains(of, reader)) first = std::min(first, reader);
    }
  }
  return first;
}

const Tensor* FusionGraph::constant(Index i, size_t input) const {
  const Index from = producer(i, input);
  return from == kNone ? nullptr : ops_[from].constant();
}

std::optional<float> FusionGraph::constant_float(Index i, size_t input) const {
  const Tensor* tensor = constant(i, input);
  if (tensor == nullptr || element_count(tensor->desc.dims) != 1) return std::nullopt;
  const auto dtype = static_cast<aclDataType>(tensor->desc.dtype);
  if (dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16) return std::nullopt;
  float value = 0.0F;
  ops::cast({const_cast<uint8_t*>(tensor->data.data()), dtype, {1}}, {&value, ACL_FLOAT, {1}}, {});
  return value;
}

std::optional<std::vector<int64_t>> FusionGraph::constant_ints(Index i, size_t input) const {
  const Tensor* tensor = constant(i, input);
  if (tensor == nullptr || tensor->desc.dtype != kInt64) return std::nullopt;
  std::vector<int64_t> values(tensor->data.size() / sizeof(int64_t));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(int64_t));
  }
  return values;
}

bool FusionGraph::closed(const std::vector<Index>& parts, Index last) const {
  return std::all_of(parts.begin(), parts.end(), [&](Index i) {
    return i == last || std::all_of(readers_[i].begin(), readers_[i].end(),
                                    [&](Index reader) { return contains(parts, reader); });
  });
}

void FusionGraph::add_unread(std::vector<Index>& parts,
                             const std::vector<Index>& candidates) const {
  for (const Index i : candidates) {
    const bool unread = std::all_of(readers_[i].begin(), readers_[i].end(),
                                    [&](Index reader) { return contains(parts, reader); });
    if (unread && !contains(parts, i)) parts.push_back(i);
  }
}

bool FusionGraph::reads_one_of(Index reader, const std::string& value,
                               const std::vector<Index>& parts) const {
  const Index from = maker(value);
  return from != kNone && (from >= reader || contains(parts, from));
}

void FusionGraph::replace(const std::vector<Index>& parts, Index last, Op op) {
  std::vector<std::string> names;
  std::vector<Index> order = parts;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (const Index i : order) {
    const auto* before = ops_[i].attrs.get_strings(kOriginalNames);
    if (before == nullptr) {
      names.push_back(ops_[i].name);
    } else {
      names.insert(names.end(), before->begin(), before->end());
    }
  }
  op.attrs.set(kOriginalNames, std::move(names));
  const std::string old = ops_[last].name;
  for (const Index i : order) {
    link(i, false);
    index_.erase(ops_[i].name);
    gone_[i] = i != last;
  }
  for (const Index reader : readers_[last]) {
    for (std::string& input : ops_[reader].inputs) {
      if (node_of(input) == old) input = op.name + input.substr(old.size());
    }
  }
  for (std::string& output : graph_.outputs) {
    if (node_of(output) == old) output = op.name + output.substr(old.size());
  }
  index_.emplace(op.name, last);
  ops_[last] = std::move(op);
  link(last, true);
}

std::string FusionGraph::add_constant(const std::string& name, Tensor tensor) {
  Op op;
  op.name = name;
  for (int i = 1; index_.contains(op.name); ++i) op.name = name + "_" + std::to_string(i);
  op.type = "Const";
  op.output_descs.push_back(tensor.desc);
  op.attrs.set("value", Box(std::move(tensor)));
  index_.emplace(op.name, ops_.size());
  std::string reference = op.name + ":0";
  ops_.push_back(std::move(op));
  gone_.push_back(false);
  readers_.emplace_back();
  return reference;
}

void FusionGraph::finish() {
  std::vector<Op> kept;
  // Constants that were added come before those who read them.
  for (Index k = 0; k < ops_.size(); ++k) {
    const Index i = (k + given_) % ops_.size();
    const bool unread = ops_[i].type == "Const" && readers_[i].empty();
    if (!gone_[i] && !unread) kept.push_back(std::move(ops_[i]));
  }
  graph_.ops = std::move(kept);
}

bool FusionGraph::is_known(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
}

}  // namespace ascendrt::model
