// Element-wise functions, pooling, reductions and data movement against plain loops.
#include <cmath>
#include <limits>
#include <map>

#include "ops/elementwise.hpp"
#include "ops/move.hpp"
#include "ops/pool.hpp"
#include "ops/reduce.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using ops::Shape;
using ops::TensorView;
using test::Random;
using test::view;

namespace {

const ops::Exec kSerial{};

Shape random_shape(Random& random, int64_t max_rank) {
  Shape s;
  for (int64_t i = random.between(0, max_rank); i > 0; --i) s.push_back(random.between(1, 5));
  return s;
}

// The index of an operand's element for coordinates of the output, by the numpy rule.
int64_t operand_index(const Shape& operand, const Shape& out, int64_t index) {
  int64_t result = 0;
  int64_t step = 1;
  for (size_t i = 0; i < out.rank(); ++i) {
    const int64_t at = index % out[out.rank() - 1 - i];
    index /= out[out.rank() - 1 - i];
    if (i >= operand.rank()) continue;
    const int64_t dim = operand[operand.rank() - 1 - i];
    result += dim == 1 ? 0 : at * step;
    step *= dim;
  }
  return result;
}

float one(ops::Unary op, float x, ops::UnaryParams params = {}) {
  float y = 0;
  ops::unary(op, params, {&x, ACL_FLOAT, {}}, {&y, ACL_FLOAT, {}}, kSerial);
  return y;
}

void check_difference(Random& random, const Shape& sa, const Shape& sb, ops::Workers& workers) {
  const Shape sy = ops::broadcast_shape("Sub", sa, sb);
  auto a = random.values(sa.elements());
  auto b = random.values(sb.elements());
  std::vector<float> y(static_cast<size_t>(sy.elements()));
  ops::binary(ops::Binary::kSub, view(a, sa), view(b, sb), view(y, sy), {workers, nullptr});
  for (int64_t i = 0; i < sy.elements(); ++i) {
    CHECK_EQ(y[i], a[operand_index(sa, sy, i)] - b[operand_index(sb, sy, i)]);
  }
}

}  // namespace

// Short rows that repeat, also where a run is cut in the middle of one.
TEST(ops_broadcast_repeats_rows) {
  ops::Workers two(2);
  Random random(9);
  for (const int64_t period : {2, 3, 16, 63, 64, 65}) {
    for (const int64_t times : {2, 7, 600}) {
      check_difference(random, {2, times, period}, {2, 1, period}, two);
      check_difference(random, {1, period}, {times, period}, two);
      check_difference(random, {period, 1}, {times, 1, period}, two);
    }
  }
}

TEST(ops_broadcast_follows_the_numpy_rule) {
  ops::Workers two(2);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const Shape out = random_shape(random, 5);
    const auto operand = [&] {
      Shape s;
      const auto skip = static_cast<size_t>(random.between(0, static_cast<int64_t>(out.rank())));
      for (size_t i = skip; i < out.rank(); ++i)
        s.push_back(random.between(0, 1) != 0 ? out[i] : 1);
      return s;
    };
    const Shape sa = operand();
    const Shape sb = seed % 4 == 0 ? out : operand();
    check_difference(random, sa, sb, two);
  }
  CHECK_THROWS_CODE(ops::broadcast_shape("Add", {2, 3}, {4, 3}), ACL_ERROR_GE_FAILURE);
}

TEST(ops_integer_arithmetic_never_traps) {
  int32_t a[] = {7, -7, 5, std::numeric_limits<int32_t>::min()};
  int32_t b[] = {2, 2, 0, -1};
  int32_t y[4];
  const TensorView va{a, ACL_INT32, {4}};
  const TensorView vb{b, ACL_INT32, {4}};
  const TensorView vy{y, ACL_INT32, {4}};
  ops::binary(ops::Binary::kDiv, va, vb, vy, kSerial);
  CHECK_EQ(y[0], 3);
  CHECK_EQ(y[1], -3);
  CHECK_EQ(y[2], 0);
  CHECK_EQ(y[3], std::numeric_limits<int32_t>::min());
  ops::binary(ops::Binary::kMod, va, vb, vy, kSerial);
  CHECK_EQ(y[1], 1);
  CHECK_EQ(y[2], 0);
}

TEST(ops_activations_keep_nan_and_known_values) {
  CHECK_EQ(one(ops::Unary::kRelu, -1.0F), 0.0F);
  CHECK(std::isnan(one(ops::Unary::kRelu, NAN)));
  CHECK(std::isnan(one(ops::Unary::kHardSigmoid, NAN, {0.2F, 0.5F})));
  CHECK_EQ(one(ops::Unary::kHardSigmoid, 1.0F, {0.2F, 0.5F}), 0.7F);
  CHECK_EQ(one(ops::Unary::kLeakyRelu, -2.0F, {0.25F}), -0.5F);
  CHECK_EQ(one(ops::Unary::kRound, 2.5F), 2.0F);
  CHECK_EQ(one(ops::Unary::kHardSwish, 3.0F), 3.0F);
  CHECK(std::fabs(one(ops::Unary::kSigmoid, -100.0F)) < 1e-40F);
  CHECK_EQ(one(ops::Unary::kSigmoid, 100.0F), 1.0F);
  CHECK(std::fabs(one(ops::Unary::kElu, -1.0F, {2.0F}) + 1.2642411F) < 1e-6F);
  float low = 0.0F;
  float high = 6.0F;
  std::vector<float> x = {-1.0F, 3.0F, 9.0F, NAN};
  std::vector<float> y(4);
  ops::clip(view(x, {4}), {&low, ACL_FLOAT, {}}, {&high, ACL_FLOAT, {}}, view(y, {4}), kSerial);
  CHECK(y[0] == 0.0F && y[1] == 3.0F && y[2] == 6.0F && std::isnan(y[3]));
}

TEST(ops_half_conversion_is_exact_both_ways) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = ops::half_to_float(half);
    if (std::isnan(value)) continue;
    CHECK_EQ(ops::float_to_half(value), half);
  }
  CHECK_EQ(ops::float_to_half(65519.0F), 0x7BFF);
  CHECK_EQ(ops::float_to_half(65520.0F), 0x7C00);
  CHECK_EQ(ops::float_to_half(1.0F + 0x1p-11F), 0x3C00);  // ties go to even
  CHECK_EQ(ops::float_to_half(1.0F + 3 * 0x1p-11F), 0x3C02);
}

TEST(ops_cast_saturates_and_truncates) {
  std::vector<float> x = {1e20F, -1e20F, NAN, 2.9F, -2.9F};
  int32_t y[5];
  ops::cast(view(x, {5}), {y, ACL_INT32, {5}}, kSerial);
  CHECK_EQ(y[0], std::numeric_limits<int32_t>::max());
  CHECK_EQ(y[1], std::numeric_limits<int32_t>::min());
  CHECK_EQ(y[2], 0);
  CHECK_EQ(y[3], 2);
  CHECK_EQ(y[4], -2);
  int64_t wide[5];
  ops::cast(view(x, {5}), {wide, ACL_INT64, {5}}, kSerial);
  CHECK_EQ(wide[0], std::numeric_limits<int64_t>::max());
  uint8_t truth[5];
  ops::cast(view(x, {5}), {truth, ACL_BOOL, {5}}, kSerial);
  CHECK_EQ(static_cast<int>(truth[3]), 1);
}

TEST(ops_pooling_matches_plain_loops) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    ops::PoolShape s;
    s.planes = random.between(1, 4);
    s.in_h = random.between(3, 12);
    s.in_w = random.between(3, 12);
    s.kernel_h = random.between(1, 3);
    s.kernel_w = random.between(1, 3);
    s.stride_h = random.between(1, 3);
    s.stride_w = random.between(1, 3);
    s.pad_top = random.between(0, s.kernel_h - 1);
    s.pad_left = random.between(0, s.kernel_w - 1);
    s.pad_right = random.between(0, s.kernel_w - 1);
    s.rounding = seed % 2 == 0 ? ops::Rounding::kCeil : ops::Rounding::kFloor;
    s.resolve();
    const auto x = random.values(s.planes * s.in_h * s.in_w);
    std::vector<float> top(static_cast<size_t>(s.planes * s.out_h * s.out_w));
    std::vector<float> mean(top.size());
    std::vector<float> padded_mean(top.size());
    ops::max_pool(s, x.data(), top.data(), kSerial);
    ops::average_pool(s, ops::PadsCount::kNo, x.data(), mean.data(), kSerial);
    ops::average_pool(s, ops::PadsCount::kYes, x.data(), padded_mean.data(), kSerial);
    size_t i = 0;
    for (int64_t p = 0; p < s.planes; ++p) {
      for (int64_t h = 0; h < s.out_h; ++h) {
        for (int64_t w = 0; w < s.out_w; ++w, ++i) {
          float best = -INFINITY;
          double sum = 0;
          int64_t inside = 0;
          int64_t padded = 0;
          for (int64_t r = h * s.stride_h - s.pad_top, k = 0; k < s.kernel_h; ++k, ++r) {
            for (int64_t c = w * s.stride_w - s.pad_left, l = 0; l < s.kernel_w; ++l, ++c) {
              padded += r < s.in_h + s.pad_bottom && c < s.in_w + s.pad_right ? 1 : 0;
              if (r < 0 || r >= s.in_h || c < 0 || c >= s.in_w) continue;
              const float v = x[static_cast<size_t>((p * s.in_h + r) * s.in_w + c)];
              best = std::fmax(best, v);
              sum += v;
              ++inside;
            }
          }
          CHECK_EQ(top[i], best);
          CHECK(std::fabs(mean[i] - sum / static_cast<double>(inside)) < 1e-5);
          CHECK(std::fabs(padded_mean[i] - sum / static_cast<double>(padded)) < 1e-5);
        }
      }
    }
  }
}

TEST(ops_reduce_over_any_axes) {
  Random random(5);
  const Shape shape{2, 3, 4, 5};
  auto x = random.values(shape.elements());
  for (uint32_t mask = 1; mask < 16; ++mask) {
    std::vector<size_t> axes;
    Shape out;
    for (size_t i = 0; i < 4; ++i) {
      if ((mask >> i & 1U) != 0) axes.push_back(i);
      out.push_back((mask >> i & 1U) != 0 ? 1 : shape[i]);
    }
    std::vector<float> y(static_cast<size_t>(out.elements()));
    ops::reduce(ops::Reduce::kMean, view(x, shape), axes, view(y, out), kSerial);
    std::map<int64_t, double> sums;
    for (int64_t i = 0; i < shape.elements(); ++i) sums[operand_index(out, shape, i)] += x[i];
    const double behind = static_cast<double>(shape.elements()) / static_cast<double>(y.size());
    for (const auto& [index, sum] : sums) CHECK(std::fabs(y[index] - sum / behind) < 1e-6);
  }
}

TEST(ops_softmax_sums_to_one_and_survives_large_values) {
  std::vector<float> x = {1000.0F, 1001.0F, -1000.0F, 1.0F, 2.0F, 3.0F};
  std::vector<float> y(6);
  ops::softmax(ops::SoftmaxForm::kPlain, view(x, {2, 3}), 1, 2, view(y, {2, 3}), kSerial);
  CHECK(std::fabs(y[0] + y[1] + y[2] - 1.0F) < 1e-6F);
  CHECK(std::fabs(y[1] - 0.7310586F) < 1e-6F);
  CHECK(std::fabs(y[5] - 0.66524096F) < 1e-6F);
  ops::softmax(ops::SoftmaxForm::kPlain, view(x, {2, 3}), 0, 1, view(y, {2, 3}), kSerial);
  CHECK(std::fabs(y[2] + y[5] - 1.0F) < 1e-6F);
}

TEST(ops_transpose_slice_pad_gather) {
  std::vector<float> x = {0, 1, 2, 3, 4, 5};
  std::vector<float> y(6);
  const int64_t perm[] = {1, 0};
  CHECK(ops::transpose_shape({2, 3}, perm) == (Shape{3, 2}));
  ops::transpose(view(x, {2, 3}), perm, view(y, {3, 2}), kSerial);
  CHECK(y == (std::vector<float>{0, 3, 1, 4, 2, 5}));
  const int64_t twice[] = {1, 1};
  CHECK_THROWS_CODE(ops::transpose_shape({2, 3}, twice), ACL_ERROR_GE_FAILURE);

  const ops::SliceAxis back = ops::resolve_slice(3, INT64_MAX, INT64_MIN, -1);
  CHECK_EQ(back.start, 2);
  CHECK_EQ(back.count, 3);
  const ops::SliceAxis axes[] = {ops::resolve_slice(2, 0, 2, 1), back};
  ops::slice(view(x, {2, 3}), axes, view(y, {2, 3}), kSerial);
  CHECK(y == (std::vector<float>{2, 1, 0, 5, 4, 3}));
  CHECK_EQ(ops::resolve_slice(5, 1, -1, 2).count, 2);
  CHECK_EQ(ops::resolve_slice(5, 4, 1, 1).count, 0);

  std::vector<float> padded(10);
  const int64_t before[] = {0, 2};
  const float fill = 9;
  ops::pad(ops::PadMode::kConstant, view(x, {2, 3}), before, &fill, view(padded, {2, 5}), kSerial);
  CHECK(padded == (std::vector<float>{9, 9, 0, 1, 2, 9, 9, 3, 4, 5}));
  ops::pad(ops::PadMode::kReflect, view(x, {2, 3}), before, nullptr, view(padded, {2, 5}), kSerial);
  CHECK(padded == (std::vector<float>{2, 1, 0, 1, 2, 5, 4, 3, 4, 5}));

  int64_t pick[] = {-1, 0};
  std::vector<float> picked(4);
  ops::gather(view(x, {2, 3}), {pick, ACL_INT64, {2}}, 1, view(picked, {2, 2}), kSerial);
  CHECK(picked == (std::vector<float>{2, 0, 5, 3}));
  pick[0] = 3;
  CHECK_THROWS_CODE(
      ops::gather(view(x, {2, 3}), {pick, ACL_INT64, {2}}, 1, view(picked, {2, 2}), kSerial),
      ACL_ERROR_GE_FAILURE);
}

TEST(ops_shapes_refuse_overflow) {
  CHECK_THROWS_CODE((Shape{int64_t{1} << 40, int64_t{1} << 40}.elements()), ACL_ERROR_GE_FAILURE);
  CHECK_THROWS_CODE((Shape{-1, 2}.elements()), ACL_ERROR_GE_FAILURE);
  CHECK_THROWS_CODE(ops::resolve_axis("Concat", 3, 3), ACL_ERROR_GE_FAILURE);
  CHECK_EQ(ops::resolve_axis("Concat", -1, 3), 2U);
}
