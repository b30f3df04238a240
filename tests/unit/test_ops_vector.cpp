// Kernels over rows: accuracy against float64, equal bits for every instruction set, rows of any
// length, values that are no numbers.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "ops/elementwise.hpp"
#include "ops/vector.hpp"
#include "ops_reference.hpp"
#include "test.hpp"

using namespace ascendrt;
using ops::Map;
using ops::Pair;
using test::Random;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const ops::VectorKernels*> all_kernels() {
  std::vector<const ops::VectorKernels*> out;
  for (const ops::Isa isa : ops::kAllIsas) {
    if (ops::isa_available(isa)) out.push_back(&ops::vector_kernels(isa));
  }
  return out;
}

// Numbers of every magnitude, both signs, and what is special.
std::vector<float> probes() {
  std::vector<float> out = {0.0F, -0.0F, kInf, -kInf, kNan, 1e-45F, -1e-45F, 88.7F, -87.4F, 104.1F};
  for (uint32_t bits = 0x2F000000U; bits < 0x43000000U; bits += 7919) {
    out.push_back(std::bit_cast<float>(bits));
    out.push_back(-out.back());
  }
  return out;
}

bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

// |got - wanted| in units of the last place of the wanted value, at least that of the smallest
// normal number.
double places(float got, double wanted) {
  const auto nearest = static_cast<float>(wanted);
  if (same(got, nearest)) return 0.0;
  if (!std::isfinite(got) || !std::isfinite(nearest)) return INFINITY;
  const int exponent = std::max(std::ilogb(nearest == 0.0F ? 1e-38F : nearest), -126);
  return std::fabs(got - wanted) / std::ldexp(1.0, exponent - 23);
}

struct Function {
  Map map;
  double (*exact)(double);
  double bar;  // units of the last place
};

constexpr double kRoot = 0.70710678118654752440;
const Function kFunctions[] = {
    {Map::kExp, [](double x) { return std::exp(x); }, 1.0},
    {Map::kErf, [](double x) { return std::erf(x); }, 2.0},
    {Map::kTanh, [](double x) { return std::tanh(x); }, 2.0},
    {Map::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3.0},
    {Map::kSqrt, [](double x) { return std::sqrt(x); }, 0.5},
    {Map::kRelu, [](double x) { return x < 0 ? 0.0 : x; }, 0.0},
};

}  // namespace

TEST(vector_functions_are_as_exact_as_they_say) {
  const std::vector<float> x = probes();
  const auto count = static_cast<int64_t>(x.size());
  for (const Function& f : kFunctions) {
    std::vector<float> first(x.size());
    ops::vector_kernels(ops::Isa::kPortable).map(f.map, 0.0F, x.data(), first.data(), count);
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = f.exact(x[i]);
      worst = std::max(worst, std::isnan(wanted) ? (std::isnan(first[i]) ? 0 : INFINITY)
                                                 : places(first[i], wanted));
    }
    CHECK(worst <= f.bar);
    if (worst > f.bar) std::cerr << "map " << static_cast<int>(f.map) << ": " << worst << "\n";
    for (const auto* kernels : all_kernels()) {
      std::vector<float> y(x.size());
      kernels->map(f.map, 0.0F, x.data(), y.data(), count);
      for (size_t i = 0; i < x.size(); ++i) CHECK(same(y[i], first[i]));
    }
  }
}

TEST(vector_gelu_is_near_its_definition) {
  const std::vector<float> x = probes();
  std::vector<float> exact(x.size());
  std::vector<float> by_tanh(x.size());
  const auto count = static_cast<int64_t>(x.size());
  ops::vector_kernels().map(Map::kGelu, 0.0F, x.data(), exact.data(), count);
  ops::vector_kernels().map(Map::kGeluTanh, 0.0F, x.data(), by_tanh.data(), count);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    const double v = x[i];
    const double wide = 0.5 * v * (1 + std::erf(v * kRoot));
    const double inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    // 1 + erf is rounded like a number near 1, so what is lost is relative to |x|.
    CHECK(std::fabs(exact[i] - wide) <= 1.5e-7 * std::fabs(v) + 1e-37);
    CHECK(std::fabs(by_tanh[i] - 0.5 * v * (1 + std::tanh(inner))) <=
          2.5e-7 * std::fabs(v) + 1e-37);
  }
}

TEST(vector_rows_of_any_length_have_equal_bits_everywhere) {
  for (int64_t count : {1, 2, 15, 16, 17, 31, 64, 100, 129, 1000}) {
    Random random(static_cast<uint64_t>(count));
    const std::vector<float> x = random.values(count);
    const std::vector<float> gain = random.values(count);
    const std::vector<float> offset = random.values(count);
    const auto size = static_cast<size_t>(count);
    struct Rows {
      std::vector<float> softmax, log, norm, sum;
      bool operator==(const Rows&) const = default;
    };
    const auto run = [&](const ops::VectorKernels& k) {
      Rows rows{std::vector<float>(size), std::vector<float>(size), std::vector<float>(size), {}};
      k.softmax(false, x.data(), rows.softmax.data(), count);
      k.softmax(true, x.data(), rows.log.data(), count);
      k.normalize(x.data(), gain.data(), offset.data(), 1e-5F, rows.norm.data(), count);
      rows.sum.push_back(static_cast<float>(k.sum(x.data(), count)));
      return rows;
    };
    const Rows first = run(ops::vector_kernels(ops::Isa::kPortable));
    for (const auto* kernels : all_kernels()) CHECK(run(*kernels) == first);
    double total = 0.0;
    double mean = 0.0;
    double variance = 0.0;
    for (const float v : x) total += std::exp(static_cast<double>(v));
    for (const float v : x) mean += v / static_cast<double>(count);
    for (const float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(count);
    std::vector<float> softmax;
    std::vector<float> log;
    std::vector<float> norm;
    for (size_t i = 0; i < size; ++i) {
      softmax.push_back(static_cast<float>(std::exp(static_cast<double>(x[i])) / total));
      log.push_back(static_cast<float>(x[i] - std::log(total)));
      norm.push_back(static_cast<float>((x[i] - mean) / std::sqrt(variance + 1e-5) * gain[i]) +
                     offset[i]);
    }
    CHECK(test::distance(first.softmax, softmax) < 5e-7);
    CHECK(test::distance(first.log, log) < 5e-7);
    CHECK(test::distance(first.norm, norm) < 2e-6);
  }
}

TEST(vector_softmax_keeps_what_is_no_number) {
  for (const auto* kernels : all_kernels()) {
    std::vector<float> y(3);
    const float masked[] = {-kInf, 1.0F, -kInf};
    kernels->softmax(false, masked, y.data(), 3);
    CHECK(y == (std::vector<float>{0.0F, 1.0F, 0.0F}));
    const float spoiled[] = {0.0F, kNan, 1.0F};
    kernels->softmax(false, spoiled, y.data(), 3);
    for (const float v : y) CHECK(std::isnan(v));
    const float nothing[] = {-kInf, -kInf, -kInf};
    kernels->softmax(false, nothing, y.data(), 3);
    for (const float v : y) CHECK(std::isnan(v));
  }
}

TEST(vector_pairs_repeat_operands_and_keep_nan) {
  const std::vector<float> a = {1.0F, kNan, -2.0F, 3.0F, kInf, 0.0F, -0.0F, 5.0F, 6.0F, 7.0F,
                                8.0F, 9.0F, 10.0F, 1.5F, 2.5F, 3.5F, kNan,  4.5F, 5.5F};
  std::vector<float> b(a.rbegin(), a.rend());
  for (const auto* kernels : all_kernels()) {
    for (const int64_t steps : {0, 1, 2, 3}) {
      const int64_t step_a = steps & 1;
      const int64_t step_b = steps >> 1;
      for (const Pair op :
           {Pair::kAdd, Pair::kSub, Pair::kMul, Pair::kDiv, Pair::kMax, Pair::kMin}) {
        std::vector<float> y(a.size());
        kernels->combine(op, a.data(), step_a, b.data(), step_b, y.data(),
                         static_cast<int64_t>(a.size()));
        for (size_t i = 0; i < a.size(); ++i) {
          const float p = step_a != 0 ? a[i] : a[0];
          const float q = step_b != 0 ? b[i] : b[0];
          const float larger = p > q ? p : q;
          const float smaller = p < q ? p : q;
          const bool nan = std::isnan(p) || std::isnan(q);
          const float wanted[] = {
              p + q, p - q, p * q, p / q, nan ? kNan : larger, nan ? kNan : smaller};
          CHECK(same(y[i], wanted[static_cast<size_t>(op)]));
        }
      }
    }
  }
}

TEST(vector_halves_round_to_nearest_even) {
  for (const auto* kernels : all_kernels()) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(all.size());
    std::vector<uint16_t> back(all.size());
    const auto count = static_cast<int64_t>(all.size());
    kernels->from_half(all.data(), wide.data(), count);
    kernels->to_half(wide.data(), back.data(), count);
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(same(wide[i], ops::half_to_float(all[i])));
      CHECK(std::isnan(wide[i]) ? std::isnan(ops::half_to_float(back[i])) : back[i] == all[i]);
    }
    std::vector<float> x = {65519.9F,       65520.0F, 1e30F,  1.00048828125F,
                            1.00146484375F, 5e-8F,    2.9e-8F};
    std::vector<uint16_t> y(x.size());
    kernels->to_half(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) CHECK_EQ(y[i], ops::float_to_half(x[i]));
    x = {1.00390625F, 1.01171875F, 3.4e38F, kNan, -kInf, 1e-40F};
    kernels->to_brain(x.data(), y.data(), static_cast<int64_t>(x.size()));
    kernels->from_brain(y.data(), wide.data(), static_cast<int64_t>(x.size()));
    CHECK_EQ(wide[0], 1.0F);       // a tie, to even
    CHECK_EQ(wide[1], 1.015625F);  // a tie, to even
    CHECK_EQ(wide[2], kInf);       // rounding overflows
    CHECK(std::isnan(wide[3]));
    CHECK_EQ(wide[4], -kInf);
    CHECK(wide[5] > 0.0F && wide[5] < 2e-40F);
  }
}
