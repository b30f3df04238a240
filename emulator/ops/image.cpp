// Owns: resampling. Must never: read outside a plane.
#include "ops/image.hpp"

#include <algorithm>
#include <numeric>

#include "ops/element.hpp"

namespace ascendrt::ops {
namespace {

// In float32, as exporters reckon with: 40 * 1.4 is 56, and 3 / 0.6 is 5.
float source_of(Coordinates kind, int64_t out, int64_t out_dim, int64_t in_dim,
                const ResizeAxis& axis) {
  const auto x = static_cast<float>(out);
  const auto in = static_cast<float>(in_dim);
  const float length = axis.scale * in;  // not rounded to whole elements
  const float half = (x + 0.5F) / axis.scale - 0.5F;
  switch (kind) {
    case Coordinates::kAlignCorners:
      return length == 1.0F ? 0.0F : x * (in - 1) / (length - 1);
    case Coordinates::kAsymmetric:
      return x / axis.scale;
    case Coordinates::kPytorchHalfPixel:
      return out_dim > 1 ? half : 0.0F;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - static_cast<float>(out_dim) / length) + half;
    case Coordinates::kCrop:
      if (length == 1.0F) return (axis.from + axis.to) * (in - 1) / 2;
      return axis.from * (in - 1) + x * (axis.to - axis.from) * (in - 1) / (length - 1);
    default:
      return half;
  }
}

double kernel_at(const ResizeParams& p, double distance) {
  const double d = std::fabs(distance);
  if (p.mode == Interpolation::kLinear) return std::max(0.0, 1.0 - d);
  const double a = p.cubic_a;
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0.0;
}

double nearest_of(NearestRule rule, double x) {
  switch (rule) {
    case NearestRule::kPreferFloor:
      return std::ceil(x - 0.5);
    case NearestRule::kPreferCeil:
      return std::floor(x + 0.5);
    case NearestRule::kFloor:
      return std::floor(x);
    default:
      return std::ceil(x);
  }
}

struct Taps {
  std::vector<int64_t> at;
  std::vector<double> weight;
  bool outside = false;  // kCrop
};

// The elements of the input that make one output position, with weights that sum to 1.
Taps taps_of(const ResizeParams& p, double x, double scale, int64_t dim) {
  if (!(std::fabs(x) < 1e15)) x = 0;  // a region that is no number
  Taps taps;
  taps.outside = p.coordinates == Coordinates::kCrop && (x < 0 || x > static_cast<double>(dim - 1));
  const auto clamp = [dim](int64_t i) { return std::clamp<int64_t>(i, 0, dim - 1); };
  if (p.mode == Interpolation::kNearest) {
    taps.at.push_back(clamp(static_cast<int64_t>(nearest_of(p.nearest, x))));
    taps.weight.push_back(1.0);
    return taps;
  }
  const double shrink = p.antialias ? std::min(scale, 1.0) : 1.0;
  const double reach = (p.mode == Interpolation::kLinear ? 1.0 : 2.0) / shrink;
  double sum = 0.0;
  for (auto i = static_cast<int64_t>(std::floor(x - reach)) + 1; static_cast<double>(i) < x + reach;
       ++i) {
    const double weight = kernel_at(p, (static_cast<double>(i) - x) * shrink);
    if (p.exclude_outside && (i < 0 || i >= dim)) continue;
    taps.at.push_back(clamp(i));
    taps.weight.push_back(weight);
    sum += weight;
  }
  for (double& weight : taps.weight) weight /= sum;
  return taps;
}

// One output position along the axis, `inner` values of it.
void resize_position(const Taps& t, const float* x, int64_t inner, float* y) {
  if (t.at.size() == 1 && t.weight[0] == 1.0) {
    std::copy_n(x + t.at[0] * inner, inner, y);
    return;
  }
  for (int64_t k = 0; k < inner; ++k) {
    double sum = 0.0;
    for (size_t j = 0; j < t.at.size(); ++j) {
      sum += t.weight[j] * static_cast<double>(x[t.at[j] * inner + k]);
    }
    y[k] = static_cast<float>(sum);
  }
}

// Along the last axis: rows of single values.
void resize_row(const std::vector<Taps>& taps, bool picks, const float* x, float* y) {
  const auto count = static_cast<int64_t>(taps.size());
  for (int64_t i = 0; i < count; ++i) {
    const Taps& t = taps[static_cast<size_t>(i)];
    if (picks) {
      y[i] = x[t.at[0]];
    } else {
      resize_position(t, x, 1, y + i);
    }
  }
}

void resize_axis(const std::vector<Taps>& taps, const float* x, int64_t outer, int64_t in_dim,
                 int64_t inner, float* y, const Exec& exec) {
  const auto out_dim = static_cast<int64_t>(taps.size());
  const bool picks = std::all_of(taps.begin(), taps.end(), [](const Taps& t) {
    return t.at.size() == 1 && t.weight[0] == 1.0;
  });
  if (inner == 1) {
    parallel_for(exec, outer,
                 [&](int64_t i) { resize_row(taps, picks, x + i * in_dim, y + i * out_dim); });
    return;
  }
  parallel_for(exec, outer * out_dim, [&](int64_t i) {
    resize_position(taps[static_cast<size_t>(i % out_dim)], x + i / out_dim * in_dim * inner, inner,
                    y + i * inner);
  });
}

void fill_outside(const std::vector<Taps>& taps, const Shape& shape, size_t axis, float value,
                  float* y) {
  const int64_t inner = shape.elements(axis + 1, shape.rank());
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t place = i / inner % shape[axis];
    if (taps[static_cast<size_t>(place)].outside) y[i] = value;
  }
}

}  // namespace

void resize(const ResizeParams& p, const std::vector<ResizeAxis>& axes, const TensorView& x,
            const TensorView& y, const Exec& exec) {
  Shape shape = x.shape;
  if (axes.empty()) return cast(x, y, exec);
  // Floats are read and written where they are; between the axes, and of other types, in `values`.
  std::vector<float> values;
  if (x.dtype != ACL_FLOAT) values = to_floats(x, exec);
  const float* from = x.dtype == ACL_FLOAT ? x.as<const float>() : values.data();
  float* to = nullptr;
  std::vector<std::vector<Taps>> all;
  for (const ResizeAxis& axis : axes) {
    const int64_t in_dim = shape[axis.axis];
    const int64_t out_dim = y.shape[axis.axis];
    std::vector<Taps> taps;
    for (int64_t i = 0; i < out_dim; ++i) {
      const auto at = static_cast<double>(source_of(p.coordinates, i, out_dim, in_dim, axis));
      taps.push_back(taps_of(p, at, static_cast<double>(axis.scale), in_dim));
    }
    const int64_t outer = shape.elements(0, axis.axis);
    const int64_t inner = shape.elements(axis.axis + 1, shape.rank());
    const bool at_end = &axis == &axes.back() && y.dtype == ACL_FLOAT;
    std::vector<float> next(at_end ? 0 : static_cast<size_t>(outer * out_dim * inner));
    to = at_end ? y.as<float>() : next.data();
    resize_axis(taps, from, outer, in_dim, inner, to, exec);
    values = std::move(next);
    from = to;
    shape[axis.axis] = out_dim;
    all.push_back(std::move(taps));
  }
  if (p.coordinates == Coordinates::kCrop) {
    for (size_t k = 0; k < axes.size(); ++k) {
      fill_outside(all[k], y.shape, axes[k].axis, p.outside, to);
    }
  }
  if (y.dtype != ACL_FLOAT) from_floats(values, y, exec);
}

// --- grid sampling ---

namespace {

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  double rest = std::fabs(x - low);
  const double turns = std::floor(rest / range);
  rest -= turns * range;
  return std::fmod(turns, 2.0) == 0.0 ? low + rest : high - rest;
}

// One axis of one sample: the elements and their weights; an index of -1 counts as 0.
struct AxisTaps {
  std::array<int64_t, 4> at{};
  std::array<double, 4> weight{};
  size_t count = 0;
};

int64_t padded_index(const GridParams& p, double at, int64_t dim, double low, double high) {
  const auto top = static_cast<double>(dim - 1);
  if (at >= 0 && at <= top) return static_cast<int64_t>(at);
  if (p.padding == Padding::kZeros) return -1;
  const double inside = p.padding == Padding::kBorder ? at : reflected(at, low, high);
  return static_cast<int64_t>(std::clamp(inside, 0.0, top));
}

AxisTaps axis_taps(const GridParams& p, double position, int64_t dim) {
  const auto size = static_cast<double>(dim);
  const double low = p.align_corners ? 0.0 : -0.5;
  const double high = p.align_corners ? size - 1 : size - 0.5;
  double x = p.align_corners ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
  if (p.mode == Interpolation::kNearest) x = std::nearbyint(x);
  if (!(x > -1e9 && x < 1e9)) x = -1e9;  // also NaN
  // Cubic: the border repeats behind every neighbour.
  if (x < low || x > high) {
    if (p.padding == Padding::kBorder && p.mode != Interpolation::kCubic)
      x = std::clamp(x, 0.0, size - 1);
    if (p.padding == Padding::kReflection) x = reflected(x, low, high);
  }
  AxisTaps taps;
  const auto add = [&](double at, double weight) {
    taps.at[taps.count] = padded_index(p, at, dim, low, high);
    taps.weight[taps.count++] = weight;
  };
  const double floor = std::floor(x);
  const double f = x - floor;
  if (p.mode == Interpolation::kNearest) add(std::nearbyint(x), 1.0);
  if (p.mode == Interpolation::kLinear) {
    add(floor, 1 - f);
    add(floor + 1, f);
  }
  if (p.mode == Interpolation::kCubic) {
    const ResizeParams cubic{Interpolation::kCubic};
    for (int k = -1; k <= 2; ++k) add(floor + k, kernel_at(cubic, k - f));
  }
  return taps;
}

}  // namespace

void grid_sample(const GridParams& p, const TensorView& x, const TensorView& grid,
                 const TensorView& y, const Exec& exec) {
  const size_t dims = x.shape.rank() - 2;
  const int64_t plane = x.shape.elements(2, x.shape.rank());
  const int64_t outs = y.shape.elements(2, y.shape.rank());
  const int64_t channels = x.shape[1];
  const auto count = static_cast<int64_t>(dims);
  parallel_for(exec, x.shape[0] * outs, [&](int64_t i) {
    const float* at = grid.as<const float>() + i * count;
    std::array<AxisTaps, Shape::kMaxRank> taps;
    size_t total = 1;
    for (size_t k = 0; k < dims; ++k) {
      taps[k] = axis_taps(p, at[dims - 1 - k], x.shape[k + 2]);
      total *= taps[k].count;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = x.as<const float>() + (i / outs * channels + c) * plane;
      double sum = 0.0;
      for (size_t t = 0; t < total; ++t) {
        size_t rest = t;
        int64_t flat = 0;
        double weight = 1.0;
        bool inside = true;
        for (size_t k = 0; k < dims; ++k) {
          const size_t j = rest % taps[k].count;
          rest /= taps[k].count;
          weight *= taps[k].weight[j];
          inside = inside && taps[k].at[j] >= 0;
          flat = flat * x.shape[k + 2] + taps[k].at[j];
        }
        if (inside) sum += weight * static_cast<double>(from[flat]);
      }
      y.as<float>()[(i / outs * channels + c) * outs + i % outs] = static_cast<float>(sum);
    }
  });
}

void affine_grid(bool align_corners, const TensorView& theta, const TensorView& y,
                 const Exec& exec) {
  const size_t dims = y.shape.rank() - 2;
  const int64_t places = y.shape.elements(1, y.shape.rank() - 1);
  const auto count = static_cast<int64_t>(dims);
  parallel_for(exec, y.shape[0] * places, [&](int64_t i) {
    std::array<double, Shape::kMaxRank> at{};  // last spatial dim first
    int64_t rest = i % places;
    for (size_t k = 0; k < dims; ++k) {
      const int64_t dim = y.shape[dims - k];
      const auto index = static_cast<double>(rest % dim);
      const auto size = static_cast<double>(dim);
      rest /= dim;
      at[k] = align_corners ? (dim == 1 ? 0.0 : 2 * index / (size - 1) - 1)
                            : (2 * index + 1) / size - 1;
    }
    const float* row = theta.as<const float>() + i / places * count * (count + 1);
    for (size_t r = 0; r < dims; ++r, row += count + 1) {
      auto sum = static_cast<double>(row[count]);
      for (size_t k = 0; k < dims; ++k) sum += at[k] * static_cast<double>(row[k]);
      y.as<float>()[i * count + static_cast<int64_t>(r)] = static_cast<float>(sum);
    }
  });
}

// --- regions ---

namespace {

// The four weighted neighbours of a point; those outside the plane count as 0.
std::array<float, 4> neighbours(const float* plane, int64_t height, int64_t width, float y,
                                float x) {
  const bool inside =
      y >= -1.0F && y <= static_cast<float>(height) && x >= -1.0F && x <= static_cast<float>(width);
  if (!inside) return {};  // also NaN
  const auto split = [](float v, int64_t dim) {
    v = std::max(v, 0.0F);
    const int64_t low = std::min(static_cast<int64_t>(v), dim - 1);
    const float f = low == dim - 1 ? 0.0F : v - static_cast<float>(low);
    return std::tuple(low, std::min(low + 1, dim - 1), f);
  };
  const auto [top, bottom, dy] = split(y, height);
  const auto [left, right, dx] = split(x, width);
  return {(1 - dy) * (1 - dx) * plane[top * width + left],
          (1 - dy) * dx * plane[top * width + right], dy * (1 - dx) * plane[bottom * width + left],
          dy * dx * plane[bottom * width + right]};
}

}  // namespace

namespace {

// A region of one plane, cut into bins.
struct Region {
  float left, top, bin_h, bin_w;
  int64_t grid_h, grid_w;  // samples per bin
};

Region region_of(const RoiParams& p, const float* roi, int64_t rows, int64_t columns) {
  const float shift = p.half_pixel ? 0.5F : 0.0F;
  Region r{};
  r.left = roi[0] * p.scale - shift;
  r.top = roi[1] * p.scale - shift;
  const float least = p.half_pixel ? -std::numeric_limits<float>::max() : 1.0F;
  r.bin_w = std::max(roi[2] * p.scale - shift - r.left, least) / static_cast<float>(columns);
  r.bin_h = std::max(roi[3] * p.scale - shift - r.top, least) / static_cast<float>(rows);
  const auto grid = [&](float bin) {
    const auto wanted = static_cast<int64_t>(std::ceil(std::clamp(bin, 0.0F, 4096.0F)));
    return p.samples > 0 ? p.samples : wanted;
  };
  r.grid_h = grid(r.bin_h);
  r.grid_w = grid(r.bin_w);
  return r;
}

float pool_bin(RoiPool pool, const Region& r, const float* plane, int64_t height, int64_t width,
               int64_t row, int64_t column) {
  const auto place = [](float start, float bin, int64_t index, int64_t sample, int64_t samples) {
    return start + bin * (static_cast<float>(index) +
                          (static_cast<float>(sample) + 0.5F) / static_cast<float>(samples));
  };
  const int64_t count = r.grid_h * r.grid_w;
  double sum = 0.0;
  float best = count > 0 ? -std::numeric_limits<float>::infinity() : 0.0F;
  for (int64_t s = 0; s < count; ++s) {
    const float y = place(r.top, r.bin_h, row, s / r.grid_w, r.grid_h);
    const float x = place(r.left, r.bin_w, column, s % r.grid_w, r.grid_w);
    for (const float v : neighbours(plane, height, width, y, x)) {
      sum += static_cast<double>(v);
      best = std::max(best, v);
    }
  }
  const auto average = static_cast<float>(sum / static_cast<double>(std::max<int64_t>(count, 1)));
  return pool == RoiPool::kAverage ? average : best;
}

}  // namespace

void roi_align(const RoiParams& p, const TensorView& x, const TensorView& rois,
               const std::vector<int64_t>& batches, const TensorView& y, const Exec& exec) {
  const int64_t channels = x.shape[1];
  const int64_t height = x.shape[2];
  const int64_t width = x.shape[3];
  const int64_t rows = y.shape[2];
  const int64_t columns = y.shape[3];
  for (const int64_t batch : batches) {
    if (batch < 0 || batch >= x.shape[0]) fail("roi_align", "a region of no image");
  }
  parallel_for(exec, y.shape[0] * channels, [&](int64_t i) {
    const Region r = region_of(p, rois.as<const float>() + i / channels * 4, rows, columns);
    const int64_t image = batches[static_cast<size_t>(i / channels)];
    const float* plane = x.as<const float>() + (image * channels + i % channels) * height * width;
    for (int64_t o = 0; o < rows * columns; ++o) {
      y.as<float>()[i * rows * columns + o] =
          pool_bin(p.pool, r, plane, height, width, o / columns, o % columns);
    }
  });
}

namespace {

struct Corners {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

Corners corners_of(const float* box, bool centered) {
  if (centered) {
    return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
  }
  return {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]),
          std::max(box[1], box[3])};
}

bool overlap(const Corners& a, const Corners& b, float limit) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return false;
  const float common = height * width;
  const float both = a.area() + b.area() - common;
  return both > 0 && common / both > limit;
}

}  // namespace

std::vector<int64_t> suppress(const SuppressParams& p, const TensorView& boxes,
                              const TensorView& scores) {
  const int64_t count = boxes.shape[1];
  const int64_t classes = scores.shape[1];
  std::vector<int64_t> out;
  for (int64_t i = 0; i < boxes.shape[0] * classes; ++i) {
    const float* score = scores.as<const float>() + i * count;
    std::vector<int64_t> order;
    for (int64_t b = 0; b < count; ++b) {
      if (!p.has_score_limit || score[b] > p.score) order.push_back(b);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    std::vector<Corners> kept;
    for (const int64_t b : order) {
      if (static_cast<int64_t>(kept.size()) >= p.most) break;
      const Corners box =
          corners_of(boxes.as<const float>() + (i / classes * count + b) * 4, p.centered);
      const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Corners& other) {
        return overlap(box, other, p.overlap);
      });
      if (covered) continue;
      kept.push_back(box);
      out.insert(out.end(), {i / classes, i % classes, b});
    }
  }
  return out;
}

}  // namespace ascendrt::ops
