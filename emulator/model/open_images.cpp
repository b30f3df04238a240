// Owns: the arithmetic between both kinds of dims.
#include "model/open_images.hpp"

#include "model/om_container.hpp"

namespace ascendrt::model {
namespace {

bool is_yuv(const AippConfig& config) {
  return static_cast<ops::ImageFormat>(config.head.format) == ops::ImageFormat::kYuv420sp;
}

[[noreturn]] void refuse(const std::string& input, const std::string& why) {
  fail_model(kGeParamInvalid, "insert_op_conf: input '" + input + "' " + why);
}

void check(const AippConfig& config, const std::string& input, const Dims& dims) {
  if (config.dynamic) {
    refuse(input, "has open dims; a dynamic AIPP needs fixed ones or gears");
  }
  if (dims.size() != 4 || dims[1] < 0) {
    refuse(input, "must be [N, C, H, W] with a fixed number of channels");
  }
  const bool sized = config.image.crop != 0 || config.image.resize != 0 ||
                     config.image.padding != 0 || config.head.src_w != 0 || config.head.src_h != 0;
  if ((dims[2] < 0 || dims[3] < 0) && sized) {
    refuse(input,
           "has an open height or width; crop, resize, padding and src_image_size need fixed ones");
  }
}

}  // namespace

OpenImage open_image(const AippConfig& config, const std::string& input, const Dims& dims,
                     const std::vector<DimRange>& ranges) {
  check(config, input, dims);
  // What does not depend on the size is told of an image of some size.
  constexpr int64_t kSome = 16;
  const bool open = dims[2] < 0 || dims[3] < 0;
  const int64_t height = open ? kSome : dims[2];
  const int64_t width = open ? kSome : dims[3];
  ops::AippParams params = static_params(config, {1, dims[1], height, width});
  const int64_t rows = open ? dims[2] : params.head.src_h;
  const int64_t columns = open ? dims[3] : params.head.src_w;
  const auto format = static_cast<ops::ImageFormat>(params.head.format);
  OpenImage image;
  image.dims = image_dims_v2(format, dims[0], columns, rows);
  if (rows < 0) image.dims[1] = -1;
  for (const int64_t dim : image.dims) image.ranges.emplace_back(dim, dim);
  const auto take = [&](size_t to, size_t from) {
    if (image.dims[to] < 0) image.ranges[to] = ranges[from];
  };
  take(0, 0);
  take(1, 2);
  take(2, 3);
  if (is_yuv(config) && image.dims[1] < 0) {
    auto& [low, high] = image.ranges[1];
    low = low * 3 / 2;
    if (high > 0) high = high * 3 / 2;
  }
  if (open) params.head.src_w = params.head.src_h = 0;
  image.attrs = aipp_attributes(config, &params);
  return image;
}

Dims dims_behind(const AippConfig& config, const Dims& open, const Dims& image) {
  if (image.size() != 4 || open.size() != 4) return image;
  Dims dims = open;
  if (dims[0] < 0) dims[0] = image[0];
  if (dims[2] < 0) dims[2] = is_yuv(config) ? image[1] / 3 * 2 : image[1];
  if (dims[3] < 0) dims[3] = image[2];
  if (is_yuv(config) && open[2] < 0 && image[1] % 3 != 0) {
    fail_model(kGeParamInvalid, "a YUV420SP image has 3 rows of bytes for 2 of pixels; " +
                                    std::to_string(image[1]) + " rows are no multiple of 3");
  }
  return dims;
}

}  // namespace ascendrt::model
