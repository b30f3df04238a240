// Queries on whole models and the registry of loaded ones.
#include "model/model.hpp"

#include <algorithm>
#include <mutex>

#include "model/registry.hpp"

namespace ascendrt::model {

Blob Blob::own(Bytes data) {
  auto owner = std::make_shared<const Bytes>(std::move(data));
  return Blob{std::span<const uint8_t>(*owner), owner, {}};
}

bool IoDesc::is_open() const {
  return std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
}

uint64_t IoDesc::largest_size() const {
  if (!is_open()) return size;
  if (shape_range.size() != dims.size()) return 0;
  Dims upper;
  for (const auto& [low, high] : shape_range) upper.push_back(high);
  return static_cast<uint64_t>(byte_size(upper, dtype).value_or(0));
}

const Graph* Model::find_graph(std::string_view graph_name) const {
  for (const Graph& graph : graphs) {
    if (graph.name == graph_name) return &graph;
  }
  return nullptr;
}

std::span<const uint8_t> Model::constant_data(const Op& const_op,
                                              std::span<const uint8_t> weight_bytes) const {
  if (const_op.constant() == nullptr) return {};
  const Tensor& tensor = *const_op.constant();
  if (!tensor.data.empty()) return tensor.data;
  const int64_t offset = tensor.desc.data_offset;
  const int64_t size = tensor.desc.weight_size > 0 ? tensor.desc.weight_size : tensor.desc.size;
  const auto total = static_cast<int64_t>(weight_bytes.size());
  if (offset < 0 || size <= 0 || offset > total || size > total - offset) return {};
  return weight_bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

uint32_t ModelRegistry::add(std::shared_ptr<LoadedModel> model) {
  const std::lock_guard lock(mutex_);
  model->id = next_id_++;
  const uint32_t id = model->id;
  models_.emplace(id, std::move(model));
  return id;
}

uint32_t ModelRegistry::reserve() {
  const std::lock_guard lock(mutex_);
  return next_id_++;
}

std::shared_ptr<LoadedModel> ModelRegistry::find(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  return found == models_.end() ? nullptr : found->second;
}

bool ModelRegistry::remove(uint32_t id) {
  std::shared_ptr<LoadedModel> dying;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  if (found == models_.end()) return false;
  dying = std::move(found->second);
  models_.erase(found);
  return true;
}

size_t ModelRegistry::size() const {
  const std::lock_guard lock(mutex_);
  return models_.size();
}

void ModelRegistry::clear() {
  std::unordered_map<uint32_t, std::shared_ptr<LoadedModel>> dying;
  const std::lock_guard lock(mutex_);
  dying.swap(models_);
}

ModelRegistry& registry() {
  // Leaked on purpose: models must not die in static destruction, after the runtime has gone.
  static auto* const instance = new ModelRegistry;
  return *instance;
}

}  // namespace ascendrt::model
