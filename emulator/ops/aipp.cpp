// Owns: the order of the steps (swap, crop, resize, colours, mean and scale, padding) and rounding.
// src: hicann/ge docs/zh/user_guides/atc_tools/AIPP. The filter of resize is our guess: bilinear,
// pixel centres at half coordinates.
#include "ops/aipp.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "ops/elementwise.hpp"

namespace ascendrt::ops {
namespace {

using Pixel = std::array<uint8_t, 4>;

struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<Pixel> pixels;

  const Pixel& at(int64_t y, int64_t x) const { return pixels[static_cast<size_t>(y * width + x)]; }
};

ImageFormat format_of(const AippHead& head) { return static_cast<ImageFormat>(head.format); }

// One pixel of the source with its channels swapped as the switches say.
Pixel load(const AippHead& head, const uint8_t* image, int64_t y, int64_t x) {
  const int64_t w = head.src_w;
  Pixel pixel = {0, 0, 0, 0};
  if (format_of(head) == ImageFormat::kYuv420sp) {
    const uint8_t* colours = image + w * head.src_h + y / 2 * w + x / 2 * 2;
    pixel = {image[y * w + x], colours[0], colours[1], 0};
    if (head.rbuv_swap != 0) std::swap(pixel[1], pixel[2]);
    return pixel;
  }
  const size_t channels = image_channels(format_of(head));
  std::memcpy(pixel.data(), image + (y * w + x) * static_cast<int64_t>(channels), channels);
  // XRGB becomes RGBX: what counts are the first three channels.
  if (channels == 4 && head.ax_swap != 0)
    std::rotate(pixel.begin(), pixel.begin() + 1, pixel.end());
  if (channels >= 3 && head.rbuv_swap != 0) std::swap(pixel[0], pixel[2]);
  return pixel;
}

Picture cropped(const AippHead& head, const AippImage& how, const uint8_t* image) {
  const bool crop = how.crop != 0;
  Picture out{crop ? how.crop_w : head.src_w, crop ? how.crop_h : head.src_h, {}};
  const int64_t x0 = crop ? how.crop_w0 : 0;
  const int64_t y0 = crop ? how.crop_h0 : 0;
  out.pixels.reserve(static_cast<size_t>(out.width * out.height));
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      out.pixels.push_back(load(head, image, y0 + y, x0 + x));
    }
  }
  return out;
}

// Where a row or column of the result lies between two of the source.
struct Between {
  int64_t low, high;
  float part;
};
Between between(int64_t i, int64_t count, int64_t source) {
  const float scale = static_cast<float>(source) / static_cast<float>(count);
  const float at = std::max(0.0F, (static_cast<float>(i) + 0.5F) * scale - 0.5F);
  const auto low = std::min(static_cast<int64_t>(at), source - 1);
  return {low, std::min(low + 1, source - 1), at - static_cast<float>(low)};
}

Picture resized(const Picture& in, int64_t width, int64_t height) {
  Picture out{width, height, {}};
  out.pixels.reserve(static_cast<size_t>(width * height));
  for (int64_t y = 0; y < height; ++y) {
    const Between row = between(y, height, in.height);
    for (int64_t x = 0; x < width; ++x) {
      const Between column = between(x, width, in.width);
      Pixel pixel{};
      for (size_t c = 0; c < pixel.size(); ++c) {
        const auto mix = [&](int64_t r) {
          const float a = in.at(r, column.low)[c];
          return a + (static_cast<float>(in.at(r, column.high)[c]) - a) * column.part;
        };
        const float a = mix(row.low);
        pixel[c] = static_cast<uint8_t>(std::lround(a + (mix(row.high) - a) * row.part));
      }
      out.pixels.push_back(pixel);
    }
  }
  return out;
}

// To RGB the input biases are taken off before, to YUV the output biases are added behind.
Pixel converted(const AippHead& head, const Pixel& in) {
  const bool from_yuv = format_of(head) == ImageFormat::kYuv420sp;
  Pixel out = in;
  for (size_t row = 0; row < 3; ++row) {
    int32_t sum = 0;
    for (size_t c = 0; c < 3; ++c) {
      const int32_t value = int32_t{in[c]} - (from_yuv ? head.input_bias[c] : 0);
      sum += head.matrix[3 * row + c] * value;
    }
    const int32_t result = (sum >> 8) + (from_yuv ? 0 : head.output_bias[row]);
    out[row] = static_cast<uint8_t>(std::clamp(result, 0, 255));
  }
  return out;
}

Picture prepared(const AippHead& head, const AippImage& how, const uint8_t* image) {
  Picture picture = cropped(head, how, image);
  if (how.resize != 0) picture = resized(picture, how.resize_w, how.resize_h);
  if (head.csc_switch != 0 && format_of(head) != ImageFormat::kYuv400) {
    for (Pixel& pixel : picture.pixels) pixel = converted(head, pixel);
  }
  return picture;
}

// One channel of one image with its margins.
template <class T, class F>
void store(const Picture& picture, const AippImage& how, const TensorView& out, int64_t plane,
           T padding, const F& value) {
  const int64_t height = out.shape[2];
  const int64_t width = out.shape[3];
  T* to = static_cast<T*>(out.data) + plane * height * width;
  const int64_t top = how.padding != 0 ? how.top : 0;
  const int64_t left = how.padding != 0 ? how.left : 0;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t py = y - top;
      const int64_t px = x - left;
      const bool inside = py >= 0 && py < picture.height && px >= 0 && px < picture.width;
      *to++ = inside ? value(picture.at(py, px)) : padding;
    }
  }
}

void store_channel(const Picture& picture, const AippParams& params, const AippImage& how,
                   const TensorView& out, int64_t image, size_t c) {
  const int64_t plane = image * out.shape[1] + static_cast<int64_t>(c);
  if (out.dtype == ACL_UINT8) {
    const auto padding =
        static_cast<uint8_t>(std::clamp(std::lround(params.padding_value), 0L, 255L));
    return store<uint8_t>(picture, how, out, plane, padding,
                          [&](const Pixel& pixel) { return pixel[c]; });
  }
  const float mean = static_cast<float>(how.mean[c]) + half_to_float(how.min[c]);
  const float scale = half_to_float(how.var_reci[c]);
  store<float>(picture, how, out, plane, params.padding_value,
               [&](const Pixel& pixel) { return (static_cast<float>(pixel[c]) - mean) * scale; });
}

void check_image(const AippHead& head, const AippImage& how, const TensorView& out) {
  const auto refuse = [](const std::string& text) { fail("Aipp", text); };
  if (how.rotate != 0) refuse("rotation is not offered by any chip");
  if (how.crop != 0 && (how.crop_w0 < 0 || how.crop_h0 < 0 || how.crop_w < 1 || how.crop_h < 1 ||
                        int64_t{how.crop_w0} + how.crop_w > head.src_w ||
                        int64_t{how.crop_h0} + how.crop_h > head.src_h)) {
    refuse("the crop is not inside the image of " + std::to_string(head.src_w) + "x" +
           std::to_string(head.src_h));
  }
  if (how.resize != 0 && (how.resize_w < 1 || how.resize_h < 1)) refuse("resize to nothing");
  const auto [width, height] = aipp_output_size(head, how);
  if (width != out.shape[3] || height != out.shape[2]) {
    refuse("the image comes out as " + std::to_string(width) + "x" + std::to_string(height) +
           " (width x height), the network takes " + std::to_string(out.shape[3]) + "x" +
           std::to_string(out.shape[2]));
  }
}

}  // namespace

size_t image_channels(ImageFormat format) {
  if (format == ImageFormat::kXrgb8888) return 4;
  return format == ImageFormat::kYuv400 ? 1 : 3;
}

int64_t image_bytes(ImageFormat format, int64_t width, int64_t height) {
  if (format == ImageFormat::kYuv420sp) return width * height * 3 / 2;
  return width * height * static_cast<int64_t>(image_channels(format));
}

std::array<int64_t, 2> aipp_output_size(const AippHead& head, const AippImage& image) {
  int64_t width = image.crop != 0 ? image.crop_w : head.src_w;
  int64_t height = image.crop != 0 ? image.crop_h : head.src_h;
  if (image.resize != 0) {
    width = image.resize_w;
    height = image.resize_h;
  }
  if (image.padding != 0) {
    width += int64_t{image.left} + image.right;
    height += int64_t{image.top} + image.bottom;
  }
  return {width, height};
}

AippParams AippParams::read(std::span<const uint8_t> block, int64_t images) {
  AippParams params{};
  if (block.size() < sizeof(AippHead)) fail("Aipp", "the parameter block is too short");
  std::memcpy(&params.head, block.data(), sizeof(AippHead));
  const int64_t count = std::min<int64_t>(params.head.batch, images);
  if (count < 1 || block.size() < sizeof(AippHead) + static_cast<size_t>(count) * sizeof(AippImage))
    fail("Aipp", "the parameters were not set (aclmdlSetInputAIPP), or their block is too short");
  if (params.head.format < 1 || params.head.format > 4) {
    fail("Aipp", "image format " + std::to_string(params.head.format) +
                     " is not computed; YUV420SP, XRGB8888, RGB888 and YUV400 are");
  }
  params.images.resize(static_cast<size_t>(count));
  std::memcpy(params.images.data(), block.data() + sizeof(AippHead),
              params.images.size() * sizeof(AippImage));
  return params;
}

std::vector<uint8_t> AippParams::block() const {
  std::vector<uint8_t> out(sizeof(AippHead) + images.size() * sizeof(AippImage));
  std::memcpy(out.data(), &head, sizeof(AippHead));
  std::memcpy(out.data() + sizeof(AippHead), images.data(), images.size() * sizeof(AippImage));
  return out;
}

void aipp(const AippParams& params, const TensorView& source, const TensorView& out,
          const Exec& exec) {
  const AippHead& head = params.head;
  const auto format = static_cast<ImageFormat>(head.format);
  const int64_t count = out.shape[0];
  const int64_t bytes = image_bytes(format, head.src_w, head.src_h);
  const auto channels = static_cast<int64_t>(image_channels(format));
  if (head.src_w < 1 || head.src_h < 1 || count * bytes > source.elements()) {
    fail("Aipp", std::to_string(count) + " images of " + std::to_string(bytes) +
                     " bytes do not fit the input of " + std::to_string(source.elements()));
  }
  if (out.shape[1] > channels || static_cast<int64_t>(params.images.size()) != count) {
    fail("Aipp", "the network takes " + std::to_string(out.shape[1]) + " channels of " +
                     std::to_string(count) + " images, the parameters are of " +
                     std::to_string(channels) + " channels and " +
                     std::to_string(params.images.size()) + " images");
  }
  for (const AippImage& image : params.images) check_image(head, image, out);
  const auto* bytes_in = static_cast<const uint8_t*>(source.data);
  parallel_for(exec, count, [&](int64_t i) {
    const AippImage& how = params.images[static_cast<size_t>(i)];
    const Picture picture = prepared(head, how, bytes_in + i * bytes);
    for (int64_t c = 0; c < out.shape[1]; ++c) {
      store_channel(picture, params, how, out, i, static_cast<size_t>(c));
    }
  });
}

}  // namespace ascendrt::ops
