// Fourier transforms, windows and filter banks. Owns: their definitions.
// Must never: compute angles in single precision.
#pragma once

#include <cstdint>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

struct DftParams {
  int64_t length = 0;  // elements taken, zeros behind the input
  bool inverse = false;
};
// Along an axis of complex or real numbers: the last dim is 2 or 1. The dims of y tell how many
// results are wanted, and by its last dim whether only their real parts. Inverse from half a
// spectrum (input shorter than length): the other half is its mirror image. float32.
void dft(const DftParams& params, const TensorView& x, size_t axis, const TensorView& y,
         const Exec& exec);
// signal [batch][n][1 or 2] cut into frames [batch][frames][bins][2]; window may be null.
void stft(const TensorView& signal, int64_t step, int64_t length, const float* window,
          const TensorView& y, const Exec& exec);

enum class WindowKind : uint8_t { kHann, kHamming, kBlackman };
enum class Symmetry : uint8_t { kPeriodic, kSymmetric };
void make_window(WindowKind kind, Symmetry symmetry, const TensorView& y, const Exec& exec);

struct MelParams {
  int64_t bins = 0, length = 0, rate = 0;
  double low = 0.0, high = 0.0;  // Hz
};
void mel_weights(const MelParams& params, const TensorView& y, const Exec& exec);

}  // namespace ascendrt::ops
