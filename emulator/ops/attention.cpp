// Owns: attention head by head. Must never: depend on the number of threads.
#include "ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/matmul.hpp"

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
  // The sums for all `keys` keys of a query where they lie side by side, else null.
  const float* row(int64_t batch, int64_t head, int64_t query, int64_t keys) const {
    if (mask_ == nullptr || mask_->dtype != ACL_FLOAT) return nullptr;
    const Shape& s = mask_->shape;
    if (s.rank() == 0 || s[s.rank() - 1] != keys) return nullptr;
    const int64_t place[] = {batch, head, query};
    int64_t flat = 0;
    for (size_t i = 0; i + 1 < s.rank(); ++i) {
      flat = flat * s[i] + (s[i] == 1 ? 0 : place[4 - s.rank() + i]);
    }
    return mask_->as<const float>() + flat * keys;
  }

 private:
  const TensorView* mask_;
};

constexpr int64_t kQueries = 64;  // of one head at a time

int64_t row_step(const HeadLayout& layout) {
  return layout.packed ? layout.heads * layout.size : layout.size;
}

// One query head of one batch element: products, masks, shares and the sum of values, by matrix
// kernels over blocks of queries. Everything it needs lies in its own memory.
class Head {
 public:
  Head(const AttentionParams& p, const AttentionTensors& t, int64_t batch, int64_t head)
      : p_(p),
        t_(t),
        batch_(batch),
        head_(head),
        kv_head_(head / (p.q.heads / p.k.heads)),
        total_(p.past + p.k.rows),
        // Rows behind the valid ones have no share: what they hold must not matter.
        valid_(t.lengths == nullptr ? total_ : std::clamp<int64_t>(t.lengths[batch], 0, total_)),
        mask_(t.mask) {}

  void run() {
    pack();
    scores_.resize(static_cast<size_t>(kQueries * total_));
    if (masks()) bias_.resize(scores_.size());
    for (int64_t first = 0; first < p_.q.rows; first += kQueries) {
      block(first, std::min(kQueries, p_.q.rows - first));
    }
  }

 private:
  bool masks() const {
    return t_.mask != nullptr || t_.lengths != nullptr || p_.causal || p_.left >= 0 ||
           p_.right >= 0;
  }

  // Rows of the cache and the new ones, as one matrix.
  MatrixSource rows_of(const float* past, const float* fresh, const HeadLayout& layout,
                       std::vector<float>& joined) const {
    if (p_.past == 0) return {fresh + layout.offset(batch_, kv_head_, 0), row_step(layout), 1};
    joined.resize(static_cast<size_t>(total_ * layout.size));
    const float* old = past + (batch_ * layout.heads + kv_head_) * p_.past * layout.size;
    float* to = std::copy_n(old, p_.past * layout.size, joined.data());
    for (int64_t i = 0; i < layout.rows; ++i) {
      to = std::copy_n(fresh + layout.offset(batch_, kv_head_, i), layout.size, to);
    }
    return {joined.data(), layout.size, 1};
  }

  void pack() {
    std::vector<float> joined;
    const MatrixSource k = rows_of(t_.past_k, t_.k, p_.k, joined);
    keys_ = {p_.q.size, total_};
    packed_.resize(static_cast<size_t>(keys_.floats()));
    pack_matrix(kernels_, keys_, {k.data, 1, k.row_step}, packed_.data());
    const MatrixSource v = rows_of(t_.past_v, t_.v, p_.v, joined);
    values_ = {valid_, p_.v.size};
    packed_values_.resize(static_cast<size_t>(values_.floats()));
    pack_matrix(kernels_, values_, v, packed_values_.data());
  }

  void block(int64_t first, int64_t count) {
    const int64_t size = count * total_;
    Product products{kernels_, keys_, packed_.data()};
    products.a = t_.q + p_.q.offset(batch_, head_, first);
    products.a_step = row_step(p_.q);
    products.y = scores_.data();
    products.y_step = total_;
    products.rows = count;
    products.run({});
    scale(size);
    keep(Scores::kProducts, first, count);
    if (p_.cap > 0) {
      for (int64_t i = 0; i < size; ++i) {
        float& s = scores_[static_cast<size_t>(i)];
        s = p_.cap * std::tanh(s / p_.cap);
      }
    }
    keep(Scores::kCapped, first, count);
    if (masks()) add_masks(first, count);
    keep(Scores::kMasked, first, count);
    for (int64_t i = 0; i < count; ++i) share(i);
    keep(Scores::kProbabilities, first, count);
    Product sums{kernels_, values_, packed_values_.data()};
    sums.a = scores_.data();
    sums.a_step = total_;
    sums.y = t_.y + p_.y.offset(batch_, head_, first);
    sums.y_step = row_step(p_.y);
    sums.rows = count;
    sums.run({});
  }

  // A division by a power of two is a multiplication, and cheaper as such.
  void scale(int64_t size) {
    int exponent = 0;
    const bool is_power = std::frexp(p_.scale, &exponent) == 0.5F && std::abs(exponent) < 100;
    if (p_.divides && !is_power) {
      return kernels_.combine(Pair::kDiv, scores_.data(), 1, &p_.scale, 0, scores_.data(), size);
    }
    const float factor = p_.divides ? 1.0F / p_.scale : p_.scale;
    kernels_.map(Map::kMuls, factor, scores_.data(), scores_.data(), size);
  }

  void keep(Scores what, int64_t first, int64_t count) const {
    if (t_.scores == nullptr || p_.scores != what) return;
    std::copy_n(scores_.data(), count * total_,
                t_.scores + ((batch_ * p_.q.heads + head_) * p_.q.rows + first) * total_);
  }

  void add_masks(int64_t first, int64_t count) {
    const bool rules = t_.lengths != nullptr || p_.causal || p_.left >= 0 || p_.right >= 0;
    for (int64_t r = 0; r < count; ++r) {
      float* score = scores_.data() + r * total_;
      const float* row = rules ? nullptr : mask_.row(batch_, head_, first + r, total_);
      if (row != nullptr && p_.plain) {
        kernels_.combine(Pair::kAdd, score, 1, row, 1, score, total_);
        continue;
      }
      float* bias = bias_.data() + r * total_;
      if (row != nullptr) {
        std::copy_n(row, total_, bias);
      } else {
        for (int64_t i = 0; i < total_; ++i) {
          bias[i] = allowed(first + r, i) ? mask_.at(batch_, head_, first + r, i) : kMasked;
        }
      }
      kernels_.combine(Pair::kAdd, score, 1, bias, 1, score, total_);
    }
  }

  bool allowed(int64_t query, int64_t key) const {
    int64_t position = query + p_.past;
    if (t_.lengths != nullptr) {
      if (key >= t_.lengths[batch_]) return false;
      position = query + t_.lengths[batch_] - p_.q.rows;
    }
    if (p_.causal && key > position) return false;
    if (p_.left >= 0 && position - key > p_.left) return false;
    return p_.right < 0 || key - position <= p_.right;
  }

  // A query without keys has no shares, unless plain arithmetic is asked for.
  void share(int64_t r) {
    float* score = scores_.data() + r * total_;
    const auto none = [&](const float* values) {
      return std::all_of(values, values + total_, [](float v) { return v == kMasked; });
    };
    const bool alone =
        !p_.plain && (none(score) || (!bias_.empty() && none(bias_.data() + r * total_)));
    if (alone) {
      std::fill_n(score, total_, 0.0F);
    } else {
      kernels_.softmax(false, score, score, total_);
    }
  }

  const AttentionParams& p_;
  const AttentionTensors& t_;
  const VectorKernels& kernels_ = vector_kernels();
  const int64_t batch_, head_, kv_head_, total_, valid_;
  const Mask mask_;
  PackedShape keys_, values_;
  std::vector<float> packed_, packed_values_, scores_, bias_;
};

// The cache with the new rows behind it.
void present(const AttentionParams& p, const float* past, const float* fresh,
             const HeadLayout& layout, int64_t index, float* to) {
  if (to == nullptr) return;
  const int64_t old = p.past * layout.size;
  to += index * (p.past + layout.rows) * layout.size;
  if (old > 0) to = std::copy_n(past + index * old, old, to);
  for (int64_t i = 0; i < layout.rows; ++i) {
    const int64_t from = layout.offset(index / layout.heads, index % layout.heads, i);
    to = std::copy_n(fresh + from, layout.size, to);
  }
}

}  // namespace

void attention(const AttentionParams& p, const AttentionTensors& t, const Exec& exec) {
  parallel_for(exec, p.batch * p.q.heads,
               [&](int64_t i) { Head(p, t, i / p.q.heads, i % p.q.heads).run(); });
  parallel_for(exec, p.batch * p.k.heads, [&](int64_t i) {
    present(p, t.past_k, t.k, p.k, i, t.present_k);
    present(p, t.past_v, t.v, p.v, i, t.present_v);
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
