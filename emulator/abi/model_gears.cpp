// Entries: choosing the gear of a model that was compiled for several shapes.
// Must never: check what only running needs; the gear lands in the dataset and in its gear tensor.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "abi/model_objects.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"
#include "model/gears.hpp"
#include "model/registry.hpp"

namespace ascendrt::abi {
namespace {

using Values = std::vector<int64_t>;

[[noreturn]] void refuse_gear(base::Code code, const std::string& text) {
  base::fail(code, text, base::Layer::kAcl);
}

std::string text_of(const Values& values) {
  std::string text;
  for (const int64_t v : values) text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

base::Ref<DataBuffer> gear_tensor(const Dataset& dataset, size_t index) {
  if (index >= dataset.entries.size()) {
    refuse_argument("argument index is " + std::to_string(index) + ", the dataset has " +
                    std::to_string(dataset.entries.size()) + " buffers");
  }
  const auto buffer = base::handles().get<DataBuffer>(dataset.entries[index].buffer);
  if (!buffer || buffer->data == nullptr) {
    refuse_argument("data buffer " + std::to_string(index) +
                    " of the dataset is none or has no memory");
  }
  return buffer;
}

void check_room(const DataBuffer& buffer, size_t values) {
  if (buffer.size >= values * sizeof(int32_t)) return;
  refuse_gear(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID,
              "the gear tensor has " + std::to_string(buffer.size) + " bytes, " +
                  std::to_string(values) + " values need " +
                  std::to_string(values * sizeof(int32_t)));
}

std::shared_ptr<model::LoadedModel> find_model(uint32_t id) {
  auto loaded = model::registry().find(id);
  if (loaded == nullptr) {
    refuse_gear(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID,
                "model id " + std::to_string(id) + " is not loaded");
  }
  return loaded;
}

// The gear is the loaded model's current one from here on.
void set_gear(model::LoadedModel& loaded, model::GearKind kind, const Values& values) {
  const model::Model& model = loaded.model;
  if (const auto gear = model::find_gear(model.gears, kind, values)) {
    loaded.current_gear.store(static_cast<int64_t>(*gear), std::memory_order_relaxed);
    return;
  }
  std::string known;
  if (model.gears.kind == kind) {
    for (const Values& gear : model.gears.values) known += " " + text_of(gear);
  }
  refuse_gear(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID,
              "the model was not compiled for " + text_of(values) +
                  (known.empty() ? "; it has no gears of this kind" : "; its gears are:" + known));
}

// 64 bit values when the tensor holds them, else 32 bit. src: rules S9
void write_gear(const DataBuffer& buffer, const Values& values) {
  std::vector<uint8_t> bytes;
  const size_t width = buffer.size >= values.size() * sizeof(int64_t) ? 8 : 4;
  for (const int64_t v : values) {
    for (size_t i = 0; i < width; ++i) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(v) >> (8 * i)));
    }
  }
  memory::copy(buffer.data, bytes.data(), bytes.size());
}

// The values at the positions that the model leaves open. `all` are the shapes of all inputs in a
// row, in the order in which the gears talk about them.
Values open_dims(const model::Model& model, const Values& all) {
  Values open;
  size_t at = 0;
  for (const model::IoDesc* input : model::gear_inputs(model.gears, model.inputs)) {
    for (const int64_t dim : input->dims) {
      if (at < all.size() && dim < 0) open.push_back(all[at]);
      ++at;
    }
  }
  if (at != all.size()) {
    refuse_gear(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID,
                "argument dims holds " + std::to_string(all.size()) +
                    " values, the inputs of the model have " + std::to_string(at) + " dims");
  }
  return open;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                           uint64_t batchSize) {
  return call<ApiId::aclmdlSetDynamicBatchSize>([&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_positive(batchSize, "batchSize");
    const auto tensor = gear_tensor(*found, index);
    found->batch = batchSize;
    found->height = found->width = 0;
    check_room(*tensor, 1);
    const auto loaded = find_model(modelId);
    const Values gear = {static_cast<int64_t>(batchSize)};
    set_gear(*loaded, model::GearKind::kBatch, gear);
    write_gear(*tensor, gear);
  });
}

aclError art_emu_aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                        uint64_t height, uint64_t width) {
  return call<ApiId::aclmdlSetDynamicHWSize>([&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_positive(height, "height");
    check_positive(width, "width");
    const auto tensor = gear_tensor(*found, index);
    found->height = height;
    found->width = width;
    found->batch = 0;
    check_room(*tensor, 2);
    const auto loaded = find_model(modelId);
    const Values gear = {static_cast<int64_t>(height), static_cast<int64_t>(width)};
    set_gear(*loaded, model::GearKind::kImage, gear);
    write_gear(*tensor, gear);
  });
}

aclError art_emu_aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                           const aclmdlIODims* dims) {
  return call<ApiId::aclmdlSetInputDynamicDims>([&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_not_null(dims, "dims");
    check_positive(dims->dimCount, "dims->dimCount");
    if (dims->dimCount > ACL_MAX_DIM_CNT) {
      refuse_argument("argument dims->dimCount is " + std::to_string(dims->dimCount) +
                      ", at most " + std::to_string(ACL_MAX_DIM_CNT) + " are possible");
    }
    const auto tensor = gear_tensor(*found, index);
    const Values all(dims->dims, dims->dims + dims->dimCount);
    found->batch = found->height = found->width = 0;
    found->gear_dims.clear();
    const auto loaded = find_model(modelId);
    const Values gear = open_dims(loaded->model, all);
    set_gear(*loaded, model::GearKind::kDims, gear);
    check_room(*tensor, gear.size());
    write_gear(*tensor, gear);
    found->gear_dims = gear;
  });
}

}  // extern "C"
