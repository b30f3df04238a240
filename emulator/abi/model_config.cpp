// Entries: models loaded and run as config handles say, and attributes of loaded ones.
// Owns: the handles' attributes. Must never: keep a pointer that the client gave beyond the load,
// but those to device memory.
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "abi/model_exec.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

constexpr int32_t kLeastPriority = 7;  // the highest is 0

struct LoadConfig : base::Object {
  static constexpr base::Kind kKind = base::Kind::kLoadConfig;
  std::set<aclmdlConfigAttr> given;
  int32_t priority = 0;
  size_t type = 0;
  std::string path;
  std::string weight_path;
  struct Given {
    std::string file;
    void* address;
    size_t size;
  };
  std::vector<Given> weights;  // contents of weight files in device memory
  const void* content = nullptr;
  size_t content_size = 0;
  model::ModelMemory memory;
};

struct RunConfig : base::Object {
  static constexpr base::Kind kKind = base::Kind::kRunConfig;
  int32_t stream_timeout_ms = -1;
  int32_t event_timeout_ms = -1;  // runs wait for no event of the client
};

// The value behind the pointer, when it has the size that the attribute takes.
template <class T>
T value_of(const void* value, size_t size) {
  if (size != sizeof(T)) {
    refuse_argument("argument valueSize is " + std::to_string(size) + ", this attribute takes " +
                    std::to_string(sizeof(T)));
  }
  T out;
  std::memcpy(&out, value, sizeof(T));
  return out;
}

template <class T>
T pointer_of(const void* value, size_t size) {
  const auto pointer = value_of<T>(value, size);
  check_not_null(pointer, "*attrValue");
  return pointer;
}

template <class T>
T in_range(T value, T low, T high) {
  if (value < low || value > high) {
    refuse_argument("argument *attrValue is " + std::to_string(value) + ", it must be from " +
                    std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

void set_memory(LoadConfig& config, aclmdlConfigAttr attr, const void* value, size_t size) {
  model::ModelMemory& memory = config.memory;
  switch (attr) {
    case ACL_MDL_WEIGHT_ADDR_PTR:
      memory.weights = value_of<void*>(value, size);
      break;
    case ACL_MDL_WEIGHT_SIZET:
      memory.weight_bytes = value_of<size_t>(value, size);
      break;
    case ACL_MDL_WORKSPACE_ADDR_PTR:
      memory.work = value_of<void*>(value, size);
      break;
    case ACL_MDL_WORKSPACE_SIZET:
      memory.work_bytes = value_of<size_t>(value, size);
      break;
    default:
      refuse_argument("argument attr is " + std::to_string(attr) +
                      ", no attribute of a model that is loaded");
  }
}

// Attributes that are checked and change nothing here.
bool is_without_effect(aclmdlConfigAttr attr, const void* value, size_t size) {
  switch (attr) {
    case ACL_MDL_INPUTQ_ADDR_PTR:
    case ACL_MDL_OUTPUTQ_ADDR_PTR:
      pointer_of<const void*>(value, size);
      return true;
    case ACL_MDL_INPUTQ_NUM_SIZET:
    case ACL_MDL_OUTPUTQ_NUM_SIZET:
      value_of<size_t>(value, size);
      return true;
    case ACL_MDL_WORKSPACE_MEM_OPTIMIZE:  // inputs and outputs never lie in the work area
      in_range(value_of<size_t>(value, size), size_t{ACL_WORKSPACE_MEM_OPTIMIZE_DEFAULT},
               size_t{ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT});
      return true;
    case ACL_MDL_WITHOUT_GRAPH_INT32:  // the graph is what is run
      in_range(value_of<int32_t>(value, size), 0, 1);
      return true;
    default:
      return false;
  }
}

void set_load_option(LoadConfig& config, aclmdlConfigAttr attr, const void* value, size_t size) {
  switch (attr) {
    case ACL_MDL_PRIORITY_INT32:
      config.priority = in_range(value_of<int32_t>(value, size), 0, kLeastPriority);
      break;
    case ACL_MDL_LOAD_TYPE_SIZET:
      config.type = in_range(value_of<size_t>(value, size), size_t{ACL_MDL_LOAD_FROM_FILE},
                             size_t{ACL_MDL_LOAD_FROM_MEM_WITH_Q});
      break;
    case ACL_MDL_PATH_PTR:
      config.path = pointer_of<const char*>(value, size);
      break;
    case ACL_MDL_WEIGHT_PATH_PTR:
      config.weight_path = pointer_of<const char*>(value, size);
      break;
    case ACL_MDL_MEM_ADDR_PTR:
      config.content = pointer_of<const void*>(value, size);
      break;
    case ACL_MDL_MEM_SIZET:
      config.content_size = value_of<size_t>(value, size);
      break;
    default:
      if (!is_without_effect(attr, value, size)) set_memory(config, attr, value, size);
  }
  config.given.insert(attr);
}

void want(const LoadConfig& config, aclmdlConfigAttr attr, const char* name) {
  if (config.given.contains(attr)) return;
  refuse_argument(std::string("argument handle lacks ") + name +
                  ", which this kind of load needs (aclmdlSetConfigOpt)");
}

// The device reads such memory in every run; here it is read when the model is loaded, because
// kernels pack their weights.
model::WeightSources weight_sources(const LoadConfig& config) {
  model::WeightSources sources{config.weight_path, {}};
  for (const LoadConfig::Given& given : config.weights) {
    const void* bytes = memory::view(given.address, given.size);
    sources.given.push_back({given.file, {static_cast<const uint8_t*>(bytes), given.size}});
  }
  return sources;
}

// src: hicann/ge api/acl/acl_model/model/model.cpp aclmdlLoadWithConfig
void load_with_config(const LoadConfig& config, uint32_t* id) {
  check_not_null(id, "modelId");
  want(config, ACL_MDL_LOAD_TYPE_SIZET, "ACL_MDL_LOAD_TYPE_SIZET");
  if (config.type == ACL_MDL_LOAD_FROM_FILE_WITH_Q || config.type == ACL_MDL_LOAD_FROM_MEM_WITH_Q) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "models that are fed by queues are not emulated; load the model without queues");
  }
  const bool from_file =
      config.type == ACL_MDL_LOAD_FROM_FILE || config.type == ACL_MDL_LOAD_FROM_FILE_WITH_MEM;
  const bool with_memory = config.type == ACL_MDL_LOAD_FROM_FILE_WITH_MEM ||
                           config.type == ACL_MDL_LOAD_FROM_MEM_WITH_MEM;
  model::ModelMemory memory = with_memory ? config.memory : model::ModelMemory{};
  memory.priority = static_cast<uint32_t>(config.priority);
  if (from_file) {
    want(config, ACL_MDL_PATH_PTR, "ACL_MDL_PATH_PTR");
    if (config.given.contains(ACL_MDL_WEIGHT_PATH_PTR)) {
      refuse_argument(
          "argument handle has ACL_MDL_WEIGHT_PATH_PTR, which is for models in memory; a model in "
          "a "
          "file has its weights in the folder 'weight' beside it");
    }
    return load_model(model::OmSource::from_file(config.path), model::Entry::kLoadFile, memory, id,
                      weight_sources(config));
  }
  want(config, ACL_MDL_MEM_ADDR_PTR, "ACL_MDL_MEM_ADDR_PTR");
  want(config, ACL_MDL_MEM_SIZET, "ACL_MDL_MEM_SIZET");
  check_positive(config.content_size, "ACL_MDL_MEM_SIZET");
  load_model(model::OmSource::from_memory(config.content, config.content_size),
             model::Entry::kLoadMemory, memory, id, weight_sources(config));
}

// src: hicann/ge api/acl/acl_model/model/model.cpp aclmdlBundleLoadModelWithConfig
model::ModelMemory memory_of(const LoadConfig& config) {
  model::ModelMemory memory = config.memory;
  memory.priority = static_cast<uint32_t>(config.priority);
  return memory;
}

void set_run_option(RunConfig& config, aclmdlExecConfigAttr attr, const void* value, size_t size) {
  int32_t* target = nullptr;
  if (attr == ACL_MDL_STREAM_SYNC_TIMEOUT) target = &config.stream_timeout_ms;
  if (attr == ACL_MDL_EVENT_SYNC_TIMEOUT) target = &config.event_timeout_ms;
  if (target == nullptr) {
    refuse_argument("argument attr is " + std::to_string(attr) +
                    "; only ACL_MDL_STREAM_SYNC_TIMEOUT and ACL_MDL_EVENT_SYNC_TIMEOUT can be set");
  }
  *target = in_range(value_of<int32_t>(value, size), -1, INT32_MAX);
}

model::DeviceModel& device_model(uint32_t id, aclmdlAttr attr,
                                 std::shared_ptr<model::LoadedModel>& keep) {
  if (attr != ACL_MDL_ATTR_PRIORITY_INT32) {
    refuse_argument("argument attr is " + std::to_string(attr) +
                    "; only ACL_MDL_ATTR_PRIORITY_INT32 is known");
  }
  keep = find_loaded(id);
  return model::DeviceModel::of(*keep);
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclmdlConfigHandle* art_emu_aclmdlCreateConfigHandle() {
  return value<ApiId::aclmdlCreateConfigHandle>(static_cast<aclmdlConfigHandle*>(nullptr), [&] {
    return static_cast<aclmdlConfigHandle*>(base::handles().insert(base::make_ref<LoadConfig>()));
  });
}

aclError art_emu_aclmdlDestroyConfigHandle(aclmdlConfigHandle* handle) {
  return call<ApiId::aclmdlDestroyConfigHandle>([&] { take<LoadConfig>(handle, "handle"); });
}

aclError art_emu_aclmdlSetConfigOpt(aclmdlConfigHandle* handle, aclmdlConfigAttr attr,
                                    const void* attrValue, size_t valueSize) {
  return call<ApiId::aclmdlSetConfigOpt>([&] {
    const auto config = live<LoadConfig>(handle, "handle");
    check_not_null(attrValue, "attrValue");
    set_load_option(*config, attr, attrValue, valueSize);
  });
}

aclError art_emu_aclmdlLoadWithConfig(const aclmdlConfigHandle* handle, uint32_t* modelId) {
  return call<ApiId::aclmdlLoadWithConfig>(
      [&] { load_with_config(*live<LoadConfig>(handle, "handle"), modelId); });
}

aclError art_emu_aclmdlSetExternalWeightAddress(aclmdlConfigHandle* handle,
                                                const char* weightFileName, void* devPtr,
                                                size_t size) {
  return call<ApiId::aclmdlSetExternalWeightAddress>([&] {
    const auto config = live<LoadConfig>(handle, "handle");
    check_not_null(weightFileName, "weightFileName");
    check_not_null(devPtr, "devPtr");
    check_positive(size, "size");
    constexpr size_t kUnit = 32;
    if (size % kUnit != 0) {
      refuse_argument("argument size is " + std::to_string(size) + ", it must be a multiple of 32");
    }
    config->weights.push_back({weightFileName, devPtr, size});
  });
}

aclError art_emu_aclmdlBundleLoadModelWithConfig(uint32_t bundleId, size_t index,
                                                 aclmdlConfigHandle* handle, uint32_t* modelId) {
  return call<ApiId::aclmdlBundleLoadModelWithConfig>([&] {
    const auto config = live<LoadConfig>(handle, "handle");
    load_bundle_member(bundleId, index, memory_of(*config), modelId, weight_sources(*config));
  });
}

aclmdlExecConfigHandle* art_emu_aclmdlCreateExecConfigHandle() {
  return value<ApiId::aclmdlCreateExecConfigHandle>(
      static_cast<aclmdlExecConfigHandle*>(nullptr), [&] {
        return static_cast<aclmdlExecConfigHandle*>(
            base::handles().insert(base::make_ref<RunConfig>()));
      });
}

aclError art_emu_aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle* handle) {
  return call<ApiId::aclmdlDestroyExecConfigHandle>([&] { take<RunConfig>(handle, "handle"); });
}

aclError art_emu_aclmdlSetExecConfigOpt(aclmdlExecConfigHandle* handle, aclmdlExecConfigAttr attr,
                                        const void* attrValue, size_t valueSize) {
  return call<ApiId::aclmdlSetExecConfigOpt>([&] {
    const auto config = live<RunConfig>(handle, "handle");
    check_not_null(attrValue, "attrValue");
    set_run_option(*config, attr, attrValue, valueSize);
  });
}

aclError art_emu_aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset* input,
                                 aclmdlDataset* output, aclrtStream stream,
                                 const aclmdlExecConfigHandle* handle) {
  return call<ApiId::aclmdlExecuteV2>([&] {
    const auto config = live<RunConfig>(handle, "handle");
    const auto target =
        stream == nullptr ? base::Ref<core::Stream>() : core::resolve_stream_of_current(stream);
    execute_model(modelId, input, output, {target ? &*target : nullptr, config->stream_timeout_ms});
  });
}

aclError art_emu_aclmdlSetAttribute(uint32_t modelId, aclmdlAttr attr,
                                    aclmdlAttrValue_t* attrValue) {
  return call<ApiId::aclmdlSetAttribute>([&] {
    check_not_null(attrValue, "attrValue");
    std::shared_ptr<model::LoadedModel> keep;
    model::DeviceModel& model = device_model(modelId, attr, keep);
    model.set_priority(in_range(attrValue->mdlPriority, 0U, uint32_t{kLeastPriority}));
  });
}

aclError art_emu_aclmdlGetAttribute(uint32_t modelId, aclmdlAttr attr,
                                    aclmdlAttrValue_t* attrValue) {
  return call<ApiId::aclmdlGetAttribute>([&] {
    check_not_null(attrValue, "attrValue");
    std::shared_ptr<model::LoadedModel> keep;
    attrValue->mdlPriority = device_model(modelId, attr, keep).priority();
  });
}

}  // extern "C"
