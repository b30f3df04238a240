// src: hicann/ge api/acl/acl_model/model/model.cpp, the run of the second executor
#include "abi/model_shapes.hpp"

#include <algorithm>
#include <string>

#include "abi/model_exec.hpp"

namespace ascendrt::abi {
namespace {

std::string name_of(size_t i, const model::IoDesc& io) {
  return std::to_string(i) + " ('" + io.name + "')";
}

std::string text_of(const model::Dims& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return "[" + text + "]";
}

// What a dim may be.
std::string allowed(const model::IoDesc& io, size_t k) {
  if (k >= io.shape_range.size()) {
    return io.dims[k] < 0 ? "any size above 0" : std::to_string(io.dims[k]);
  }
  const auto [low, high] = io.shape_range[k];
  if (low == high) return std::to_string(low);
  return high < 0 ? "at least " + std::to_string(low)
                  : "from " + std::to_string(low) + " to " + std::to_string(high);
}

bool is_allowed(const model::IoDesc& io, size_t k, int64_t size) {
  if (k >= io.shape_range.size()) return io.dims[k] < 0 ? size > 0 : size == io.dims[k];
  const auto [low, high] = io.shape_range[k];
  return size >= low && size >= 0 && (high < 0 || size <= high);
}

void check_shape(size_t i, const model::IoDesc& io, const model::Dims& shape, bool given) {
  if (!given && io.is_open()) {
    refuse_argument("argument input: input " + name_of(i, io) + " has the open shape " +
                    text_of(io.dims) +
                    " and no tensor desc; give the shape of this run with "
                    "aclmdlSetDatasetTensorDesc");
  }
  if (io.dims == model::kNoRank) {
    const bool fits = std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim > 0; });
    if (fits) return;
    refuse_argument("argument input: the tensor desc of input " + name_of(i, io) +
                    " has the shape " + text_of(shape) + "; any rank is taken, dims above 0");
  }
  if (shape.size() != io.dims.size()) {
    refuse_argument("argument input: the tensor desc of input " + name_of(i, io) +
                    " has the shape " + text_of(shape) + ", the model's is " + text_of(io.dims));
  }
  for (size_t k = 0; k < shape.size(); ++k) {
    if (is_allowed(io, k, shape[k])) continue;
    refuse_argument("argument input: dim " + std::to_string(k) + " of input " + name_of(i, io) +
                    " is " + std::to_string(shape[k]) + " in the shape " + text_of(shape) +
                    "; the model allows " + allowed(io, k));
  }
}

[[noreturn]] void too_small(const char* what, size_t i, const model::IoDesc& io, uint64_t has,
                            uint64_t needs, const model::Dims& shape) {
  refuse_model(ACL_ERROR_GE_FAILURE, std::string(what) + " " + name_of(i, io) + " has the shape " +
                                         text_of(shape) + " in this run and takes " +
                                         std::to_string(needs) + " bytes, its buffer has " +
                                         std::to_string(has));
}

}  // namespace

std::vector<model::Dims> run_shapes(const std::vector<model::IoDesc>& inputs,
                                    const Dataset& given) {
  if (given.entries.size() < inputs.size()) {
    refuse_argument("argument input: the dataset has " + std::to_string(given.entries.size()) +
                    " buffers, the model has " + std::to_string(inputs.size()) + " inputs");
  }
  std::vector<model::Dims> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const base::Ref<TensorDesc>& desc = given.entries[i].desc;
    shapes.push_back(desc ? desc->fields.dims : inputs[i].dims);
    check_shape(i, inputs[i], shapes.back(), static_cast<bool>(desc));
  }
  return shapes;
}

std::vector<model::DeviceBuffer> check_run_inputs(const std::vector<model::IoDesc>& inputs,
                                                  const std::vector<model::Dims>& shapes,
                                                  const DataBuffers& given) {
  std::vector<model::DeviceBuffer> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto needs =
        static_cast<uint64_t>(model::byte_size(shapes[i], inputs[i].dtype).value_or(0));
    if (given[i]->size < needs) {
      too_small("input", i, inputs[i], given[i]->size, needs, shapes[i]);
    }
    out.push_back({given[i]->data, given[i]->size});
  }
  return out;
}

std::vector<model::DeviceBuffer> check_run_outputs(const std::vector<model::IoDesc>& outputs,
                                                   const model::Program& program,
                                                   const DataBuffers& given, bool allocates) {
  if (given.size() != outputs.size()) {
    refuse_model(ACL_ERROR_GE_FAILURE, "the dataset has " + std::to_string(given.size()) +
                                           " outputs, the model has " +
                                           std::to_string(outputs.size()));
  }
  std::vector<model::DeviceBuffer> out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.push_back({given[i]->data, given[i]->size});
    if (given[i]->data == nullptr && allocates) continue;
    if (given[i]->data == nullptr) {
      refuse_model(ACL_ERROR_GE_FAILURE, "output " + name_of(i, outputs[i]) +
                                             " has no memory, and aclmdlExecuteAsync gives none");
    }
    const model::OutputSlot& slot = program.outputs()[i];
    const auto needs = static_cast<uint64_t>(std::max<int64_t>(slot.bytes, 0));
    if (given[i]->size < needs) {
      too_small("output", i, outputs[i], given[i]->size, needs,
                model::to_dims(slot.value.type.shape));
    }
  }
  return out;
}

}  // namespace ascendrt::abi
