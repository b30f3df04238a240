// Owns: the table of blocked layouts as splits, permutations and joins.
// Must never: trust dims of a file; every product is compared.
#include "model/vendor_layout.hpp"

#include <algorithm>
#include <numeric>

namespace ascendrt::model {
namespace {

[[noreturn]] void fail(const TensorDesc& desc, const std::string& what) {
  ops::fail(format_name(desc.format), to_shape(desc.dims).text() + " " + what);
}

int64_t blocks(int64_t count, int64_t of) { return of < 1 ? 0 : (count + of - 1) / of; }

Dims permuted(const Dims& dims, const Dims& perm) {
  Dims out;
  for (const int64_t axis : perm) out.push_back(dims[static_cast<size_t>(axis)]);
  return out;
}

// physical = split; permuted by perm; joined to `joined`; the first `logical` of each dim count.
struct Blocking {
  Dims split, perm, joined, logical;
  int32_t format = kFormatUndefined;  // order of the axes of `logical`
};

// The origin view as N, C, H, W. A vector is one value per channel.
Dims as_nchw(const TensorDesc& desc) {
  const Dims origin = desc.origin_dims();
  if (origin.size() == 1) return {1, origin[0], 1, 1};
  if (origin.size() != 4) fail(desc, "has an origin of rank " + std::to_string(origin.size()));
  const Dims perm = turn_of_axes(desc.origin_format(), kNchw, 4);
  return perm.empty() ? origin : permuted(origin, perm);
}

Blocking five_dims(const TensorDesc& desc) {
  const Dims& d = desc.dims;
  const Dims logical = as_nchw(desc);
  if (d.size() != 5 || d[0] != logical[0] || d[2] != logical[2] || d[3] != logical[3] ||
      d[1] != blocks(logical[1], d[4])) {
    fail(desc, "does not hold " + to_shape(logical).text());
  }
  return {d, {0, 1, 4, 2, 3}, {d[0], d[1] * d[4], d[2], d[3]}, logical, kNchw};
}

// [C1 * KH * KW, N1, 16 of N, 16 of C]. Grouped filters are stored otherwise and do not pass.
Blocking fractal_z(const TensorDesc& desc) {
  const Dims& d = desc.dims;
  const Dims w = as_nchw(desc);
  const int64_t channels = d.size() == 4 ? blocks(w[1], d[3]) : 0;
  if (d.size() != 4 || d[0] != channels * w[2] * w[3] || d[1] != blocks(w[0], d[2])) {
    fail(desc, "does not hold a filter of " + to_shape(w).text());
  }
  return {{channels, w[2], w[3], d[1], d[2], d[3]},
          {3, 4, 0, 5, 1, 2},
          {d[1] * d[2], channels * d[3], w[2], w[3]},
          w,
          kNchw};
}

// [..., N1, M1, 16 of M, 16 of N] of matrices [..., M, N].
Blocking fractal_nz(const TensorDesc& desc) {
  const Dims& d = desc.dims;
  Dims logical = desc.origin_dims();
  if (logical.size() == 1) logical.insert(logical.begin(), 1);
  const size_t r = d.size();
  if (r < 4 || logical.size() != r - 2) fail(desc, "has an origin of another rank");
  const int64_t rows = logical[r - 4];
  const int64_t columns = logical[r - 3];
  if (!std::equal(d.begin(), d.end() - 4, logical.begin()) || d[r - 3] != blocks(rows, d[r - 2]) ||
      d[r - 4] != blocks(columns, d[r - 1])) {
    fail(desc, "does not hold " + to_shape(logical).text());
  }
  Blocking b{d, Dims(r), logical, logical, kNd};
  std::iota(b.perm.begin(), b.perm.end(), int64_t{0});
  const auto last = static_cast<int64_t>(r);
  std::copy_n(Dims{last - 3, last - 2, last - 4, last - 1}.begin(), 4, b.perm.end() - 4);
  b.joined[r - 4] = d[r - 3] * d[r - 2];
  b.joined[r - 3] = d[r - 4] * d[r - 1];
  return b;
}

// Products of dims below cannot overflow then.
void check_dims(const TensorDesc& desc) {
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const Dims& dims : {desc.dims, desc.origin_dims()}) {
    const bool fits =
        std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 1 && dim <= kMost; });
    if (!fits) fail(desc, "or its origin has impossible dims");
    static_cast<void>(to_shape(dims).elements());
  }
}

Blocking blocking_of(const TensorDesc& desc) {
  check_dims(desc);
  switch (desc.format) {
    case kNc1hwc0:
    case kNc1hwc0C04:
      return five_dims(desc);
    case kFractalZ:
      return fractal_z(desc);
    case kFractalNz:
      return fractal_nz(desc);
    default:
      fail(desc, "is a layout that is not known");
  }
}

}  // namespace

GraphValue Layouts::reshape(const GraphValue& x, const Dims& dims) {
  if (to_dims(x.type.shape) == dims) return x;
  return graph_.add_one("Reshape", x.name + "_reshape",
                        {x, graph_.int_list(x.name + "_shape", dims)});
}

GraphValue Layouts::transpose(const GraphValue& x, const Dims& perm) {
  return graph_.add_one("Transpose", x.name + "_transpose",
                        {x, graph_.int_list(x.name + "_perm", perm)});
}

GraphValue Layouts::cut(const GraphValue& x, const Dims& dims) {
  if (to_dims(x.type.shape) == dims) return x;
  return graph_.add_one("StridedSliceV2", x.name + "_cut",
                        {x, graph_.int_list(x.name + "_begin", Dims(dims.size(), 0)),
                         graph_.int_list(x.name + "_end", dims)});
}

GraphValue Layouts::fill(const GraphValue& x, const Dims& dims) {
  if (to_dims(x.type.shape) == dims) return x;
  Dims pads(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) pads.push_back(dims[i] - x.type.shape[i]);
  return graph_.add_one("PadV3", x.name + "_fill", {x, graph_.int_list(x.name + "_pads", pads)});
}

GraphValue Layouts::reorder(const GraphValue& x, int32_t from, int32_t to) {
  const Dims perm = turn_of_axes(from, to, x.type.shape.rank());
  if (perm.empty()) return x;
  if (x.is_constant()) return transpose(x, perm);
  const std::string key = x.ref + ">" + std::to_string(to);
  const auto found = turned_.find(key);
  if (found != turned_.end()) return found->second;
  GraphValue y = transpose(x, perm);
  turned_.emplace(y.ref + ">" + std::to_string(from), x);
  turned_.emplace(key, y);
  return y;
}

GraphValue Layouts::unpack(const GraphValue& physical, const TensorDesc& desc) {
  const Dims origin = desc.origin_dims();
  if (is_plain_format(desc.format)) {
    return reshape(reorder(physical, desc.format, desc.origin_format()), origin);
  }
  const Blocking b = blocking_of(desc);
  const GraphValue turned = transpose(reshape(physical, b.split), b.perm);
  const GraphValue logical = cut(reshape(turned, b.joined), b.logical);
  if (origin.size() != b.logical.size()) return reshape(logical, origin);
  return reorder(logical, b.format, desc.origin_format());
}

GraphValue Layouts::pack(const GraphValue& logical, const TensorDesc& desc) {
  if (is_plain_format(desc.format)) {
    return reshape(reorder(logical, desc.origin_format(), desc.format), desc.dims);
  }
  const Blocking b = blocking_of(desc);
  const bool same_rank = logical.type.shape.rank() == b.logical.size();
  const GraphValue ordered = same_rank ? reorder(logical, desc.origin_format(), b.format) : logical;
  const GraphValue full = fill(reshape(ordered, b.logical), b.joined);
  const GraphValue turned =
      transpose(reshape(full, permuted(b.split, b.perm)), inverse_turn(b.perm));
  return reshape(turned, desc.dims);
}

}  // namespace ascendrt::model
