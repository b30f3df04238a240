// Entries: single operators, described by tensor descs, run on streams. An operator of the table
// needs no compiled model here, unlike on a device. Must never: compute anything itself.
//
// src: hicann/ge api/acl/acl_op_executor/single_op/op.cpp, builtin/cast_op.cpp
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "abi/op_objects.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"
#include "model/loaded.hpp"

namespace ascendrt::abi {
namespace {

using Descs = std::vector<base::Ref<TensorDesc>>;
using Buffers = std::vector<base::Ref<DataBuffer>>;

template <class T, class Handle>
std::vector<base::Ref<T>> members(int count, Handle const* array, const char* name) {
  if (count < 0) {
    refuse_argument("the number of " + std::string(name) + " is " + std::to_string(count));
  }
  if (count > 0) check_not_null(array, name);
  std::vector<base::Ref<T>> out;
  for (int i = 0; i < count; ++i) out.push_back(live<T>(array[i], name));
  return out;
}

bool is_host(const TensorFields& fields) { return fields.placement != ACL_MEMTYPE_DEVICE; }

model::TensorType type_of(const TensorFields& fields) {
  if (fields.storage_format != ACL_FORMAT_UNDEFINED && fields.storage_format != fields.format) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "tensors stored in another format than they are described in (here " +
                   std::to_string(fields.storage_format) +
                   ") are not emulated for single "
                   "operators; describe the data in one format");
  }
  return {fields.dtype, model::to_shape(fields.dims)};
}

// Left out on purpose: an optional input.
bool is_left_out(const TensorFields& fields) {
  return fields.dtype == ACL_DT_UNDEFINED && fields.format == ACL_FORMAT_UNDEFINED;
}

std::shared_ptr<const model::Bytes> host_bytes(const TensorFields& fields,
                                               const DataBuffer* buffer) {
  if (fields.constant) return std::make_shared<const model::Bytes>(*fields.constant);
  if (buffer == nullptr || !is_host(fields)) return nullptr;
  const size_t size = fields.size_bytes();
  if (buffer->data == nullptr || buffer->size < size) {
    refuse_argument("an input in host memory has " + std::to_string(buffer->size) +
                    " bytes, its description needs " + std::to_string(size));
  }
  model::Bytes bytes(size);
  if (size > 0) memory::copy(bytes.data(), buffer->data, size);
  return std::make_shared<const model::Bytes>(std::move(bytes));
}

DescribedOp described(const char* type, const Descs& inputs, const Buffers& buffers,
                      const Descs& outputs, model::AttrMap attrs) {
  std::vector<model::SingleOperand> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorFields& fields = inputs[i]->fields;
    const DataBuffer* buffer = i < buffers.size() ? &*buffers[i] : nullptr;
    operands.push_back(
        {type_of(fields), !is_left_out(fields), host_bytes(fields, buffer), fields.format});
  }
  std::vector<model::TensorType> results;
  for (const auto& output : outputs) results.push_back(type_of(output->fields));
  return describe_op(type, std::move(attrs), std::move(operands), std::move(results));
}

std::vector<OpBuffer> places(const Buffers& buffers) {
  std::vector<OpBuffer> out;
  for (const auto& buffer : buffers) out.push_back({buffer->data, buffer->size});
  return out;
}

model::AttrMap attributes(const aclopAttr* attr) {
  return attr == nullptr ? model::AttrMap() : live<OpAttr>(attr, "attr")->values;
}

bool all_empty(const Descs& outputs) {
  for (const auto& output : outputs) {
    if (std::ranges::count(output->fields.dims, 0) == 0) return false;
  }
  return !outputs.empty();
}

struct Call {
  const char* type;
  int input_count;
  const aclTensorDesc* const* input_descs;
  const aclDataBuffer* const* inputs;
  int output_count;
  const aclTensorDesc* const* output_descs;
  const aclDataBuffer* const* outputs;
};

void execute(const Call& c, const model::AttrMap& attrs, aclrtStream stream) {
  check_not_null(c.type, "opType");
  const Descs input_descs = members<TensorDesc>(c.input_count, c.input_descs, "inputDesc");
  const Descs output_descs = members<TensorDesc>(c.output_count, c.output_descs, "outputDesc");
  if (all_empty(output_descs)) return;
  const Buffers inputs = members<DataBuffer>(c.input_count, c.inputs, "inputs");
  const Buffers outputs = members<DataBuffer>(c.output_count, c.outputs, "outputs");
  submit_op(described(c.type, input_descs, inputs, output_descs, attrs), places(inputs),
            places(outputs), stream);
}

void check_on_device(const Descs& descs, const char* name) {
  for (const auto& desc : descs) {
    if (!is_host(desc->fields) || desc->fields.constant) continue;
    base::fail(
        ACL_ERROR_API_NOT_SUPPORT,
        std::string("argument ") + name +
            ": a tensor placed in host memory cannot be described before it is there; run the "
            "operator with aclopExecuteV2",
        base::Layer::kAcl);
  }
}

// Of tensors that are not there yet.
DescribedOp described_ahead(const Call& c, const model::AttrMap& attrs) {
  check_not_null(c.type, "opType");
  const Descs inputs = members<TensorDesc>(c.input_count, c.input_descs, "inputDesc");
  const Descs outputs = members<TensorDesc>(c.output_count, c.output_descs, "outputDesc");
  check_on_device(inputs, "inputDesc");
  check_on_device(outputs, "outputDesc");
  return described(c.type, inputs, {}, outputs, attrs);
}

void create_handle(const Call& c, const model::AttrMap& attrs, aclopHandle** handle) {
  check_not_null(c.type, "opType");
  check_not_null(handle, "handle");
  *handle = new_op_handle(described_ahead(c, attrs));
}

void check_count(base::Code code, const char* what, size_t given, size_t wanted) {
  if (given == wanted) return;
  base::fail(code,
             std::to_string(given) + " " + what + " were given, the handle was made for " +
                 std::to_string(wanted),
             base::Layer::kAcl);
}

void execute_handle(aclopHandle* handle, const Buffers& inputs, const Buffers& outputs,
                    aclrtStream stream) {
  bool empty = !outputs.empty();
  for (const auto& buffer : outputs) empty = empty && buffer->size == 0;
  if (empty) return;
  const auto made = live<OpHandle>(handle, "handle");
  check_count(ACL_ERROR_OP_INPUT_NOT_MATCH, "inputs", inputs.size(), made->op.op->inputs().size());
  check_count(ACL_ERROR_OP_OUTPUT_NOT_MATCH, "outputs", outputs.size(), made->op.outputs.size());
  submit_op(made->op, places(inputs), places(outputs), stream);
}

// Operators need no compiled models here, so only the place of those is looked at.
void set_model_dir(const char* path) {
  static std::mutex mutex;
  static bool is_set = false;  // for the life of the process
  check_not_null(path, "modelDir");
  std::error_code error;
  const auto found = std::filesystem::canonical(path, error);
  if (error || !std::filesystem::is_directory(found, error)) {
    base::fail(ACL_ERROR_READ_MODEL_FAILURE,
               "'" + std::string(path) + "' is no directory" +
                   (error ? ": " + error.message() : std::string()) +
                   "; the path of compiled operators is wanted (relative ones count from the "
                   "working directory)",
               base::Layer::kAcl);
  }
  const std::lock_guard lock(mutex);
  if (is_set) {
    base::fail(ACL_ERROR_REPEAT_INITIALIZE, "the directory was set before; it is set once",
               base::Layer::kAcl);
  }
  is_set = true;
}

void check_compile_kind(const aclopCompileType& kind) {
  if (raw(kind) == ACL_COMPILE_SYS || raw(kind) == ACL_COMPILE_UNREGISTERED) return;
  base::fail(ACL_ERROR_API_NOT_SUPPORT,
             "argument compileFlag is " + std::to_string(raw(kind)) +
                 ", neither ACL_COMPILE_SYS nor ACL_COMPILE_UNREGISTERED",
             base::Layer::kAcl);
}

void refuse_own_operator(const aclopCompileType& kind, const char* path) {
  if (raw(kind) == ACL_COMPILE_SYS) return;
  check_not_null(path, "opPath");
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             "operators of the client's own (ACL_COMPILE_UNREGISTERED, here " + std::string(path) +
                 ") are compiled for the chip; the emulator has only those of the graph engine");
}

void check_filled(const Buffers& buffers, const char* name) {
  for (const auto& buffer : buffers) {
    if (buffer->data != nullptr || buffer->size == 0) continue;
    refuse_argument(std::string("argument ") + name + ": a buffer of " +
                    std::to_string(buffer->size) + " bytes has a null address");
  }
}

// Unlike the plain entries these look at the buffers before they look for empty outputs.
void compile_and_execute(const Call& c, const aclopAttr* attr, const aclopCompileType& kind,
                         const char* path, aclrtStream stream) {
  check_compile_kind(kind);
  check_not_null(c.type, "opType");
  members<TensorDesc>(c.input_count, c.input_descs, "inputDesc");
  const Descs outputs = members<TensorDesc>(c.output_count, c.output_descs, "outputDesc");
  check_filled(members<DataBuffer>(c.input_count, c.inputs, "inputs"), "inputs");
  check_filled(members<DataBuffer>(c.output_count, c.outputs, "outputs"), "outputs");
  if (all_empty(outputs)) return;
  refuse_own_operator(kind, path);
  execute(c, attributes(attr), stream);
}

// Values decide some shapes, so all that lies in the buffers is read.
std::vector<model::TensorType> inferred(const char* type, const Descs& descs,
                                        const Buffers& buffers, model::AttrMap attrs) {
  std::vector<model::SingleOperand> operands;
  for (size_t i = 0; i < descs.size(); ++i) {
    const TensorFields& fields = descs[i]->fields;
    const uint64_t size = fields.size_bytes();
    const uint64_t wanted = std::max<uint64_t>(size, 1);  // one that is empty or left out as well
    if (buffers[i]->data == nullptr || buffers[i]->size < wanted) {
      refuse_argument("input " + std::to_string(i) + " has a buffer of " +
                      std::to_string(buffers[i]->size) + " bytes" +
                      (buffers[i]->data == nullptr ? " at a null address" : "") + ", " +
                      std::to_string(wanted) + " or more are needed" +
                      (size == 0 ? " even for a tensor without elements" : ""));
    }
    model::Bytes bytes(size);
    memory::copy(bytes.data(), buffers[i]->data, size);
    operands.push_back({type_of(fields), !is_left_out(fields),
                        std::make_shared<const model::Bytes>(std::move(bytes)), fields.format});
  }
  const model::SingleOp op(type, std::move(attrs), std::move(operands));
  if (auto found = op.results()) return *found;
  std::vector<model::TensorType> types;
  const std::vector<std::span<const uint8_t>> nothing(descs.size());
  for (const auto& result : op.run(nothing, model::compute_workers())) {
    types.push_back(result.type);
  }
  return types;
}

void infer(const Call& c, const aclopAttr* attr) {
  check_not_null(c.type, "opType");
  const Descs inputs = members<TensorDesc>(c.input_count, c.input_descs, "inputDesc");
  const Descs outputs = members<TensorDesc>(c.output_count, c.output_descs, "outputDesc");
  const Buffers buffers = members<DataBuffer>(c.input_count, c.inputs, "inputs");
  const auto types = inferred(c.type, inputs, buffers, attributes(attr));
  if (outputs.size() > types.size()) {
    base::fail(ACL_ERROR_OP_OUTPUT_NOT_MATCH,
               std::to_string(outputs.size()) + " outputs are described, " + c.type + " has " +
                   std::to_string(types.size()),
               base::Layer::kAcl);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i]->fields.dtype = types[i].dtype;
    outputs[i]->fields.dims = model::to_dims(types[i].shape);
    outputs[i]->fields.shape_range.clear();
  }
}

// Cuts towards zero whatever `truncate` says: the chips that ask for it are not emulated.
model::AttrMap cast_attributes(const aclTensorDesc* to) {
  model::AttrMap attrs;
  attrs.set("dst_type", static_cast<int64_t>(live<TensorDesc>(to, "dstDesc")->fields.dtype));
  return attrs;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclopSetModelDir(const char* modelDir) {
  return call<ApiId::aclopSetModelDir>([&] { set_model_dir(modelDir); });
}

aclError art_emu_aclopExecute(const char* opType, int numInputs,
                              const aclTensorDesc* const inputDesc[],
                              const aclDataBuffer* const inputs[], int numOutputs,
                              const aclTensorDesc* const outputDesc[],
                              aclDataBuffer* const outputs[], const aclopAttr* attr,
                              aclrtStream stream) {
  return call<ApiId::aclopExecute>([&] {
    execute({opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs},
            attributes(attr), stream);
  });
}

aclError art_emu_aclopExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                aclDataBuffer* inputs[], int numOutputs,
                                aclTensorDesc* outputDesc[], aclDataBuffer* outputs[],
                                aclopAttr* attr, aclrtStream stream) {
  return call<ApiId::aclopExecuteV2>([&] {
    execute({opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs},
            attributes(attr), stream);
  });
}

aclError art_emu_aclopCompile(const char* opType, int numInputs,
                              const aclTensorDesc* const inputDesc[], int numOutputs,
                              const aclTensorDesc* const outputDesc[], const aclopAttr* attr,
                              aclopEngineType /*engineType*/, aclopCompileType compileFlag,
                              const char* opPath) {
  return call<ApiId::aclopCompile>([&] {
    check_compile_kind(compileFlag);
    check_not_null(opType, "opType");
    refuse_own_operator(compileFlag, opPath);
    described_ahead({opType, numInputs, inputDesc, nullptr, numOutputs, outputDesc, nullptr},
                    attributes(attr));
  });
}

aclError art_emu_aclopCompileAndExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs, const aclTensorDesc* const outputDesc[],
    aclDataBuffer* const outputs[], const aclopAttr* attr, aclopEngineType /*engineType*/,
    aclopCompileType compileFlag, const char* opPath, aclrtStream stream) {
  return call<ApiId::aclopCompileAndExecute>([&] {
    compile_and_execute({opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs},
                        attr, compileFlag, opPath, stream);
  });
}

aclError art_emu_aclopCompileAndExecuteV2(const char* opType, int numInputs,
                                          aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
                                          int numOutputs, aclTensorDesc* outputDesc[],
                                          aclDataBuffer* outputs[], aclopAttr* attr,
                                          aclopEngineType /*engineType*/,
                                          aclopCompileType compileFlag, const char* opPath,
                                          aclrtStream stream) {
  return call<ApiId::aclopCompileAndExecuteV2>([&] {
    compile_and_execute({opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs},
                        attr, compileFlag, opPath, stream);
  });
}

aclError art_emu_aclopInferShape(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                 aclDataBuffer* inputs[], int numOutputs,
                                 aclTensorDesc* outputDesc[], aclopAttr* attr) {
  return call<ApiId::aclopInferShape>([&] {
    infer({opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, nullptr}, attr);
  });
}

aclError art_emu_aclopCreateHandle(const char* opType, int numInputs,
                                   const aclTensorDesc* const inputDesc[], int numOutputs,
                                   const aclTensorDesc* const outputDesc[], const aclopAttr* opAttr,
                                   aclopHandle** handle) {
  return call<ApiId::aclopCreateHandle>([&] {
    create_handle({opType, numInputs, inputDesc, nullptr, numOutputs, outputDesc, nullptr},
                  attributes(opAttr), handle);
  });
}

void art_emu_aclopDestroyHandle(aclopHandle* handle) {
  if (handle == nullptr) return;
  call<ApiId::aclopDestroyHandle>([&] { take<OpHandle>(handle, "handle"); });
}

aclError art_emu_aclopExecWithHandle(aclopHandle* handle, int numInputs,
                                     const aclDataBuffer* const inputs[], int numOutputs,
                                     aclDataBuffer* const outputs[], aclrtStream stream) {
  return call<ApiId::aclopExecWithHandle>([&] {
    check_not_null(handle, "handle");
    const Buffers from = members<DataBuffer>(numInputs, inputs, "inputs");
    execute_handle(handle, from, members<DataBuffer>(numOutputs, outputs, "outputs"), stream);
  });
}

aclError art_emu_aclopCast(const aclTensorDesc* srcDesc, const aclDataBuffer* srcBuffer,
                           const aclTensorDesc* dstDesc, aclDataBuffer* dstBuffer,
                           uint8_t /*truncate*/, aclrtStream stream) {
  return call<ApiId::aclopCast>([&] {
    execute({"Cast", 1, &srcDesc, &srcBuffer, 1, &dstDesc, &dstBuffer}, cast_attributes(dstDesc),
            stream);
  });
}

aclError art_emu_aclopCreateHandleForCast(aclTensorDesc* srcDesc, aclTensorDesc* dstDesc,
                                          uint8_t /*truncate*/, aclopHandle** handle) {
  return call<ApiId::aclopCreateHandleForCast>([&] {
    create_handle({"Cast", 1, &srcDesc, nullptr, 1, &dstDesc, nullptr}, cast_attributes(dstDesc),
                  handle);
  });
}

}  // extern "C"
