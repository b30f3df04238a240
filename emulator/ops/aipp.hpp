// Preparation of images in front of a network (AIPP): channel swaps, crop, resize, colour
// conversion, mean and scale, padding. Owns: the parameter block that the device reads, and the
// arithmetic. Must never: read the image outside of what format and size say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// Numbers of aclAippInputFormat.
enum class ImageFormat : uint8_t { kYuv420sp = 1, kXrgb8888 = 2, kRgb888 = 3, kYuv400 = 4 };

// src: hicann/ge inc/graph_metadef/common/dynamic_aipp.h. A block is one AippHead and one AippImage
// per image of the batch.
struct AippHead {
  uint8_t format;
  int8_t csc_switch;
  int8_t rbuv_swap;
  int8_t ax_swap;
  int8_t batch;
  int8_t reserved1[3];
  int32_t src_w, src_h;
  std::array<int16_t, 9> matrix;  // rows of the result, columns of the source
  int16_t reserved2[3];
  std::array<uint8_t, 3> output_bias;
  std::array<uint8_t, 3> input_bias;
  uint8_t reserved3[18];
};
struct AippImage {
  int8_t crop, resize, padding, rotate;
  int8_t reserved1[4];
  int32_t crop_w0, crop_h0, crop_w, crop_h;
  int32_t resize_in_w, resize_in_h, resize_w, resize_h;
  int32_t top, bottom, left, right;
  std::array<int16_t, 4> mean;
  std::array<uint16_t, 4> min;       // float16
  std::array<uint16_t, 4> var_reci;  // float16
  int8_t reserved2[16];
};
static_assert(sizeof(AippHead) == 64 && sizeof(AippImage) == 96);

struct AippParams {
  AippHead head;
  std::vector<AippImage> images;
  float padding_value = 0;

  // Fails for a block that is too short, or of a format that is not computed. Of a block for a
  // larger batch the first `images` are taken.
  static AippParams read(std::span<const uint8_t> block, int64_t images);
  std::vector<uint8_t> block() const;
};

size_t image_channels(ImageFormat format);  // of the source
// Bytes of one image; YUV420SP has half a byte of colour per pixel and channel.
int64_t image_bytes(ImageFormat format, int64_t width, int64_t height);
// Width and height of what comes out for one image.
std::array<int64_t, 2> aipp_output_size(const AippHead& head, const AippImage& image);

// `source` holds the images one behind the other, `out` is [N, C, H, W] of float32, or of uint8
// (then mean and scale do not apply). Fails when sizes do not agree.
void aipp(const AippParams& params, const TensorView& source, const TensorView& out,
          const Exec& exec);

}  // namespace ascendrt::ops
