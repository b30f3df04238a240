// Entries: making and filling model descs, inputs and outputs.
#include "abi/model_desc.hpp"

#include <algorithm>
#include <cstring>

#include "core/runtime.hpp"
#include "gen/prototypes.h"
#include "model/om_reader.hpp"

namespace ascendrt::abi {
namespace {

// A dim of -1 counts with the upper bound of its range; an open bound leaves the size unknown (0).
// With gears the size is that of the largest gear.
size_t size_of(const ModelDesc& desc, const model::IoDesc& io) {
  return desc.gears.kind != model::GearKind::kNone ? io.size : io.largest_size();
}

template <ApiId id>
size_t size_by_index(const aclmdlDesc* desc, Direction direction, size_t index) {
  return value<id>(size_t{0}, [&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    return size_of(*found, at(*found, direction, index));
  });
}

template <ApiId id>
const char* name_by_index(const aclmdlDesc* desc, Direction direction, size_t index) {
  return value<id>("", [&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    return at(*found, direction, index).name.c_str();
  });
}

template <ApiId id>
aclFormat format_by_index(const aclmdlDesc* desc, Direction direction, size_t index) {
  return value<id>(ACL_FORMAT_UNDEFINED, [&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    return static_cast<aclFormat>(at(*found, direction, index).format);
  });
}

template <ApiId id>
aclDataType type_by_index(const aclmdlDesc* desc, Direction direction, size_t index) {
  return value<id>(ACL_DT_UNDEFINED, [&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    return static_cast<aclDataType>(at(*found, direction, index).dtype);
  });
}

template <ApiId id>
aclError index_by_name(const aclmdlDesc* desc, Direction direction, const char* name, size_t* out) {
  return call<id>([&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    check_not_null(name, "name");
    check_not_null(out, "index");
    const auto& ios = list(*found, direction);
    const auto it =
        std::find_if(ios.begin(), ios.end(), [&](const auto& io) { return io.name == name; });
    if (it == ios.end()) {
      std::string known;
      for (const model::IoDesc& io : ios) known += (known.empty() ? "'" : ", '") + io.name + "'";
      refuse_argument("no tensor of the model is called '" + std::string(name) + "'; there are " +
                      known);
    }
    *out = static_cast<size_t>(it - ios.begin());
  });
}

template <ApiId id>
aclError dims_by_index(const aclmdlDesc* desc, Direction direction, size_t index, bool after_aipp,
                       aclmdlIODims* out) {
  return call<id>([&] {
    const auto found = live<ModelDesc>(desc, "modelDesc");
    check_not_null(out, "dims");
    const model::IoDesc& io = at(*found, direction, index);
    copy_dims(short_name(*found, direction, index), after_aipp ? io.dims_v2 : io.dims, *out);
  });
}

void describe_source(const model::OmSource& source, aclmdlDesc* desc, model::Entry entry) {
  const auto found = live<ModelDesc>(desc, "modelDesc");
  source.check_header(entry);
  found->fill(source.read_description(), 0);
}

}  // namespace

void ModelDesc::clear() {
  model_id = 0;
  dynamic = false;
  inputs.clear();
  outputs.clear();
  gears = {};
  op_attrs.clear();
}

void ModelDesc::fill(const model::Model& model, uint32_t id) {
  clear();
  model_id = id;
  dynamic = model.is_dynamic();
  inputs = model.inputs;
  outputs = model.outputs;
  gears = model.gears;
}

const model::IoDesc& at(const ModelDesc& desc, Direction direction, size_t index) {
  const auto& ios = list(desc, direction);
  if (index >= ios.size()) {
    refuse_argument("argument index is " + std::to_string(index) + ", the model has " +
                    std::to_string(ios.size()) +
                    (direction == Direction::kInput ? " inputs" : " outputs"));
  }
  return ios[index];
}

std::string short_name(const ModelDesc& desc, Direction direction, size_t index) {
  const std::string& name = list(desc, direction)[index].name;
  if (name.size() < ACL_MAX_TENSOR_NAME_LEN) return name;
  std::string stand_in = "acl_modelId_" + std::to_string(desc.model_id) +
                         (direction == Direction::kInput ? "_input_" : "_output_") +
                         std::to_string(index);
  const auto taken = [&](const model::IoDesc& io) { return io.name == stand_in; };
  while (std::any_of(desc.inputs.begin(), desc.inputs.end(), taken) ||
         std::any_of(desc.outputs.begin(), desc.outputs.end(), taken)) {
    stand_in += '_';
  }
  return stand_in;
}

void copy_dims(const std::string& name, const model::Dims& dims, aclmdlIODims& out) {
  if (dims.size() > ACL_MAX_DIM_CNT) {
    base::fail(ACL_ERROR_STORAGE_OVER_LIMIT,
               "tensor '" + name + "' has " + std::to_string(dims.size()) +
                   " dims, aclmdlIODims holds " + std::to_string(ACL_MAX_DIM_CNT),
               base::Layer::kAcl);
  }
  out = {};
  std::memcpy(out.name, name.data(), std::min(name.size(), sizeof(out.name) - 1));
  out.dimCount = dims.size();
  std::copy(dims.begin(), dims.end(), out.dims);
}

void check_initialised() {
  if (core::runtime().initialised()) return;
  base::fail(static_cast<base::Code>(ACL_ERROR_GE_EXEC_NOT_INIT),
             "model calls need aclInit first, which has not run or was ended by aclFinalize",
             base::Layer::kAcl);
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclmdlDesc* art_emu_aclmdlCreateDesc(void) {
  return value<ApiId::aclmdlCreateDesc>(static_cast<aclmdlDesc*>(nullptr), [] {
    return static_cast<aclmdlDesc*>(base::handles().insert(base::make_ref<ModelDesc>()));
  });
}

aclError art_emu_aclmdlDestroyDesc(aclmdlDesc* modelDesc) {
  return call<ApiId::aclmdlDestroyDesc>([&] { take<ModelDesc>(modelDesc, "modelDesc"); });
}

aclError art_emu_aclmdlGetDesc(aclmdlDesc* modelDesc, uint32_t modelId) {
  return call<ApiId::aclmdlGetDesc>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_initialised();
    desc->clear();
    const auto loaded = model::registry().find(modelId);
    if (loaded == nullptr) {
      base::fail(static_cast<base::Code>(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID),
                 "model id " + std::to_string(modelId) +
                     " is not loaded: it was unloaded, or never came from a load call",
                 base::Layer::kAcl);
    }
    desc->fill(loaded->model, modelId);
  });
}

// Goes by the description partition. The real call refuses older files without one; here they are
// described from their graph.
aclError art_emu_aclmdlGetDescFromFile(aclmdlDesc* modelDesc, const char* modelPath) {
  return call<ApiId::aclmdlGetDescFromFile>([&] {
    check_not_null(modelDesc, "modelDesc");
    check_not_null(modelPath, "modelPath");
    describe_source(model::OmSource::from_file(modelPath), modelDesc, model::Entry::kLoadFile);
  });
}

aclError art_emu_aclmdlGetDescFromMem(aclmdlDesc* modelDesc, const void* model, size_t modelSize) {
  return call<ApiId::aclmdlGetDescFromMem>([&] {
    check_not_null(modelDesc, "modelDesc");
    check_not_null(model, "model");
    check_positive(modelSize, "modelSize");
    describe_source(model::OmSource::from_memory(model, modelSize), modelDesc,
                    model::Entry::kLoadMemory);
  });
}

size_t art_emu_aclmdlGetNumInputs(aclmdlDesc* modelDesc) {
  return value<ApiId::aclmdlGetNumInputs>(
      size_t{0}, [&] { return live<ModelDesc>(modelDesc, "modelDesc")->inputs.size(); });
}

size_t art_emu_aclmdlGetNumOutputs(aclmdlDesc* modelDesc) {
  return value<ApiId::aclmdlGetNumOutputs>(
      size_t{0}, [&] { return live<ModelDesc>(modelDesc, "modelDesc")->outputs.size(); });
}

size_t art_emu_aclmdlGetInputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  return size_by_index<ApiId::aclmdlGetInputSizeByIndex>(modelDesc, Direction::kInput, index);
}

size_t art_emu_aclmdlGetOutputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  return size_by_index<ApiId::aclmdlGetOutputSizeByIndex>(modelDesc, Direction::kOutput, index);
}

const char* art_emu_aclmdlGetInputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  return name_by_index<ApiId::aclmdlGetInputNameByIndex>(modelDesc, Direction::kInput, index);
}

const char* art_emu_aclmdlGetOutputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  return name_by_index<ApiId::aclmdlGetOutputNameByIndex>(modelDesc, Direction::kOutput, index);
}

aclFormat art_emu_aclmdlGetInputFormat(const aclmdlDesc* modelDesc, size_t index) {
  return format_by_index<ApiId::aclmdlGetInputFormat>(modelDesc, Direction::kInput, index);
}

aclFormat art_emu_aclmdlGetOutputFormat(const aclmdlDesc* modelDesc, size_t index) {
  return format_by_index<ApiId::aclmdlGetOutputFormat>(modelDesc, Direction::kOutput, index);
}

aclDataType art_emu_aclmdlGetInputDataType(const aclmdlDesc* modelDesc, size_t index) {
  return type_by_index<ApiId::aclmdlGetInputDataType>(modelDesc, Direction::kInput, index);
}

aclDataType art_emu_aclmdlGetOutputDataType(const aclmdlDesc* modelDesc, size_t index) {
  return type_by_index<ApiId::aclmdlGetOutputDataType>(modelDesc, Direction::kOutput, index);
}

aclError art_emu_aclmdlGetInputIndexByName(const aclmdlDesc* modelDesc, const char* name,
                                           size_t* index) {
  return index_by_name<ApiId::aclmdlGetInputIndexByName>(modelDesc, Direction::kInput, name, index);
}

aclError art_emu_aclmdlGetOutputIndexByName(const aclmdlDesc* modelDesc, const char* name,
                                            size_t* index) {
  return index_by_name<ApiId::aclmdlGetOutputIndexByName>(modelDesc, Direction::kOutput, name,
                                                          index);
}

aclError art_emu_aclmdlGetInputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  return dims_by_index<ApiId::aclmdlGetInputDims>(modelDesc, Direction::kInput, index, false, dims);
}

aclError art_emu_aclmdlGetInputDimsV2(const aclmdlDesc* modelDesc, size_t index,
                                      aclmdlIODims* dims) {
  return dims_by_index<ApiId::aclmdlGetInputDimsV2>(modelDesc, Direction::kInput, index, true,
                                                    dims);
}

aclError art_emu_aclmdlGetOutputDims(const aclmdlDesc* modelDesc, size_t index,
                                     aclmdlIODims* dims) {
  return dims_by_index<ApiId::aclmdlGetOutputDims>(modelDesc, Direction::kOutput, index, false,
                                                   dims);
}

}  // extern "C"
