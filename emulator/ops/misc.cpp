// Owns: losses, Einstein sums, determinants, dropout, cache writes, further normalisations.
// Must never: depend on the number of threads.
#include "ops/misc.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "base/rng.hpp"
#include "base/rng_twister.hpp"
#include "ops/element.hpp"

namespace ascendrt::ops {

void nll_loss(LossForm form, const TensorView& x, const TensorView& target, const float* weight,
              const int64_t* ignored, const TensorView& y, const Exec& exec) {
  const auto targets = to_ints(target, exec);
  const int64_t classes = x.shape[1];
  const int64_t inner = x.shape.elements(2, x.shape.rank());
  double total = 0.0;
  double weights = 0.0;
  for (int64_t i = 0; i < static_cast<int64_t>(targets.size()); ++i) {
    const int64_t t = targets[static_cast<size_t>(i)];
    float loss = 0.0F;
    if (ignored == nullptr || t != *ignored) {
      if (t < 0 || t >= classes) fail("nll_loss", "target " + std::to_string(t) + " is no class");
      const float w = weight == nullptr ? 1.0F : weight[t];
      loss = -x.as<const float>()[(i / inner * classes + t) * inner + i % inner] * w;
      weights += static_cast<double>(w);
    }
    if (form == LossForm::kNone) y.as<float>()[i] = loss;
    total += static_cast<double>(loss);
  }
  if (form == LossForm::kSum) *y.as<float>() = static_cast<float>(total);
  if (form == LossForm::kMean) *y.as<float>() = static_cast<float>(total / weights);
}

// --- Einstein sums ---

namespace {

// Dims of "..." are named by digits, counted from the last one.
char ellipsis_letter(size_t from_right) {
  return static_cast<char>('0' + static_cast<int>(from_right));
}

std::string with_letters(const std::string& term, size_t ellipsis_rank) {
  std::string out;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term[i] != '.') {
      out += term[i];
      continue;
    }
    if (term.compare(i, 3, "...") != 0) fail("Einsum", "a single dot in '" + term + "'");
    for (size_t k = ellipsis_rank; k-- > 0;) out += ellipsis_letter(k);
    i += 2;
  }
  return out;
}

size_t named_dims(const std::string& term) {
  return static_cast<size_t>(
      std::count_if(term.begin(), term.end(), [](char c) { return c != '.' && c != ' '; }));
}

bool has_ellipsis(const std::string& term) { return term.find('.') != std::string::npos; }

using Extents = std::map<char, int64_t>;

Extents extents_of(const EinsumPlan& plan, const std::vector<Shape>& shapes) {
  Extents extents;
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (plan.operands[k].size() != shapes[k].rank()) {
      fail("Einsum", "a term does not fit an operand of shape " + shapes[k].text());
    }
    for (size_t i = 0; i < shapes[k].rank(); ++i) {
      int64_t& extent = extents.emplace(plan.operands[k][i], 1).first->second;
      if (shapes[k][i] != 1 && extent != 1 && extent != shapes[k][i]) {
        fail("Einsum", "a letter stands for dims of different sizes");
      }
      if (shapes[k][i] != 1) extent = shapes[k][i];
    }
  }
  return extents;
}

}  // namespace

EinsumPlan plan_einsum(std::string_view equation, const std::vector<Shape>& shapes) {
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != shapes.size()) fail("Einsum", "needs one term per operand");
  size_t widest = 0;
  EinsumPlan plan;
  for (size_t k = 0; k < terms.size(); ++k) {
    const size_t named = named_dims(terms[k]);
    const size_t rest =
        has_ellipsis(terms[k]) && shapes[k].rank() >= named ? shapes[k].rank() - named : 0;
    widest = std::max(widest, rest);
    plan.operands.push_back(with_letters(terms[k], rest));
  }
  if (arrow != std::string_view::npos) {
    plan.result = with_letters(std::string(equation.substr(arrow + 2)), widest);
    return plan;
  }
  // Letters that occur once, in order, behind the dims of the ellipsis.
  std::map<char, int> times;
  for (const std::string& term : plan.operands) {
    for (const char c : term) ++times[c];
  }
  for (size_t k = widest; k-- > 0;) plan.result += ellipsis_letter(k);
  for (const auto& [letter, count] : times) {
    if (count == 1 && std::isalpha(static_cast<unsigned char>(letter)) != 0) plan.result += letter;
  }
  return plan;
}

Shape einsum_shape(const EinsumPlan& plan, const std::vector<Shape>& shapes) {
  const Extents extents = extents_of(plan, shapes);
  Shape y;
  for (const char letter : plan.result) {
    const auto found = extents.find(letter);
    if (found == extents.end()) fail("Einsum", "the result names a letter of no operand");
    y.push_back(found->second);
  }
  return y;
}

namespace {

// The loops of a sum: the letters of the result, then those that are summed over.
struct EinsumLoops {
  std::vector<int64_t> extents;
  std::vector<std::vector<int64_t>> steps;  // by loop: elements that each operand moves on
  size_t outer = 0;                         // loops of the result
  int64_t inner = 1;                        // products that make one element
};

EinsumLoops loops_of(const EinsumPlan& plan, const std::vector<TensorView>& xs) {
  std::vector<Shape> shapes;
  for (const TensorView& x : xs) shapes.push_back(x.shape);
  EinsumLoops loops;
  std::string letters = plan.result;
  const Extents extents = extents_of(plan, shapes);
  for (const auto& [letter, extent] : extents) {
    if (plan.result.find(letter) != std::string::npos) continue;
    letters += letter;
    loops.inner *= extent;
  }
  loops.outer = plan.result.size();
  loops.steps.assign(letters.size(), std::vector<int64_t>(xs.size(), 0));
  for (const char letter : letters) loops.extents.push_back(extents.at(letter));
  for (size_t k = 0; k < xs.size(); ++k) {
    int64_t step = 1;
    for (size_t i = shapes[k].rank(); i-- > 0; step *= shapes[k][i]) {
      if (shapes[k][i] != 1) loops.steps[letters.find(plan.operands[k][i])][k] += step;
    }
  }
  return loops;
}

// Moves the operands to a position given by its number in loops [first, last).
void move_to(const EinsumLoops& loops, size_t first, size_t last, int64_t number,
             std::vector<int64_t>& at) {
  for (size_t i = last; i-- > first;) {
    for (size_t k = 0; k < at.size(); ++k) at[k] += number % loops.extents[i] * loops.steps[i][k];
    number /= loops.extents[i];
  }
}

}  // namespace

void einsum(const EinsumPlan& plan, const std::vector<TensorView>& xs, const TensorView& y,
            const Exec& exec) {
  const EinsumLoops loops = loops_of(plan, xs);
  for_number("Einsum", y.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(exec, y.elements(), 64, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> start(xs.size());
      std::vector<int64_t> at(xs.size());
      for (int64_t out = begin; out < end; ++out) {
        std::fill(start.begin(), start.end(), 0);
        move_to(loops, 0, loops.outer, out, start);
        T sum{};
        for (int64_t s = 0; s < loops.inner; ++s) {
          at = start;
          move_to(loops, loops.outer, loops.extents.size(), s, at);
          T product{1};
          for (size_t k = 0; k < xs.size(); ++k) {
            product = static_cast<T>(product * xs[k].as<const T>()[at[k]]);
          }
          sum = static_cast<T>(sum + product);
        }
        y.as<T>()[out] = sum;
      }
    });
  });
}

void determinants(const TensorView& x, const TensorView& y, const Exec& exec) {
  const int64_t n = x.shape[x.shape.rank() - 1];
  parallel_for(exec, y.elements(), [&](int64_t i) {
    const float* from = x.as<const float>() + i * n * n;
    std::vector<double> m(from, from + n * n);
    const auto at = [&](int64_t r, int64_t c) -> double& {
      return m[static_cast<size_t>(r * n + c)];
    };
    double result = 1.0;
    for (int64_t k = 0; k < n && result != 0.0; ++k) {
      int64_t pivot = k;
      for (int64_t r = k + 1; r < n; ++r) {
        if (std::fabs(at(r, k)) > std::fabs(at(pivot, k))) pivot = r;
      }
      if (pivot != k) {
        for (int64_t c = 0; c < n; ++c) std::swap(at(k, c), at(pivot, c));
        result = -result;
      }
      result *= at(k, k);
      for (int64_t r = k + 1; r < n && at(k, k) != 0.0; ++r) {
        const double factor = at(r, k) / at(k, k);
        for (int64_t c = k; c < n; ++c) at(r, c) -= factor * at(k, c);
      }
    }
    y.as<float>()[i] = static_cast<float>(result);
  });
}

void dropout(const TensorView& x, float ratio, uint32_t seed, const TensorView& y, uint8_t* mask,
             const Exec&) {
  base::Twister source(seed);
  const float scale = 1.0F / (1.0F - ratio);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool kept = source.uniform() >= static_cast<double>(ratio);
    y.as<float>()[i] = kept ? x.as<const float>()[i] * scale : 0.0F;
    if (mask != nullptr) mask[i] = kept ? 1 : 0;
  }
}

void write_cache(CacheMode mode, const TensorView& cache, const TensorView& update,
                 const int64_t* starts, size_t axis, const TensorView& y, const Exec& exec) {
  std::memcpy(y.data, cache.data, cache.size_bytes());
  const int64_t dim = cache.shape[axis];
  const int64_t rows = update.shape[axis];
  const auto bytes = cache.shape.elements(axis + 1, cache.shape.rank()) *
                     static_cast<int64_t>(dtype_size(cache.dtype));
  const int64_t outer = cache.shape.elements(0, axis);
  const int64_t per_batch = std::max<int64_t>(outer / std::max<int64_t>(cache.shape[0], 1), 1);
  for (int64_t b = 0; starts != nullptr && b < cache.shape[0]; ++b) {
    if (starts[b] < 0 || (mode == CacheMode::kLinear && starts[b] + rows > dim)) {
      fail("TensorScatter", "an update outside the cache");
    }
  }
  parallel_for(exec, outer * rows, [&](int64_t i) {
    const int64_t start = starts == nullptr ? 0 : starts[i / rows / per_batch];
    const int64_t place = (start + i % rows) % dim;
    std::memcpy(y.as<char>() + (i / rows * dim + place) * bytes,
                update.as<const char>() + i * bytes, static_cast<size_t>(bytes));
  });
}

// --- normalisations ---

namespace {

struct Statistics {
  double mean = 0.0, rstd = 0.0;
};

Statistics statistics(NormForm form, const float* x, int64_t count, float epsilon) {
  Statistics s;
  for (int64_t i = 0; form == NormForm::kCentered && i < count; ++i)
    s.mean += static_cast<double>(x[i]);
  s.mean /= static_cast<double>(count);
  double squares = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(x[i]) - s.mean;
    squares += d * d;
  }
  s.rstd = 1.0 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(epsilon));
  return s;
}

// A tensor broadcast to the dims of x from an axis, written out.
std::vector<float> broadcast_from(const TensorView* t, const Shape& x, size_t axis,
                                  float fallback) {
  const int64_t length = x.elements(axis, x.rank());
  std::vector<float> out(static_cast<size_t>(length), fallback);
  if (t == nullptr) return out;
  for (int64_t i = 0; i < length; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    int64_t step = 1;
    for (size_t k = 0; k < t->shape.rank(); ++k) {
      const int64_t own = t->shape[t->shape.rank() - 1 - k];
      const int64_t dim = x[x.rank() - 1 - k];
      if (own != 1) at += rest % dim * step;
      rest /= dim;
      step *= own;
    }
    out[static_cast<size_t>(i)] = t->as<const float>()[at];
  }
  return out;
}

}  // namespace

void normalize(NormForm form, const TensorView& x, size_t axis, const NormTensors& t, float epsilon,
               const TensorView& y, const Exec& exec) {
  const int64_t length = x.shape.elements(axis, x.shape.rank());
  const auto scale = broadcast_from(t.scale, x.shape, axis, 1.0F);
  const auto offset = broadcast_from(t.offset, x.shape, axis, 0.0F);
  parallel_for(exec, x.shape.elements(0, axis), [&](int64_t i) {
    const float* from = x.as<const float>() + i * length;
    float* to = y.as<float>() + i * length;
    const Statistics s = statistics(form, from, length, epsilon);
    for (int64_t k = 0; k < length; ++k) {
      const auto at = static_cast<size_t>(k);
      to[k] = static_cast<float>((static_cast<double>(from[k]) - s.mean) * s.rstd *
                                     static_cast<double>(scale[at]) +
                                 static_cast<double>(offset[at]));
    }
    if (t.mean != nullptr) t.mean[i] = static_cast<float>(s.mean);
    if (t.rstd != nullptr) t.rstd[i] = static_cast<float>(s.rstd);
  });
}

void group_norm(const TensorView& x, int64_t groups, const TensorView& scale,
                const TensorView& offset, float epsilon, const TensorView& y, const Exec& exec) {
  const int64_t channels = x.shape[1];
  const int64_t share = channels / groups;
  const int64_t area = x.shape.elements(2, x.shape.rank());
  const bool per_channel = scale.elements() == channels;
  parallel_for(exec, x.shape[0] * groups, [&](int64_t i) {
    const float* from = x.as<const float>() + i * share * area;
    float* to = y.as<float>() + i * share * area;
    const Statistics s = statistics(NormForm::kCentered, from, share * area, epsilon);
    for (int64_t k = 0; k < share * area; ++k) {
      const int64_t which = per_channel ? i % groups * share + k / area : i % groups;
      to[k] = static_cast<float>((static_cast<double>(from[k]) - s.mean) * s.rstd *
                                     static_cast<double>(scale.as<const float>()[which]) +
                                 static_cast<double>(offset.as<const float>()[which]));
    }
  });
}

void local_response(const ResponseParams& p, const TensorView& x, const TensorView& y,
                    const Exec& exec) {
  const int64_t channels = x.shape[1];
  const int64_t area = x.shape.elements(2, x.shape.rank());
  parallel_for(exec, x.shape[0] * channels, [&](int64_t i) {
    const int64_t c = i % channels;
    const float* plane = x.as<const float>() + (i - c) * area;
    for (int64_t k = 0; k < area; ++k) {
      float sum = 0.0F;
      for (int64_t n = std::max<int64_t>(c - p.radius, 0);
           n <= std::min(c + p.radius, channels - 1); ++n) {
        sum += plane[n * area + k] * plane[n * area + k];
      }
      y.as<float>()[i * area + k] = plane[c * area + k] / std::pow(p.bias + p.alpha * sum, p.beta);
    }
  });
}

void random(Random form, uint64_t seed, uint64_t run, const TensorView& y) {
  const uint64_t stream = base::random_at(seed, run);
  const auto uniform = [stream](int64_t draw) {  // in (0, 1)
    const uint64_t bits = base::random_at(stream, static_cast<uint64_t>(draw)) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  };
  for (int64_t i = 0; i < y.elements(); ++i) {
    double value = uniform(2 * i);
    if (form == Random::kNormal) {  // Box and Muller
      value =
          std::sqrt(-2.0 * std::log(value)) * std::cos(2.0 * std::numbers::pi * uniform(2 * i + 1));
    }
    y.as<float>()[i] = static_cast<float>(value);
  }
}

}  // namespace ascendrt::ops
