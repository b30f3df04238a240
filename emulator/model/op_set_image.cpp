// Resampling and regions in the operator table. Owns: their attributes and shape rules.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/image.hpp"
#include "ops/move.hpp"

namespace ascendrt::model {
namespace {

template <class T, size_t n>
T choice(const OpView& v, std::string_view attr, std::string_view fallback,
         const std::pair<std::string_view, T> (&rows)[n]) {
  const std::string name = v.op.attrs.string_or(attr, fallback);
  for (const auto& [text, value] : rows) {
    if (text == name) return value;
  }
  v.fail(std::string(attr) + " " + name + " is not computed");
}

// --- resize: Resize(x, roi, scales, sizes) ---

struct Resizing {
  ops::ResizeParams params;
  std::vector<ops::ResizeAxis> axes;
  ops::Shape y;
};

constexpr std::pair<std::string_view, ops::Interpolation> kModes[] = {
    {"nearest", ops::Interpolation::kNearest}, {"linear", ops::Interpolation::kLinear},
    {"bilinear", ops::Interpolation::kLinear}, {"cubic", ops::Interpolation::kCubic},
    {"bicubic", ops::Interpolation::kCubic},
};

ops::ResizeParams resize_params(const OpView& v) {
  using ops::Coordinates;
  constexpr std::pair<std::string_view, Coordinates> kCoordinates[] = {
      {"half_pixel", Coordinates::kHalfPixel},
      {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
      {"pytorch_half_pixel", Coordinates::kPytorchHalfPixel},
      {"align_corners", Coordinates::kAlignCorners},
      {"asymmetric", Coordinates::kAsymmetric},
      {"tf_crop_and_resize", Coordinates::kCrop},
  };
  constexpr std::pair<std::string_view, ops::NearestRule> kNearest[] = {
      {"round_prefer_floor", ops::NearestRule::kPreferFloor},
      {"round_prefer_ceil", ops::NearestRule::kPreferCeil},
      {"floor", ops::NearestRule::kFloor},
      {"ceil", ops::NearestRule::kCeil},
  };
  ops::ResizeParams p;
  p.mode = choice(v, "mode", "nearest", kModes);
  p.coordinates = choice(v, "coordinate_transformation_mode", "half_pixel", kCoordinates);
  p.nearest = choice(v, "nearest_mode", "round_prefer_floor", kNearest);
  p.cubic_a = static_cast<double>(v.op.attrs.float_or("cubic_coeff_a", -0.75F));
  p.exclude_outside = v.flag("exclude_outside");
  p.antialias = v.flag("antialias");
  p.outside = v.op.attrs.float_or("extrapolation_value", 0.0F);
  return p;
}

constexpr float kMostScale = 1e6F;

[[noreturn]] void bad_scale(const OpView& v, size_t axis, float scale) {
  v.fail("scale " + std::to_string(scale) + " of axis " + std::to_string(axis) + ", which has " +
         std::to_string(v.shape(0)[axis]) +
         " elements; above 0 and up to 1000000 is possible, check scales and sizes");
}

// Sizes under a policy that keeps the ratio of the sides: one scale for all axes.
void keep_ratio(const OpView& v, const std::string& policy, std::vector<int64_t>& sizes,
                Resizing& r) {
  const bool larger = policy == "not_smaller";
  if (!larger && policy != "not_larger") v.fail("keep_aspect_ratio_policy " + policy);
  float scale = larger ? 0.0F : 1e30F;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const float own = static_cast<float>(sizes[i]) / static_cast<float>(v.shape(0)[r.axes[i].axis]);
    scale = larger ? std::max(scale, own) : std::min(scale, own);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(scale > 0) || scale > kMostScale) bad_scale(v, r.axes[i].axis, scale);
    r.axes[i].scale = scale;
    sizes[i] = std::lround(scale * static_cast<float>(v.shape(0)[r.axes[i].axis]));
  }
}

// The axes that are named, all when none are.
std::vector<ops::ResizeAxis> resize_axes(const OpView& v) {
  const size_t rank = v.shape(0).rank();
  std::vector<int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  std::vector<ops::ResizeAxis> axes;
  for (const int64_t axis : v.op.attrs.ints_or("axes", all)) {
    axes.push_back({ops::resolve_axis(v.op.type, axis, rank), 1.0F, 0.0F, 1.0F});
  }
  return axes;
}

// What part of x is resized, of each axis.
void set_regions(const OpView& v, std::vector<ops::ResizeAxis>& axes) {
  if (!v.has(1)) return;
  const std::vector<float> roi = v.constant_floats(1);
  if (roi.size() != 2 * axes.size()) return;
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i].from = roi[i];
    axes[i].to = roi[i + axes.size()];
  }
}

Resizing resizing(const OpView& v) {
  v.want_count(1, 4);
  const ops::Shape& x = v.shape(0);
  Resizing r{resize_params(v), resize_axes(v), x};
  const bool by_size = v.has(3) && v.shape(3).elements() > 0;
  std::vector<int64_t> sizes = by_size ? v.constant_ints(3) : std::vector<int64_t>{};
  const auto scales = by_size ? std::vector<float>{} : v.constant_floats(2);
  if ((by_size ? sizes.size() : scales.size()) != r.axes.size()) v.fail("one number per axis");
  const std::string policy = v.op.attrs.string_or("keep_aspect_ratio_policy", "stretch");
  if (by_size && policy != "stretch") keep_ratio(v, policy, sizes, r);
  for (size_t i = 0; i < r.axes.size(); ++i) {
    ops::ResizeAxis& axis = r.axes[i];
    const auto in = static_cast<float>(x[axis.axis]);
    if (!by_size) axis.scale = scales[i];
    if (by_size && policy == "stretch") axis.scale = static_cast<float>(sizes[i]) / in;
    if (!(axis.scale > 0) || axis.scale > kMostScale || x[axis.axis] < 1) {
      bad_scale(v, axis.axis, axis.scale);
    }
    r.y[axis.axis] = by_size ? sizes[i] : static_cast<int64_t>(std::floor(in * axis.scale));
  }
  if (r.params.coordinates == ops::Coordinates::kCrop) {
    set_regions(v, r.axes);
    return r;
  }
  // Axes that stay as they are cost nothing.
  std::erase_if(r.axes, [&](const ops::ResizeAxis& axis) {
    return axis.scale == 1.0F && r.y[axis.axis] == x[axis.axis];
  });
  return r;
}

std::vector<TensorType> infer_resize(const OpView& v) {
  if (!ops::cast_takes(v.dtype(0))) v.fail("needs numbers");
  return {{v.dtype(0), resizing(v).y}};
}

Kernel build_resize(const OpView& v, std::span<const TensorType>) {
  return make_kernel([r = resizing(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::resize(r.params, r.axes, in[0], out[0], exec);
  });
}

// --- grids ---

ops::GridParams grid_params(const OpView& v) {
  constexpr std::pair<std::string_view, ops::Padding> kPadding[] = {
      {"zeros", ops::Padding::kZeros},
      {"border", ops::Padding::kBorder},
      {"reflection", ops::Padding::kReflection},
  };
  return {choice(v, "mode", "linear", kModes), choice(v, "padding_mode", "zeros", kPadding),
          v.flag("align_corners")};
}

std::vector<TensorType> infer_grid_sample(const OpView& v) {
  v.want_count(2, 2);
  v.want_float(0);
  v.want_float(1);
  static_cast<void>(grid_params(v));
  const ops::Shape& x = v.shape(0);
  const ops::Shape& grid = v.shape(1);
  if (x.rank() < 3 || grid.rank() != x.rank() || grid[0] != x[0] ||
      grid[grid.rank() - 1] != static_cast<int64_t>(x.rank()) - 2) {
    v.fail("a grid of shape " + grid.text() + " does not fit " + x.text());
  }
  ops::Shape y = {x[0], x[1]};
  for (size_t i = 1; i + 1 < grid.rank(); ++i) y.push_back(grid[i]);
  return {{ACL_FLOAT, y}};
}

Kernel build_grid_sample(const OpView& v, std::span<const TensorType>) {
  return make_kernel([p = grid_params(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::grid_sample(p, in[0], in[1], out[0], exec);
  });
}

// AffineGrid(theta, size).
std::vector<TensorType> infer_affine(const OpView& v) {
  v.want_count(2, 2);
  v.want_float(0);
  const auto size = v.constant_ints(1);
  const ops::Shape& theta = v.shape(0);
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  if (size.size() < 4 || theta.rank() != 3 || theta[0] != size[0] || theta[1] != dims ||
      theta[2] != dims + 1) {
    v.fail("a theta of shape " + theta.text() + " does not fit the size");
  }
  ops::Shape y = {size[0]};
  for (size_t i = 2; i < size.size(); ++i) y.push_back(size[i]);
  y.push_back(dims);
  return {{ACL_FLOAT, y}};
}

Kernel build_affine(const OpView& v, std::span<const TensorType>) {
  return make_kernel(
      [corners = v.flag("align_corners")](Inputs in, Outputs out, const ops::Exec& exec) {
        ops::affine_grid(corners, in[0], out[0], exec);
      });
}

// --- regions ---

std::vector<TensorType> infer_roi(const OpView& v) {
  v.want_count(3, 3);
  v.want_float(0);
  v.want_rank(0, 4);
  v.want_float(1);
  v.want_rank(1, 2);
  const int64_t count = v.shape(1)[0];
  if (v.shape(1)[1] != 4 || v.shape(2).elements() != count) v.fail("regions");
  return {{ACL_FLOAT,
           {count, v.shape(0)[1], v.op.attrs.int_or("output_height", 1),
            v.op.attrs.int_or("output_width", 1)}}};
}

Kernel build_roi(const OpView& v, std::span<const TensorType>) {
  constexpr std::pair<std::string_view, ops::RoiPool> kPools[] = {{"avg", ops::RoiPool::kAverage},
                                                                  {"max", ops::RoiPool::kMax}};
  constexpr std::pair<std::string_view, bool> kHalf[] = {{"half_pixel", true},
                                                         {"output_half_pixel", false}};
  ops::RoiParams p;
  p.pool = choice(v, "mode", "avg", kPools);
  p.half_pixel = choice(v, "coordinate_transformation_mode", "half_pixel", kHalf);
  p.scale = v.op.attrs.float_or("spatial_scale", 1.0F);
  p.samples = v.op.attrs.int_or("sampling_ratio", 0);
  return make_kernel([p](Inputs in, Outputs out, const ops::Exec& exec) {
    std::vector<int64_t> batches(static_cast<size_t>(in[2].elements()));
    ops::cast(in[2], {batches.data(), ACL_INT64, in[2].shape}, exec);
    ops::roi_align(p, in[0], in[1], batches, out[0], exec);
  });
}

// NonMaxSuppressionV6(boxes, scores, most per class, overlap limit, score limit).
std::vector<OwnedTensor> run_suppress(const OpView& v, const ops::Exec&) {
  v.want_count(2, 5);
  v.want_rank(0, 3);
  v.want_rank(1, 3);
  const ops::Shape& boxes = v.shape(0);
  const ops::Shape& scores = v.shape(1);
  if (v.dtype(0) != ACL_FLOAT || v.dtype(1) != ACL_FLOAT || boxes[2] != 4 ||
      boxes[0] != scores[0] || boxes[1] != scores[2]) {
    v.fail("boxes and scores do not fit");
  }
  ops::SuppressParams p;
  p.most = v.has(2) ? v.constant_int(2) : 0;
  p.overlap = v.has(3) ? v.constant_float(3) : 0.0F;
  p.has_score_limit = v.has(4);
  if (v.has(4)) p.score = v.constant_float(4);
  p.centered = v.flag("center_point_box");
  const auto found = ops::suppress(p, v.constant_view(0), v.constant_view(1));
  OwnedTensor out = make_tensor({ACL_INT64, {static_cast<int64_t>(found.size()) / 3, 3}});
  if (!found.empty()) std::memcpy(out.bytes->data(), found.data(), out.bytes->size());
  return {out};
}

std::vector<aclDataType> int64_type(const OpView&) { return {ACL_INT64}; }

// --- blocks ---

// [n, c, h, w] seen as six dims, turned and put together again.
struct Blocks {
  ops::Shape parts, y;
  std::vector<int64_t> perm;
};

Blocks blocks_of(const OpView& v) {
  v.want_count(1, 1);
  v.want_rank(0, 4);
  const ops::Shape& x = v.shape(0);
  const int64_t b = v.op.attrs.int_or("block_size", 0);
  if (b < 1 || b > 1 << 20) {
    v.fail("block_size is " + std::to_string(b) + ", 1 or more, up to 1048576, is possible");
  }
  const std::string mode = v.op.attrs.string_or("mode", "DCR");
  const bool crd = mode == "CRD";
  if (!crd && mode != "DCR") v.fail("mode " + mode);
  if (v.op.type == "DepthToSpace") {
    if (x[1] % (b * b) != 0) {
      v.fail("block_size is " + std::to_string(b) + ", its square must divide the " +
             std::to_string(x[1]) + " channels");
    }
    const int64_t c = x[1] / (b * b);
    const ops::Shape y = {x[0], c, x[2] * b, x[3] * b};
    if (crd) return {{x[0], c, b, b, x[2], x[3]}, y, {0, 1, 4, 2, 5, 3}};
    return {{x[0], b, b, c, x[2], x[3]}, y, {0, 3, 4, 1, 5, 2}};
  }
  if (x[2] % b != 0 || x[3] % b != 0) {
    v.fail("block_size is " + std::to_string(b) + ", it must divide the sides " +
           std::to_string(x[2]) + " and " + std::to_string(x[3]));
  }
  const ops::Shape y = {x[0], x[1] * b * b, x[2] / b, x[3] / b};
  const ops::Shape parts = {x[0], x[1], x[2] / b, b, x[3] / b, b};
  if (crd) return {parts, y, {0, 1, 3, 5, 2, 4}};
  return {parts, y, {0, 3, 5, 1, 2, 4}};
}

std::vector<TensorType> infer_blocks(const OpView& v) { return {{v.dtype(0), blocks_of(v).y}}; }

Kernel build_blocks(const OpView& v, std::span<const TensorType>) {
  return make_kernel([b = blocks_of(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    const ops::TensorView x{in[0].data, in[0].dtype, b.parts};
    ops::transpose(x, b.perm, {out[0].data, out[0].dtype, ops::transpose_shape(b.parts, b.perm)},
                   exec);
  });
}

// CenterCropPad(x, dims): the middle is kept, what is odd goes to the end.
struct Centered {
  ops::Shape y;
  std::vector<int64_t> before;  // negative cuts
};

Centered centered(const OpView& v) {
  v.want_count(2, 2);
  const auto wanted = v.constant_ints(1);
  const ops::Shape& x = v.shape(0);
  auto axes = v.op.attrs.ints_or("axes", {});
  if (axes.empty()) {
    for (size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (wanted.size() != axes.size()) v.fail("needs one size per axis");
  Centered c{x, std::vector<int64_t>(x.rank(), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = ops::resolve_axis(v.op.type, axes[i], x.rank());
    if (wanted[i] < 0) v.fail("a size below 0");
    c.y[axis] = wanted[i];
    const int64_t more = wanted[i] - x[axis];
    c.before[axis] = more >= 0 ? more / 2 : -(-more / 2);
  }
  return c;
}

std::vector<TensorType> infer_centered(const OpView& v) { return {{v.dtype(0), centered(v).y}}; }

Kernel build_centered(const OpView& v, std::span<const TensorType>) {
  return make_kernel([c = centered(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::pad(ops::PadMode::kConstant, in[0], c.before, nullptr, out[0], exec);
  });
}

constexpr Halves kNative = Halves::kNative;

constexpr OpType kTable[] = {
    {"Resize", infer_resize, build_resize},
    {"GridSample", infer_grid_sample, build_grid_sample},
    {"AffineGrid", infer_affine, build_affine},
    {"RoiAlign", infer_roi, build_roi},
    {"NonMaxSuppressionV6", nullptr, nullptr, kNative, int64_type, run_suppress},
    {"DepthToSpace", infer_blocks, build_blocks, kNative},
    {"SpaceToDepth", infer_blocks, build_blocks, kNative},
    {"CenterCropPad", infer_centered, build_centered, kNative},
};

}  // namespace

std::span<const OpType> image_op_types() { return kTable; }

}  // namespace ascendrt::model
