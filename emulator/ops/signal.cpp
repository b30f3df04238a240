// Owns: transforms by their definition. Must never: compute angles in single precision.
#include "ops/signal.hpp"

#include <algorithm>
#include <complex>
#include <numbers>

#include "ops/element.hpp"

namespace ascendrt::ops {
namespace {

using Complex = std::complex<double>;

// The roots of unity of a length; a transform multiplies by powers of the first.
std::vector<Complex> roots(int64_t length, bool inverse) {
  std::vector<Complex> out;
  const double turn = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(length);
  for (int64_t i = 0; i < length; ++i)
    out.push_back(std::polar(1.0, turn * static_cast<double>(i)));
  return out;
}

Complex transform(const std::vector<Complex>& x, const std::vector<Complex>& root, int64_t bin) {
  const auto length = static_cast<int64_t>(root.size());
  Complex sum = 0;
  int64_t phase = 0;
  for (const Complex& v : x) {
    sum += v * root[static_cast<size_t>(phase)];
    phase = (phase + bin) % length;
  }
  return sum;
}

}  // namespace

void dft(const DftParams& p, const TensorView& x, size_t axis, const TensorView& y,
         const Exec& exec) {
  const size_t rank = x.shape.rank();
  const int64_t parts = x.shape[rank - 1];
  const int64_t out_parts = y.shape[rank - 1];
  const int64_t inner = x.shape.elements(axis + 1, rank - 1);
  const int64_t given = x.shape[axis];
  const int64_t bins = y.shape[axis];
  const auto root = roots(p.length, p.inverse);
  const bool mirrored = p.inverse && out_parts == 1;
  // Bins are shared out, not lines: a line may be long enough to be given up half-way.
  for (int64_t i = 0; i < x.shape.elements(0, axis) * inner; ++i) {
    const int64_t outer = i / inner;
    std::vector<Complex> line(static_cast<size_t>(p.length));
    for (int64_t k = 0; k < std::min(given, p.length); ++k) {
      const float* at = x.as<const float>() + ((outer * given + k) * inner + i % inner) * parts;
      line[static_cast<size_t>(k)] = {at[0], parts == 2 ? at[1] : 0.0};
    }
    for (int64_t k = given; mirrored && k < p.length; ++k) {
      line[static_cast<size_t>(k)] = std::conj(line[static_cast<size_t>(p.length - k)]);
    }
    parallel_for(exec, bins, [&](int64_t bin) {
      Complex v = transform(line, root, bin);
      if (p.inverse) v /= static_cast<double>(p.length);
      float* to = y.as<float>() + ((outer * bins + bin) * inner + i % inner) * out_parts;
      to[0] = static_cast<float>(v.real());
      if (out_parts == 2) to[1] = static_cast<float>(v.imag());
    });
  }
}

void stft(const TensorView& signal, int64_t step, int64_t length, const float* window,
          const TensorView& y, const Exec& exec) {
  const int64_t samples = signal.shape[1];
  const int64_t parts = signal.shape.rank() > 2 ? signal.shape[2] : 1;
  const int64_t frames = y.shape[1];
  const int64_t bins = y.shape[2];
  const auto root = roots(length, false);
  parallel_for(exec, y.shape[0] * frames, [&](int64_t i) {
    const float* from =
        signal.as<const float>() + (i / frames * samples + i % frames * step) * parts;
    std::vector<Complex> line;
    for (int64_t k = 0; k < length; ++k) {
      const double weight = window == nullptr ? 1.0 : static_cast<double>(window[k]);
      const float* at = from + k * parts;
      line.push_back(weight * Complex(at[0], parts == 2 ? at[1] : 0.0F));
    }
    for (int64_t bin = 0; bin < bins; ++bin) {
      const Complex v = transform(line, root, bin);
      float* to = y.as<float>() + (i * bins + bin) * 2;
      to[0] = static_cast<float>(v.real());
      to[1] = static_cast<float>(v.imag());
    }
  });
}

void make_window(WindowKind kind, Symmetry symmetry, const TensorView& y, const Exec& exec) {
  const int64_t size = y.elements();
  const int64_t period = symmetry == Symmetry::kPeriodic ? size : size - 1;
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    const double turn =
        period == 0 ? 0.0
                    : 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    double v = 0.5 - 0.5 * std::cos(turn);
    if (kind == WindowKind::kHamming) v = 25.0 / 46.0 - 21.0 / 46.0 * std::cos(turn);
    if (kind == WindowKind::kBlackman) v = 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn);
    values.push_back(static_cast<float>(v));
  }
  from_floats(values, y, exec);
}

void mel_weights(const MelParams& p, const TensorView& y, const Exec& exec) {
  const auto to_mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  const double low = to_mel(p.low);
  const double step = (to_mel(p.high) - low) / static_cast<double>(p.bins + 2);
  const int64_t rows = y.shape[0];
  const auto edge = [&](int64_t i) {
    const double hz = 700 * (std::pow(10.0, (low + static_cast<double>(i) * step) / 2595) - 1);
    const double at =
        std::floor(static_cast<double>(p.length + 1) * hz / static_cast<double>(p.rate));
    return std::clamp<int64_t>(static_cast<int64_t>(at), 0, rows - 1);
  };
  std::vector<float> values(static_cast<size_t>(y.elements()), 0.0F);
  const auto set = [&](int64_t row, int64_t bin, double v) {
    values[static_cast<size_t>(row * p.bins + bin)] = static_cast<float>(v);
  };
  for (int64_t bin = 0; bin < p.bins; ++bin) {
    const int64_t from = edge(bin);
    const int64_t peak = edge(bin + 1);
    const int64_t to = edge(bin + 2);
    if (peak == from) set(peak, bin, 1.0);
    for (int64_t k = from; k <= peak && peak > from; ++k) {
      set(k, bin, static_cast<double>(k - from) / static_cast<double>(peak - from));
    }
    for (int64_t k = peak; k < to; ++k) {
      set(k, bin, static_cast<double>(to - k) / static_cast<double>(to - peak));
    }
  }
  from_floats(values, y, exec);
}

}  // namespace ascendrt::ops
