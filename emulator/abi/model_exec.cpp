// Entries: loading models onto the device, running and unloading them.
// Must never: run anything itself, or hold a data buffer longer than the call.
#include "abi/model_exec.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "abi/model_desc.hpp"
#include "abi/model_shapes.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"
#include "model/gears.hpp"
#include "model/imported.hpp"
#include "model/loaded.hpp"
#include "model/om_reader.hpp"
#include "model/vendor.hpp"

namespace ascendrt::abi {

void refuse_model(base::Code code, const std::string& text) {
  base::fail(code, text, base::Layer::kAcl);
}

void load_model(const model::OmSource& source, model::Entry entry, const model::ModelMemory& memory,
                uint32_t* id, model::WeightSources weights) {
  check_not_null(id, "modelId");
  source.check_header(entry);
  if (!source.is_dynamic()) check_initialised();
  model::Model content = source.read(core::runtime().soc().name);
  if (!source.path().empty()) weights.folder = model::weight_folder(source.path());
  model::attach_weights(content, weights);
  model::make_plain(content, model::vendor_options(source.path()));
  model::tell_plain(content);
  *id = model::registry().add(model::DeviceModel::load(std::move(content), memory));
}

std::shared_ptr<model::LoadedModel> find_loaded(uint32_t id) {
  auto loaded = model::registry().find(id);
  if (loaded == nullptr) {
    refuse_model(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID,
                 "model id " + std::to_string(id) +
                     " is not loaded: it was unloaded, or never came from a load call");
  }
  return loaded;
}

namespace {

using LoadedPtr = std::shared_ptr<model::LoadedModel>;

std::vector<base::Ref<DataBuffer>> buffers_of(const Dataset& dataset, const char* argument) {
  std::vector<base::Ref<DataBuffer>> out;
  for (size_t i = 0; i < dataset.entries.size(); ++i) {
    out.push_back(base::handles().get<DataBuffer>(dataset.entries[i].buffer));
    if (!out.back()) {
      refuse_argument(std::string("argument ") + argument + ": data buffer " + std::to_string(i) +
                      " is none or was destroyed");
    }
  }
  return out;
}

// Output buffers without memory get some, which the client frees. Taken back when the call fails.
class MissingOutputs {
 public:
  void allocate(const LoadedPtr& loaded, const std::vector<base::Ref<DataBuffer>>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->data != nullptr) continue;
      if (loaded == nullptr || i >= loaded->model.outputs.size()) {
        refuse_argument("output " + std::to_string(i) +
                        " has no memory, and no loaded model tells how much it needs");
      }
      const model::IoDesc& io = loaded->model.outputs[i];
      const auto size = static_cast<size_t>(io.largest_size());
      if (io.is_open() && size == 0) continue;  // the run allocates what it needs
      const auto& device = model::DeviceModel::of(*loaded).context().device();
      outputs[i]->data = memory::allocate_device(device.index(), std::max<size_t>(size, 1),
                                                 ACL_MEM_MALLOC_HUGE_FIRST);
      outputs[i]->size = size;
      made_.push_back(outputs[i]);
    }
  }
  void keep() { made_.clear(); }
  ~MissingOutputs() {
    for (const auto& buffer : made_) {
      model::DeviceModel::release(std::exchange(buffer->data, nullptr));
      buffer->size = 0;
    }
  }

 private:
  std::vector<base::Ref<DataBuffer>> made_;
};

// src: rules S9: a shortfall of up to 64 bytes is tolerated; larger buffers are fine.
constexpr uint64_t kTolerance = 64;

enum class Sizes : uint8_t { kChecked, kAsGiven };

std::vector<model::DeviceBuffer> check_buffers(const std::vector<model::IoDesc>& expected,
                                               const std::vector<base::Ref<DataBuffer>>& given,
                                               const char* what, Sizes sizes) {
  if (given.size() != expected.size()) {
    refuse_model(ACL_ERROR_GE_FAILURE, "the dataset has " + std::to_string(given.size()) + " " +
                                           what + "s, the model has " +
                                           std::to_string(expected.size()));
  }
  std::vector<model::DeviceBuffer> out;
  for (size_t i = 0; i < given.size(); ++i) {
    if (sizes == Sizes::kChecked && given[i]->size + kTolerance < expected[i].size) {
      refuse_model(ACL_ERROR_GE_FAILURE,
                   std::string(what) + " " + std::to_string(i) + " ('" + expected[i].name +
                       "') has a buffer of " + std::to_string(given[i]->size) +
                       " bytes, the model needs " + std::to_string(expected[i].size));
    }
    out.push_back({given[i]->data, given[i]->size});
  }
  return out;
}

// The gear that the dataset asks for; the largest one when it does not say.
size_t gear_of(const model::Model& model, const Dataset& input) {
  std::vector<int64_t> wanted = input.gear_dims;
  auto kind = model::GearKind::kDims;
  if (input.batch != 0) {
    kind = model::GearKind::kBatch;
    wanted = {static_cast<int64_t>(input.batch)};
  } else if (input.height != 0) {
    kind = model::GearKind::kImage;
    wanted = {static_cast<int64_t>(input.height), static_cast<int64_t>(input.width)};
  }
  if (wanted.empty()) return model::largest_gear(model);
  const auto gear = model::find_gear(model.gears, kind, wanted);
  if (!gear) {
    refuse_model(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID,
                 "the gear set on the input dataset is none of the model's; the call that set it "
                 "has told so");
  }
  return *gear;
}

bool has_gear(const Dataset& input) {
  return input.batch != 0 || input.height != 0 || !input.gear_dims.empty();
}

model::VariantPtr variant_of(const model::LoadedModel& loaded, const Dataset& input) {
  model::DeviceModel& device = model::DeviceModel::of(loaded);
  if (loaded.model.gears.kind == model::GearKind::kNone) return device.only_variant();
  return device.variant_of_gear(loaded, gear_of(loaded.model, input));
}

void check_computable(const model::LoadedModel& loaded, const model::Program& program) {
  const auto& missing = program.missing();
  if (missing.empty()) return;
  std::string text = "model " + std::to_string(loaded.id) +
                     " cannot be computed. What is missing (" + std::to_string(missing.size()) +
                     "):";
  for (const std::string& line : missing) text += "\n  " + line;
  refuse_model(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, text);
}

void check_use(const model::LoadedModel& loaded, model::DeviceModel::Use use) {
  if (model::DeviceModel::of(loaded).admits(use)) return;
  refuse_model(ACL_ERROR_GE_FAILURE,
               "model " + std::to_string(loaded.id) +
                   " was run by both aclmdlExecute and aclmdlExecuteAsync; one model id takes one "
                   "of them, load the file twice to use both");
}

struct Request {
  LoadedPtr loaded;
  model::VariantPtr variant;
  model::Buffers buffers;
};

// Second executor: the shapes are the run's. src: hicann/ge api/acl/acl_model/model/model.cpp
Request prepare_dynamic(const LoadedPtr& loaded, const Dataset& input, const Dataset& output,
                        MissingOutputs* missing) {
  Request request{loaded, nullptr, {}};
  const auto inputs = buffers_of(input, "input");
  const std::vector<model::Dims> shapes = run_shapes(loaded->model.inputs, input);
  const auto outputs = buffers_of(output, "output");
  model::DeviceModel& device = model::DeviceModel::of(*loaded);
  request.variant = model::is_imported(loaded->model) ? device.variant_of_shapes(*loaded, shapes)
                                                      : device.only_variant();
  const model::Program& program = request.variant->program;
  check_computable(*loaded, program);
  if (missing != nullptr) missing->allocate(loaded, outputs);
  request.buffers.inputs = check_run_inputs(loaded->model.inputs, shapes, inputs);
  request.buffers.outputs =
      check_run_outputs(loaded->model.outputs, program, outputs, missing != nullptr);
  return request;
}

Request prepare(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                model::DeviceModel::Use use, MissingOutputs* missing) {
  const auto in = live<Dataset>(input, "input");
  const auto out = live<Dataset>(output, "output");
  if (const auto loaded = model::registry().find(id); loaded && loaded->model.is_dynamic()) {
    Request request = prepare_dynamic(loaded, *in, *out, missing);
    check_use(*loaded, use);
    return request;
  }
  const auto inputs = buffers_of(*in, "input");
  const auto outputs = buffers_of(*out, "output");
  if (missing != nullptr) missing->allocate(model::registry().find(id), outputs);
  check_initialised();
  Request request{find_loaded(id), nullptr, {}};
  const model::Model& described = request.loaded->model;
  const Sizes sizes = has_gear(*in) ? Sizes::kAsGiven : Sizes::kChecked;
  request.buffers.inputs = check_buffers(described.inputs, inputs, "input", sizes);
  request.buffers.outputs = check_buffers(described.outputs, outputs, "output", sizes);
  request.variant = variant_of(*request.loaded, *in);
  check_computable(*request.loaded, request.variant->program);
  check_use(*request.loaded, use);
  return request;
}

base::Ref<TensorDesc>& desc_of(Dataset::Entry& entry) {
  if (!entry.desc) {
    entry.desc = base::make_ref<TensorDesc>();
    base::handles().insert(entry.desc);
  }
  return entry.desc;
}

// A tensor desc on some input makes the call describe the outputs; those whose shape only the run
// could tell, and all of the second executor's, are always described, and get the memory that the
// run allocated.
void describe_outputs(const Dataset& input, Dataset& output, const model::Model& described,
                      const std::vector<model::OutputResult>& results) {
  bool wanted = described.is_dynamic();
  for (const auto& entry : input.entries) wanted = wanted || static_cast<bool>(entry.desc);
  for (size_t i = 0; i < output.entries.size(); ++i) {
    const bool open = described.outputs[i].is_open() || described.is_dynamic();
    if (!wanted && !open) continue;
    const auto buffer = base::handles().get<DataBuffer>(output.entries[i].buffer);
    if (open && buffer && buffer->data == nullptr) {
      buffer->data = results[i].buffer.address;
      buffer->size = results[i].buffer.size;
    }
    const auto& desc = desc_of(output.entries[i]);
    const model::IoDesc& io = described.outputs[i];
    desc->fields.dtype = static_cast<aclDataType>(io.dtype);
    desc->fields.format = static_cast<aclFormat>(io.format);
    const bool of_run = open || described.gears.kind != model::GearKind::kNone;
    desc->fields.dims = of_run ? model::to_dims(results[i].type.shape) : io.dims;
  }
}

// What is known of the outputs before the run is over.
void describe_run(const model::Model& described, const model::Program& program, Dataset& output) {
  for (size_t i = 0; i < output.entries.size(); ++i) {
    const auto& desc = desc_of(output.entries[i]);
    desc->fields.dtype = static_cast<aclDataType>(described.outputs[i].dtype);
    desc->fields.format = static_cast<aclFormat>(described.outputs[i].format);
    desc->fields.dims = model::to_dims(program.outputs()[i].value.type.shape);
  }
}

}  // namespace

void execute_model(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                   const RunOptions& options) {
  MissingOutputs missing;
  Request request = prepare(id, input, output, model::DeviceModel::Use::kBlocking, &missing);
  const auto results = model::DeviceModel::of(*request.loaded)
                           .execute(request.loaded, request.variant, std::move(request.buffers),
                                    options.stream, options.timeout_ms);
  missing.keep();
  describe_outputs(*live<Dataset>(input, "input"), *live<Dataset>(output, "output"),
                   request.loaded->model, results);
}

void execute_model_async(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                         aclrtStream stream) {
  Request request = prepare(id, input, output, model::DeviceModel::Use::kOnStream, nullptr);
  const auto target = core::resolve_stream_of_current(stream);
  const auto loaded = request.loaded;
  const auto variant = request.variant;
  model::DeviceModel::of(*request.loaded)
      .submit(loaded, variant, *target, std::move(request.buffers));
  if (loaded->model.is_dynamic()) {
    describe_run(loaded->model, variant->program, *live<Dataset>(output, "output"));
  }
}

}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclmdlLoadFromFile(const char* modelPath, uint32_t* modelId) {
  return call<ApiId::aclmdlLoadFromFile>([&] {
    check_not_null(modelPath, "modelPath");
    load_model(model::OmSource::from_file(modelPath), model::Entry::kLoadFile, {}, modelId);
  });
}

aclError art_emu_aclmdlLoadFromMem(const void* model, size_t modelSize, uint32_t* modelId) {
  return call<ApiId::aclmdlLoadFromMem>([&] {
    check_not_null(model, "model");
    check_positive(modelSize, "modelSize");
    load_model(model::OmSource::from_memory(model, modelSize), model::Entry::kLoadMemory, {},
               modelId);
  });
}

aclError art_emu_aclmdlLoadFromFileWithMem(const char* modelPath, uint32_t* modelId, void* workPtr,
                                           size_t workSize, void* weightPtr, size_t weightSize) {
  return call<ApiId::aclmdlLoadFromFileWithMem>([&] {
    check_not_null(modelPath, "modelPath");
    load_model(model::OmSource::from_file(modelPath), model::Entry::kLoadFile,
               {workPtr, workSize, weightPtr, weightSize}, modelId);
  });
}

aclError art_emu_aclmdlLoadFromMemWithMem(const void* model, size_t modelSize, uint32_t* modelId,
                                          void* workPtr, size_t workSize, void* weightPtr,
                                          size_t weightSize) {
  return call<ApiId::aclmdlLoadFromMemWithMem>([&] {
    check_not_null(model, "model");
    check_positive(modelSize, "modelSize");
    load_model(model::OmSource::from_memory(model, modelSize), model::Entry::kLoadMemory,
               {workPtr, workSize, weightPtr, weightSize}, modelId);
  });
}

// Executions that are queued keep the model until they are done. aclInit is not needed here.
aclError art_emu_aclmdlUnload(uint32_t modelId) {
  return call<ApiId::aclmdlUnload>([&] {
    check_no_bundle_member(modelId);
    find_loaded(modelId);
    model::registry().remove(modelId);
  });
}

aclError art_emu_aclmdlExecute(uint32_t modelId, const aclmdlDataset* input,
                               aclmdlDataset* output) {
  return call<ApiId::aclmdlExecute>([&] { execute_model(modelId, input, output, {}); });
}

aclError art_emu_aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset* input,
                                    aclmdlDataset* output, aclrtStream stream) {
  return call<ApiId::aclmdlExecuteAsync>(
      [&] { execute_model_async(modelId, input, output, stream); });
}

}  // extern "C"
