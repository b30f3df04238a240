// Entries: datasets. Must never: own buffers.
#include "abi/model_objects.hpp"
#include "gen/prototypes.h"

namespace ascendrt::abi {
namespace {

void check_index(size_t index, const Dataset& dataset) {
  if (index < dataset.entries.size()) return;
  refuse_argument("argument index is " + std::to_string(index) + ", the dataset has " +
                  std::to_string(dataset.entries.size()) + " buffers");
}

void drop(base::Ref<TensorDesc>& desc) {
  if (desc) base::handles().remove<TensorDesc>(desc->handle());
  desc = nullptr;
}

}  // namespace

Dataset::~Dataset() {
  for (Entry& entry : entries) drop(entry.desc);
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclmdlDataset* art_emu_aclmdlCreateDataset(void) {
  return value<ApiId::aclmdlCreateDataset>(static_cast<aclmdlDataset*>(nullptr), [] {
    return static_cast<aclmdlDataset*>(base::handles().insert(base::make_ref<Dataset>()));
  });
}

aclError art_emu_aclmdlDestroyDataset(const aclmdlDataset* dataset) {
  return call<ApiId::aclmdlDestroyDataset>([&] { take<Dataset>(dataset, "dataset"); });
}

aclError art_emu_aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
  return call<ApiId::aclmdlAddDatasetBuffer>([&] {
    const auto found = live<Dataset>(dataset, "dataset");
    live<DataBuffer>(dataBuffer, "dataBuffer");
    found->entries.push_back({dataBuffer, nullptr});
  });
}

size_t art_emu_aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset) {
  return value<ApiId::aclmdlGetDatasetNumBuffers>(
      size_t{0}, [&] { return live<Dataset>(dataset, "dataset")->entries.size(); });
}

aclDataBuffer* art_emu_aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  return value<ApiId::aclmdlGetDatasetBuffer>(static_cast<aclDataBuffer*>(nullptr), [&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_index(index, *found);
    return found->entries[index].buffer;
  });
}

aclError art_emu_aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc,
                                            size_t index) {
  return call<ApiId::aclmdlSetDatasetTensorDesc>([&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_index(index, *found);
    base::Ref<TensorDesc>& slot = found->entries[index].desc;
    if (tensorDesc == nullptr) return drop(slot);
    const auto source = live<TensorDesc>(tensorDesc, "tensorDesc");
    if (!slot) {
      slot = base::make_ref<TensorDesc>();
      base::handles().insert(slot);
    }
    // In place: an inner pointer that was handed out stays valid.
    if (slot != source) slot->fields = source->fields;
  });
}

aclTensorDesc* art_emu_aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
  return value<ApiId::aclmdlGetDatasetTensorDesc>(static_cast<aclTensorDesc*>(nullptr), [&] {
    const auto found = live<Dataset>(dataset, "dataset");
    check_index(index, *found);
    const base::Ref<TensorDesc>& desc = found->entries[index].desc;
    return desc ? static_cast<aclTensorDesc*>(desc->handle()) : nullptr;
  });
}

}  // extern "C"
