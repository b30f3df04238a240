// Operations that stand for themselves: losses, Einstein sums, determinants, dropout, writes into
// caches. Owns: their definitions. Must never: use a random source but the seed it is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

enum class LossForm : uint8_t { kNone, kSum, kMean };
// -x[n][target][..] * weight[target], of targets that are not ignored. x [n][c][..], target
// [n][..]; weight may be null. float32.
void nll_loss(LossForm form, const TensorView& x, const TensorView& target, const float* weight,
              const int64_t* ignored, const TensorView& y, const Exec& exec);

// Letters of each operand and of the result, one per dim.
struct EinsumPlan {
  std::vector<std::string> operands;
  std::string result;
};
// Resolves "..." and a missing result; fails when the equation does not fit the shapes.
EinsumPlan plan_einsum(std::string_view equation, const std::vector<Shape>& shapes);
Shape einsum_shape(const EinsumPlan& plan, const std::vector<Shape>& shapes);
void einsum(const EinsumPlan& plan, const std::vector<TensorView>& xs, const TensorView& y,
            const Exec& exec);

// Of the matrices in the last two dims. float32.
void determinants(const TensorView& x, const TensorView& y, const Exec& exec);

// Elements whose number from the Mersenne twister is below the ratio become 0, the rest grow.
// mask (bool) may be null.
void dropout(const TensorView& x, float ratio, uint32_t seed, const TensorView& y, uint8_t* mask,
             const Exec& exec);

enum class CacheMode : uint8_t { kLinear, kCircular };
// y = cache with `update` written at starts[batch] along the axis. starts may be null: 0.
void write_cache(CacheMode mode, const TensorView& cache, const TensorView& update,
                 const int64_t* starts, size_t axis, const TensorView& y, const Exec& exec);

// y = (x - mean) * rstd * scale + offset over the dims from `axis`, or x * rstd * scale with the
// root of the mean square. scale and offset broadcast to those dims; offset, mean and rstd may be
// null. float32.
enum class NormForm : uint8_t { kCentered, kRootMeanSquare };
struct NormTensors {
  const TensorView* scale = nullptr;
  const TensorView* offset = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};
void normalize(NormForm form, const TensorView& x, size_t axis, const NormTensors& tensors,
               float epsilon, const TensorView& y, const Exec& exec);
// Statistics of groups of channels; scale and offset have one value per group or per channel.
void group_norm(const TensorView& x, int64_t groups, const TensorView& scale,
                const TensorView& offset, float epsilon, const TensorView& y, const Exec& exec);
// y = x / (bias + alpha * sum of squares of channels within the radius)^beta.
struct ResponseParams {
  int64_t radius = 0;
  float bias = 1.0F, alpha = 1.0F, beta = 0.5F;
};
void local_response(const ResponseParams& params, const TensorView& x, const TensorView& y,
                    const Exec& exec);

// Numbers of run `run`: the same for the same seed and run, on every machine. float32.
enum class Random : uint8_t { kUniform, kNormal };
void random(Random form, uint64_t seed, uint64_t run, const TensorView& y);

}  // namespace ascendrt::ops
