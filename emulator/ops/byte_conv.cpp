// Owns: packing, blocking and the loops around the kernels of byte_tile.hpp.
// Must never: let anything but exact sums and the steps of Note [Bytes] decide a result.
#include "ops/byte_conv.hpp"

#include <algorithm>
#include <cstring>

namespace ascendrt::ops {
namespace {

constexpr int64_t kSegmentPixels = 392;
constexpr int64_t kLeastPixels = 98;  // smaller segments read the weights too often
constexpr int64_t kWorkItems = 16;    // enough to share evenly
// An input above this does not stay in the cache while all tiles read it.
constexpr int64_t kLargeInputBytes = 512 * 1024;
constexpr int64_t kFittingWeightBytes = 1024 * 1024;
constexpr int64_t kTileBlocks = 2;

int64_t blocks_of(int64_t channels) { return (channels + kLanes - 1) / kLanes; }
int64_t dots_of(int64_t channels) { return (channels + kDotBytes - 1) / kDotBytes; }

int64_t padded_h(const ConvShape& s) { return s.in_h + s.pad_top + s.pad_bottom; }
int64_t padded_w(const ConvShape& s) { return s.in_w + s.pad_left + s.pad_right; }

int64_t staged_bytes(const ConvShape& s) { return padded_h(s) * padded_w(s) * kDotBytes; }

}  // namespace

ByteConvolution::ByteConvolution(const ByteConvSpec& spec, const int8_t* weights,
                                 const int32_t* bias, const ByteKernels& kernels)
    : kernels_(kernels),
      spec_(spec),
      planar_(spec.geometry.layout == InputLayout::kPlanar),
      depthwise_(spec.geometry.shape.is_depthwise() && !planar_),
      in_group_(spec.geometry.shape.in_channels / (depthwise_ ? 1 : spec.geometry.shape.groups)),
      out_group_(spec.geometry.shape.out_channels / (depthwise_ ? 1 : spec.geometry.shape.groups)) {
  spec_.geometry = flattened(spec.geometry);
  const ConvShape& s = spec_.geometry.shape;
  lay_out();
  set_bias(weights, bias);
  set_finish();
  list_taps();
  if (depthwise_) {
    pack_depthwise(weights);
    return;
  }
  tiles_ = (blocks_of(out_group_) + kTileBlocks - 1) / kTileBlocks;
  list_segments();
  pack_dense(weights);
  const int64_t input = planar_ ? staged_bytes(s) : spec_.geometry.in.image_step();
  const int64_t weight_bytes = weights_.size() * static_cast<int64_t>(sizeof(float));
  pixels_outside_ = input > kLargeInputBytes && weight_bytes <= kFittingWeightBytes;
}

int64_t ByteConvolution::scratch_bytes(const ByteConvSpec& spec) {
  const BlockedConvSpec& g = spec.geometry;
  return g.layout == InputLayout::kPlanar ? g.shape.batch * staged_bytes(g.shape) : 0;
}

// Images of one pixel are computed as if they lay side by side: a product with a matrix.
void ByteConvolution::lay_out() {
  BlockedConvSpec& g = spec_.geometry;
  const auto steps = [](const BlockedShape& s) {
    return Steps{s.image_step(), s.block_step(), s.row_step(), kLanes, s.origin()};
  };
  if (planar_) {
    in_ = {staged_bytes(g.shape), 0, padded_w(g.shape) * kDotBytes, kDotBytes, 0};
  } else {
    in_ = steps(g.in);
    in_.origin -= g.shape.pad_top * in_.row + g.shape.pad_left * kLanes;
  }
  out_ = steps(g.out);
  if (g.add) add_ = steps(*g.add);
  ConvShape& s = g.shape;
  const bool plain = !planar_ && !depthwise_ && s.kernel_h * s.kernel_w == 1 && s.in_h == 1 &&
                     s.in_w == 1 && s.out_h == 1 && s.out_w == 1;
  if (!plain || s.batch == 1 || !g.in.border.empty() || !g.out.border.empty()) return;
  const auto beside = [](Steps& t) { t = {0, t.block, 0, t.image, t.origin}; };
  for (Steps* t : {&in_, &out_, &add_}) beside(*t);
  s.in_w = s.out_w = s.batch;
  s.batch = s.stride_h = s.stride_w = 1;
}

void ByteConvolution::list_taps() {
  const ConvShape& s = spec_.geometry.shape;
  const int64_t blocks = planar_ || depthwise_ ? 1 : blocks_of(in_group_);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t dots = planar_ ? 1 : dots_of(std::min(kLanes, in_group_ - b * kLanes));
    for (int64_t i = 0; i < s.kernel_h; ++i) {
      for (int64_t j = 0; j < s.kernel_w; ++j) {
        const int64_t offset =
            b * in_.block + i * s.dilation_h * in_.row + j * s.dilation_w * in_.pixel;
        offsets_.push_back(offset);
        for (int64_t k = 0; k < dots; ++k) fours_.push_back({b * kLanes + k * kDotBytes, i, j});
        // Neighbours of four channels are read as one.
        if (planar_ && j > 0 && s.dilation_w == 1) {
          ++taps_.back().channels;
        } else {
          taps_.push_back({offset, dots});
        }
      }
    }
  }
}

void ByteConvolution::list_segments() {
  const ConvShape& s = spec_.geometry.shape;
  const int64_t items = tiles_ * s.groups * s.batch;
  int64_t pixels = kSegmentPixels;
  while (pixels > kLeastPixels &&
         items * ((s.out_h * s.out_w + pixels - 1) / pixels) < kWorkItems) {
    pixels /= 2;
  }
  const int64_t rows = std::max<int64_t>(1, pixels / s.out_w);
  const int64_t columns = std::min(s.out_w, pixels);
  for (int64_t h = 0; h < s.out_h; h += rows) {
    for (int64_t w = 0; w < s.out_w; w += columns) {
      segments_.push_back({h, std::min(rows, s.out_h - h), w, std::min(columns, s.out_w - w)});
    }
  }
}

// [group][tile][four channels][outputs of the tile][4], what is missing is zero.
void ByteConvolution::pack_dense(const int8_t* weights) {
  const ConvShape& s = spec_.geometry.shape;
  const int64_t blocks = blocks_of(out_group_);
  const auto dots = static_cast<int64_t>(fours_.size());
  weights_ = PackedFloats(s.groups * blocks * kLanes * dots);
  auto* to = reinterpret_cast<int8_t*>(weights_.data());
  const int64_t area = s.kernel_h * s.kernel_w;
  for (int64_t tile = 0; tile < s.groups * tiles_; ++tile) {
    const int64_t first = tile % tiles_ * kTileBlocks * kLanes;
    const int64_t width = std::min<int64_t>(kTileBlocks, blocks - first / kLanes) * kLanes;
    const int64_t outputs = std::min(width, out_group_ - first);
    for (const Four& four : fours_) {
      const int64_t channels = std::min(kDotBytes, in_group_ - four.channel);
      const int64_t place = four.row * s.kernel_w + four.column;
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t output = tile / tiles_ * out_group_ + first + o;
        const int8_t* from = weights + (output * in_group_ + four.channel) * area + place;
        for (int64_t c = 0; c < channels; ++c) to[o * kDotBytes + c] = from[c * area];
      }
      to += width * kDotBytes;
    }
  }
}

// [block][tap][16] in 32 bits
void ByteConvolution::pack_depthwise(const int8_t* weights) {
  const auto area = static_cast<int64_t>(offsets_.size());
  weights_ = PackedFloats(blocks_of(in_group_) * area * kLanes);
  for (int64_t c = 0; c < in_group_; ++c) {
    for (int64_t t = 0; t < area; ++t) {
      const int32_t weight = +weights[c * area + t];
      std::memcpy(weights_.data() + (c / kLanes * area + t) * kLanes + c % kLanes, &weight,
                  sizeof(weight));
    }
  }
}

// The zero point of the input is taken off once: sum (x - z) w = sum x w - z sum w. Sums wrap.
void ByteConvolution::set_bias(const int8_t* weights, const int32_t* bias) {
  const ConvShape& s = spec_.geometry.shape;
  const int64_t per_output = s.in_channels / s.groups * s.kernel_h * s.kernel_w;
  const int64_t group_lanes = blocks_of(out_group_) * kLanes;
  const int64_t groups = depthwise_ ? 1 : s.groups;
  bias_.assign(static_cast<size_t>(groups * group_lanes), 0);
  scales_.assign(bias_.size(), 0.0F);
  for (int64_t o = 0; o < s.out_channels; ++o) {
    uint32_t sum = 0;
    for (int64_t k = 0; k < per_output; ++k) {
      sum += static_cast<uint32_t>(static_cast<int32_t>(weights[o * per_output + k]));
    }
    const auto own = bias == nullptr ? 0U : static_cast<uint32_t>(bias[o]);
    const auto at = static_cast<size_t>(o / out_group_ * group_lanes + o % out_group_);
    bias_[at] = static_cast<int32_t>(own - static_cast<uint32_t>(spec_.x.zero) * sum);
    scales_[at] = spec_.x.scale * spec_.weight_scales[static_cast<size_t>(o)] / spec_.sum.scale;
  }
}

void ByteConvolution::set_finish() {
  const auto less = [](int32_t bound, int32_t zero) { return static_cast<float>(bound - zero); };
  finish_.zero = spec_.y.zero;
  finish_.low = less(spec_.low, spec_.y.zero);
  finish_.high = less(spec_.high, spec_.y.zero);
  if (!spec_.geometry.add) return;
  finish_.sum_low = less(spec_.sum_low, spec_.sum.zero);
  finish_.sum_high = less(spec_.sum_high, spec_.sum.zero);
  finish_.sum_scale = spec_.sum.scale / spec_.y.scale;
  finish_.add_zero = static_cast<float>(spec_.addend.zero);
  finish_.add_scale = spec_.addend.scale / spec_.y.scale;
}

void ByteConvolution::run(const uint8_t* x, const uint8_t* add, uint8_t* y,
                          const Exec& exec) const {
  Tensors t{x, spec_.geometry.add ? add : nullptr, y};
  if (depthwise_) return run_depthwise(t, exec);
  if (planar_) {
    auto* staged = static_cast<uint8_t*>(exec.scratch);
    stage(x, staged, exec);
    t.x = staged;
  }
  run_dense(t, exec);
}

// Planes become pixels of four channels with pads around them.
void ByteConvolution::stage(const uint8_t* x, uint8_t* to, const Exec& exec) const {
  const ConvShape& s = spec_.geometry.shape;
  const uint8_t turn = spec_.turns ? 0x80 : 0;
  const int64_t area = s.in_h * s.in_w;
  parallel_for(exec, s.batch * padded_h(s), [&](int64_t i) {
    const int64_t image = i / padded_h(s);
    const int64_t h = i % padded_h(s) - s.pad_top;
    uint8_t* row = to + i * padded_w(s) * kDotBytes;
    std::memset(row, spec_.x.zero, static_cast<size_t>(padded_w(s) * kDotBytes));
    if (h < 0 || h >= s.in_h) return;
    row += s.pad_left * kDotBytes;
    for (int64_t c = 0; c < s.in_channels; ++c) {
      const uint8_t* from = x + (image * s.in_channels + c) * area + h * s.in_w;
      for (int64_t w = 0; w < s.in_w; ++w) {
        row[w * kDotBytes + c] = static_cast<uint8_t>(from[w] ^ turn);
      }
    }
  });
}

void ByteConvolution::run_dense(const Tensors& t, const Exec& exec) const {
  const ConvShape& s = spec_.geometry.shape;
  const auto segments = static_cast<int64_t>(segments_.size());
  const int64_t places = s.batch * segments;
  const int64_t tiles = tiles_ * s.groups;
  parallel_for(exec, tiles * places, [&](int64_t i) {
    const int64_t tile = pixels_outside_ ? i % tiles : i / places;
    const int64_t place = pixels_outside_ ? i / tiles : i % places;
    run_tile(t, place / segments, tile, segments_[static_cast<size_t>(place % segments)]);
  });
}

ByteFinish ByteConvolution::finish(const Tensors& t, int64_t image, int64_t block, int64_t row,
                                   int64_t column) const {
  ByteFinish f = finish_;
  f.y = t.y + out_.at(image, block, row, column);
  f.y_pixel = out_.pixel;
  f.y_block = out_.block;
  f.scale = scales_.data() + block * kLanes;
  if (t.add != nullptr) {
    f.add = t.add + add_.at(image, block, row, column);
    f.add_pixel = add_.pixel;
    f.add_block = add_.block;
  }
  return f;
}

void ByteConvolution::clear_border(const Tensors& t, int64_t image, int64_t block,
                                   const Segment& s) const {
  const BlockedShape& out = spec_.geometry.out;
  if (out.border.empty() || s.column != 0) return;
  const int64_t plane = image * out.image_step() + block * out.block_step();
  fill_border(out, reinterpret_cast<char*>(t.y) + plane, s.row, s.rows, 1);
}

// `tile` counts over all groups.
void ByteConvolution::run_tile(const Tensors& t, int64_t image, int64_t tile,
                               const Segment& segment) const {
  const ConvShape& s = spec_.geometry.shape;
  const int64_t group = tile / tiles_;
  const int64_t in_group = tile % tiles_ * kTileBlocks;  // first block in the group
  const int64_t block = group * blocks_of(out_group_) + in_group;
  const int64_t blocks = std::min<int64_t>(kTileBlocks, blocks_of(out_group_) - in_group);
  ByteTile a{};
  a.x_step = s.stride_w * in_.pixel;
  a.taps = taps_.data();
  a.tap_count = static_cast<int64_t>(taps_.size());
  a.weights = reinterpret_cast<const int8_t*>(weights_.data()) +
              block * kLanes * static_cast<int64_t>(fours_.size()) * kDotBytes;
  a.bias = bias_.data() + block * kLanes;
  const int64_t first = group * blocks_of(in_group_);
  for (int64_t b = 0; b < blocks; ++b) clear_border(t, image, block + b, segment);
  for (int64_t h = segment.row; h < segment.row + segment.rows; ++h) {
    a.x = t.x + in_.at(image, planar_ ? 0 : first, h * s.stride_h, segment.column * s.stride_w);
    a.finish = finish(t, image, block, h, segment.column);
    run_byte_row(kernels_, static_cast<int>(blocks), a, segment.columns);
  }
}

void ByteConvolution::run_depthwise(const Tensors& t, const Exec& exec) const {
  const ConvShape& s = spec_.geometry.shape;
  const auto area = static_cast<int64_t>(offsets_.size());
  const int64_t blocks = spec_.geometry.in.blocks();
  const int64_t rows = std::max<int64_t>(1, 2 * kSegmentPixels / s.out_w);
  const int64_t pieces = (s.out_h + rows - 1) / rows;
  const auto* weights = reinterpret_cast<const int32_t*>(weights_.data());
  parallel_for(exec, s.batch * blocks * pieces, [&](int64_t i) {
    const int64_t block = i / pieces % blocks;
    const int64_t image = i / pieces / blocks;
    const int64_t first = i % pieces * rows;
    const Segment piece{first, std::min(rows, s.out_h - first), 0, s.out_w};
    clear_border(t, image, block, piece);
    for (int64_t h = first; h < first + piece.rows; ++h) {
      kernels_.depthwise({t.x + in_.at(image, block, h * s.stride_h, 0), s.stride_w * kLanes,
                          offsets_.data(), area, weights + block * area * kLanes,
                          bias_.data() + block * kLanes, s.out_w, finish(t, image, block, h, 0)});
    }
  });
}

}  // namespace ascendrt::ops
