// Operations that choose elements by indices or by order: gather, scatter, top-k, one-hot, sums
// along an axis, unique. Owns: their index rules. Must never: leave an index unchecked.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// Indices are int32 or int64; negative ones count from the end, others outside fail.

// y[.., i, ..] = x[.., indices[.., i, ..], ..] along the axis; y has the shape of the indices.
void gather_elements(const TensorView& x, const TensorView& indices, size_t axis,
                     const TensorView& y, const Exec& exec);
// The last dim of the indices holds positions in the dims of x behind `batch_dims`.
void gather_nd(const TensorView& x, const TensorView& indices, size_t batch_dims,
               const TensorView& y, const Exec& exec);

enum class Scatter : uint8_t { kSet, kAdd, kMul, kMax, kMin };
// y = x with updates put in; of equal indices the later update counts. kSet moves any type, the
// others need numbers.
void scatter_elements(Scatter how, const TensorView& x, const TensorView& indices,
                      const TensorView& updates, size_t axis, const TensorView& y,
                      const Exec& exec);
void scatter_nd(Scatter how, const TensorView& x, const TensorView& indices,
                const TensorView& updates, const TensorView& y, const Exec& exec);

// y[.., k, ..] = on where the index equals k along the new axis, else off. Indices of
// any number type; those outside hit nothing.
void one_hot(const TensorView& indices, const TensorView& on, const TensorView& off, size_t axis,
             const TensorView& y, const Exec& exec);

enum class Order : uint8_t { kLargest, kSmallest };
// The first elements along the axis in that order, equal ones by position. indices is int32 or
// int64.
void top_k(Order order, const TensorView& x, size_t axis, const TensorView& y,
           const TensorView& indices, const Exec& exec);

enum class Cumulate : uint8_t { kSum, kProduct };
struct CumulateParams {
  Cumulate kind = Cumulate::kSum;
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the end
};
void cumulate(const CumulateParams& params, const TensorView& x, size_t axis, const TensorView& y,
              const Exec& exec);

// The first lengths[b] elements along the time axis are reversed.
void reverse_sequence(const TensorView& x, const TensorView& lengths, size_t time_axis,
                      size_t batch_axis, const TensorView& y, const Exec& exec);

enum class Triangle : uint8_t { kLower, kUpper };
void triangle(Triangle part, int64_t diagonal, const TensorView& x, const TensorView& y,
              const Exec& exec);
void eye(int64_t diagonal, const TensorView& y, const Exec& exec);
// y[i] = start + i * step, one element each, all of one number type.
void range(const TensorView& start, const TensorView& step, const TensorView& y, const Exec& exec);
int64_t range_count(const TensorView& start, const TensorView& limit, const TensorView& step);

// 1 where the first largest element along the axis is, else 0.
void hardmax(const TensorView& x, size_t first, size_t last, const TensorView& y, const Exec& exec);

// Positions of elements that are not 0 (or false), in row-major order: [rank][count].
std::vector<int64_t> nonzero(const TensorView& x);

// Of `count` slices along an axis (all of x: one element each): the groups of equal ones.
struct Groups {
  std::vector<int64_t> first;    // of each group: its first slice
  std::vector<int64_t> of;       // of each slice: its group
  std::vector<int64_t> members;  // of each group: how many slices
};
enum class GroupOrder : uint8_t { kSorted, kAppearance };
Groups group_equal(const TensorView& x, int64_t outer, int64_t count, int64_t inner,
                   GroupOrder order);

}  // namespace ascendrt::ops
