// Convolution and matrix product against plain loops; equal bits for every instruction set and
// number of threads.
#include <cstring>
#include <memory>

#include "ops/conv.hpp"
#include "ops/matmul.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::Random;

namespace {

ops::ConvShape random_shape(Random& random) {
  ops::ConvShape s;
  s.batch = random.between(1, 2);
  const int64_t kind = random.between(0, 3);
  s.groups = kind == 0 ? random.between(2, 5) : 1;
  s.in_channels = s.groups * random.between(1, kind == 1 ? 70 : 20);
  s.out_channels = s.groups * random.between(1, kind == 1 ? 70 : 20);
  if (kind == 2) s.groups = s.out_channels = s.in_channels = random.between(1, 40);
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
  s.in_h = random.between(8, 20);
  s.in_w = random.between(13, 40);
  s.resolve();
  return s;
}

std::vector<float> run_conv(const ops::ConvShape& s, const std::vector<float>& x,
                            const std::vector<float>& w, const float* bias,
                            const ops::TileKernels& kernels, ops::Workers& workers) {
  const ops::Convolution conv(s, w.data(), kernels);
  // Scratch full of NaN: nothing in it may reach the result.
  std::vector<float> scratch(ops::Convolution::scratch_bytes(s) / sizeof(float), NAN);
  std::vector<float> y(static_cast<size_t>(s.batch * s.out_channels * s.out_h * s.out_w), NAN);
  conv.run(x.data(), bias, y.data(), {workers, scratch.data()});
  return y;
}

}  // namespace

TEST(conv_matches_plain_loops_with_equal_bits_everywhere) {
  ops::Workers three(3);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const ops::ConvShape s = random_shape(random);
    const auto x = random.values(s.batch * s.in_channels * s.in_h * s.in_w);
    const auto w =
        random.values(s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w);
    const auto bias = random.values(s.out_channels);
    const float* b = seed % 3 == 0 ? nullptr : bias.data();
    const auto expected = test::reference_conv(s, x, w, b);
    const auto first =
        run_conv(s, x, w, b, ops::tile_kernels(ops::Isa::kPortable), ops::Workers::serial());
    CHECK(test::distance(first, expected) < 2e-6);
    for (const ops::Isa isa : test::isas()) {
      CHECK(test::same_bits(run_conv(s, x, w, b, ops::tile_kernels(isa), three), first));
    }
  }
}

TEST(conv_splits_long_sums_without_changing_them) {
  // 900 input channels make several weight chunks; a 1x1 layer is one long row of pixels.
  ops::ConvShape s;
  s.in_channels = 900;
  s.out_channels = 33;
  s.in_h = 21;
  s.in_w = 43;
  s.resolve();
  Random random(7);
  const auto x = random.values(s.in_channels * s.in_h * s.in_w);
  const auto w = random.values(s.out_channels * s.in_channels);
  const auto expected = test::reference_conv(s, x, w, nullptr);
  const auto first =
      run_conv(s, x, w, nullptr, ops::tile_kernels(ops::Isa::kPortable), ops::Workers::serial());
  CHECK(test::distance(first, expected) < 2e-6);
  for (const ops::Isa isa : test::isas()) {
    CHECK(test::same_bits(
        run_conv(s, x, w, nullptr, ops::tile_kernels(isa), ops::Workers::serial()), first));
  }
}

TEST(conv_refuses_impossible_shapes) {
  ops::ConvShape s;
  s.in_channels = 3;
  s.out_channels = 4;
  s.in_h = s.in_w = 5;
  s.kernel_h = 7;
  CHECK_THROWS_CODE(s.resolve(), ACL_ERROR_GE_FAILURE);
  s.kernel_h = 3;
  s.groups = 2;
  CHECK_THROWS_CODE(s.resolve(), ACL_ERROR_GE_FAILURE);
  s.groups = 1;
  s.stride_w = 0;
  CHECK_THROWS_CODE(s.resolve(), ACL_ERROR_GE_FAILURE);
}

TEST(matmul_matches_plain_loops_with_equal_bits_everywhere) {
  ops::Workers two(2);
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed + 100);
    const int64_t rows = random.between(1, 150);
    const int64_t depth = random.between(1, 90);
    const int64_t columns = random.between(1, 80);
    const auto a = random.values(rows * depth);
    const auto b = random.values(depth * columns);
    const auto bias = random.values(columns);
    std::vector<float> expected;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        double sum = bias[static_cast<size_t>(c)];
        for (int64_t k = 0; k < depth; ++k) {
          sum += static_cast<double>(a[r * depth + k]) * b[k * columns + c];
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
    std::vector<float> turned(b.size());
    ops::transpose_matrix<float>(b.data(), depth, columns, turned.data());
    std::vector<float> first;
    for (const ops::Isa isa : test::isas()) {
      for (const auto form : {ops::Transposed::kNo, ops::Transposed::kYes}) {
        const float* source = form == ops::Transposed::kNo ? b.data() : turned.data();
        const ops::PackedMatrix packed(source, depth, columns, form, ops::vector_kernels(isa));
        std::vector<float> y(expected.size(), NAN);
        packed.multiply(a.data(), rows, bias.data(), y.data(), {two, nullptr});
        CHECK(test::distance(y, expected) < 2e-6);
        if (first.empty()) first = y;
        CHECK(test::same_bits(y, first));
      }
    }
  }
}
