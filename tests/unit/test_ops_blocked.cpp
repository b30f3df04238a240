// Convolution and pooling on blocked tensors against plain loops; equal bits for every instruction
// set and number of threads.
#include <algorithm>
#include <cstring>

#include "ops/conv_blocked.hpp"
#include "ops/elementwise.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::Random;

namespace {

struct Case {
  ops::BlockedConvSpec spec;
  std::vector<float> x, w, bias, addend;  // row-major; halves are rounded already
};

ops::ConvShape random_shape(Random& random) {
  ops::ConvShape s;
  s.batch = random.between(1, 3);
  const int64_t kind = random.between(0, 3);
  s.in_channels = random.between(1, kind == 1 ? 80 : 24);
  s.out_channels = random.between(1, kind == 1 ? 80 : 24);
  if (kind == 2) s.groups = s.out_channels = s.in_channels = random.between(2, 40);
  if (kind == 3) {
    s.groups = 2;
    s.in_channels = s.out_channels = 32 * random.between(1, 2);
  }
  s.kernel_h = random.between(1, 4);
  s.kernel_w = random.between(1, 5);
  s.stride_h = random.between(1, 3);
  s.stride_w = random.between(1, 3);
  s.dilation_h = random.between(1, 2);
  s.dilation_w = random.between(1, 3);
  s.pad_top = random.between(0, 3);
  s.pad_bottom = random.between(0, 2);
  s.pad_left = random.between(0, 2);
  s.pad_right = random.between(0, 3);
  if (random.between(0, 3) == 0) {  // one long row
    s.kernel_h = s.kernel_w = s.stride_h = s.stride_w = 1;
    s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 0;
  }
  s.in_h = random.between(8, 20);
  s.in_w = random.between(13, 40);
  s.resolve();
  return s;
}

ops::Border random_border(Random& random) {
  if (random.between(0, 1) == 0) return {};
  return {random.between(0, 2), random.between(0, 2), random.between(0, 2), random.between(0, 2)};
}

std::vector<float> random_values(Random& random, int64_t count, ops::Stored stored) {
  std::vector<float> out = random.values(count);
  if (stored != ops::Stored::kFloat) {
    for (float& v : out) v = ops::half_to_float(ops::float_to_half(v));
  }
  return out;
}

Case random_case(Random& random) {
  Case c;
  const ops::ConvShape s = c.spec.shape = random_shape(random);
  constexpr std::array kStored = {ops::Stored::kFloat, ops::Stored::kHalf, ops::Stored::kRounded};
  c.spec.stored = kStored[static_cast<size_t>(random.between(0, 2))];
  const ops::Stored operands = ops::operands_of(c.spec.stored);
  const bool wide =
      operands == ops::Stored::kHalf && !s.is_depthwise() && random.between(0, 1) == 0;
  c.spec.in_stored = wide ? ops::Stored::kRounded : operands;
  if (s.groups == 1 && s.in_channels <= 8) c.spec.layout = ops::InputLayout::kPlanar;
  c.spec.in = {s.batch, s.in_channels, s.in_h, s.in_w,
               c.spec.reach().joined(random_border(random))};
  c.spec.out = {s.batch, s.out_channels, s.out_h, s.out_w, random_border(random)};
  if (random.between(0, 1) == 0) {
    c.spec.add = c.spec.out;
    c.spec.add->border = random_border(random);
  }
  if (random.between(0, 1) == 0) c.spec.low = 0;
  if (random.between(0, 3) == 0) c.spec.high = 6;
  c.x = random_values(random, s.batch * s.in_channels * s.in_h * s.in_w, operands);
  c.w = random_values(random, s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w,
                      operands);
  c.bias = random_values(random, s.out_channels, operands);
  c.addend = random_values(random, s.batch * s.out_channels * s.out_h * s.out_w, operands);
  return c;
}

// Row-major floats as bytes of the stored type.
std::vector<char> stored_bytes(const std::vector<float>& values, ops::Stored stored) {
  std::vector<char> out(values.size() * (stored == ops::Stored::kHalf ? 2 : 4));
  for (size_t i = 0; i < values.size(); ++i) {
    if (stored == ops::Stored::kHalf) {
      const uint16_t half = ops::float_to_half(values[i]);
      std::memcpy(out.data() + i * 2, &half, 2);
    } else {
      std::memcpy(out.data() + i * 4, &values[i], 4);
    }
  }
  return out;
}

std::vector<float> floats_of(const std::vector<char>& bytes, ops::Stored stored) {
  std::vector<float> out(bytes.size() / (stored == ops::Stored::kHalf ? 2 : 4));
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    if (stored == ops::Stored::kHalf) {
      std::memcpy(&half, bytes.data() + i * 2, 2);
      out[i] = ops::half_to_float(half);
    } else {
      std::memcpy(&out[i], bytes.data() + i * 4, 4);
    }
  }
  return out;
}

aclDataType type_of(ops::Stored stored) {
  return stored == ops::Stored::kHalf ? ACL_FLOAT16 : ACL_FLOAT;
}

// Filled with NaN first: nothing that was there may reach a result.
std::vector<char> blocked_room(const ops::BlockedShape& shape, ops::Stored stored) {
  return stored_bytes(std::vector<float>(static_cast<size_t>(shape.elements()), NAN), stored);
}

std::vector<char> blocked_of(const std::vector<float>& values, const ops::BlockedShape& shape,
                             ops::Stored stored) {
  std::vector<char> plain = stored_bytes(values, stored);
  std::vector<char> out = blocked_room(shape, stored);
  ops::to_blocked({plain.data(), type_of(stored), shape.logical()}, shape, out.data(), {});
  return out;
}

std::vector<float> plain_of(std::vector<char>& values, const ops::BlockedShape& shape,
                            ops::Stored stored) {
  const auto count = static_cast<size_t>(shape.logical().elements());
  std::vector<char> plain(count * (stored == ops::Stored::kHalf ? 2 : 4));
  ops::from_blocked(values.data(), shape, {plain.data(), type_of(stored), shape.logical()}, {});
  return floats_of(plain, stored);
}

// The border is zero, whatever was there before.
bool has_zero_border(std::vector<char>& values, const ops::BlockedShape& s, ops::Stored stored) {
  const std::vector<float> all = floats_of(values, stored);
  for (int64_t i = 0; i < s.elements(); ++i) {
    const int64_t row = i % s.block_step() / s.row_step() - s.border.top;
    const int64_t column = i % s.row_step() / ops::kLanes - s.border.left;
    const bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
    if (!inside && all[static_cast<size_t>(i)] != 0) return false;
  }
  return true;
}

std::vector<float> run(const Case& c, ops::Isa isa, ops::Workers& workers) {
  const ops::BlockedConvSpec& spec = c.spec;
  const ops::BlockedConvolution conv(spec, c.w.data(), c.bias.data(), ops::conv_kernels(isa));
  std::vector<char> x = spec.layout == ops::InputLayout::kPlanar
                            ? stored_bytes(c.x, spec.in_stored)
                            : blocked_of(c.x, spec.in, spec.in_stored);
  std::vector<char> y = blocked_room(spec.out, spec.stored);
  std::vector<char> addend;
  if (spec.add) addend = blocked_of(c.addend, *spec.add, ops::operands_of(spec.stored));
  const bool in_place = spec.add == spec.out && spec.stored != ops::Stored::kRounded;
  if (in_place) y = addend;
  std::vector<float> scratch(
      static_cast<size_t>(ops::BlockedConvolution::scratch_bytes(spec)) / sizeof(float), NAN);
  conv.run(x.data(), in_place ? y.data() : addend.data(), y.data(), {workers, scratch.data()});
  CHECK(has_zero_border(y, spec.out, spec.stored));
  return plain_of(y, spec.out, spec.stored);
}

std::vector<float> expected_of(const Case& c) {
  std::vector<float> y = test::reference_conv(c.spec.shape, c.x, c.w, c.bias.data());
  for (size_t i = 0; i < y.size(); ++i) {
    if (c.spec.add) y[i] += c.addend[i];
    y[i] = std::fmin(std::fmax(y[i], c.spec.low), c.spec.high);
  }
  return y;
}

}  // namespace

TEST(blocked_conv_matches_plain_loops_with_equal_bits_everywhere) {
  ops::Workers three(3);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed + 500);
    const Case c = random_case(random);
    const auto first = run(c, ops::Isa::kPortable, ops::Workers::serial());
    CHECK(test::distance(first, expected_of(c)) <
          (c.spec.stored == ops::Stored::kFloat ? 5e-6 : 6e-4));
    for (const ops::Isa isa : test::isas()) CHECK(test::same_bits(run(c, isa, three), first));
  }
}

TEST(rounded_results_and_inputs_of_blocked_conv_are_those_of_halves) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed + 900);
    Case c = random_case(random);
    if (c.spec.stored == ops::Stored::kFloat) continue;
    for (const ops::Isa isa : test::isas()) {
      c.spec.stored = c.spec.in_stored = ops::Stored::kHalf;
      const auto halves = run(c, isa, ops::Workers::serial());
      c.spec.stored = ops::Stored::kRounded;
      CHECK(test::same_bits(run(c, isa, ops::Workers::serial()), halves));
      if (c.spec.shape.is_depthwise()) continue;
      c.spec.in_stored = ops::Stored::kRounded;
      CHECK(test::same_bits(run(c, isa, ops::Workers::serial()), halves));
    }
  }
}

// Several weight chunks, several segments, and inputs large enough for the other order of work and
// for prefetching.
TEST(blocked_conv_of_large_layers_gives_the_same_bits) {
  ops::Workers two(2);
  Random random(3);
  for (const auto& [channels, size] : {std::pair<int64_t, int64_t>{900, 9}, {80, 72}, {3, 200}}) {
    Case c;
    ops::ConvShape& s = c.spec.shape;
    s.in_channels = channels;
    s.out_channels = 33;
    s.in_h = s.in_w = size;
    s.resolve();
    if (channels == 3) c.spec.layout = ops::InputLayout::kPlanar;
    c.spec.in = {1, channels, size, size, {}};
    c.spec.out = {1, 33, size, size, {}};
    c.x = random.values(channels * size * size);
    c.w = random.values(33 * channels);
    c.bias = random.values(33);
    const auto first = run(c, ops::Isa::kPortable, ops::Workers::serial());
    CHECK(test::distance(first, expected_of(c)) < 2e-6);
    for (const ops::Isa isa : test::isas()) CHECK(test::same_bits(run(c, isa, two), first));
  }
}

// More weights than stay in a cache and many images: tiles are computed in groups, pictures in
// turn.
TEST(blocked_conv_of_many_weights_gives_the_same_bits) {
  ops::Workers three(3);
  Random random(4);
  for (const int64_t stride : {1, 2}) {
    Case c;
    ops::ConvShape& s = c.spec.shape;
    s = {};
    s.batch = 3;
    s.in_channels = 1024;
    s.out_channels = 1000;
    s.in_h = s.in_w = 7;
    s.kernel_h = s.kernel_w = 1;
    s.stride_h = s.stride_w = stride;
    s.resolve();
    c.spec.in = {s.batch, s.in_channels, s.in_h, s.in_w, {}};
    c.spec.out = {s.batch, s.out_channels, s.out_h, s.out_w, {}};
    c.x = random.values(s.batch * s.in_channels * s.in_h * s.in_w);
    c.w = random.values(s.out_channels * s.in_channels);
    c.bias = random.values(s.out_channels);
    const auto first = run(c, ops::best_isa(), ops::Workers::serial());
    CHECK(test::distance(first, expected_of(c)) < 5e-6);
    CHECK(test::same_bits(run(c, ops::best_isa(), three), first));
    Case one = c;  // the last image alone, in another order of work
    one.spec.shape.batch = one.spec.in.batch = one.spec.out.batch = 1;
    const auto image = static_cast<std::ptrdiff_t>(s.in_channels * s.in_h * s.in_w);
    one.x.assign(c.x.end() - image, c.x.end());
    const auto last = run(one, ops::best_isa(), ops::Workers::serial());
    CHECK(std::equal(last.begin(), last.end(),
                     first.end() - static_cast<std::ptrdiff_t>(last.size())));
  }
}

TEST(blocked_conv_keeps_a_nan_through_relu) {
  Case c;
  ops::ConvShape& s = c.spec.shape;
  s.in_channels = s.out_channels = 16;
  s.in_h = s.in_w = 4;
  s.resolve();
  c.spec.in = c.spec.out = {1, 16, 4, 4, {}};
  c.spec.low = 0;
  c.x.assign(16 * 16, 1.0F);
  c.x[5] = NAN;
  c.w.assign(16 * 16, 1.0F);
  c.bias.assign(16, 0.0F);
  for (const ops::Isa isa : test::isas()) {
    const auto y = run(c, isa, ops::Workers::serial());
    CHECK(std::isnan(y[5]));
    CHECK_EQ(y[6], 16.0F);
  }
}

TEST(blocked_pooling_equals_pooling_of_planes) {
  ops::Workers three(3);
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed + 900);
    const ops::BlockedShape from{random.between(1, 2), random.between(1, 40), random.between(5, 12),
                                 random.between(5, 12), random_border(random)};
    ops::PoolShape p;
    p.planes = from.batch * from.channels;
    p.in_h = from.h;
    p.in_w = from.w;
    p.kernel_h = random.between(1, 4);
    p.kernel_w = random.between(1, 4);
    p.stride_h = random.between(1, 3);
    p.stride_w = random.between(1, 3);
    p.pad_top = p.pad_left =
        random.between(0, p.kernel_h - 1 < p.kernel_w - 1 ? p.kernel_h - 1 : p.kernel_w - 1);
    p.pad_bottom = p.pad_right = random.between(0, 1);
    p.rounding = random.between(0, 1) == 0 ? ops::Rounding::kFloor : ops::Rounding::kCeil;
    p.resolve();
    const ops::BlockedShape to{from.batch, from.channels, p.out_h, p.out_w, random_border(random)};
    auto x = random.values(from.logical().elements());
    for (const auto kind :
         {ops::PoolKind::kMax, ops::PoolKind::kAverage, ops::PoolKind::kAverageWithPads}) {
      std::vector<float> expected(static_cast<size_t>(to.logical().elements()));
      if (kind == ops::PoolKind::kMax) {
        ops::max_pool(p, x.data(), expected.data(), {});
      } else {
        const bool pads = kind == ops::PoolKind::kAverageWithPads;
        ops::average_pool(p, pads ? ops::PadsCount::kYes : ops::PadsCount::kNo, x.data(),
                          expected.data(), {});
      }
      for (const ops::Isa isa : test::isas()) {
        const auto stored = ops::Stored::kFloat;
        const auto in = blocked_of(x, from, stored);
        auto y = blocked_room(to, stored);
        ops::pool_blocked(kind, p, in.data(), from, y.data(), to, stored, {three, nullptr},
                          ops::conv_kernels(isa));
        CHECK(has_zero_border(y, to, stored));
        CHECK(test::same_bits(plain_of(y, to, stored), expected));
      }
    }
  }
}

TEST(a_change_of_border_keeps_the_values) {
  Random random(11);
  const ops::BlockedShape from{2, 20, 5, 7, {1, 0, 2, 1}};
  ops::BlockedShape to = from;
  to.border = {0, 3, 1, 0};
  const auto x = random.values(from.logical().elements());
  const auto in = blocked_of(x, from, ops::Stored::kFloat);
  auto y = blocked_room(to, ops::Stored::kFloat);
  ops::change_border(in.data(), from, y.data(), to, 4, {});
  CHECK(has_zero_border(y, to, ops::Stored::kFloat));
  CHECK(test::same_bits(plain_of(y, to, ops::Stored::kFloat), x));
}
