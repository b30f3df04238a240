// Sliding windows over any number of spatial dims: pooling, convolution by matrix product and its
// transpose, deformable convolution, columns to image. Owns: WindowShape and the walk over taps.
// Must never: be used where the 2-D kernels of conv.hpp and pool.hpp fit; those are faster.
#pragma once

#include <array>
#include <cstdint>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// Tensors are [batch][channels][spatial...].
struct WindowShape {
  static constexpr size_t kMaxDims = 6;
  using Dims = std::array<int64_t, kMaxDims>;

  size_t dims = 0;
  int64_t batch = 1, channels = 0, groups = 1;
  Dims in{}, out{}, kernel{}, stride{}, dilation{}, pad_before{}, pad_after{};

  // Fills out; fails on numbers that make no window. Ceil: a last window may reach over the end, if
  // it starts inside the input or the pads before it.
  void resolve(bool ceil);
  int64_t in_size() const { return product(in); }
  int64_t out_size() const { return product(out); }
  int64_t taps() const { return product(kernel); }
  // Input position of a tap in one dim; outside [0, in) it lies in the pads.
  int64_t at(size_t dim, int64_t out_index, int64_t tap) const {
    return out_index * stride[dim] - pad_before[dim] + tap * dilation[dim];
  }

 private:
  int64_t product(const Dims& values) const;
};

enum class PoolKind : uint8_t { kMax, kAverage, kLp };
struct PoolParams {
  PoolKind kind = PoolKind::kMax;
  bool count_pads = false;    // averages: pads are elements, but not what ceil adds behind them
  int64_t p = 2;              // kLp
  bool column_major = false;  // indices count the spatial dims first to last
};
// indices: flat positions of the maxima in the whole tensor, or null. Numbers of any type.
void pool_windows(const WindowShape& shape, const PoolParams& params, const TensorView& x,
                  const TensorView& y, int64_t* indices, const Exec& exec);

// w: [outputs][channels / groups][kernel]; bias may be null. float32.
void convolve_windows(const WindowShape& shape, int64_t outputs, const float* x, const float* w,
                      const float* bias, float* y, const Exec& exec);

// The shape is that of the convolution whose gradient this is: `in` are the dims of y, `out` those
// of x. w: [channels of x][outputs / groups][kernel]; shape.channels are those of x.
void convolve_transposed(const WindowShape& shape, int64_t outputs, const float* x, const float* w,
                         const float* bias, float* y, const Exec& exec);

// 2-D. offset: [batch][offset groups * 2 * taps][out]; mask: one value per tap, or null.
void convolve_deformed(const WindowShape& shape, int64_t outputs, int64_t offset_groups,
                       const float* x, const float* w, const float* offset, const float* mask,
                       const float* bias, float* y, const Exec& exec);

// Integer convolution, exact. x, w, zero points: 8 bits; w_zero has 1 or `outputs` values.
void convolve_integers(const WindowShape& shape, int64_t outputs, const TensorView& x,
                       const TensorView& w, const TensorView* x_zero, const TensorView* w_zero,
                       int32_t* y, const Exec& exec);

// Adds the columns [channels][taps][out] of each image up to [channels][in].
void columns_to_image(const WindowShape& shape, const float* columns, float* y, const Exec& exec);

}  // namespace ascendrt::ops
