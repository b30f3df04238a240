// Owns: attention row by row. Must never: depend on the number of threads.
#include "ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ascendrt::ops {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The additive mask of one score; keys behind the mask's last dim are masked.
class Mask {
 public:
  explicit Mask(const TensorView* mask) : mask_(mask) {}
  float at(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    if (mask_ == nullptr) return 0.0F;
    const int64_t place[] = {batch, head, query, key};
    const Shape& s = mask_->shape;
    int64_t flat = 0;
    for (size_t i = 0; i < s.rank(); ++i) {
      const int64_t own = place[4 - s.rank() + i];
      if (i + 1 == s.rank() && own >= s[i]) return kMasked;
      flat = flat * s[i] + (s[i] == 1 ? 0 : own);
    }
    if (mask_->dtype != ACL_BOOL) return mask_->as<const float>()[flat];
    return mask_->as<const uint8_t>()[flat] != 0 ? 0.0F : kMasked;
  }

 private:
  const TensorView* mask_;
};

class Rows {
 public:
  Rows(const AttentionParams& p, const AttentionTensors& t)
      : p_(p), t_(t), total_(p.past + p.k.rows), mask_(t.mask) {}

  // One query of one head.
  void one(int64_t batch, int64_t head, int64_t query) const {
    const int64_t kv_head = head / (p_.q.heads / p_.k.heads);
    std::vector<float> score(static_cast<size_t>(total_));
    std::vector<float> bias(static_cast<size_t>(total_));
    float* kept = t_.scores == nullptr
                      ? nullptr
                      : t_.scores + ((batch * p_.q.heads + head) * p_.q.rows + query) * total_;
    const auto keep = [&](Scores what) {
      if (kept != nullptr && p_.scores == what) std::copy(score.begin(), score.end(), kept);
    };
    const float* q = t_.q + p_.q.offset(batch, head, query);
    for (int64_t i = 0; i < total_; ++i) {
      const float* k = row(t_.past_k, t_.k, p_.k, batch, kv_head, i);
      double sum = 0.0;
      for (int64_t d = 0; d < p_.q.size; ++d) sum += static_cast<double>(q[d]) * k[d];
      score[static_cast<size_t>(i)] = static_cast<float>(sum) * p_.scale;
    }
    keep(Scores::kProducts);
    if (p_.cap > 0) {
      for (float& s : score) s = p_.cap * std::tanh(s / p_.cap);
    }
    keep(Scores::kCapped);
    for (int64_t i = 0; i < total_; ++i) {
      const auto at = static_cast<size_t>(i);
      bias[at] = allowed(batch, query, i) ? mask_.at(batch, head, query, i) : kMasked;
      score[at] += bias[at];
    }
    keep(Scores::kMasked);
    softmax(score, *std::max_element(bias.begin(), bias.end()));
    keep(Scores::kProbabilities);
    float* y = t_.y + p_.y.offset(batch, head, query);
    for (int64_t d = 0; d < p_.v.size; ++d) {
      double sum = 0.0;
      for (int64_t i = 0; i < total_; ++i) {
        const float weight = score[static_cast<size_t>(i)];
        if (weight != 0)
          sum += static_cast<double>(weight) * row(t_.past_v, t_.v, p_.v, batch, kv_head, i)[d];
      }
      y[d] = static_cast<float>(sum);
    }
  }

  // The cache with the new rows behind it.
  void present(const float* past, const float* fresh, const HeadLayout& layout, int64_t batch,
               int64_t head, float* to) const {
    for (int64_t i = 0; to != nullptr && i < total_; ++i) {
      std::copy_n(row(past, fresh, layout, batch, head, i), layout.size,
                  to + ((batch * layout.heads + head) * total_ + i) * layout.size);
    }
  }

 private:
  const float* row(const float* past, const float* fresh, const HeadLayout& layout, int64_t batch,
                   int64_t head, int64_t i) const {
    if (i >= p_.past) return fresh + layout.offset(batch, head, i - p_.past);
    return past + ((batch * layout.heads + head) * p_.past + i) * layout.size;
  }

  bool allowed(int64_t batch, int64_t query, int64_t key) const {
    int64_t position = query + p_.past;
    if (t_.lengths != nullptr) {
      if (key >= t_.lengths[batch]) return false;
      position = query + t_.lengths[batch] - p_.q.rows;
    }
    if (p_.causal && key > position) return false;
    if (p_.left >= 0 && position - key > p_.left) return false;
    return p_.right < 0 || key - position <= p_.right;
  }

  static void softmax(std::vector<float>& score, float largest_bias) {
    const float top = *std::max_element(score.begin(), score.end());
    if (largest_bias == kMasked || top == kMasked) {
      std::fill(score.begin(), score.end(), 0.0F);
      return;
    }
    double sum = 0.0;
    for (float& s : score) {
      s = std::exp(s - top);
      sum += s;
    }
    for (float& s : score) s = static_cast<float>(s / sum);
  }

  const AttentionParams& p_;
  const AttentionTensors& t_;
  const int64_t total_;
  const Mask mask_;
};

}  // namespace

void attention(const AttentionParams& p, const AttentionTensors& t, const Exec& exec) {
  const Rows rows(p, t);
  parallel_for(exec, p.batch * p.q.heads * p.q.rows, [&](int64_t i) {
    const int64_t head = i / p.q.rows;
    rows.one(head / p.q.heads, head % p.q.heads, i % p.q.rows);
  });
  parallel_for(exec, p.batch * p.k.heads, [&](int64_t i) {
    rows.present(t.past_k, t.k, p.k, i / p.k.heads, i % p.k.heads, t.present_k);
    rows.present(t.past_v, t.v, p.v, i / p.k.heads, i % p.k.heads, t.present_v);
  });
}

namespace {

// One row of one head of the linear form: the state decays, takes key and value, and is read.
void linear_step(const LinearParams& p, int64_t head, int64_t row, const float* key,
                 const float* fresh, const float* decay, const float* beta, float* s) {
  const int64_t width = p.v.size;
  for (int64_t d = 0; d < p.k.size && p.decays > 0; ++d) {
    const int64_t which = p.decays == p.k.heads ? head : head * p.k.size + d;
    const float factor = std::exp(decay[row * p.decays + which]);
    for (int64_t m = 0; m < width; ++m) s[d * width + m] *= factor;
  }
  std::vector<float> value(fresh, fresh + width);
  for (int64_t m = 0; m < width && p.betas > 0; ++m) {
    float& to = value[static_cast<size_t>(m)];
    for (int64_t d = 0; d < p.k.size; ++d) to -= s[d * width + m] * key[d];
    to *= beta[row * p.betas + (p.betas == 1 ? 0 : head)];
  }
  for (int64_t d = 0; d < p.k.size; ++d) {
    for (int64_t m = 0; m < width; ++m) s[d * width + m] += key[d] * value[static_cast<size_t>(m)];
  }
}

}  // namespace

void linear_attention(const LinearParams& p, const float* q, const float* k, const float* v,
                      const float* decay, const float* beta, float* state, float* y,
                      const Exec& exec) {
  const int64_t group = p.q.heads / p.k.heads;
  parallel_for(exec, p.batch * p.k.heads, [&](int64_t i) {
    const int64_t batch = i / p.k.heads;
    const int64_t head = i % p.k.heads;
    float* s = state + i * p.k.size * p.v.size;
    for (int64_t t = 0; t < p.k.rows; ++t) {
      linear_step(p, head, batch * p.k.rows + t, k + p.k.offset(batch, head, t),
                  v + p.v.offset(batch, head, t), decay, beta, s);
      for (int64_t g = head * group; g < (head + 1) * group; ++g) {
        const float* query = q + p.q.offset(batch, g, t);
        float* to = y + p.y.offset(batch, g, t);
        for (int64_t m = 0; m < p.v.size; ++m) {
          float sum = 0.0F;
          for (int64_t d = 0; d < p.k.size; ++d) sum += query[d] * s[d * p.v.size + m];
          to[m] = p.scale * sum;
        }
      }
    }
  });
}

void rotate_positions(const HeadLayout& layout, int64_t batch, Pairs pairs, int64_t count,
                      const float* x, const float* cosines, const float* sines,
                      const int64_t* positions, float* y, const Exec& exec) {
  parallel_for(exec, batch * layout.rows, [&](int64_t i) {
    const int64_t at = positions == nullptr ? i : positions[i];
    const float* cosine = cosines + at * count;
    const float* sine = sines + at * count;
    for (int64_t head = 0; head < layout.heads; ++head) {
      const int64_t start = layout.offset(i / layout.rows, head, i % layout.rows);
      std::copy_n(x + start, layout.size, y + start);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t first = start + (pairs == Pairs::kNeighbours ? 2 * k : k);
        const int64_t second = first + (pairs == Pairs::kNeighbours ? 1 : count);
        y[first] = cosine[k] * x[first] - sine[k] * x[second];
        y[second] = sine[k] * x[first] + cosine[k] * x[second];
      }
    }
  });
}

}  // namespace ascendrt::ops
