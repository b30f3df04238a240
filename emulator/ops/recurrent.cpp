// Owns: the steps of recurrent layers. Must never: read behind the end of a sequence.
#include "ops/recurrent.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/integer.hpp"
#include "ops/quantize.hpp"

namespace ascendrt::ops {
namespace {

float apply(const GateFunction& g, float v) {
  switch (g.kind) {
    case Gate::kSigmoid:
      return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v));
    case Gate::kTanh:
      return std::tanh(v);
    case Gate::kRelu:
      return v < 0 ? 0.0F : v;
    case Gate::kAffine:
      return g.alpha * v + g.beta;
    case Gate::kLeakyRelu:
      return v < 0 ? g.alpha * v : v;
    case Gate::kThresholdedRelu:
      return v > g.alpha ? v : 0.0F;
    case Gate::kScaledTanh:
      return g.alpha * std::tanh(g.beta * v);
    case Gate::kHardSigmoid:
      return std::clamp(g.alpha * v + g.beta, 0.0F, 1.0F);
    case Gate::kElu:
      return v < 0 ? g.alpha * std::expm1(v) : v;
    case Gate::kSoftsign:
      return v / (1 + std::fabs(v));
    default:
      return std::log1p(std::exp(-std::fabs(v))) + std::max(v, 0.0F);
  }
}

// The weights of one direction, as what a matrix of values is multiplied with.
class Weights {
 public:
  // ready: the same, packed before; null: they are packed now.
  Weights(const float* real, const ByteWeights& bytes, const PackedMatrix* ready, int64_t number,
          int64_t depth, int64_t width)
      : depth_(depth), width_(width), ready_(ready) {
    if (!bytes.given()) {
      if (ready == nullptr) {
        real_.emplace(real + number * width * depth, depth, width, Transposed::kYes);
      }
      return;
    }
    const auto part = [&](const TensorView& all, const Shape& shape) -> TensorView {
      const int64_t first = number * shape.elements() * static_cast<int64_t>(dtype_size(all.dtype));
      return {static_cast<uint8_t*>(all.data) + first, all.dtype, shape};
    };
    const auto many = [&](const TensorView& all) {
      return all.shape.rank() > 1 && all.shape[1] == width;
    };
    const bool by_column = many(bytes.scales);
    const TensorView zeros = part(bytes.zeros, {many(bytes.zeros) ? width : 1});
    bytes_.emplace(bytes.values, number * depth * width, depth, width, &zeros);
    const auto* scales = part(bytes.scales, {by_column ? width : 1}).as<const float>();
    for (int64_t i = 0; i < width; ++i) scales_.push_back(scales[by_column ? i : 0]);
  }

  // y [rows][width] = x * weights + bias
  void multiply(const float* x, int64_t rows, const float* bias, float* y, const Exec& exec) const {
    const PackedMatrix* real = real_ ? &*real_ : ready_;
    if (real != nullptr) return real->multiply(x, rows, bias, y, exec);
    std::vector<uint8_t> bytes(static_cast<size_t>(rows * depth_));
    std::vector<int32_t> sums(static_cast<size_t>(rows * width_));
    float scale = 0.0F;
    uint8_t zero = 0;
    const TensorView a{bytes.data(), ACL_UINT8, {rows, depth_}};
    const TensorView a_zero{&zero, ACL_UINT8, {}};
    quantize_dynamically({const_cast<float*>(x), ACL_FLOAT, a.shape}, a, {&scale, ACL_FLOAT, {}},
                         a_zero, exec);
    bytes_->multiply(a, 0, rows, &a_zero, sums.data(), exec);
    for (int64_t i = 0; i < rows * width_; ++i) {
      const auto column = static_cast<size_t>(i % width_);
      y[i] = static_cast<float>(sums[static_cast<size_t>(i)]) * (scale * scales_[column]) +
             bias[column];
    }
  }

 private:
  int64_t depth_, width_;
  const PackedMatrix* ready_;
  std::optional<PackedMatrix> real_;
  std::optional<IntegerMatrix> bytes_;
  std::vector<float> scales_;
};

// One direction of a layer.
class Direction {
 public:
  Direction(const RecurrentParams& p, const RecurrentTensors& t, int64_t number, const Exec& exec)
      : p_(p),
        t_(t),
        number_(number),
        exec_(exec),
        width_(p.gates() * p.hidden),
        w_bias_(bias(0)),
        r_bias_(bias(width_)),
        r_weights_(t.r, t.byte_r, ready(&PackedRecurrent::r), number, p.hidden, width_),
        functions_(p.functions.data() +
                   number * static_cast<int64_t>(p.functions.size()) / p.directions) {}

  void run() {
    const int64_t h_size = p_.batch * p_.hidden;
    h_.assign(static_cast<size_t>(h_size), 0.0F);
    c_.assign(static_cast<size_t>(h_size), 0.0F);
    load(t_.first_h, h_);
    load(t_.first_c, c_);
    std::vector<float> xw(static_cast<size_t>(p_.steps * p_.batch * width_));
    const Weights w(t_.w, t_.byte_w, ready(&PackedRecurrent::w), number_, p_.inputs, width_);
    w.multiply(t_.x, p_.steps * p_.batch, w_bias_.data(), xw.data(), exec_);
    std::vector<float> hr(static_cast<size_t>(p_.batch * width_));
    for (int64_t step = 0; step < p_.steps; ++step) {
      r_weights_.multiply(h_.data(), p_.batch, r_bias_.data(), hr.data(), exec_);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const int64_t time = time_of(step, b);
        if (time < 0) continue;
        const int64_t row = p_.batch_first ? b * p_.steps + time : time * p_.batch + b;
        cell(b, xw.data() + row * width_, hr.data() + b * width_);
        if (t_.y != nullptr) std::copy_n(h(b), p_.hidden, t_.y + y_offset(time, b));
      }
    }
    for (int64_t b = 0; b < p_.batch; ++b) {
      if (t_.last_h != nullptr) std::copy_n(h(b), p_.hidden, t_.last_h + state_offset(b));
      if (t_.last_c != nullptr) std::copy_n(c(b), p_.hidden, t_.last_c + state_offset(b));
    }
  }

 private:
  const PackedMatrix* ready(std::vector<PackedMatrix> PackedRecurrent::* which) const {
    return t_.packed == nullptr ? nullptr : &(t_.packed->*which)[static_cast<size_t>(number_)];
  }
  std::vector<float> bias(int64_t from) const {
    std::vector<float> out(static_cast<size_t>(width_), 0.0F);
    if (t_.bias != nullptr) std::copy_n(t_.bias + number_ * 2 * width_ + from, width_, out.begin());
    return out;
  }
  float* h(int64_t b) { return h_.data() + b * p_.hidden; }
  float* c(int64_t b) { return c_.data() + b * p_.hidden; }

  void load(const float* from, std::vector<float>& to) const {
    if (from == nullptr) return;
    for (int64_t b = 0; b < p_.batch; ++b) {
      std::copy_n(from + state_offset(b), p_.hidden, to.begin() + b * p_.hidden);
    }
  }

  int64_t time_of(int64_t step, int64_t b) const {
    const int64_t given = t_.lengths == nullptr ? p_.steps : t_.lengths[b];
    const int64_t length = std::clamp<int64_t>(given, 0, p_.steps);
    if (step >= length) return -1;
    return p_.reverse || number_ == 1 ? length - 1 - step : step;
  }
  int64_t state_offset(int64_t b) const {
    return (p_.batch_first ? b * p_.directions + number_ : number_ * p_.batch + b) * p_.hidden;
  }
  int64_t y_offset(int64_t time, int64_t b) const {
    const int64_t place = p_.batch_first ? (b * p_.steps + time) * p_.directions + number_
                                         : (time * p_.directions + number_) * p_.batch + b;
    return place * p_.hidden;
  }
  float act(size_t which, float v) const {
    if (p_.clip > 0) v = std::clamp(v, -p_.clip, p_.clip);
    return apply(functions_[which], v);
  }

  void cell(int64_t b, const float* x, const float* r) {
    if (p_.cell == Cell::kLstm) return lstm(b, x, r);
    if (p_.cell == Cell::kGru) return gru(b, x, r);
    for (int64_t i = 0; i < p_.hidden; ++i) h(b)[i] = act(0, x[i] + r[i]);
  }

  void gru(int64_t b, const float* x, const float* r) {
    const int64_t n = p_.hidden;
    std::vector<float> reset(static_cast<size_t>(n));
    std::vector<float> hidden(r + 2 * n, r + 3 * n);
    for (int64_t i = 0; i < n; ++i) reset[static_cast<size_t>(i)] = act(0, x[n + i] + r[n + i]);
    if (p_.linear_before_reset) {
      for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= reset[i];
    } else {
      for (int64_t i = 0; i < n; ++i) reset[static_cast<size_t>(i)] *= h(b)[i];
      const float* matrix = t_.r + (number_ * width_ + 2 * n) * n;
      for (int64_t i = 0; i < n; ++i) {
        float sum = r_bias_[static_cast<size_t>(2 * n + i)];
        for (int64_t k = 0; k < n; ++k) sum += matrix[i * n + k] * reset[static_cast<size_t>(k)];
        hidden[static_cast<size_t>(i)] = sum;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const float update = act(0, x[i] + r[i]);
      const float fresh = act(1, x[2 * n + i] + hidden[static_cast<size_t>(i)]);
      h(b)[i] = (1 - update) * fresh + update * h(b)[i];
    }
  }

  void lstm(int64_t b, const float* x, const float* r) {
    const int64_t n = p_.hidden;
    const float* peep = t_.peephole == nullptr ? nullptr : t_.peephole + number_ * 3 * n;
    const auto look = [&](int64_t gate, int64_t i, float state) {
      return peep == nullptr ? 0.0F : peep[gate * n + i] * state;
    };
    for (int64_t i = 0; i < n; ++i) {
      const float old = c(b)[i];
      const float input = act(0, x[i] + r[i] + look(0, i, old));
      const float forget =
          p_.input_forget ? 1 - input : act(0, x[2 * n + i] + r[2 * n + i] + look(2, i, old));
      const float state = forget * old + input * act(1, x[3 * n + i] + r[3 * n + i]);
      const float output = act(0, x[n + i] + r[n + i] + look(1, i, state));
      c(b)[i] = state;
      h(b)[i] = output * apply(functions_[2], state);
    }
  }

  const RecurrentParams& p_;
  const RecurrentTensors& t_;
  const int64_t number_;
  const Exec& exec_;
  const int64_t width_;
  const std::vector<float> w_bias_, r_bias_;
  const Weights r_weights_;
  const GateFunction* functions_;
  std::vector<float> h_, c_;
};

}  // namespace

PackedRecurrent pack_recurrent(const RecurrentParams& p, const float* w, const float* r) {
  const int64_t width = p.gates() * p.hidden;
  PackedRecurrent packed;
  for (int64_t d = 0; d < p.directions; ++d) {
    packed.w.emplace_back(w + d * width * p.inputs, p.inputs, width, Transposed::kYes);
    packed.r.emplace_back(r + d * width * p.hidden, p.hidden, width, Transposed::kYes);
  }
  return packed;
}

void recurrent(const RecurrentParams& p, const RecurrentTensors& t, const Exec& exec) {
  if (t.y != nullptr) std::fill_n(t.y, p.steps * p.batch * p.directions * p.hidden, 0.0F);
  for (int64_t d = 0; d < p.directions; ++d) Direction(p, t, d, exec).run();
}

}  // namespace ascendrt::ops
