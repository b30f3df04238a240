// Owns: packing, blocking and the loops around the tile kernels of conv_tile.hpp.
// Must never: sum in another order than Note [Order of sums] in tile.hpp says.
#include "ops/conv_blocked.hpp"

#include <algorithm>
#include <array>

#include "ops/elementwise.hpp"

namespace ascendrt::ops {
namespace {

// Weights of one chunk stay in the second-level cache while a segment of pixels passes by.
constexpr int64_t kChunkFloats = 24 * 1024;
constexpr int64_t kSegmentPixels = 392;
constexpr int64_t kSegmentFloats = 128 * 1024;
constexpr int64_t kLeastPixels = 98;  // smaller segments read the weights too often
constexpr int64_t kWorkItems = 16;    // enough to share evenly
constexpr int64_t kFewItems = 8;      // fewer cost more than small segments
// An input above this, of all images, does not stay in the cache while all tiles read it: then as
// many tiles as do stay read a part of it together.
constexpr int64_t kLargeInputBytes = 512 * 1024;
constexpr int64_t kFittingWeightBytes = 3 * 1024 * 1024;
constexpr int64_t kGroupWeightBytes = 1024 * 1024;
constexpr int64_t kWidenGrain = 4 * 1024;
constexpr int64_t kBandRows = 16;
constexpr int64_t kStageBytes = 4 * 1024 * 1024;
constexpr int64_t kMaxTileBlocks = 2;

int64_t blocks_of(int64_t channels) { return (channels + kLanes - 1) / kLanes; }

int64_t padded_h(const ConvShape& s) { return s.in_h + s.pad_top + s.pad_bottom; }
int64_t padded_w(const ConvShape& s) { return s.in_w + s.pad_left + s.pad_right; }

bool is_staged(const BlockedConvSpec& spec) {
  return spec.layout == InputLayout::kPlanar ||
         (spec.in_stored == Stored::kHalf && !spec.shape.is_depthwise());
}

// Of the staged input.
int64_t image_floats(const BlockedConvSpec& spec) {
  if (spec.layout == InputLayout::kBlocked) return spec.in.image_step();
  return spec.shape.in_channels * padded_h(spec.shape) * padded_w(spec.shape);
}

int64_t staged_images(const BlockedConvSpec& spec) {
  const int64_t bytes = image_floats(spec) * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kStageBytes / std::max<int64_t>(bytes, 1), 1, spec.shape.batch);
}

void flatten(BlockedShape& s) {
  s.w *= s.h;
  s.h = 1;
}

}  // namespace

BlockedConvSpec flattened(BlockedConvSpec spec) {
  ConvShape& s = spec.shape;
  const bool plain = s.kernel_h * s.kernel_w * s.stride_h * s.stride_w == 1 &&
                     s.pad_top + s.pad_bottom + s.pad_left + s.pad_right == 0;
  if (!plain || spec.layout == InputLayout::kPlanar || !spec.in.border.empty() ||
      !spec.out.border.empty() || (spec.add && !spec.add->border.empty())) {
    return spec;
  }
  s.in_w *= s.in_h;
  s.out_w = s.in_w;
  s.in_h = s.out_h = 1;
  flatten(spec.in);
  flatten(spec.out);
  if (spec.add) flatten(*spec.add);
  return spec;
}

Border BlockedConvSpec::reach() const {
  const auto behind = [](int64_t out, int64_t stride, int64_t kernel, int64_t dilation,
                         int64_t before, int64_t in) {
    const int64_t last = (out - 1) * stride + dilation * (kernel - 1) - before;
    return std::max<int64_t>(0, last + 1 - in);
  };
  const ConvShape& s = shape;
  return {s.pad_top, behind(s.out_h, s.stride_h, s.kernel_h, s.dilation_h, s.pad_top, s.in_h),
          s.pad_left, behind(s.out_w, s.stride_w, s.kernel_w, s.dilation_w, s.pad_left, s.in_w)};
}

bool BlockedConvSpec::takes(const ConvShape& s) {
  return s.groups == 1 || s.is_depthwise() ||
         (s.in_channels / s.groups % kLanes == 0 && s.out_channels / s.groups % kLanes == 0);
}

BlockedConvolution::BlockedConvolution(const BlockedConvSpec& spec, const float* weights,
                                       const float* bias, const ConvKernels& kernels)
    : kernels_(kernels),
      spec_(flattened(spec)),
      depthwise_(spec.shape.is_depthwise() && spec.layout == InputLayout::kBlocked),
      staged_(is_staged(spec)),
      in_group_(depthwise_ ? spec.shape.in_channels : spec.shape.in_channels / spec.shape.groups),
      out_group_(spec.shape.out_channels / (depthwise_ ? 1 : spec.shape.groups)),
      in_bytes_(stored_bytes(spec.in_stored)),
      add_bytes_(stored_bytes(operands_of(spec.stored))),
      out_bytes_(stored_bytes(spec.stored)) {
  const ConvShape& s = spec_.shape;
  bias_.assign(static_cast<size_t>(blocks_of(s.out_channels) * kLanes), 0.0F);
  if (bias != nullptr) std::copy_n(bias, s.out_channels, bias_.begin());
  list_taps();
  if (depthwise_) {
    pack_depthwise(weights);
    return;
  }
  tiles_ = (blocks_of(out_group_) + kernels_.max_blocks - 1) / kernels_.max_blocks;
  list_chunks();
  list_segments();
  pack_dense(weights);
  const int64_t input_bytes = image_floats(spec_) * static_cast<int64_t>(sizeof(float));
  const int64_t weight_bytes = weights_.size() * static_cast<int64_t>(sizeof(float));
  const int64_t all_bytes = input_bytes * (staged_ ? staged_images(spec_) : s.batch);
  const int64_t tiles = tiles_ * s.groups;
  if (all_bytes > kLargeInputBytes) {
    group_tiles_ = weight_bytes <= kFittingWeightBytes
                       ? tiles
                       : std::max<int64_t>(1, kGroupWeightBytes / (weight_bytes / tiles));
  }
  large_input_ = all_bytes > 2 * kLargeInputBytes;
}

int64_t BlockedConvolution::scratch_bytes(const BlockedConvSpec& spec) {
  if (!is_staged(spec)) return 0;
  return staged_images(spec) * image_floats(spec) * static_cast<int64_t>(sizeof(float));
}

// Taps in the order of the packed weights: input block, kernel row, kernel column. Planar channels
// do not lie side by side, so each is a tap of its own, which keeps the order of the sums.
void BlockedConvolution::list_taps() {
  const ConvShape& s = spec_.shape;
  if (spec_.layout == InputLayout::kPlanar) {
    for (int64_t t = 0; t < s.kernel_h * s.kernel_w * s.in_channels; ++t) {
      const int64_t row = t / s.in_channels / s.kernel_w * s.dilation_h;
      const int64_t column = t / s.in_channels % s.kernel_w * s.dilation_w;
      const int64_t channel = t % s.in_channels;
      taps_.push_back({(channel * padded_h(s) + row) * padded_w(s) + column, 1});
    }
    return;
  }
  const int64_t blocks = depthwise_ ? 1 : blocks_of(in_group_);
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t i = 0; i < s.kernel_h; ++i) {
      for (int64_t j = 0; j < s.kernel_w; ++j) {
        const int64_t offset = b * spec_.in.block_step() + i * s.dilation_h * spec_.in.row_step() +
                               j * s.dilation_w * kLanes;
        taps_.push_back({offset, std::min(kLanes, in_group_ - b * kLanes)});
        if (depthwise_) offsets_.push_back(offset);
      }
    }
  }
}

void BlockedConvolution::list_chunks() {
  int64_t all = 0;
  for (const Tap& tap : taps_) all += tap.channels;
  const int64_t most = kChunkFloats / (kernels_.max_blocks * kLanes);
  const int64_t chunks = (all + most - 1) / most;
  const int64_t limit = (all / chunks + kLanes) / kLanes * kLanes;  // of even pieces
  Chunk chunk{0, 0, 0, 0};
  for (const Tap& tap : taps_) {
    if (chunk.taps > 0 && chunk.channels + tap.channels > limit) {
      chunks_.push_back(chunk);
      chunk = {chunk.first_tap + chunk.taps, 0, tap_channels_, 0};
    }
    ++chunk.taps;
    chunk.channels += tap.channels;
    tap_channels_ += tap.channels;
  }
  chunks_.push_back(chunk);
}

void BlockedConvolution::list_segments() {
  const ConvShape& s = spec_.shape;
  const int64_t items = tiles_ * s.groups * s.batch;
  int64_t pixels = kSegmentPixels;
  // Several segments of an image should not drive each other out of the cache.
  if (s.kernel_h * s.kernel_w == 1 && s.out_h * s.out_w > pixels &&
      pixels * in_group_ > kSegmentFloats) {
    pixels /= 2;
  }
  const int64_t area = s.out_h * s.out_w;
  const auto halve_below = [&](int64_t enough, int64_t least) {
    pixels = std::min(pixels, area);
    while (pixels > least && items * ((area + pixels - 1) / pixels) < enough) {
      pixels = (pixels + 1) / 2;
    }
  };
  halve_below(kWorkItems, kLeastPixels);
  halve_below(kFewItems, kLeastPixels / 4);
  const int64_t rows = std::max<int64_t>(1, pixels / s.out_w);
  const int64_t columns = std::min(s.out_w, pixels);
  for (int64_t h = 0; h < s.out_h; h += rows) {
    for (int64_t w = 0; w < s.out_w; w += columns) {
      segments_.push_back({h, std::min(rows, s.out_h - h), w, std::min(columns, s.out_w - w)});
    }
  }
}

float BlockedConvolution::weight_at(const float* weights, int64_t output, size_t tap,
                                    int64_t channel) const {
  const ConvShape& s = spec_.shape;
  const auto t = static_cast<int64_t>(tap);
  const float* filter = weights + output * in_group_ * s.kernel_h * s.kernel_w;
  const int64_t area = s.kernel_h * s.kernel_w;
  if (spec_.layout == InputLayout::kPlanar) {
    return filter[t % s.in_channels * area + t / s.in_channels];
  }
  return filter[(t / area * kLanes + channel) * area + t % area];
}

// [group][tile][tap][channel][outputs of the tile], missing outputs are zero.
void BlockedConvolution::pack_dense(const float* weights) {
  const int64_t blocks = blocks_of(out_group_);
  const int64_t groups = spec_.shape.groups;
  weights_ = PackedFloats(groups * blocks * kLanes * tap_channels_);
  float* to = weights_.data();
  for (int64_t tile = 0; tile < groups * tiles_; ++tile) {
    const int64_t first = tile % tiles_ * kernels_.max_blocks * kLanes;
    const int64_t width = std::min<int64_t>(kernels_.max_blocks, blocks - first / kLanes) * kLanes;
    const int64_t outputs = std::min(width, out_group_ - first);
    for (size_t t = 0; t < taps_.size(); ++t) {
      for (int64_t c = 0; c < taps_[t].channels; ++c, to += width) {
        for (int64_t o = 0; o < outputs; ++o) {
          to[o] = weight_at(weights, tile / tiles_ * out_group_ + first + o, t, c);
        }
      }
    }
  }
}

// [block][tap][16]
void BlockedConvolution::pack_depthwise(const float* weights) {
  const auto area = static_cast<int64_t>(taps_.size());
  weights_ = PackedFloats(blocks_of(in_group_) * area * kLanes);
  for (int64_t c = 0; c < in_group_; ++c) {
    float* to = weights_.data() + c / kLanes * area * kLanes + c % kLanes;
    for (int64_t t = 0; t < area; ++t) to[t * kLanes] = weights[c * area + t];
  }
}

void BlockedConvolution::run(const void* x, const void* add, void* y, const Exec& exec) const {
  const ConvShape& s = spec_.shape;
  const int64_t together = staged_ ? staged_images(spec_) : s.batch;
  const int64_t in_image = spec_.layout == InputLayout::kPlanar ? s.in_channels * s.in_h * s.in_w
                                                                : spec_.in.image_step();
  for (int64_t n = 0; n < s.batch; n += together) {
    Images images{static_cast<const char*>(x) + n * in_image * in_bytes_, nullptr,
                  static_cast<char*>(y) + n * spec_.out.image_step() * out_bytes_,
                  std::min(together, s.batch - n)};
    if (spec_.add) {
      images.add = static_cast<const char*>(add) + n * spec_.add->image_step() * add_bytes_;
    }
    if (depthwise_) {
      run_depthwise(images, exec);
      continue;
    }
    if (staged_) {
      auto* to = static_cast<float*>(exec.scratch);
      stage(images.x, images.count, to, exec);
      images.x = reinterpret_cast<const char*>(to);
    }
    run_dense(images, exec);
  }
}

// Copies planes with their pads, or widens halves.
void BlockedConvolution::stage(const char* x, int64_t images, float* to, const Exec& exec) const {
  const ConvShape& s = spec_.shape;
  if (spec_.layout == InputLayout::kBlocked) {
    return parallel_ranges(exec, images * image_floats(spec_), kWidenGrain,
                           [&](int64_t begin, int64_t end) {
                             kernels_.widen(x + begin * in_bytes_, to + begin, end - begin);
                           });
  }
  const int64_t bands = (padded_h(s) + kBandRows - 1) / kBandRows;
  parallel_for(exec, images * s.in_channels * bands, [&](int64_t i) {
    const int64_t plane = i / bands;
    const int64_t end = std::min(padded_h(s), (i % bands + 1) * kBandRows);
    for (int64_t h = i % bands * kBandRows; h < end; ++h) stage_row(x, plane, h, to);
  });
}

// Row `h` of a plane with its pads.
void BlockedConvolution::stage_row(const char* x, int64_t plane, int64_t h, float* to) const {
  const ConvShape& s = spec_.shape;
  float* row = to + (plane * padded_h(s) + h) * padded_w(s);
  h -= s.pad_top;
  if (h < 0 || h >= s.in_h) {
    std::fill_n(row, padded_w(s), 0.0F);
    return;
  }
  std::fill_n(row, s.pad_left, 0.0F);
  row += s.pad_left;
  std::fill_n(row + s.in_w, s.pad_right, 0.0F);
  const int64_t from = (plane * s.in_h + h) * s.in_w;
  if (spec_.in_stored != Stored::kHalf) {
    std::copy_n(reinterpret_cast<const float*>(x) + from, s.in_w, row);
    return;
  }
  const auto* half = reinterpret_cast<const uint16_t*>(x) + from;
  const int64_t whole = s.in_w / kLanes * kLanes;
  kernels_.widen(half, row, whole);
  for (int64_t w = whole; w < s.in_w; ++w) row[w] = half_to_float(half[w]);
}

BlockedConvolution::Work BlockedConvolution::work_at(int64_t item, int64_t images) const {
  const auto segments = static_cast<int64_t>(segments_.size());
  const int64_t places = images * segments;
  const int64_t first = item / (group_tiles_ * places) * group_tiles_;
  const int64_t rest = item - first * places;
  const int64_t turns = std::min(group_tiles_, tiles_ * spec_.shape.groups - first);
  const int64_t place = rest / turns;
  return {first + rest % turns, rest % turns, turns, place / segments,
          static_cast<size_t>(place % segments)};
}

void BlockedConvolution::run_dense(const Images& images, const Exec& exec) const {
  const int64_t places = images.count * static_cast<int64_t>(segments_.size());
  parallel_for(exec, places * tiles_ * spec_.shape.groups,
               [&](int64_t i) { run_tile(images, work_at(i, images.count)); });
}

// The pixels that the tiles of this group, or the first ones of the next, read after these.
InputAhead BlockedConvolution::ahead_of(const Work& work, int64_t images) const {
  const ConvShape& s = spec_.shape;
  const bool last_segment = work.segment + 1 == segments_.size();
  const int64_t image = (work.image + (last_segment ? 1 : 0)) % images;
  const Segment& now = segments_[work.segment];
  const Segment& next = segments_[last_segment ? 0 : work.segment + 1];
  return {(image - work.image) * image_floats(spec_) +
              (next.row - now.row) * s.stride_h * spec_.in.row_step() +
              (next.column - now.column) * s.stride_w * kLanes,
          work.turns, work.turn};
}

Finish BlockedConvolution::finish(const Images& images, int64_t image, int64_t block, int64_t row,
                                  int64_t column) const {
  const auto at = [&](const BlockedShape& shape) {
    return image * shape.image_step() + block * shape.block_step() + shape.origin() +
           row * shape.row_step() + column * kLanes;
  };
  Finish f{};
  f.y = images.y + at(spec_.out) * out_bytes_;
  f.y_block = spec_.out.block_step();
  if (images.add != nullptr) {
    f.add = images.add + at(*spec_.add) * add_bytes_;
    f.add_block = spec_.add->block_step();
  }
  f.low = spec_.low;
  f.high = spec_.high;
  f.stored = spec_.stored;
  return f;
}

// The border beside the pixels of a segment; its columns are whole rows then.
void BlockedConvolution::clear_border(const Images& images, int64_t image, int64_t block,
                                      const Segment& s) const {
  if (spec_.out.border.empty() || s.column != 0) return;
  const int64_t plane = image * spec_.out.image_step() + block * spec_.out.block_step();
  fill_border(spec_.out, images.y + plane * out_bytes_, s.row, s.rows, out_bytes_);
}

// `tile` counts over all groups. Chunks outside, so that their weights stay near.
void BlockedConvolution::run_tile(const Images& images, const Work& work) const {
  const ConvShape& s = spec_.shape;
  const auto [tile, turn, turns, image, number] = work;
  const Segment& segment = segments_[number];
  const bool planar = spec_.layout == InputLayout::kPlanar;
  const int64_t group = tile / tiles_;
  const int64_t in_group = tile % tiles_ * kernels_.max_blocks;  // first block in the group
  alignas(64) std::array<float, kSegmentPixels * kMaxTileBlocks * kLanes> partial;  // NOLINT
  Place place{};
  place.image = image;
  place.blocks =
      static_cast<int>(std::min<int64_t>(kernels_.max_blocks, blocks_of(out_group_) - in_group));
  place.block = group * blocks_of(out_group_) + in_group;
  place.row_step = planar ? padded_w(s) : spec_.in.row_step();
  place.x = reinterpret_cast<const float*>(images.x) + image * image_floats(spec_);
  if (!planar) {
    place.x += group * blocks_of(in_group_) * spec_.in.block_step() + spec_.in.origin() -
               s.pad_top * place.row_step - s.pad_left * kLanes;
  }
  place.partial = partial.data();
  place.next = ahead_of(work, images.count);
  for (int b = 0; b < place.blocks; ++b) clear_border(images, image, place.block + b, segment);
  for (const Chunk& chunk : chunks_) run_chunk(images, place, chunk, segment);
}

void BlockedConvolution::run_chunk(const Images& images, const Place& place, const Chunk& chunk,
                                   const Segment& segment) const {
  const ConvShape& s = spec_.shape;
  const int64_t width = place.blocks * kLanes;
  const bool planar = spec_.layout == InputLayout::kPlanar;
  ConvTile a{};
  a.x_step = s.stride_w * (planar ? 1 : kLanes);
  a.taps = taps_.data() + chunk.first_tap;
  a.tap_count = static_cast<int64_t>(chunk.taps);
  a.weights =
      weights_.data() + place.block * kLanes * tap_channels_ + chunk.channels_before * width;
  a.bias = bias_.data() + place.block * kLanes;
  a.next = place.next;
  // The next chunk, or the next tile's first one, follows in memory: the first tiles of pixels ask
  // for it while they run.
  a.ahead = a.weights + chunk.channels * width;
  const float* const asked =
      std::min(a.ahead + chunk.channels * width, weights_.data() + weights_.size());
  for (int64_t r = 0; r < segment.rows; ++r) {
    const int64_t h = segment.row + r;
    float* sums = place.partial + r * segment.columns * width;
    a.x = place.x + h * s.stride_h * place.row_step + segment.column * a.x_step;
    a.partial_in = chunk.first_tap == 0 ? nullptr : sums;
    a.partial_out = &chunk == &chunks_.back() ? nullptr : sums;
    a.finish = finish(images, place.image, place.block, h, segment.column);
    const Prefetch prefetch = a.ahead < asked ? Prefetch::kWeights
                              : large_input_  ? Prefetch::kInput
                                              : Prefetch::kNo;
    const int64_t tiles = run_conv_row(kernels_, place.blocks, prefetch, a, segment.columns);
    a.ahead += tiles * chunk.channels * kLanes;
  }
}

void BlockedConvolution::run_depthwise(const Images& images, const Exec& exec) const {
  const ConvShape& s = spec_.shape;
  const auto area = static_cast<int64_t>(offsets_.size());
  const int64_t blocks = spec_.in.blocks();
  const int64_t rows = std::max<int64_t>(1, 2 * kSegmentPixels / s.out_w);
  const int64_t pieces = (s.out_h + rows - 1) / rows;
  parallel_for(exec, images.count * blocks * pieces, [&](int64_t i) {
    const int64_t plane = i / pieces;
    const int64_t block = plane % blocks;
    const int64_t image = plane / blocks;
    const int64_t first = i % pieces * rows;
    const Segment piece{first, std::min(rows, s.out_h - first), 0, s.out_w};
    clear_border(images, image, block, piece);
    for (int64_t h = first; h < first + piece.rows; ++h) {
      const int64_t x = plane * spec_.in.block_step() + spec_.in.origin() - s.pad_left * kLanes +
                        (h * s.stride_h - s.pad_top) * spec_.in.row_step();
      kernels_.depthwise({images.x + x * in_bytes_, s.stride_w * kLanes, offsets_.data(), area,
                          weights_.data() + block * area * kLanes, bias_.data() + block * kLanes,
                          s.out_w, finish(images, image, block, h, 0)});
    }
  });
}

}  // namespace ascendrt::ops
