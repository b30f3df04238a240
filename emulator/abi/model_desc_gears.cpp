// Entries: gears, ranges, current output dims, op attributes and long names of a model desc.
#include <algorithm>
#include <limits>
#include <optional>

#include "abi/model_desc.hpp"
#include "gen/prototypes.h"
#include "model/gears.hpp"

namespace ascendrt::abi {
namespace {

using model::GearKind;

const std::vector<std::vector<int64_t>>& gears_of(const ModelDesc& desc, GearKind kind) {
  static const std::vector<std::vector<int64_t>> kNone;
  return desc.gears.kind == kind ? desc.gears.values : kNone;
}

void check_fits(size_t count, size_t most, const char* type) {
  if (count <= most) return;
  base::fail(ACL_ERROR_STORAGE_OVER_LIMIT,
             "the model has " + std::to_string(count) + " gears, " + type + " holds " +
                 std::to_string(most),
             base::Layer::kAcl);
}

// Gears of general dims belong to the whole model, not to one input.
void check_whole_model(size_t index) {
  if (index == std::numeric_limits<size_t>::max()) return;
  refuse_argument("argument index is " + std::to_string(index) +
                  "; it must be (size_t)-1, the gears belong to all inputs together");
}

// The dims of all inputs in the order the gears were given in, one behind the other.
model::Dims joined_dims(const ModelDesc& desc) {
  model::Dims all;
  for (const model::IoDesc* io : model::gear_inputs(desc.gears, desc.inputs)) {
    all.insert(all.end(), io->dims.begin(), io->dims.end());
  }
  return all;
}

// Every -1 takes the next value of the gear.
model::Dims with_gear(model::Dims dims, const std::vector<int64_t>& gear) {
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim < 0 && next < gear.size()) dim = gear[next++];
  }
  return dims;
}

// Of the gear that was set last; nullopt: none was.
std::optional<model::Dims> current_dims(const ModelDesc& desc, size_t output) {
  const auto loaded = model::registry().find(desc.model_id);
  const int64_t gear =
      loaded == nullptr ? -1 : loaded->current_gear.load(std::memory_order_relaxed);
  if (gear < 0) return std::nullopt;
  return model::gear_output_dims(desc.gears, static_cast<size_t>(gear), output);
}

// "[length]name" per source op: how the attribute of fused ops is told.
std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += "[" + std::to_string(name.size()) + "]" + name;
  return text;
}

std::string op_attr(const ModelDesc& desc, const std::string& op_name, const std::string& attr) {
  if (attr != ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES) {
    refuse_argument("attribute '" + attr + "' cannot be asked for, only " +
                    ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES);
  }
  const auto loaded = model::registry().find(desc.model_id);
  if (loaded == nullptr) refuse_argument("the model of this desc is not loaded (any more)");
  for (const model::Graph& graph : loaded->model.graphs) {
    if (const model::Op* op = graph.find_op(op_name)) {
      const auto* names = op->attrs.get_strings(attr);
      return names == nullptr ? std::string() : joined_names(*names);
    }
  }
  refuse_argument("the model has no op '" + op_name + "'");
}

// The full name behind a full or shortened one; null when no tensor is called so.
const char* real_name(const ModelDesc& desc, const std::string& name) {
  for (const Direction direction : {Direction::kInput, Direction::kOutput}) {
    const auto& ios = list(desc, direction);
    for (size_t i = 0; i < ios.size(); ++i) {
      if (ios[i].name == name || short_name(desc, direction, i) == name) return ios[i].name.c_str();
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclmdlGetDynamicBatch(const aclmdlDesc* modelDesc, aclmdlBatch* batch) {
  return call<ApiId::aclmdlGetDynamicBatch>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(batch, "batch");
    const auto& gears = gears_of(*desc, GearKind::kBatch);
    check_fits(gears.size(), ACL_MAX_BATCH_NUM, "aclmdlBatch");
    *batch = {};
    for (const auto& gear : gears) {
      batch->batch[batch->batchCount++] = gear.empty() ? 0 : static_cast<uint64_t>(gear[0]);
    }
  });
}

// The index is not looked at: a model has one set of image sizes.
aclError art_emu_aclmdlGetDynamicHW(const aclmdlDesc* modelDesc, size_t /*index*/, aclmdlHW* hw) {
  return call<ApiId::aclmdlGetDynamicHW>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(hw, "hw");
    const auto& gears = gears_of(*desc, GearKind::kImage);
    check_fits(gears.size(), ACL_MAX_HW_NUM, "aclmdlHW");
    *hw = {};
    for (const auto& gear : gears) {
      uint64_t (&pair)[2] = hw->hw[hw->hwCount++];
      for (size_t i = 0; i < 2 && i < gear.size(); ++i) pair[i] = static_cast<uint64_t>(gear[i]);
    }
  });
}

aclError art_emu_aclmdlGetInputDynamicGearCount(const aclmdlDesc* modelDesc, size_t index,
                                                size_t* gearCount) {
  return call<ApiId::aclmdlGetInputDynamicGearCount>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(gearCount, "gearCount");
    check_whole_model(index);
    *gearCount = gears_of(*desc, GearKind::kDims).size();
  });
}

aclError art_emu_aclmdlGetInputDynamicDims(const aclmdlDesc* modelDesc, size_t index,
                                           aclmdlIODims* dims, size_t gearCount) {
  return call<ApiId::aclmdlGetInputDynamicDims>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(dims, "dims");
    check_whole_model(index);
    const auto& gears = gears_of(*desc, GearKind::kDims);
    if (gearCount < gears.size()) {
      refuse_argument("argument gearCount is " + std::to_string(gearCount) + ", the model has " +
                      std::to_string(gears.size()) + " gears");
    }
    const model::Dims all = joined_dims(*desc);
    for (size_t i = 0; i < gears.size(); ++i) copy_dims("", with_gear(all, gears[i]), dims[i]);
  });
}

aclError art_emu_aclmdlGetInputDimsRange(const aclmdlDesc* modelDesc, size_t index,
                                         aclmdlIODimsRange* dimsRange) {
  return call<ApiId::aclmdlGetInputDimsRange>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(dimsRange, "dimsRange");
    const model::IoDesc& io = at(*desc, Direction::kInput, index);
    if (io.shape_range.size() > ACL_MAX_DIM_CNT) {
      base::fail(ACL_ERROR_STORAGE_OVER_LIMIT,
                 "input '" + io.name + "' has " + std::to_string(io.shape_range.size()) +
                     " ranges, aclmdlIODimsRange holds " + std::to_string(ACL_MAX_DIM_CNT),
                 base::Layer::kAcl);
    }
    *dimsRange = {};
    for (const auto& [low, high] : io.shape_range) {
      int64_t (&pair)[2] = dimsRange->range[dimsRange->rangeCount++];
      pair[0] = low;
      pair[1] = high;
    }
  });
}

aclError art_emu_aclmdlGetCurOutputDims(const aclmdlDesc* modelDesc, size_t index,
                                        aclmdlIODims* dims) {
  return call<ApiId::aclmdlGetCurOutputDims>([&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(dims, "dims");
    if (desc->dynamic) {
      base::fail(
          ACL_ERROR_API_NOT_SUPPORT,
          "the model has a dynamic shape; take the dims of its last run from the tensor descs "
          "of the output dataset (aclmdlGetDatasetTensorDesc)",
          base::Layer::kAcl);
    }
    const model::IoDesc& io = at(*desc, Direction::kOutput, index);
    copy_dims(short_name(*desc, Direction::kOutput, index),
              current_dims(*desc, index).value_or(io.dims), *dims);
  });
}

const char* art_emu_aclmdlGetOpAttr(aclmdlDesc* modelDesc, const char* opName, const char* attr) {
  return value<ApiId::aclmdlGetOpAttr>(static_cast<const char*>(nullptr), [&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(opName, "opName");
    check_not_null(attr, "attr");
    std::string& kept = desc->op_attrs[std::string(opName) + '\0' + attr];
    kept = op_attr(*desc, opName, attr);
    return kept.c_str();
  });
}

const char* art_emu_aclmdlGetTensorRealName(const aclmdlDesc* modelDesc, const char* name) {
  return value<ApiId::aclmdlGetTensorRealName>(static_cast<const char*>(nullptr), [&] {
    const auto desc = live<ModelDesc>(modelDesc, "modelDesc");
    check_not_null(name, "name");
    return real_name(*desc, name);
  });
}

}  // extern "C"
