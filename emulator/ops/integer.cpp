// Owns: staging of activations as unsigned bytes and the split of work.
// Must never: let the number of threads decide anything.
#include "ops/integer.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace ascendrt::ops {
namespace {

constexpr int64_t kItemRows = 112;  // of one work item

uint8_t turn_of(aclDataType dtype) { return dtype == ACL_INT8 ? 0x80 : 0; }

// Zero point i of unsigned bytes.
int32_t unsigned_zero(const TensorView* zeros, int64_t i, aclDataType dtype) {
  const int32_t turn = turn_of(dtype);
  if (zeros == nullptr) return turn;
  const int64_t at = zeros->elements() == 1 ? 0 : i;
  if (zeros->dtype == ACL_INT8) return turn + zeros->as<const int8_t>()[at];
  return turn + zeros->as<const uint8_t>()[at];
}

}  // namespace

IntegerMatrix::IntegerMatrix(const TensorView& values, int64_t first, int64_t depth,
                             int64_t columns, const TensorView* zeros)
    : depth_(depth),
      columns_(columns),
      sums_({values, zeros, first, 0, columns, 1, 0, 1, depth, columns}) {}

void IntegerMatrix::multiply(const TensorView& a, int64_t first, int64_t rows,
                             const TensorView* zeros, int32_t* y, const Exec& exec) const {
  const uint8_t turn = turn_of(a.dtype);
  const auto* x = a.as<const uint8_t>() + first;
  const int64_t step = padded_channels(depth_);
  std::vector<uint8_t> staged;
  if (turn != 0 || step != depth_) {
    staged.assign(static_cast<size_t>(rows * step), 0);
    for (int64_t i = 0; i < rows * depth_; ++i) {
      staged[static_cast<size_t>(i / depth_ * step + i % depth_)] =
          static_cast<uint8_t>(x[i] ^ turn);
    }
    x = staged.data();
  }
  const bool own = zeros != nullptr && zeros->elements() > 1;  // each row begins elsewhere
  const int64_t piece = own ? 1 : kItemRows;
  const auto begin = sums_.begin(unsigned_zero(zeros, 0, a.dtype));
  const int64_t pieces = (rows + piece - 1) / piece;
  const int64_t tap = 0;
  parallel_for(exec, pieces * sums_.tiles(), [&](int64_t i) {
    const int64_t row = i % pieces * piece;
    const ByteSums::Row part{x + row * step,     step,     &tap, std::min(piece, rows - row),
                             y + row * columns_, columns_, 1};
    if (!own) return sums_.run(part, begin, i / pieces);
    sums_.run(part, sums_.begin(unsigned_zero(zeros, row, a.dtype)), i / pieces);
  });
}

void multiply_integers(const IntegerMatmul& s, const TensorView& a, const TensorView* a_zero,
                       const TensorView& b, const TensorView* b_zero, int32_t* y, const Exec& exec,
                       const IntegerMatrix* packed) {
  const auto batches = static_cast<int64_t>(s.a_start.size());
  if (s.rows * s.columns == 0) return;
  std::optional<IntegerMatrix> own;
  const bool one_zero = a_zero == nullptr || a_zero->elements() == 1;
  for (int64_t i = 0, next = 0; i < batches; i = next) {
    const auto first = static_cast<size_t>(i);
    if (packed == nullptr && (i == 0 || s.b_start[first] != s.b_start[first - 1])) {
      own.emplace(b, s.b_start[first], s.depth, s.columns, b_zero);
    }
    // Batches that lie behind each other and share b are one product.
    for (next = i + 1; next < batches && one_zero; ++next) {
      const auto at = static_cast<size_t>(next);
      if (s.b_start[at] != s.b_start[first] ||
          s.a_start[at] != s.a_start[first] + (next - i) * s.rows * s.depth) {
        break;
      }
    }
    (packed != nullptr ? *packed : *own)
        .multiply(a, s.a_start[first], (next - i) * s.rows, a_zero, y + i * s.rows * s.columns,
                  exec);
  }
}

// --- convolution ---

bool IntegerConvolution::takes(const WindowShape& s, int64_t outputs) {
  return s.dims == 2 && outputs / s.groups >= 4;
}

IntegerConvolution::IntegerConvolution(const WindowShape& shape, int64_t outputs,
                                       const TensorView& filter, const TensorView* zeros)
    : shape_(shape), outputs_(outputs) {
  const int64_t taps = shape_.taps();
  const int64_t each = group_channels() * taps;
  for (int64_t g = 0; g < shape_.groups; ++g) {
    const int64_t first = g * group_outputs();
    groups_.emplace_back(ByteSums::Source{filter, zeros, first * each, 1, taps, each, first, taps,
                                          group_channels(), group_outputs()});
  }
}

// Planes become pixels with all their channels, and pads around them.
void IntegerConvolution::stage(const TensorView& x, uint8_t zero, uint8_t* to,
                               const Exec& exec) const {
  const uint8_t turn = turn_of(x.dtype);
  const int64_t step = pixel_bytes();
  const int64_t group = padded_channels(group_channels());
  const int64_t width = padded(1);
  parallel_for(exec, shape_.batch * padded(0), [&](int64_t i) {
    const int64_t image = i / padded(0);
    const int64_t h = i % padded(0) - shape_.pad_before[0];
    uint8_t* row = to + i * width * step;
    std::memset(row, 0, static_cast<size_t>(width * step));
    const bool inside = h >= 0 && h < shape_.in[0];
    for (int64_t c = 0; c < shape_.channels; ++c) {
      uint8_t* pixel = row + c / group_channels() * group + c % group_channels();
      const uint8_t* from =
          x.as<const uint8_t>() +
          ((image * shape_.channels + c) * shape_.in[0] + (inside ? h : 0)) * shape_.in[1];
      for (int64_t w = 0; w < width; ++w) {
        const int64_t at = w - shape_.pad_before[1];
        const bool real = inside && at >= 0 && at < shape_.in[1];
        pixel[w * step] = real ? static_cast<uint8_t>(from[at] ^ turn) : zero;
      }
    }
  });
}

void IntegerConvolution::run(const TensorView& x, const TensorView* zero, int32_t* y,
                             const Exec& exec) const {
  const int32_t x_zero = unsigned_zero(zero, 0, x.dtype);
  const int64_t step = pixel_bytes();
  const int64_t width = padded(1);
  std::vector<uint8_t> staged(static_cast<size_t>(shape_.batch * padded(0) * width * step));
  stage(x, static_cast<uint8_t>(x_zero), staged.data(), exec);
  std::vector<int64_t> taps;
  for (int64_t i = 0; i < shape_.taps(); ++i) {
    taps.push_back((i / shape_.kernel[1] * shape_.dilation[0] * width +
                    i % shape_.kernel[1] * shape_.dilation[1]) *
                   step);
  }
  std::vector<std::vector<int32_t>> begins;
  for (const ByteSums& group : groups_) begins.push_back(group.begin(x_zero));
  const int64_t area = shape_.out_size();
  const int64_t tiles = groups_[0].tiles();
  const int64_t rows = shape_.out[0];
  parallel_for(exec, shape_.batch * shape_.groups * tiles * rows, [&](int64_t i) {
    const int64_t h = i % rows;
    const int64_t tile = i / rows % tiles;
    const int64_t group = i / rows / tiles % shape_.groups;
    const int64_t image = i / rows / tiles / shape_.groups;
    const uint8_t* from = staged.data() +
                          (image * padded(0) + h * shape_.stride[0]) * width * step +
                          group * padded_channels(group_channels());
    int32_t* to = y + (image * outputs_ + group * group_outputs()) * area + h * shape_.out[1];
    const auto at = static_cast<size_t>(group);
    groups_[at].run({from, shape_.stride[1] * step, taps.data(), shape_.out[1], to, 1, area},
                    begins[at], tile);
  });
}

}  // namespace ascendrt::ops
