// Integer products and convolutions with zero points against plain integer loops: every
// instruction set and number of threads, int8 and uint8, zero points of all kinds.
#include "ops/integer.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using test::Random;

namespace {

// Eight-bit integers of either kind, with their values.
struct Integers {
  aclDataType dtype;
  std::vector<uint8_t> bytes;

  ops::TensorView view() { return {bytes.data(), dtype, {static_cast<int64_t>(bytes.size())}}; }
  int32_t at(int64_t i) const {
    const uint8_t raw = bytes[static_cast<size_t>(i)];
    return dtype == ACL_INT8 ? int32_t{static_cast<int8_t>(raw)} : int32_t{raw};
  }
};

Integers random_integers(Random& random, int64_t count, aclDataType dtype) {
  Integers out{dtype, std::vector<uint8_t>(static_cast<size_t>(count))};
  for (uint8_t& v : out.bytes) v = static_cast<uint8_t>(random.between(0, 255));
  return out;
}

aclDataType random_type(Random& random) { return random.between(0, 1) == 0 ? ACL_INT8 : ACL_UINT8; }

// None, one or `many` zero points.
struct Zeros {
  Integers values;
  bool given;

  Zeros(Random& random, int64_t many, aclDataType dtype)
      : values(random_integers(random, random.between(0, 1) == 0 ? 1 : many, dtype)),
        given(random.between(0, 3) != 0) {}
  int32_t at(int64_t i) const { return given ? values.at(values.bytes.size() == 1 ? 0 : i) : 0; }
};

}  // namespace

TEST(sums_of_bytes_are_exact_for_every_instruction_set) {
  Random random(31);
  for (int round = 0; round < 60; ++round) {
    const int64_t taps = random.between(1, 3);
    const int64_t channels = random.between(1, 40);
    const int64_t outputs = random.between(1, 70);
    const int64_t pixels = random.between(1, 130);
    Integers w = random_integers(random, taps * channels * outputs, random_type(random));
    Zeros zeros(random, outputs, w.dtype);
    const ops::TensorView zero_view = zeros.values.view();
    const auto x_zero = static_cast<int32_t>(random.between(0, 255));
    const int64_t step = ops::padded_channels(channels);
    Integers x = random_integers(random, (pixels + taps) * step, ACL_UINT8);
    for (int64_t i = 0; i < (pixels + taps) * step; ++i) {
      if (i % step >= channels) x.bytes[static_cast<size_t>(i)] = 0;
    }
    std::vector<int32_t> expected;
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t o = 0; o < outputs; ++o) {
        int32_t sum = 0;
        for (int64_t k = 0; k < taps * channels; ++k) {
          const int64_t at = (p + k / channels) * step + k % channels;
          sum += (x.at(at) - x_zero) * (w.at(k * outputs + o) - zeros.at(o));
        }
        expected.push_back(sum);
      }
    }
    const int64_t offsets[] = {0, step, 2 * step};
    for (const ops::ByteKernels* kernels : ops::available_byte_kernels()) {
      if (kernels == nullptr) continue;
      const ops::ByteSums sums({w.view(), zeros.given ? &zero_view : nullptr, 0, channels * outputs,
                                outputs, 1, 0, taps, channels, outputs},
                               *kernels);
      std::vector<int32_t> y(expected.size(), -1);
      for (int64_t tile = 0; tile < sums.tiles(); ++tile) {
        sums.run({x.bytes.data(), step, offsets, pixels, y.data(), outputs, 1}, sums.begin(x_zero),
                 tile);
      }
      CHECK(y == expected);
    }
  }
}

TEST(integer_matrices_take_batches_and_zero_points_of_rows) {
  Random random(32);
  for (int round = 0; round < 40; ++round) {
    ops::IntegerMatmul s{
        random.between(1, 150), random.between(1, 50), random.between(1, 50), {}, {}};
    const int64_t batches = random.between(1, 3);
    const bool shared = random.between(0, 1) == 0;
    for (int64_t i = 0; i < batches; ++i) {
      s.a_start.push_back(i * s.rows * s.depth);
      s.b_start.push_back(shared ? 0 : (batches - 1 - i) * s.depth * s.columns);
    }
    Integers a = random_integers(random, batches * s.rows * s.depth, random_type(random));
    Integers b = random_integers(random, batches * s.depth * s.columns, random_type(random));
    Zeros a_zeros(random, s.rows, a.dtype);
    Zeros b_zeros(random, s.columns, b.dtype);
    const ops::TensorView za = a_zeros.values.view();
    const ops::TensorView zb = b_zeros.values.view();
    std::vector<int32_t> y(static_cast<size_t>(batches * s.rows * s.columns), -1);
    ops::Workers three(3);
    ops::multiply_integers(s, a.view(), a_zeros.given ? &za : nullptr, b.view(),
                           b_zeros.given ? &zb : nullptr, y.data(), {three, nullptr});
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
      const int64_t column = i % s.columns;
      const int64_t row = i / s.columns % s.rows;
      const auto batch = static_cast<size_t>(i / s.columns / s.rows);
      int32_t sum = 0;
      for (int64_t k = 0; k < s.depth; ++k) {
        sum += (a.at(s.a_start[batch] + row * s.depth + k) - a_zeros.at(row)) *
               (b.at(s.b_start[batch] + k * s.columns + column) - b_zeros.at(column));
      }
      CHECK_EQ(y[static_cast<size_t>(i)], sum);
    }
  }
}

TEST(integer_convolutions_are_those_of_plain_loops) {
  Random random(33);
  for (int round = 0; round < 40; ++round) {
    ops::WindowShape s;
    s.dims = 2;
    s.batch = random.between(1, 2);
    s.groups = random.between(1, 3);
    s.channels = s.groups * random.between(1, 20);
    const int64_t outputs = s.groups * random.between(4, 40);
    for (size_t d = 0; d < 2; ++d) {
      s.in[d] = random.between(5, 14);
      s.kernel[d] = random.between(1, 3);
      s.stride[d] = random.between(1, 2);
      s.dilation[d] = random.between(1, 2);
      s.pad_before[d] = random.between(0, 2);
      s.pad_after[d] = random.between(0, 2);
    }
    s.resolve(false);
    CHECK(ops::IntegerConvolution::takes(s, outputs));
    Integers x = random_integers(random, s.batch * s.channels * s.in_size(), random_type(random));
    Integers w =
        random_integers(random, outputs * s.channels / s.groups * s.taps(), random_type(random));
    Zeros x_zero(random, 1, x.dtype);
    Zeros w_zeros(random, outputs, w.dtype);
    const ops::TensorView zx = x_zero.values.view();
    const ops::TensorView zw = w_zeros.values.view();
    const size_t count = static_cast<size_t>(s.batch * outputs * s.out_size());
    std::vector<int32_t> y(count, -1);
    std::vector<int32_t> expected(count, -2);
    ops::Workers three(3);
    const auto* given_x = x_zero.given ? &zx : nullptr;
    const auto* given_w = w_zeros.given ? &zw : nullptr;
    ops::IntegerConvolution(s, outputs, w.view(), given_w)
        .run(x.view(), given_x, y.data(), {three, nullptr});
    ops::convolve_integers(s, outputs, x.view(), w.view(), given_x, given_w, expected.data(), {});
    CHECK(y == expected);
  }
}
