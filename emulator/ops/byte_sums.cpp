// Owns: packing and the loop over the pixels of a row. Must never: share work; callers do.
#include "ops/byte_sums.hpp"

#include <algorithm>

namespace ascendrt::ops {
namespace {

// An integer of 8 bits and what makes it signed.
int32_t signed_byte(const TensorView& values, int64_t i) {
  if (values.dtype == ACL_INT8) return values.as<const int8_t>()[i];
  return int32_t{values.as<const uint8_t>()[i]} - 128;
}

int32_t product(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
int32_t sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

}  // namespace

ByteSums::ByteSums(const Source& source, const ByteKernels& kernels)
    : kernels_(kernels),
      taps_(source.taps),
      channels_(source.channels),
      outputs_(source.outputs),
      tiles_((source.outputs + kTileOutputs - 1) / kTileOutputs),
      weight_sums_(static_cast<size_t>(tiles_ * kTileOutputs), 0),
      zeros_(weight_sums_.size(), source.values.dtype == ACL_INT8 ? 0 : -128) {
  for (int64_t o = 0; o < outputs_ && source.zeros != nullptr; ++o) {
    const int64_t at = source.zeros->elements() == 1 ? 0 : source.first_zero + o;
    zeros_[static_cast<size_t>(o)] = signed_byte(*source.zeros, at);
  }
  std::fill(zeros_.begin() + outputs_, zeros_.end(), 0);
  has_zeros_ = std::any_of(zeros_.begin(), zeros_.end(), [](int32_t zero) { return zero != 0; });
  pack(source);
}

void ByteSums::pack(const Source& s) {
  const int64_t depth = padded_channels(channels_);
  weights_ = PackedFloats(tiles_ * taps_ * depth * kTileOutputs / kDotBytes);
  auto* to = reinterpret_cast<int8_t*>(weights_.data());
  for (int64_t tile = 0; tile < tiles_; ++tile) {
    const int64_t first = tile * kTileOutputs;
    const int64_t outputs = std::min(kTileOutputs, outputs_ - first);
    for (int64_t k = 0; k < taps_ * depth; k += kDotBytes) {
      const int64_t channel = k % depth;
      const int64_t dots = std::min(kDotBytes, channels_ - channel);
      const int64_t from = s.first + k / depth * s.tap_step + channel * s.channel_step;
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t c = 0; c < dots; ++c) {
          const int32_t weight =
              signed_byte(s.values, from + c * s.channel_step + (first + o) * s.output_step);
          to[o * kDotBytes + c] = static_cast<int8_t>(weight);
          weight_sums_[static_cast<size_t>(first + o)] += weight;
        }
      }
      to += kTileOutputs * kDotBytes;
    }
  }
}

std::vector<int32_t> ByteSums::begin(int32_t x_zero) const {
  std::vector<int32_t> out(weight_sums_.size());
  const auto count = static_cast<int32_t>(taps_ * channels_);
  for (size_t o = 0; o < out.size(); ++o) {
    out[o] = product(x_zero, sum(product(count, zeros_[o]), -weight_sums_[o]));
  }
  return out;
}

void ByteSums::run(const Row& row, const std::vector<int32_t>& begin, int64_t tile) const {
  const int64_t depth = padded_channels(channels_);
  const int64_t first = tile * kTileOutputs;
  const int64_t outputs = std::min(kTileOutputs, outputs_ - first);
  std::vector<Tap> taps;
  for (int64_t t = 0; t < taps_; ++t) taps.push_back({row.taps[t], depth / kDotBytes});
  int32_t sums[kRowPixels * kTileOutputs];
  ByteTile a{};
  a.x_step = row.x_step;
  a.taps = taps.data();
  a.tap_count = taps_;
  a.weights =
      reinterpret_cast<const int8_t*>(weights_.data()) + tile * taps_ * depth * kTileOutputs;
  a.bias = begin.data() + first;
  a.finish.sums_pixel = kTileOutputs;
  for (int64_t p = 0; p < row.pixels; p += kRowPixels) {
    Row part = row;
    part.x += p * row.x_step;
    part.y += p * row.y_pixel;
    part.pixels = std::min(kRowPixels, row.pixels - p);
    a.x = part.x;
    a.finish.sums = sums;
    run_byte_row(kernels_, kTileOutputs / kLanes, a, part.pixels);
    if (has_zeros_) add_zeros(part, first, outputs, sums);
    for (int64_t i = 0; i < part.pixels; ++i) {
      int32_t* to = part.y + i * part.y_pixel + first * part.y_output;
      const int32_t* from = sums + i * kTileOutputs;
      if (part.y_output == 1) {
        std::copy_n(from, outputs, to);
      } else {
        for (int64_t o = 0; o < outputs; ++o) to[o * part.y_output] = from[o];
      }
    }
  }
}

void ByteSums::add_zeros(const Row& row, int64_t first_output, int64_t outputs,
                         int32_t* sums) const {
  const int64_t depth = padded_channels(channels_);
  const int32_t* zeros = zeros_.data() + first_output;
  for (int64_t p = 0; p < row.pixels; ++p) {
    int32_t total = 0;
    for (int64_t t = 0; t < taps_; ++t) {
      const uint8_t* x = row.x + p * row.x_step + row.taps[t];
      for (int64_t c = 0; c < depth; ++c) total += x[c];
    }
    int32_t* to = sums + p * kTileOutputs;
    for (int64_t o = 0; o < outputs; ++o) to[o] = sum(to[o], -product(total, zeros[o]));
  }
}

}  // namespace ascendrt::ops
