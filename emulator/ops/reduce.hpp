// Reductions and normalisations over axes. Owns: their meaning and the order of their sums.
// Must never: sum in an order that depends on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

enum class Reduce : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kSumSquare,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp
};

// y has x's shape with the reduced axes 1 or left out. All numbers that C++ computes with, extremes
// also of bool; an axis may appear once. Sums of floats are kept in double. No axes = the whole
// tensor.
bool reduce_takes(Reduce op, aclDataType dtype);
void reduce(Reduce op, const TensorView& x, std::span<const size_t> axes, const TensorView& y,
            const Exec& exec);
// Over no axis: nothing is joined, but what is made of each element stays.
void reduce_nothing(Reduce op, const TensorView& x, const TensorView& y, const Exec& exec);

enum class Extreme : uint8_t { kMax, kMin };
enum class Pick : uint8_t { kFirst, kLast };
// Index of the largest or smallest element along the axis, of equals as told. y int32 or int64.
void arg_extreme(Extreme op, Pick pick, const TensorView& x, size_t axis, const TensorView& y,
                 const Exec& exec);

enum class SoftmaxForm : uint8_t { kPlain, kLog };
// Over the dims [first, last) taken together. float32 and float64.
void softmax(SoftmaxForm form, const TensorView& x, size_t first, size_t last, const TensorView& y,
             const Exec& exec);

// y = (x - mean) / sqrt(variance + epsilon) * scale + offset per channel (dim 1). float32.
struct BatchNormParams {
  const float* scale;
  const float* offset;
  const float* mean;
  const float* variance;
  float epsilon;
};
void batch_norm(const TensorView& x, const BatchNormParams& params, const TensorView& y,
                const Exec& exec);

// Statistics of each (image, channel) plane. scale and offset have one value per channel.
void instance_norm(const TensorView& x, const float* scale, const float* offset, float epsilon,
                   const TensorView& y, const Exec& exec);

// Statistics over the dims from `axis`; scale and offset have their shape, offset may be null.
void layer_norm(const TensorView& x, size_t axis, const float* scale, const float* offset,
                float epsilon, const TensorView& y, const Exec& exec);

}  // namespace ascendrt::ops
