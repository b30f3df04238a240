// Entries: parameters of image preprocessing that come with a run, and what a model says of its
// own. Owns: the parameter object and its ranges. Must never: touch pixels.
#include "model/aipp.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "abi/model_exec.hpp"
#include "core/runtime.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"
#include "model/gears.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::abi {
namespace {

struct Aipp : base::Object {
  static constexpr base::Kind kKind = base::Kind::kAipp;
  ops::AippParams params{};
};

// src: hicann/ge api/acl/acl_model/model/acl_aipp.cpp
constexpr int64_t kMostPixels = 4096;
constexpr int64_t kMostScaled = 1920;
constexpr int64_t kLeastScaled = 16;
constexpr int64_t kMostPadding = 32;
constexpr int64_t kMostPadded = 1080;
constexpr float kMostHalf = 65504.0F;

void check_range(int64_t value, int64_t low, int64_t high, const char* name) {
  if (value >= low && value <= high) return;
  refuse_argument("argument " + std::string(name) + " is " + std::to_string(value) +
                  ", it must be from " + std::to_string(low) + " to " + std::to_string(high));
}

bool check_switch(int8_t value, const char* name) {
  check_range(value, 0, 1, name);
  return value == 1;
}

// The parameters of one image of the batch.
ops::AippImage& image_of(Aipp& aipp, uint64_t index) {
  auto& images = aipp.params.images;
  if (index < images.size()) return images[index];
  refuse_argument("argument batchIndex is " + std::to_string(index) + ", the parameters are of " +
                  std::to_string(images.size()) + " images");
}

template <class T>
void check_all(const std::array<T, 4>& values, float low, float high, const char* name) {
  for (const T value : values) {
    if (static_cast<float>(value) >= low && static_cast<float>(value) <= high) continue;
    refuse_argument("argument " + std::string(name) + " holds " + std::to_string(value) +
                    ", values must be from " + std::to_string(low) + " to " + std::to_string(high));
  }
}

const model::Op& data_of(const model::LoadedModel& loaded, size_t index) {
  const model::Op* op = model::input_op(loaded.model, index);
  if (op == nullptr) {
    refuse_argument("argument index is " + std::to_string(index) + ", the model has " +
                    std::to_string(loaded.model.inputs.size()) + " inputs");
  }
  return *op;
}

struct AippType {
  aclmdlInputAippType type = ACL_DATA_WITHOUT_AIPP;
  size_t parameters = ACL_INVALID_NODE_INDEX;  // input that takes them
};

AippType type_of(const model::LoadedModel& loaded, const model::Op& data) {
  const std::string mode = data.attrs.string_or(model::kAippMode, "");
  if (mode == "static_aipp") return {ACL_DATA_WITH_STATIC_AIPP};
  if (mode == "dynamic_aipp_conf") return {ACL_DYNAMIC_AIPP_NODE};
  if (mode != "dynamic_aipp") return {};
  const std::string name = data.attrs.string_or(model::kAippMap, model::kAippData);
  const auto& inputs = loaded.model.inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& input) { return input.name == name; });
  if (found == inputs.end()) return {ACL_DATA_WITH_DYNAMIC_AIPP};
  return {ACL_DATA_WITH_DYNAMIC_AIPP, static_cast<size_t>(found - inputs.begin())};
}

// The image that a parameter input belongs to.
size_t image_of_parameters(const model::LoadedModel& loaded, size_t parameters) {
  for (size_t i = 0; i < loaded.model.inputs.size(); ++i) {
    const AippType type = type_of(loaded, data_of(loaded, i));
    if (type.type == ACL_DATA_WITH_DYNAMIC_AIPP && type.parameters == parameters) return i;
  }
  refuse_argument("argument index is " + std::to_string(parameters) +
                  ", which is no input for AIPP parameters of this model (aclmdlGetAippType)");
}

// What the network takes in the gear of a dataset; of batches the largest.
// src: hicann/ge docs/zh/user_guides/atc_tools/CLI_options/--dynamic_batch_size.md
model::Dims network_dims(const model::Model& model, const Dataset& dataset, size_t image) {
  model::Dims dims = model.inputs[image].dims;
  if (model.gears.kind == model::GearKind::kNone) return dims;
  std::vector<int64_t> values = model.gears.values.at(model::largest_gear(model));
  if (dataset.height != 0 && values.size() == 2) {
    values = {static_cast<int64_t>(dataset.height), static_cast<int64_t>(dataset.width)};
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim < 0 && next < values.size()) dim = values[next++];
  }
  return dims;
}

// The parameters must make of the images what the network takes, and the images must fit.
void check_fit(const model::LoadedModel& loaded, size_t image, const model::Dims& dims,
               const ops::AippParams& params) {
  const model::IoDesc& io = loaded.model.inputs[image];
  const auto format = static_cast<ops::ImageFormat>(params.head.format);
  const int64_t bytes = ops::image_bytes(format, params.head.src_w, params.head.src_h) *
                        static_cast<int64_t>(params.images.size());
  if (bytes > static_cast<int64_t>(io.size)) {
    refuse_argument("the images of the AIPP parameters take " + std::to_string(bytes) +
                    " bytes, input '" + io.name + "' has room for " + std::to_string(io.size) +
                    " (max_src_image_size)");
  }
  if (dims.size() != 4) return;
  for (const ops::AippImage& each : params.images) {
    const auto [width, height] = ops::aipp_output_size(params.head, each);
    if (width == dims[3] && height == dims[2] &&
        static_cast<int64_t>(params.images.size()) == dims[0]) {
      continue;
    }
    refuse_argument("the AIPP parameters make " + std::to_string(params.images.size()) +
                    " images of " + std::to_string(width) + "x" + std::to_string(height) +
                    " (width x height), the network takes " + std::to_string(dims[0]) + " of " +
                    std::to_string(dims[3]) + "x" + std::to_string(dims[2]));
  }
}

// src: hicann/ge api/acl/acl_model/model/aipp_param_check.cpp
void check_image(const ops::AippHead& head, const ops::AippImage& image) {
  const auto format = static_cast<ops::ImageFormat>(head.format);
  if (image.resize != 0) {
    refuse_argument(
        "the AIPP parameters have a resize (aclmdlSetAIPPScfParams), which no chip offers for "
        "parameters that come with a run; use a static AIPP");
  }
  const bool outside = image.crop != 0 && (image.crop_w0 + image.crop_w > head.src_w ||
                                           image.crop_h0 + image.crop_h > head.src_h);
  if (outside) refuse_argument("the crop of the AIPP parameters is not inside the image");
  const bool odd = format == ops::ImageFormat::kYuv420sp && image.crop != 0 &&
                   (image.crop_w0 % 2 != 0 || image.crop_h0 % 2 != 0);
  if (odd) refuse_argument("a crop of YUV420SP must start at even positions");
  const int64_t width = ops::aipp_output_size(head, image)[0];
  if (image.padding == 0 || width <= kMostPadded) return;
  if (core::runtime().soc().short_name == std::string_view("Ascend310B")) return;
  refuse_argument("the AIPP parameters make images of a width of " + std::to_string(width) +
                  " with their padding, at most " + std::to_string(kMostPadded) + " are possible");
}

void check_params(const ops::AippParams& params) {
  const ops::AippHead& head = params.head;
  if (head.format < 1 || head.format > 4) {
    refuse_argument("the AIPP parameters have input format " + std::to_string(head.format) +
                    "; YUV420SP, XRGB8888, RGB888 and YUV400 can be computed");
  }
  const auto format = static_cast<ops::ImageFormat>(head.format);
  if (format == ops::ImageFormat::kYuv400 && head.csc_switch != 0) {
    refuse_argument("the AIPP parameters convert the colours of YUV400 images, which have none");
  }
  if (head.src_w == 0 || head.src_h == 0) {
    refuse_argument("the AIPP parameters have no image size (aclmdlSetAIPPSrcImageSize)");
  }
  if (format == ops::ImageFormat::kYuv420sp && (head.src_w % 2 != 0 || head.src_h % 2 != 0)) {
    refuse_argument("YUV420SP images need even sizes, the AIPP parameters say " +
                    std::to_string(head.src_w) + "x" + std::to_string(head.src_h));
  }
  for (const ops::AippImage& image : params.images) check_image(head, image);
}

void set_parameters(const model::LoadedModel& loaded, const Dataset& dataset, size_t index,
                    const Aipp& aipp) {
  const size_t image = image_of_parameters(loaded, index);
  check_fit(loaded, image, network_dims(loaded.model, dataset, image), aipp.params);
  check_params(aipp.params);
  if (index >= dataset.entries.size()) {
    refuse_argument("argument index is " + std::to_string(index) + ", the dataset has " +
                    std::to_string(dataset.entries.size()) + " buffers");
  }
  const auto buffer = base::handles().get<DataBuffer>(dataset.entries[index].buffer);
  if (!buffer || buffer->data == nullptr) {
    refuse_argument("data buffer " + std::to_string(index) +
                    " of the dataset is none or has no memory");
  }
  const auto block = aipp.params.block();
  if (buffer->size < block.size()) {
    refuse_model(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID,
                 "the AIPP parameters take " + std::to_string(block.size()) +
                     " bytes (aclmdlGetAippDataSize), data buffer " + std::to_string(index) +
                     " has " + std::to_string(buffer->size));
  }
  memory::copy(buffer->data, block.data(), block.size());
}

int32_t number_of(const model::AttrMap& attrs, const std::string& name) {
  return static_cast<int32_t>(attrs.int_or(name, 0));
}
int8_t flag_of(const model::AttrMap& attrs, const char* name) {
  return static_cast<int8_t>(attrs.get_bool(name).value_or(false) ? 1 : 0);
}

void fill_sizes(const model::AttrMap& attrs, aclAippInfo& out) {
  const std::pair<int32_t*, const char*> numbers[] = {
      {&out.srcImageSizeW, "src_image_size_w"},
      {&out.srcImageSizeH, "src_image_size_h"},
      {&out.loadStartPosW, "load_start_pos_w"},
      {&out.loadStartPosH, "load_start_pos_h"},
      {&out.cropSizeW, "crop_size_w"},
      {&out.cropSizeH, "crop_size_h"},
      {&out.resizeOutputW, "resize_output_w"},
      {&out.resizeOutputH, "resize_output_h"},
      {&out.leftPaddingSize, "left_padding_size"},
      {&out.rightPaddingSize, "right_padding_size"},
      {&out.topPaddingSize, "top_padding_size"},
      {&out.bottomPaddingSize, "bottom_padding_size"}};
  for (const auto& [field, name] : numbers) *field = number_of(attrs, name);
  out.cropSwitch = flag_of(attrs, "crop");
  out.resizeSwitch = flag_of(attrs, "resize");
  out.paddingSwitch = flag_of(attrs, "padding");
}

void fill_info(const model::AttrMap& attrs, aclAippInfo& out) {
  out.inputFormat = static_cast<aclAippInputFormat>(number_of(attrs, "input_format"));
  out.cscSwitch = flag_of(attrs, "csc_switch");
  out.rbuvSwapSwitch = flag_of(attrs, "rbuv_swap_switch");
  out.axSwapSwitch = flag_of(attrs, "ax_swap_switch");
  // Rows of numbers lie behind one another in the struct.
  for (int i = 0; i < 9; ++i) {
    const std::string end = std::to_string(i / 3) + "c" + std::to_string(i % 3);
    (&out.matrixR0C0)[i] = number_of(attrs, "matrix_r" + end);
  }
  for (int i = 0; i < 4; ++i) {
    const std::string end = std::to_string(i);
    (&out.meanChn0)[i] = number_of(attrs, "mean_chn_" + end);
    (&out.minChn0)[i] = attrs.float_or("min_chn_" + end, 0);
    (&out.varReciChn0)[i] = attrs.float_or("var_reci_chn_" + end, 0);
    if (i == 3) continue;
    (&out.outputBias0)[i] = number_of(attrs, "output_bias_" + end);
    (&out.inputBias0)[i] = number_of(attrs, "input_bias_" + end);
  }
}

void fill_dims(const model::Dims& dims, aclmdlIODims& out) {
  out.dimCount = std::min<size_t>(dims.size(), ACL_MAX_DIM_CNT);
  std::copy_n(dims.begin(), out.dimCount, out.dims);
}

// An image and what the op behind it makes for the network.
void fill_shape(const model::Op& data, const model::Op& aipp, aclAippInfo& out) {
  const model::TensorDesc& desc = aipp.output_descs.at(0);
  out.srcFormat = ACL_FORMAT_NCHW;
  out.srcDatatype = static_cast<aclDataType>(desc.dtype);
  out.srcDimNum = desc.dims.size();
  if (out.shapeCount >= ACL_MAX_SHAPE_COUNT) return;
  aclAippDims& dims = out.outDims[out.shapeCount++];
  fill_dims(desc.dims, dims.aippOutdims);
  dims.aippOutSize = static_cast<size_t>(model::byte_size(desc.dims, desc.dtype).value_or(0));
  const auto bytes = data.attrs.ints_or(model::kAippDims, {});
  fill_dims(data.attrs.ints_or("_dynamic_aipp_input_dims", bytes), dims.srcDims);
  dims.srcSize = data.input_descs.empty() ? 0 : static_cast<size_t>(data.input_descs[0].size);
}

// One shape, or one per gear.
void fill_shapes(const model::Model& model, const std::string& name, aclAippInfo& out) {
  const auto fill = [&](const model::Graph& graph, const std::string& end) {
    const model::Op* data = graph.find_op(name + end);
    const model::Op* aipp = graph.find_op(name + "_aipp" + end);
    if (data != nullptr && aipp != nullptr) fill_shape(*data, *aipp, out);
  };
  const model::Op* choice = model::find_gear_case(*model.root());
  if (choice == nullptr) return fill(*model.root(), "");
  for (size_t gear = 0; gear < choice->subgraphs.size(); ++gear) {
    const model::Graph* branch = model.find_graph(choice->subgraphs[gear]);
    const std::string end = std::string(model::GearNames::kBranch) + std::to_string(gear);
    if (branch != nullptr) fill(*branch, end);
  }
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclmdlAIPP* art_emu_aclmdlCreateAIPP(uint64_t batchSize) {
  return value<ApiId::aclmdlCreateAIPP>(static_cast<aclmdlAIPP*>(nullptr), [&] {
    check_positive(batchSize, "batchSize");
    check_range(static_cast<int64_t>(batchSize), 1, INT8_MAX, "batchSize");
    auto made = base::make_ref<Aipp>();
    made->params.head.batch = static_cast<int8_t>(batchSize);
    made->params.images.resize(batchSize);
    for (ops::AippImage& image : made->params.images) {
      image.var_reci.fill(ops::float_to_half(1.0F));
    }
    return static_cast<aclmdlAIPP*>(base::handles().insert(made));
  });
}

aclError art_emu_aclmdlDestroyAIPP(const aclmdlAIPP* aippParmsSet) {
  return call<ApiId::aclmdlDestroyAIPP>([&] { take<Aipp>(aippParmsSet, "aippParmsSet"); });
}

aclError art_emu_aclmdlGetAippDataSize(uint64_t batchSize, size_t* size) {
  return call<ApiId::aclmdlGetAippDataSize>([&] {
    check_not_null(size, "size");
    check_positive(batchSize, "batchSize");
    check_range(static_cast<int64_t>(batchSize), 1, INT8_MAX, "batchSize");
    *size = static_cast<size_t>(model::aipp_data_bytes(static_cast<int64_t>(batchSize)));
  });
}

aclError art_emu_aclmdlSetAIPPInputFormat(aclmdlAIPP* aippParmsSet,
                                          aclAippInputFormat inputFormat) {
  return call<ApiId::aclmdlSetAIPPInputFormat>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    check_range(inputFormat, ACL_YUV420SP_U8, ACL_RAW24, "inputFormat");
    aipp->params.head.format = static_cast<uint8_t>(inputFormat);
  });
}

aclError art_emu_aclmdlSetAIPPCscParams(
    aclmdlAIPP* aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0, int16_t cscMatrixR0C1,
    int16_t cscMatrixR0C2, int16_t cscMatrixR1C0, int16_t cscMatrixR1C1, int16_t cscMatrixR1C2,
    int16_t cscMatrixR2C0, int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
    uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
    uint8_t cscInputBiasR1, uint8_t cscInputBiasR2) {
  return call<ApiId::aclmdlSetAIPPCscParams>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippHead& head = aipp->params.head;
    head.csc_switch = check_switch(cscSwitch, "cscSwitch") ? 1 : 0;
    if (head.csc_switch == 0) return;
    const std::array<int16_t, 9> matrix = {cscMatrixR0C0, cscMatrixR0C1, cscMatrixR0C2,
                                           cscMatrixR1C0, cscMatrixR1C1, cscMatrixR1C2,
                                           cscMatrixR2C0, cscMatrixR2C1, cscMatrixR2C2};
    for (const int16_t value : matrix) check_range(value, -32677, 32676, "cscMatrix");
    head.matrix = matrix;
    head.output_bias = {cscOutputBiasR0, cscOutputBiasR1, cscOutputBiasR2};
    head.input_bias = {cscInputBiasR0, cscInputBiasR1, cscInputBiasR2};
  });
}

aclError art_emu_aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t rbuvSwapSwitch) {
  return call<ApiId::aclmdlSetAIPPRbuvSwapSwitch>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    aipp->params.head.rbuv_swap = check_switch(rbuvSwapSwitch, "rbuvSwapSwitch") ? 1 : 0;
  });
}

aclError art_emu_aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t axSwapSwitch) {
  return call<ApiId::aclmdlSetAIPPAxSwapSwitch>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    aipp->params.head.ax_swap = check_switch(axSwapSwitch, "axSwapSwitch") ? 1 : 0;
  });
}

aclError art_emu_aclmdlSetAIPPSrcImageSize(aclmdlAIPP* aippParmsSet, int32_t srcImageSizeW,
                                           int32_t srcImageSizeH) {
  return call<ApiId::aclmdlSetAIPPSrcImageSize>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    check_range(srcImageSizeW, 2, kMostPixels, "srcImageSizeW");
    check_range(srcImageSizeH, 1, kMostPixels, "srcImageSizeH");
    aipp->params.head.src_w = srcImageSizeW;
    aipp->params.head.src_h = srcImageSizeH;
  });
}

aclError art_emu_aclmdlSetAIPPScfParams(aclmdlAIPP* aippParmsSet, int8_t scfSwitch,
                                        int32_t scfInputSizeW, int32_t scfInputSizeH,
                                        int32_t scfOutputSizeW, int32_t scfOutputSizeH,
                                        uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPScfParams>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    image.resize = check_switch(scfSwitch, "scfSwitch") ? 1 : 0;
    if (image.resize == 0) return;
    check_range(scfInputSizeW, kLeastScaled, kMostPixels, "scfInputSizeW");
    check_range(scfInputSizeH, kLeastScaled, kMostPixels, "scfInputSizeH");
    check_range(scfOutputSizeW, kLeastScaled, kMostScaled, "scfOutputSizeW");
    check_range(scfOutputSizeH, kLeastScaled, kMostPixels, "scfOutputSizeH");
    image.resize_in_w = scfInputSizeW;
    image.resize_in_h = scfInputSizeH;
    image.resize_w = scfOutputSizeW;
    image.resize_h = scfOutputSizeH;
  });
}

aclError art_emu_aclmdlSetAIPPCropParams(aclmdlAIPP* aippParmsSet, int8_t cropSwitch,
                                         int32_t cropStartPosW, int32_t cropStartPosH,
                                         int32_t cropSizeW, int32_t cropSizeH,
                                         uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPCropParams>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    image.crop = check_switch(cropSwitch, "cropSwitch") ? 1 : 0;
    if (image.crop == 0) return;
    check_range(cropStartPosW, 0, kMostPixels - 1, "cropStartPosW");
    check_range(cropStartPosH, 0, kMostPixels - 1, "cropStartPosH");
    check_range(cropSizeW, 1, kMostPixels, "cropSizeW");
    check_range(cropSizeH, 1, kMostPixels, "cropSizeH");
    image.crop_w0 = cropStartPosW;
    image.crop_h0 = cropStartPosH;
    image.crop_w = cropSizeW;
    image.crop_h = cropSizeH;
  });
}

aclError art_emu_aclmdlSetAIPPPaddingParams(aclmdlAIPP* aippParmsSet, int8_t paddingSwitch,
                                            int32_t paddingSizeTop, int32_t paddingSizeBottom,
                                            int32_t paddingSizeLeft, int32_t paddingSizeRight,
                                            uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPPaddingParams>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    image.padding = check_switch(paddingSwitch, "paddingSwitch") ? 1 : 0;
    if (image.padding == 0) return;
    check_range(paddingSizeTop, 0, kMostPadding, "paddingSizeTop");
    check_range(paddingSizeBottom, 0, kMostPadding, "paddingSizeBottom");
    check_range(paddingSizeLeft, 0, kMostPadding, "paddingSizeLeft");
    check_range(paddingSizeRight, 0, kMostPadding, "paddingSizeRight");
    image.top = paddingSizeTop;
    image.bottom = paddingSizeBottom;
    image.left = paddingSizeLeft;
    image.right = paddingSizeRight;
  });
}

aclError art_emu_aclmdlSetAIPPDtcPixelMean(aclmdlAIPP* aippParmsSet, int16_t dtcPixelMeanChn0,
                                           int16_t dtcPixelMeanChn1, int16_t dtcPixelMeanChn2,
                                           int16_t dtcPixelMeanChn3, uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPDtcPixelMean>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    const std::array<int16_t, 4> mean = {dtcPixelMeanChn0, dtcPixelMeanChn1, dtcPixelMeanChn2,
                                         dtcPixelMeanChn3};
    check_all(mean, 0, 255, "dtcPixelMeanChn");
    image.mean = mean;
  });
}

aclError art_emu_aclmdlSetAIPPDtcPixelMin(aclmdlAIPP* aippParmsSet, float dtcPixelMinChn0,
                                          float dtcPixelMinChn1, float dtcPixelMinChn2,
                                          float dtcPixelMinChn3, uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPDtcPixelMin>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    const std::array<float, 4> least = {dtcPixelMinChn0, dtcPixelMinChn1, dtcPixelMinChn2,
                                        dtcPixelMinChn3};
    check_all(least, 0, 255, "dtcPixelMinChn");
    std::transform(least.begin(), least.end(), image.min.begin(), ops::float_to_half);
  });
}

aclError art_emu_aclmdlSetAIPPPixelVarReci(aclmdlAIPP* aippParmsSet, float dtcPixelVarReciChn0,
                                           float dtcPixelVarReciChn1, float dtcPixelVarReciChn2,
                                           float dtcPixelVarReciChn3, uint64_t batchIndex) {
  return call<ApiId::aclmdlSetAIPPPixelVarReci>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    ops::AippImage& image = image_of(*aipp, batchIndex);
    const std::array<float, 4> scale = {dtcPixelVarReciChn0, dtcPixelVarReciChn1,
                                        dtcPixelVarReciChn2, dtcPixelVarReciChn3};
    check_all(scale, -kMostHalf, kMostHalf, "dtcPixelVarReciChn");
    std::transform(scale.begin(), scale.end(), image.var_reci.begin(), ops::float_to_half);
  });
}

aclError art_emu_aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType* type,
                                   size_t* dynamicAttachedDataIndex) {
  return call<ApiId::aclmdlGetAippType>([&] {
    check_not_null(dynamicAttachedDataIndex, "dynamicAttachedDataIndex");
    check_not_null(type, "type");
    const auto loaded = find_loaded(modelId);
    const AippType found = type_of(*loaded, data_of(*loaded, index));
    *type = found.type;
    *dynamicAttachedDataIndex = found.parameters;
  });
}

aclError art_emu_aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo* aippInfo) {
  return call<ApiId::aclmdlGetFirstAippInfo>([&] {
    check_not_null(aippInfo, "aippInfo");
    const auto loaded = find_loaded(modelId);
    const model::Op& data = data_of(*loaded, index);
    const auto* boxed =
        data.attrs.find(model::kAippAttrs) == nullptr
            ? nullptr
            : data.attrs.find(model::kAippAttrs)->as<model::Box<model::NamedAttrs>>();
    if (boxed == nullptr) {
      refuse_model(ACL_ERROR_GE_AIPP_NOT_EXIST, "input " + std::to_string(index) + " has no AIPP");
    }
    std::memset(aippInfo, 0, sizeof(*aippInfo));
    fill_info((*boxed)->attrs, *aippInfo);
    fill_sizes((*boxed)->attrs, *aippInfo);
    fill_shapes(loaded->model, data.name, *aippInfo);
  });
}

aclError art_emu_aclmdlSetInputAIPP(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                    const aclmdlAIPP* aippParmsSet) {
  return call<ApiId::aclmdlSetInputAIPP>([&] {
    const auto data = live<Dataset>(dataset, "dataset");
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    const auto loaded = find_loaded(modelId);
    data_of(*loaded, index);
    set_parameters(*loaded, *data, index, *aipp);
  });
}

aclError art_emu_aclmdlSetAIPPByInputIndex(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                           const aclmdlAIPP* aippParmsSet) {
  return call<ApiId::aclmdlSetAIPPByInputIndex>([&] {
    const auto aipp = live<Aipp>(aippParmsSet, "aippParmsSet");
    const auto data = live<Dataset>(dataset, "dataset");
    const auto loaded = find_loaded(modelId);
    const AippType type = type_of(*loaded, data_of(*loaded, index));
    if (type.type != ACL_DATA_WITH_DYNAMIC_AIPP) {
      refuse_model(ACL_ERROR_FAILURE,
                   "input " + std::to_string(index) + " has no dynamic AIPP (aclmdlGetAippType)");
    }
    set_parameters(*loaded, *data, type.parameters, *aipp);
  });
}

}  // extern "C"
