// Index operations, resampling, sums by equation and small number formats against known values.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng_twister.hpp"
#include "ops/element.hpp"
#include "ops/image.hpp"
#include "ops/index.hpp"
#include "ops/misc.hpp"
#include "ops/quantize.hpp"
#include "test.hpp"

using namespace ascendrt;
using ops::Shape;
using ops::TensorView;

namespace {

const ops::Exec kSerial{};

template <class T>
TensorView view_of(std::vector<T>& values, aclDataType dtype, const Shape& shape) {
  return {values.data(), dtype, shape};
}

}  // namespace

TEST(ops_tiny_floats_survive_a_round_trip) {
  using ops::Overflow;
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    const float e4m3 = ops::tiny_to_float<4, 3>(byte);
    CHECK(std::isnan(e4m3) || (ops::float_to_tiny<4, 3>(e4m3, Overflow::kSaturate) == byte));
    const float e5m2 = ops::tiny_to_float<5, 2>(byte);
    CHECK(!std::isfinite(e5m2) || (ops::float_to_tiny<5, 2>(e5m2, Overflow::kSaturate) == byte));
    const float e2m1 = ops::tiny_to_float<2, 1>(byte & 15U);
    CHECK((ops::float_to_tiny<2, 1>(e2m1, Overflow::kSaturate) == (byte & 15U)));
  }
  const auto e4m3 = [](float v, Overflow o) {
    return ops::tiny_to_float<4, 3>(ops::float_to_tiny<4, 3>(v, o));
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK_EQ(e4m3(1e9F, Overflow::kSaturate), 448.0F);
  CHECK(std::isnan(e4m3(kInfinity, Overflow::kSpecial)));
  CHECK_EQ(e4m3(464.0F, Overflow::kSaturate), 448.0F);  // the tie goes to the even one
  const uint8_t low = ops::float_to_tiny<5, 2>(-1e9F, Overflow::kSpecial);
  CHECK((ops::tiny_to_float<5, 2>(low) == -kInfinity));
}

TEST(ops_top_k_breaks_ties_by_position) {
  std::vector<float> x = {3, 1, 3, 2};
  std::vector<float> y(3);
  std::vector<int64_t> at(3);
  ops::top_k(ops::Order::kLargest, view_of(x, ACL_FLOAT, {4}), 0, view_of(y, ACL_FLOAT, {3}),
             view_of(at, ACL_INT64, {3}), kSerial);
  CHECK(y == (std::vector<float>{3, 3, 2}));
  CHECK(at == (std::vector<int64_t>{0, 2, 3}));
}

TEST(ops_scatter_and_gather_refuse_indices_outside) {
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<int64_t> at = {1, -1};
  std::vector<float> updates = {10, 20};
  std::vector<float> y(4);
  const TensorView vx = view_of(x, ACL_FLOAT, {4});
  const TensorView vy = view_of(y, ACL_FLOAT, {4});
  ops::scatter_elements(ops::Scatter::kAdd, vx, view_of(at, ACL_INT64, {2}),
                        view_of(updates, ACL_FLOAT, {2}), 0, vy, kSerial);
  CHECK(y == (std::vector<float>{1, 12, 3, 24}));
  at = {4, 0};
  CHECK_THROWS_CODE(ops::scatter_elements(ops::Scatter::kSet, vx, view_of(at, ACL_INT64, {2}),
                                          view_of(updates, ACL_FLOAT, {2}), 0, vy, kSerial),
                    500002);
  std::vector<int64_t> tuples = {0, -5};
  CHECK_THROWS_CODE(ops::gather_nd(vx, view_of(tuples, ACL_INT64, {2, 1}), 0, vy, kSerial), 500002);
}

TEST(ops_groups_of_equal_rows) {
  std::vector<int32_t> x = {2, 0, 1, 1, 2, 0};  // rows (2,0) (1,1) (2,0)
  const TensorView rows = view_of(x, ACL_INT32, {3, 2});
  const auto sorted = ops::group_equal(rows, 1, 3, 2, ops::GroupOrder::kSorted);
  CHECK(sorted.first == (std::vector<int64_t>{1, 0}));
  CHECK(sorted.of == (std::vector<int64_t>{1, 0, 1}));
  CHECK(sorted.members == (std::vector<int64_t>{1, 2}));
  const auto seen = ops::group_equal(rows, 1, 3, 2, ops::GroupOrder::kAppearance);
  CHECK(seen.first == (std::vector<int64_t>{0, 1}));
  CHECK(seen.of == (std::vector<int64_t>{0, 1, 0}));
}

TEST(ops_resize_doubles_and_halves) {
  std::vector<float> x = {1, 3};
  std::vector<float> y(4);
  ops::ResizeParams p;
  p.mode = ops::Interpolation::kLinear;
  ops::resize(p, {{0, 2.0}}, view_of(x, ACL_FLOAT, {2}), view_of(y, ACL_FLOAT, {4}), kSerial);
  CHECK(y == (std::vector<float>{1, 1.5F, 2.5F, 3}));
  std::vector<uint8_t> bytes = {10, 20, 30, 40};
  std::vector<uint8_t> half(2);
  p.antialias = true;
  ops::resize(p, {{0, 0.5}}, view_of(bytes, ACL_UINT8, {4}), view_of(half, ACL_UINT8, {2}),
              kSerial);
  CHECK(half[0] >= 15 && half[0] <= 18 && half[1] >= 32 && half[1] <= 35);
}

TEST(ops_einsum_plans_and_sums) {
  std::vector<float> a = {1, 2, 3, 4};
  std::vector<float> b = {5, 6, 7, 8};
  std::vector<float> y(4);
  const std::vector<TensorView> xs = {view_of(a, ACL_FLOAT, {2, 2}), view_of(b, ACL_FLOAT, {2, 2})};
  const auto plan = ops::plan_einsum("ij, jk", {{2, 2}, {2, 2}});
  CHECK_EQ(plan.result, "ik");
  ops::einsum(plan, xs, view_of(y, ACL_FLOAT, {2, 2}), kSerial);
  CHECK(y == (std::vector<float>{19, 22, 43, 50}));
  const auto wide = ops::plan_einsum("...ii->...i", {{3, 2, 2}});
  CHECK(ops::einsum_shape(wide, {{3, 2, 2}}) == (Shape{3, 2}));
  CHECK_THROWS_CODE(ops::plan_einsum("ij,jk->ik", {{2, 2}}), 500002);
  CHECK_THROWS_CODE(ops::einsum_shape(ops::plan_einsum("ij->ik", {{2, 2}}), {{2, 2}}), 500002);
}

TEST(ops_quantize_rounds_to_even_and_saturates) {
  std::vector<float> x = {0.5F, 1.5F, -300, 300};
  std::vector<float> scale = {1};
  std::vector<int8_t> y(4);
  ops::quantize(view_of(x, ACL_FLOAT, {4}), view_of(scale, ACL_FLOAT, {}), nullptr,
                {1, 1, 4, false}, {}, view_of(y, ACL_INT8, {4}), kSerial);
  CHECK(y == (std::vector<int8_t>{0, 2, -128, 127}));
}

TEST(twister_draws_what_numpy_draws) {
  base::Twister source(0);
  CHECK(std::abs(source.uniform() - 0.5488135039273248) < 1e-15);
  CHECK(std::abs(source.uniform() - 0.7151893663724195) < 1e-15);
}
