// The loaded models of the process, by id. Owns: ids, LoadedModel and the executor base.
// Must never: parse files or run graphs; an executor attaches itself to a LoadedModel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/mutex.hpp"
#include "model/model.hpp"

namespace ascendrt::model {

// Whatever runs a loaded model; the executor derives from it. Destroyed with the LoadedModel.
class ExecutorBase {
 public:
  virtual ~ExecutorBase() = default;
};

struct LoadedModel {
  uint32_t id = 0;  // set by ModelRegistry::add
  Model model;
  std::unique_ptr<ExecutorBase> executor;
  // The gear set last, on whatever dataset; -1: none yet. Relaxed: it orders nothing else.
  std::atomic<int64_t> current_gear{-1};
};

// Thread-safe. An execution that found its model keeps it alive while another thread removes it.
class ModelRegistry {
 public:
  // Ids start at 1 and are not used twice in a process.
  uint32_t add(std::shared_ptr<LoadedModel> model);
  uint32_t reserve();  // an id that no model gets: bundles are numbered with the models
  std::shared_ptr<LoadedModel> find(uint32_t id) const;  // null: unknown
  bool remove(uint32_t id);                              // false: unknown
  size_t size() const;
  void clear();  // at finalize

 private:
  mutable base::RankedMutex mutex_{base::Rank::kLeaf};
  uint32_t next_id_ = 1;
  std::unordered_map<uint32_t, std::shared_ptr<LoadedModel>> models_;
};

ModelRegistry& registry();

}  // namespace ascendrt::model
