// Quantised convolution and its neighbours against plain integer loops; equal bits for every
// instruction set and number of threads.
#include <cmath>
#include <cstring>

#include "ops/byte_conv.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::Random;

namespace {

using Bytes = std::vector<uint8_t>;

struct Case {
  ops::ByteConvSpec spec;
  Bytes x, addend;  // NCHW, unsigned
  std::vector<int8_t> weights;
  std::vector<int32_t> bias;
};

Bytes random_bytes(Random& random, int64_t count) {
  Bytes out(static_cast<size_t>(count));
  for (uint8_t& v : out) v = static_cast<uint8_t>(random.between(0, 255));
  return out;
}

ops::ByteScale random_scale(Random& random, double size) {
  return {static_cast<float>(size * static_cast<double>(random.between(50, 150)) / 100.0),
          static_cast<int32_t>(random.between(0, 255))};
}

ops::ConvShape random_shape(Random& random) {
  ops::ConvShape s;
  const int64_t kind = random.between(0, 4);
  s.batch = random.between(1, 3);
  s.in_channels = random.between(1, kind == 1 ? 80 : 24);
  s.out_channels = random.between(1, kind == 1 ? 80 : 24);
  if (kind == 2) s.groups = s.out_channels = s.in_channels = random.between(2, 40);
  if (kind == 3) {
    s.groups = 2;
    s.in_channels = s.out_channels = 32 * random.between(1, 2);
  }
  s.in_h = random.between(6, 16);
  s.in_w = random.between(6, 40);
  if (kind == 4) {  // products with a matrix, and layers of one pixel each
    s.in_h = s.in_w = random.between(1, 2) == 1 ? 1 : 9;
    s.stride_h = random.between(1, 3);
    s.stride_w = random.between(1, 3);
    s.resolve();
    return s;
  }
  s.kernel_h = random.between(1, 4);
  s.kernel_w = random.between(1, 5);
  s.stride_h = random.between(1, 3);
  s.stride_w = random.between(1, 3);
  s.dilation_h = random.between(1, 2);
  s.dilation_w = random.between(1, 2);
  s.pad_top = s.pad_left = random.between(3, 4);
  s.pad_bottom = s.pad_right = random.between(0, 4);
  s.resolve();
  return s;
}

Case random_case(Random& random) {
  Case c;
  ops::BlockedConvSpec& g = c.spec.geometry;
  const ops::ConvShape s = g.shape = random_shape(random);
  const int64_t depth = s.in_channels / s.groups * s.kernel_h * s.kernel_w;
  if (s.groups == 1 && s.in_channels <= 4) g.layout = ops::InputLayout::kPlanar;
  c.spec.x = random_scale(random, 0.1);
  g.in = {s.batch, s.in_channels, s.in_h, s.in_w, g.reach()};
  g.in.border.fill = static_cast<uint8_t>(c.spec.x.zero);
  g.out = {s.batch, s.out_channels, s.out_h, s.out_w, {}};
  if (random.between(0, 1) == 0) g.out.border = {1, 0, 2, 1, 77};
  for (int64_t o = 0; o < s.out_channels; ++o) {
    c.spec.weight_scales.push_back(random_scale(random, 0.02).scale);
    c.bias.push_back(static_cast<int32_t>(random.between(-20000, 20000)));
  }
  c.spec.y = c.spec.sum = random_scale(random, 0.2 * std::sqrt(static_cast<double>(depth)) + 0.1);
  if (random.between(0, 1) == 0) c.spec.low = c.spec.y.zero;
  if (random.between(0, 3) == 0) c.spec.high = 250;
  if (random.between(0, 1) == 0) {
    g.add = g.out;
    if (random.between(0, 1) == 0) g.add->border = {0, 1, 1, 0, 3};
    c.spec.sum = random_scale(random, c.spec.y.scale);
    c.spec.sum_low = static_cast<int32_t>(random.between(0, 40));
    c.spec.addend = random_scale(random, c.spec.y.scale);
  }
  c.x = random_bytes(random, s.batch * s.in_channels * s.in_h * s.in_w);
  c.addend = random_bytes(random, s.batch * s.out_channels * s.out_h * s.out_w);
  for (int64_t i = 0; i < s.out_channels * depth; ++i) {
    c.weights.push_back(static_cast<int8_t>(random.between(-128, 127)));
  }
  return c;
}

// The exact sum for one output; x outside is the zero point and adds nothing.
int64_t sum_at(const Case& c, int64_t n, int64_t o, int64_t h, int64_t w) {
  const ops::ConvShape& s = c.spec.geometry.shape;
  const int64_t per_group = s.in_channels / s.groups;
  const int64_t group = o / (s.out_channels / s.groups);
  int64_t sum = c.bias[static_cast<size_t>(o)];
  for (int64_t k = 0; k < per_group * s.kernel_h * s.kernel_w; ++k) {
    const int64_t channel = group * per_group + k / (s.kernel_h * s.kernel_w);
    const int64_t row = h * s.stride_h - s.pad_top + k / s.kernel_w % s.kernel_h * s.dilation_h;
    const int64_t column = w * s.stride_w - s.pad_left + k % s.kernel_w * s.dilation_w;
    if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
    const int64_t at = ((n * s.in_channels + channel) * s.in_h + row) * s.in_w + column;
    const auto weight = c.weights[static_cast<size_t>(o * per_group * s.kernel_h * s.kernel_w + k)];
    sum += (c.x[static_cast<size_t>(at)] - c.spec.x.zero) * weight;
  }
  return sum;
}

float rounded(float v, int32_t low, int32_t high, int32_t zero) {
  const float bounded =
      std::fmin(std::fmax(v, static_cast<float>(low - zero)), static_cast<float>(high - zero));
  return std::nearbyint(bounded);
}

Bytes expected(const Case& c) {
  const ops::ByteConvSpec& p = c.spec;
  const ops::ConvShape& s = p.geometry.shape;
  Bytes y;
  for (int64_t i = 0; i < s.batch * s.out_channels * s.out_h * s.out_w; ++i) {
    const int64_t o = i / (s.out_h * s.out_w) % s.out_channels;
    const int64_t n = i / (s.out_h * s.out_w * s.out_channels);
    const auto sum = static_cast<int32_t>(sum_at(c, n, o, i / s.out_w % s.out_h, i % s.out_w));
    const float scale = p.x.scale * p.weight_scales[static_cast<size_t>(o)] / p.sum.scale;
    float v = static_cast<float>(sum) * scale;
    if (p.geometry.add) {
      v = rounded(v, p.sum_low, p.sum_high, p.sum.zero);
      const auto other = static_cast<float>(c.addend[static_cast<size_t>(i)] - p.addend.zero);
      const float own_part = v * (p.sum.scale / p.y.scale);
      const float other_part = other * (p.addend.scale / p.y.scale);
      v = own_part + other_part;
    }
    y.push_back(
        static_cast<uint8_t>(static_cast<int32_t>(rounded(v, p.low, p.high, p.y.zero)) + p.y.zero));
  }
  return y;
}

ops::TensorView view_of(Bytes& bytes, const ops::BlockedShape& s) {
  return {bytes.data(), ACL_UINT8, s.logical()};
}

Bytes blocked(Bytes plain, const ops::BlockedShape& shape) {
  Bytes out(static_cast<size_t>(shape.elements()));
  ops::to_blocked(view_of(plain, shape), shape, out.data(), {});
  return out;
}

Bytes plain(const Bytes& blocks, const ops::BlockedShape& shape) {
  Bytes out(static_cast<size_t>(shape.logical().elements()));
  ops::from_blocked(blocks.data(), shape, view_of(out, shape), {});
  return out;
}

// Whole blocks, so that borders are compared as well; lanes past the channels are not.
Bytes run(Case& c, const ops::ByteKernels& kernels, int threads) {
  ops::Workers workers(threads);
  const ops::BlockedConvSpec& g = c.spec.geometry;
  const ops::ByteConvolution conv(c.spec, c.weights.data(), c.bias.data(), kernels);
  Bytes scratch(static_cast<size_t>(ops::ByteConvolution::scratch_bytes(c.spec)) + 64);
  const Bytes x = g.layout == ops::InputLayout::kPlanar ? c.x : blocked(c.x, g.in);
  const Bytes add = g.add ? blocked(c.addend, *g.add) : Bytes();
  Bytes y(static_cast<size_t>(g.out.elements()), 0xEE);
  conv.run(x.data(), g.add ? add.data() : nullptr, y.data(), {workers, scratch.data()});
  if (g.out.border.top > 0) CHECK_EQ(int{y[0]}, int{g.out.border.fill});
  return plain(y, g.out);
}

}  // namespace

TEST(byte_convolution_is_exact_on_every_instruction_set) {
  Random random(77);
  for (int round = 0; round < 120; ++round) {
    Case c = random_case(random);
    const Bytes wanted = expected(c);
    for (const ops::ByteKernels* kernels : ops::available_byte_kernels()) {
      if (kernels == nullptr) continue;
      for (const int threads : {1, 3}) CHECK(run(c, *kernels, threads) == wanted);
    }
  }
}

TEST(sums_of_extreme_bytes_do_not_saturate) {
  Case c;
  ops::ConvShape& s = c.spec.geometry.shape;
  s.in_channels = 512;
  s.out_channels = 16;
  s.in_h = s.in_w = 3;
  s.resolve();
  c.spec.geometry.in = {1, 512, 3, 3, {}};
  c.spec.geometry.out = {1, 16, 3, 3, {}};
  c.spec.weight_scales.assign(16, 1e-5F);
  c.x.assign(512 * 9, 255);
  c.weights.assign(512 * 16, 127);
  c.bias.assign(16, 0);
  c.addend.assign(16 * 9, 0);
  CHECK_EQ(int{expected(c)[0]}, 166);  // 255 * 127 * 512 / 100000
  for (const ops::ByteKernels* kernels : ops::available_byte_kernels()) {
    if (kernels != nullptr) CHECK(run(c, *kernels, 1) == expected(c));
  }
}

TEST(bytes_are_quantised_as_numbers_round) {
  Random random(5);
  std::vector<float> x = random.values(1003);
  for (size_t i = 0; i < 40; ++i) x[i] = (static_cast<float>(i) - 20.0F) * 0.25F;  // ties
  x[50] = INFINITY;
  x[51] = -INFINITY;
  x[52] = 3e38F;
  for (const ops::ByteKernels* kernels : ops::available_byte_kernels()) {
    if (kernels == nullptr) continue;
    Bytes y(x.size());
    kernels->quantize(x.data(), 0.5F, -7.0F, 248.0F, 7, y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const float v = std::nearbyint(x[i] / 0.5F);
      CHECK_EQ(int{y[i]}, static_cast<int>(std::fmin(std::fmax(v, -7.0F), 248.0F)) + 7);
    }
  }
}

TEST(pools_and_sums_of_bytes) {
  Random random(9);
  const ops::BlockedShape from{2, 21, 7, 5, {1, 1, 1, 1, 255}};
  Bytes x = random_bytes(random, from.logical().elements());
  ops::PoolShape window;
  window.in_h = 7;
  window.in_w = 5;
  window.kernel_h = window.kernel_w = 3;
  window.stride_h = window.stride_w = 2;
  window.pad_top = window.pad_left = window.pad_bottom = window.pad_right = 1;
  window.resolve();
  const ops::BlockedShape to{2, 21, window.out_h, window.out_w, {}};
  const Bytes blocks = blocked(x, from);
  Bytes y(static_cast<size_t>(to.elements()));
  ops::max_pool_bytes(window, blocks.data(), from, y.data(), to, {});
  const Bytes pooled = plain(y, to);
  const ops::BlockedShape one{2, 21, 1, 1, {}};
  Bytes means(static_cast<size_t>(one.elements()));
  ops::average_planes(blocks.data(), from, {0.5F, 100}, means.data(), {0.4F, 90}, {});
  const Bytes averaged = plain(means, one);
  for (size_t plane = 0; plane < 42; ++plane) {
    const uint8_t* p = x.data() + plane * 35;
    const int top = std::max(std::max(p[0], p[1]), std::max(p[5], p[6]));
    CHECK_EQ(int{pooled[plane * static_cast<size_t>(to.h * to.w)]}, top);
    int sum = 0;
    for (int i = 0; i < 35; ++i) sum += p[i] - 100;
    const float mean = static_cast<float>(sum) * (0.5F / (0.4F * 35.0F));
    CHECK_EQ(int{averaged[plane]}, static_cast<int>(rounded(mean, 0, 255, 90)) + 90);
  }
  Bytes sums(x.size());
  ops::add_bytes(x.data(), {0.5F, 3}, x.data(), {0.25F, 7}, sums.data(), {0.7F, 9}, 5, 200,
                 static_cast<int64_t>(x.size()), {});
  for (size_t i = 0; i < x.size(); ++i) {
    const float a = static_cast<float>(x[i] - 3) * (0.5F / 0.7F);
    const float b = static_cast<float>(x[i] - 7) * (0.25F / 0.7F);
    CHECK_EQ(int{sums[i]}, static_cast<int>(rounded(a + b, 5, 200, 9)) + 9);
  }
}
