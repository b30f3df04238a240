// Owns: normalisations. Must never: keep statistics in single precision.
#include <cmath>

#include "ops/reduce.hpp"
#include "ops/vector.hpp"

namespace ascendrt::ops {
namespace {

struct Statistics {
  double mean;
  double variance;
};

Statistics statistics(const float* x, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, squares / static_cast<double>(count)};
}

}  // namespace

void batch_norm(const TensorView& x, const BatchNormParams& p, const TensorView& y,
                const Exec& exec) {
  const int64_t channels = x.shape[1];
  const int64_t area = x.shape.elements(2, x.shape.rank());
  parallel_for(exec, x.shape[0] * channels, [&](int64_t i) {
    const int64_t c = i % channels;
    const float scale = p.scale[c] / std::sqrt(p.variance[c] + p.epsilon);
    const float shift = p.offset[c] - p.mean[c] * scale;
    const float* from = x.as<const float>() + i * area;
    float* to = y.as<float>() + i * area;
    for (int64_t k = 0; k < area; ++k) to[k] = from[k] * scale + shift;
  });
}

void instance_norm(const TensorView& x, const float* scale, const float* offset, float epsilon,
                   const TensorView& y, const Exec& exec) {
  const int64_t channels = x.shape[1];
  const int64_t area = x.shape.elements(2, x.shape.rank());
  parallel_for(exec, x.shape[0] * channels, [&](int64_t i) {
    const float* from = x.as<const float>() + i * area;
    float* to = y.as<float>() + i * area;
    const Statistics s = statistics(from, area);
    const double factor = scale[i % channels] / std::sqrt(s.variance + epsilon);
    const double shift = offset[i % channels] - s.mean * factor;
    for (int64_t k = 0; k < area; ++k) to[k] = static_cast<float>(from[k] * factor + shift);
  });
}

void layer_norm(const TensorView& x, size_t axis, const float* scale, const float* offset,
                float epsilon, const TensorView& y, const Exec& exec) {
  const VectorKernels& kernels = vector_kernels();
  const int64_t length = x.shape.elements(axis, x.shape.rank());
  parallel_for(exec, x.shape.elements(0, axis), [&](int64_t i) {
    kernels.normalize(x.as<const float>() + i * length, scale, offset, epsilon,
                      y.as<float>() + i * length, length);
  });
}

}  // namespace ascendrt::ops
