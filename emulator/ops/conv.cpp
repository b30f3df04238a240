// Owns: packing, blocking and the loops around the tile kernels of tile.hpp.
// Must never: sum in another order than Note [Order of sums] says.
#include "ops/conv.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "ops/tensor.hpp"

namespace ascendrt::ops {
namespace {

// Weights of one chunk stay in the first-level caches while a segment of pixels passes by.
constexpr int64_t kChunkFloats = 24 * 1024;
constexpr int64_t kSegmentPixels = 392;

int64_t blocks_of(int64_t channels) { return (channels + kLanes - 1) / kLanes; }

int64_t out_size(int64_t in, int64_t pads, int64_t kernel, int64_t dilation, int64_t stride) {
  const int64_t reach = dilation * (kernel - 1) + 1;
  if (in + pads < reach) {
    fail("Conv2D", "a kernel that reaches over " + std::to_string(reach) +
                       " pixels does not fit an input of " + std::to_string(in + pads) +
                       " with its pads");
  }
  return (in + pads - reach) / stride + 1;
}

}  // namespace

void ConvShape::resolve() {
  constexpr int64_t kLimit = 1 << 24;
  for (const int64_t v : {batch, groups, in_channels, in_h, in_w, out_channels, kernel_h, kernel_w,
                          stride_h, stride_w, dilation_h, dilation_w}) {
    if (v < 1 || v > kLimit) {
      fail("Conv2D", "a size, stride or dilation of " + std::to_string(v) + " is not usable");
    }
  }
  for (const int64_t pad : {pad_top, pad_bottom, pad_left, pad_right}) {
    if (pad < 0 || pad > kLimit)
      fail("Conv2D", "a pad of " + std::to_string(pad) + " is not usable");
  }
  if (in_channels % groups != 0 || out_channels % groups != 0) {
    fail("Conv2D", std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
                       " output channels do not divide into " + std::to_string(groups) + " groups");
  }
  out_h = out_size(in_h, pad_top + pad_bottom, kernel_h, dilation_h, stride_h);
  out_w = out_size(in_w, pad_left + pad_right, kernel_w, dilation_w, stride_w);
}

Convolution::Plan Convolution::make_plan(ConvShape s) {
  s.resolve();
  const bool plain = s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 &&
                     s.pad_top + s.pad_bottom + s.pad_left + s.pad_right == 0;
  if (plain) {
    s.in_w *= s.in_h;
    s.out_w = s.in_w;
    s.in_h = s.out_h = 1;
  }
  Plan plan{};
  plan.groups = s.is_depthwise() ? 1 : s.groups;
  plan.in_group = s.in_channels / plan.groups;
  plan.out_group = s.out_channels / plan.groups;
  plan.in_blocks = blocks_of(plan.in_group);
  plan.out_blocks = blocks_of(plan.out_group);
  plan.padded_h = s.in_h + s.pad_top + s.pad_bottom;
  plan.padded_w = s.in_w + s.pad_left + s.pad_right;
  plan.shape = s;
  // Refuses sizes whose products would overflow below.
  static_cast<void>(
      Shape{plan.groups, plan.in_blocks, plan.padded_h, plan.padded_w, kLanes}.elements());
  static_cast<void>(Shape{plan.groups, plan.out_blocks, s.out_h, s.out_w, kLanes}.elements());
  return plan;
}

Convolution::Convolution(const ConvShape& shape, const float* weights, const TileKernels& kernels)
    : kernels_(kernels), plan_(make_plan(shape)), depthwise_(shape.is_depthwise()) {
  list_taps();
  segments_ = segments();
  if (depthwise_) {
    pack_depthwise(weights);
  } else {
    pack_dense(weights);
  }
}

size_t Convolution::scratch_bytes(const ConvShape& shape) {
  const Plan plan = make_plan(shape);
  return static_cast<size_t>(plan.in_floats() + plan.out_floats() + plan.bias_floats()) *
         sizeof(float);
}

// Taps in the order of the packed weights: input block, kernel row, kernel column.
void Convolution::list_taps() {
  const ConvShape& s = plan_.shape;
  const int64_t blocks = depthwise_ ? 1 : plan_.in_blocks;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t channels = std::min(kLanes, plan_.in_group - b * kLanes);
    for (int64_t i = 0; i < s.kernel_h; ++i) {
      for (int64_t j = 0; j < s.kernel_w; ++j) {
        const int64_t row = b * plan_.padded_h + i * s.dilation_h;
        const int64_t offset = (row * plan_.padded_w + j * s.dilation_w) * kLanes;
        taps_.push_back({offset, channels});
        if (depthwise_) offsets_.push_back(offset);
      }
    }
  }
  const int64_t limit = kChunkFloats / (kernels_.max_blocks * kLanes);
  Chunk chunk{0, 0, 0};
  int64_t channels = 0;
  for (const Tap& tap : taps_) {
    if (chunk.taps > 0 && channels + tap.channels > limit) {
      chunks_.push_back(chunk);
      chunk = {chunk.first_tap + chunk.taps, 0, tap_channels_};
      channels = 0;
    }
    ++chunk.taps;
    channels += tap.channels;
    tap_channels_ += tap.channels;
  }
  chunks_.push_back(chunk);
}

// [group][tile][tap][channel][outputs of the tile], missing outputs are zero.
void Convolution::pack_dense(const float* weights) {
  const int64_t area = plan_.shape.kernel_h * plan_.shape.kernel_w;
  tiles_ = (plan_.out_blocks + kernels_.max_blocks - 1) / kernels_.max_blocks;
  weights_.assign(static_cast<size_t>(plan_.groups * plan_.out_blocks * kLanes * tap_channels_),
                  0.0F);
  float* to = weights_.data();
  for (int64_t tile = 0; tile < plan_.groups * tiles_; ++tile) {
    const int64_t first = tile % tiles_ * kernels_.max_blocks * kLanes;
    const int64_t width =
        std::min<int64_t>(kernels_.max_blocks, plan_.out_blocks - first / kLanes) * kLanes;
    const int64_t outputs = std::min(width, plan_.out_group - first);
    const float* from = weights + (tile / tiles_ * plan_.out_group + first) * plan_.in_group * area;
    for (size_t t = 0; t < taps_.size(); ++t) {
      const int64_t block = static_cast<int64_t>(t) / area;
      const int64_t position = static_cast<int64_t>(t) % area;
      for (int64_t c = 0; c < taps_[t].channels; ++c, to += width) {
        const float* source = from + (block * kLanes + c) * area + position;
        for (int64_t o = 0; o < outputs; ++o) to[o] = source[o * plan_.in_group * area];
      }
    }
  }
}

// [block][tap][16]
void Convolution::pack_depthwise(const float* weights) {
  const auto area = static_cast<int64_t>(taps_.size());
  weights_.assign(static_cast<size_t>(plan_.in_blocks * area * kLanes), 0.0F);
  for (int64_t c = 0; c < plan_.in_group; ++c) {
    float* to = weights_.data() + c / kLanes * area * kLanes + c % kLanes;
    for (int64_t t = 0; t < area; ++t) to[t * kLanes] = weights[c * area + t];
  }
}

std::vector<Convolution::Segment> Convolution::segments() const {
  const ConvShape& s = plan_.shape;
  std::vector<Segment> out;
  if (s.out_h == 1) {
    for (int64_t w = 0; w < s.out_w; w += kSegmentPixels) {
      out.push_back({0, 1, w, std::min(kSegmentPixels, s.out_w - w)});
    }
    return out;
  }
  const int64_t rows = std::max<int64_t>(1, kSegmentPixels / s.out_w);
  for (int64_t h = 0; h < s.out_h; h += rows) {
    out.push_back({h, std::min(rows, s.out_h - h), 0, s.out_w});
  }
  return out;
}

void Convolution::run(const float* x, const float* bias, float* y, const Exec& exec) const {
  const ConvShape& s = plan_.shape;
  auto* in = static_cast<float*>(exec.scratch);
  float* const out = in + plan_.in_floats();
  float* const padded_bias = out + plan_.out_floats();
  load_bias(bias, padded_bias);
  for (int64_t n = 0; n < s.batch; ++n) {
    load_image(x + n * s.in_channels * s.in_h * s.in_w, in, exec);
    if (depthwise_) {
      run_depthwise(in, padded_bias, out, exec);
    } else {
      run_dense(in, padded_bias, out, exec);
    }
    store_image(out, y + n * s.out_channels * s.out_h * s.out_w, exec);
  }
}

void Convolution::load_bias(const float* bias, float* padded) const {
  std::memset(padded, 0, static_cast<size_t>(plan_.bias_floats()) * sizeof(float));
  if (bias == nullptr) return;
  for (int64_t g = 0; g < plan_.groups; ++g) {
    std::copy_n(bias + g * plan_.out_group, plan_.out_group,
                padded + g * plan_.out_blocks * kLanes);
  }
}

void Convolution::load_image(const float* x, float* blocked, const Exec& exec) const {
  const int64_t area = plan_.shape.in_h * plan_.shape.in_w;
  parallel_for(exec, plan_.groups * plan_.in_blocks, [&](int64_t i) {
    const int64_t first = i % plan_.in_blocks * kLanes;
    const int64_t channel = i / plan_.in_blocks * plan_.in_group + first;
    load_block(x + channel * area, blocked + i * plan_.padded_h * plan_.padded_w * kLanes,
               std::min(kLanes, plan_.in_group - first));
  });
}

void Convolution::load_block(const float* x, float* blocked, int64_t channels) const {
  const ConvShape& s = plan_.shape;
  const int64_t area = s.in_h * s.in_w;
  const bool borders = plan_.padded_h != s.in_h || plan_.padded_w != s.in_w;
  if (borders || channels < kLanes) {
    std::memset(blocked, 0,
                static_cast<size_t>(plan_.padded_h * plan_.padded_w * kLanes) * sizeof(float));
  }
  for (int64_t h = 0; h < s.in_h; ++h) {
    const float* from = x + h * s.in_w;
    float* to = blocked + ((h + s.pad_top) * plan_.padded_w + s.pad_left) * kLanes;
    for (int64_t w = 0; w < s.in_w; ++w, to += kLanes) {
      for (int64_t c = 0; c < channels; ++c) to[c] = from[c * area + w];
    }
  }
}

void Convolution::run_dense(const float* in, const float* bias, float* out,
                            const Exec& exec) const {
  const auto count = static_cast<int64_t>(segments_.size());
  parallel_for(exec, plan_.groups * tiles_ * count, [&](int64_t i) {
    run_tile(in, bias, out, i / count, segments_[static_cast<size_t>(i % count)]);
  });
}

// tile counts over all groups. Chunks outside, so that their weights stay near.
void Convolution::run_tile(const float* in, const float* bias, float* out, int64_t tile,
                           const Segment& segment) const {
  const ConvShape& s = plan_.shape;
  const int64_t group = tile / tiles_;
  const int64_t block = tile % tiles_ * kernels_.max_blocks;  // first block in the group
  const auto blocks =
      static_cast<int>(std::min<int64_t>(kernels_.max_blocks, plan_.out_blocks - block));
  const int64_t all_block = group * plan_.out_blocks + block;
  const float* x = in + group * plan_.in_blocks * plan_.padded_h * plan_.padded_w * kLanes;
  const float* weights = weights_.data() + all_block * kLanes * tap_channels_;
  float* y = out + all_block * s.out_h * s.out_w * kLanes;
  for (const Chunk& chunk : chunks_) {
    TileArgs args{};
    args.x_step = s.stride_w * kLanes;
    args.taps = taps_.data() + chunk.first_tap;
    args.tap_count = static_cast<int64_t>(chunk.taps);
    args.weights = weights + chunk.channels_before * blocks * kLanes;
    args.bias = chunk.first_tap == 0 ? bias + all_block * kLanes : nullptr;
    args.y_step = kLanes;
    args.y_block = s.out_h * s.out_w * kLanes;
    for (int64_t h = segment.row; h < segment.row + segment.rows; ++h) {
      args.x = x + (h * s.stride_h * plan_.padded_w + segment.column * s.stride_w) * kLanes;
      args.y = y + (h * s.out_w + segment.column) * kLanes;
      run_row(kernels_, blocks, args, segment.columns);
    }
  }
}

void Convolution::run_depthwise(const float* in, const float* bias, float* out,
                                const Exec& exec) const {
  const ConvShape& s = plan_.shape;
  const auto area = static_cast<int64_t>(offsets_.size());
  parallel_for(exec, plan_.in_blocks * s.out_h, [&](int64_t i) {
    const int64_t block = i / s.out_h;
    const int64_t h = i % s.out_h;
    DepthwiseArgs args{};
    args.x = in + (block * plan_.padded_h + h * s.stride_h) * plan_.padded_w * kLanes;
    args.x_step = s.stride_w * kLanes;
    args.offsets = offsets_.data();
    args.tap_count = area;
    args.weights = weights_.data() + block * area * kLanes;
    args.bias = bias + block * kLanes;
    args.y = out + (block * s.out_h + h) * s.out_w * kLanes;
    args.pixels = s.out_w;
    kernels_.depthwise(args);
  });
}

void Convolution::store_image(const float* blocked, float* y, const Exec& exec) const {
  const int64_t area = plan_.shape.out_h * plan_.shape.out_w;
  parallel_for(exec, plan_.groups * plan_.out_blocks, [&](int64_t i) {
    const int64_t first = i % plan_.out_blocks * kLanes;
    const int64_t channels = std::min(kLanes, plan_.out_group - first);
    const float* from = blocked + i * area * kLanes;
    float* to = y + (i / plan_.out_blocks * plan_.out_group + first) * area;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < area; ++p) to[c * area + p] = from[p * kLanes + c];
    }
  });
}

}  // namespace ascendrt::ops
