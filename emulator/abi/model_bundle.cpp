// Entries: bundles of models. Owns: which bundles are open, and which loaded models are theirs.
// Must never: hold its lock while a model is loaded or dies.
//
// src: hicann/ge api/acl/acl_model/model/model.cpp and acl_resource_manager.cpp
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "abi/model_desc.hpp"
#include "abi/model_exec.hpp"
#include "base/mutex.hpp"
#include "gen/prototypes.h"
#include "model/om_bundle.hpp"

namespace ascendrt::abi {
namespace {

// How a bundle was opened.
enum class Opening : uint8_t { kInit, kLoad };

struct OpenBundle {
  Opening opening;
  size_t model_count;
  std::string path;
  std::optional<model::Bundle> content;  // none: to be read from the path again
  std::vector<uint32_t> loaded_at_once;  // by kLoad, in the order of the bundle
  std::unordered_set<uint32_t> loaded;   // all that are loaded now
};

// Thread-safe.
class Bundles {
 public:
  void add(uint32_t id, OpenBundle bundle) {
    const std::lock_guard lock(mutex_);
    members_.insert(bundle.loaded.begin(), bundle.loaded.end());
    bundles_.emplace(id, std::move(bundle));
  }
  OpenBundle get(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return bundle(id);
  }
  void add_member(uint32_t id, uint32_t model) {
    const std::lock_guard lock(mutex_);
    bundle(id).loaded.insert(model);
    members_.insert(model);
  }
  // False: the model is none of that bundle's.
  bool remove_member(uint32_t id, uint32_t model) {
    const std::lock_guard lock(mutex_);
    return bundle(id).loaded.erase(model) > 0 && members_.erase(model) > 0;
  }
  OpenBundle remove(uint32_t id) {
    const std::lock_guard lock(mutex_);
    OpenBundle out = std::move(bundle(id));
    bundles_.erase(id);
    for (const uint32_t model : out.loaded) members_.erase(model);
    return out;
  }
  bool is_member(uint32_t model) const {
    const std::lock_guard lock(mutex_);
    return members_.contains(model);
  }

 private:
  // Callers hold the lock.
  const OpenBundle& bundle(uint32_t id) const {
    const auto found = bundles_.find(id);
    if (found == bundles_.end()) {
      refuse_model(ACL_ERROR_INVALID_BUNDLE_MODEL_ID,
                   "bundle id " + std::to_string(id) +
                       " is not open: it was unloaded, or never came from aclmdlBundleLoad* or "
                       "aclmdlBundleInit*");
    }
    return found->second;
  }
  OpenBundle& bundle(uint32_t id) {
    return const_cast<OpenBundle&>(std::as_const(*this).bundle(id));
  }

  mutable base::RankedMutex mutex_{base::Rank::kLeaf};
  std::unordered_map<uint32_t, OpenBundle> bundles_;
  std::unordered_set<uint32_t> members_;
};

Bundles& bundles() {
  static auto* const instance = new Bundles;  // leaked, as the registry of models is
  return *instance;
}

void check_index(size_t index, size_t count) {
  if (index < count) return;
  refuse_argument("argument index is " + std::to_string(index) + ", there are " +
                  std::to_string(count) + " models");
}

void init_bundle(model::Bundle content, const void* variables, size_t variable_bytes,
                 uint32_t* id) {
  if (variables != nullptr && variable_bytes < content.variable_bytes()) {
    refuse_argument("argument varWeightSize is " + std::to_string(variable_bytes) +
                    ", the variables of the bundle need " +
                    std::to_string(content.variable_bytes()) + " bytes");
  }
  const size_t count = content.members().size();
  const std::string path = content.path();
  *id = model::registry().reserve();
  bundles().add(*id, {Opening::kInit, count, path, std::move(content), {}, {}});
}

// All models, or none.
void load_bundle(model::Bundle content, uint32_t* id) {
  std::vector<uint32_t> loaded;
  try {
    for (size_t i = 0; i < content.members().size(); ++i) {
      uint32_t model = 0;
      load_model(content.member(i), model::Entry::kLoadMemory, {}, &model);
      loaded.push_back(model);
    }
  } catch (...) {
    for (const uint32_t model : loaded) model::registry().remove(model);
    throw;
  }
  const size_t count = content.members().size();
  const std::string path = content.path();
  std::optional<model::Bundle> kept;
  if (path.empty()) kept = std::move(content);
  *id = model::registry().reserve();
  const std::unordered_set<uint32_t> all(loaded.begin(), loaded.end());
  bundles().add(*id, {Opening::kLoad, count, path, std::move(kept), std::move(loaded), all});
}

// What the client sees of a bundle that it only asks about.
struct BundleQuery : base::Object {
  static constexpr base::Kind kKind = base::Kind::kBundleQuery;
  uint64_t variable_bytes = 0;
  std::vector<model::QuerySizes> models;
};

// Models that are run by the executor for dynamic shapes have no sizes. A second question to the
// same object adds its models to those of the first, as the real library does.
void query(const model::Bundle& content, BundleQuery& info) {
  std::vector<model::QuerySizes> sizes;
  for (size_t i = 0; i < content.members().size(); ++i) {
    const model::OmSource source = content.member(i);
    source.check_header(model::Entry::kLoadMemory);
    if (!source.is_dynamic()) check_initialised();
    sizes.push_back(source.is_dynamic() ? model::QuerySizes{} : source.query_sizes());
  }
  info.variable_bytes = content.variable_bytes();
  info.models.insert(info.models.end(), sizes.begin(), sizes.end());
}

}  // namespace

void load_bundle_member(uint32_t bundle, size_t index, const model::ModelMemory& memory,
                        uint32_t* id, model::WeightSources weights) {
  check_not_null(id, "modelId");
  OpenBundle open = bundles().get(bundle);
  check_index(index, open.model_count);
  // The file of a bundle that was loaded as a whole may have changed since.
  if (!open.content) open.content = model::Bundle::from_file(open.path);
  check_index(index, open.content->members().size());
  uint32_t model = 0;
  load_model(open.content->member(index), model::Entry::kLoadMemory, memory, &model,
             std::move(weights));
  try {
    bundles().add_member(bundle, model);
  } catch (...) {  // another thread unloaded the bundle meanwhile
    model::registry().remove(model);
    throw;
  }
  *id = model;
}

void check_no_bundle_member(uint32_t id) {
  if (!bundles().is_member(id)) return;
  refuse_argument("argument modelId is " + std::to_string(id) +
                  ", a model of a bundle; unload it with aclmdlBundleUnloadModel or "
                  "aclmdlBundleUnload");
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclmdlBundleLoadFromFile(const char* modelPath, uint32_t* bundleId) {
  return call<ApiId::aclmdlBundleLoadFromFile>([&] {
    check_not_null(modelPath, "modelPath");
    check_not_null(bundleId, "bundleId");
    load_bundle(model::Bundle::from_file(modelPath), bundleId);
  });
}

aclError art_emu_aclmdlBundleLoadFromMem(const void* model, size_t modelSize, uint32_t* bundleId) {
  return call<ApiId::aclmdlBundleLoadFromMem>([&] {
    check_not_null(model, "model");
    check_positive(modelSize, "modelSize");
    check_not_null(bundleId, "bundleId");
    load_bundle(model::Bundle::from_memory(model, modelSize), bundleId);
  });
}

aclError art_emu_aclmdlBundleInitFromFile(const char* modelPath, void* varWeightPtr,
                                          size_t varWeightSize, uint32_t* bundleId) {
  return call<ApiId::aclmdlBundleInitFromFile>([&] {
    check_not_null(modelPath, "modelPath");
    check_not_null(bundleId, "bundleId");
    init_bundle(model::Bundle::from_file(modelPath), varWeightPtr, varWeightSize, bundleId);
  });
}

aclError art_emu_aclmdlBundleInitFromMem(const void* model, size_t modelSize, void* varWeightPtr,
                                         size_t varWeightSize, uint32_t* bundleId) {
  return call<ApiId::aclmdlBundleInitFromMem>([&] {
    check_not_null(model, "model");
    check_not_null(bundleId, "bundleId");
    init_bundle(model::Bundle::from_memory(model, modelSize), varWeightPtr, varWeightSize,
                bundleId);
  });
}

aclError art_emu_aclmdlBundleLoadModel(uint32_t bundleId, size_t index, uint32_t* modelId) {
  return call<ApiId::aclmdlBundleLoadModel>(
      [&] { load_bundle_member(bundleId, index, {}, modelId); });
}

aclError art_emu_aclmdlBundleLoadModelWithMem(uint32_t bundleId, size_t index, void* workPtr,
                                              size_t workSize, void* weightPtr, size_t weightSize,
                                              uint32_t* modelId) {
  return call<ApiId::aclmdlBundleLoadModelWithMem>([&] {
    load_bundle_member(bundleId, index, {workPtr, workSize, weightPtr, weightSize}, modelId);
  });
}

aclError art_emu_aclmdlBundleUnloadModel(uint32_t bundleId, uint32_t modelId) {
  return call<ApiId::aclmdlBundleUnloadModel>([&] {
    if (!bundles().remove_member(bundleId, modelId)) {
      refuse_argument("argument modelId is " + std::to_string(modelId) +
                      ", no loaded model of bundle " + std::to_string(bundleId));
    }
    model::registry().remove(modelId);
  });
}

aclError art_emu_aclmdlBundleUnload(uint32_t bundleId) {
  return call<ApiId::aclmdlBundleUnload>([&] {
    const OpenBundle closed = bundles().remove(bundleId);
    for (const uint32_t model : closed.loaded) model::registry().remove(model);
  });
}

aclError art_emu_aclmdlBundleGetModelNum(uint32_t bundleId, size_t* modelNum) {
  return call<ApiId::aclmdlBundleGetModelNum>([&] {
    check_not_null(modelNum, "modelNum");
    *modelNum = bundles().get(bundleId).model_count;
  });
}

aclError art_emu_aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t* modelId) {
  return call<ApiId::aclmdlBundleGetModelId>([&] {
    check_not_null(modelId, "modelId");
    const OpenBundle open = bundles().get(bundleId);
    if (open.opening == Opening::kInit) {
      refuse_model(ACL_ERROR_API_NOT_SUPPORT,
                   "bundle " + std::to_string(bundleId) +
                       " was opened by aclmdlBundleInit*, which loads no model; the ids come from "
                       "aclmdlBundleLoadModel");
    }
    check_index(index, open.loaded_at_once.size());
    *modelId = open.loaded_at_once[index];
  });
}

aclmdlBundleQueryInfo* art_emu_aclmdlBundleCreateQueryInfo(void) {
  return value<ApiId::aclmdlBundleCreateQueryInfo>(
      static_cast<aclmdlBundleQueryInfo*>(nullptr), [] {
        return static_cast<aclmdlBundleQueryInfo*>(
            base::handles().insert(base::make_ref<BundleQuery>()));
      });
}

aclError art_emu_aclmdlBundleDestroyQueryInfo(aclmdlBundleQueryInfo* queryInfo) {
  return call<ApiId::aclmdlBundleDestroyQueryInfo>(
      [&] { take<BundleQuery>(queryInfo, "queryInfo"); });
}

aclError art_emu_aclmdlBundleQueryInfoFromFile(const char* fileName,
                                               aclmdlBundleQueryInfo* queryInfo) {
  return call<ApiId::aclmdlBundleQueryInfoFromFile>([&] {
    check_not_null(fileName, "fileName");
    const auto info = live<BundleQuery>(queryInfo, "queryInfo");
    query(model::Bundle::from_file(fileName), *info);
  });
}

aclError art_emu_aclmdlBundleQueryInfoFromMem(const void* model, size_t modelSize,
                                              aclmdlBundleQueryInfo* queryInfo) {
  return call<ApiId::aclmdlBundleQueryInfoFromMem>([&] {
    check_not_null(model, "model");
    const auto info = live<BundleQuery>(queryInfo, "queryInfo");
    query(model::Bundle::from_memory(model, modelSize), *info);
  });
}

aclError art_emu_aclmdlBundleGetQueryModelNum(const aclmdlBundleQueryInfo* queryInfo,
                                              size_t* modelNum) {
  return call<ApiId::aclmdlBundleGetQueryModelNum>([&] {
    const auto info = live<BundleQuery>(queryInfo, "queryInfo");
    check_not_null(modelNum, "modelNum");
    *modelNum = info->models.size();
  });
}

aclError art_emu_aclmdlBundleGetVarWeightSize(const aclmdlBundleQueryInfo* queryInfo,
                                              size_t* variableWeightSize) {
  return call<ApiId::aclmdlBundleGetVarWeightSize>([&] {
    const auto info = live<BundleQuery>(queryInfo, "queryInfo");
    check_not_null(variableWeightSize, "variableWeightSize");
    *variableWeightSize = static_cast<size_t>(info->variable_bytes);
  });
}

aclError art_emu_aclmdlBundleGetSize(const aclmdlBundleQueryInfo* queryInfo, size_t index,
                                     size_t* workSize, size_t* constWeightSize) {
  return call<ApiId::aclmdlBundleGetSize>([&] {
    const auto info = live<BundleQuery>(queryInfo, "queryInfo");
    check_not_null(workSize, "workSize");
    check_not_null(constWeightSize, "constWeightSize");
    check_index(index, info->models.size());
    *workSize = static_cast<size_t>(info->models[index].work);
    *constWeightSize = static_cast<size_t>(info->models[index].weight);
  });
}

}  // extern "C"
