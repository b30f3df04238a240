// Resampling and regions: resize, grid sampling, region pooling, non-maximum suppression, moving of
// blocks. Owns: coordinates and interpolation. Must never: read outside a plane.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

enum class Interpolation : uint8_t { kNearest, kLinear, kCubic };
enum class Coordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCrop,  // a region of the input, given in fractions
};
enum class NearestRule : uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

struct ResizeAxis {
  size_t axis = 0;
  float scale = 1.0F;
  float from = 0.0F, to = 1.0F;  // kCrop
};

struct ResizeParams {
  Interpolation mode = Interpolation::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  NearestRule nearest = NearestRule::kPreferFloor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  float outside = 0.0F;  // kCrop: the value beside the input
};

// One axis after the other; the shape of y tells the new dims. Numbers of any type.
void resize(const ResizeParams& params, const std::vector<ResizeAxis>& axes, const TensorView& x,
            const TensorView& y, const Exec& exec);

enum class Padding : uint8_t { kZeros, kBorder, kReflection };
struct GridParams {
  Interpolation mode = Interpolation::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
};
// x: [n][c][spatial...], grid: [n][out...][dims], last spatial dim first. float32.
void grid_sample(const GridParams& params, const TensorView& x, const TensorView& grid,
                 const TensorView& y, const Exec& exec);
// y: [n][spatial...][dims] from theta [n][dims][dims + 1].
void affine_grid(bool align_corners, const TensorView& theta, const TensorView& y,
                 const Exec& exec);

enum class RoiPool : uint8_t { kAverage, kMax };
struct RoiParams {
  RoiPool pool = RoiPool::kAverage;
  float scale = 1.0F;
  int64_t samples = 0;  // per bin and axis; 0 = as many as the bin is wide
  bool half_pixel = true;
};
// rois: [count][4] as x1, y1, x2, y2; batches: the image of each. y: [count][c][h][w].
void roi_align(const RoiParams& params, const TensorView& x, const TensorView& rois,
               const std::vector<int64_t>& batches, const TensorView& y, const Exec& exec);

struct SuppressParams {
  int64_t most = 0;  // per image and class
  float overlap = 0.0F;
  bool has_score_limit = false;
  float score = 0.0F;
  bool centered = false;  // boxes are x, y, width, height, not two corners
};
// boxes [n][b][4], scores [n][c][b]. Gives triples image, class, box.
std::vector<int64_t> suppress(const SuppressParams& params, const TensorView& boxes,
                              const TensorView& scores);

}  // namespace ascendrt::ops
