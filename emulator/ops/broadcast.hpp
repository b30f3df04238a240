// The loop under every broadcasting operation. Owns: merging of dims, steps, the walk.
// Must never: know what is computed. Private to ops.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "ops/parallel.hpp"
#include "ops/tensor.hpp"

namespace ascendrt::ops {

// The output's dims with neighbours merged where every operand walks on in step; the last dim is
// the inner loop. steps are in elements, 0 where the operand repeats.
template <size_t kOperands>
struct BroadcastPlan {
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::array<std::array<int64_t, Shape::kMaxRank>, kOperands> steps{};
  size_t rank = 0;
};

template <size_t kOperands>
BroadcastPlan<kOperands> plan_broadcast(const Shape& out,
                                        const std::array<const Shape*, kOperands>& operands) {
  BroadcastPlan<kOperands> plan;
  std::array<int64_t, kOperands> running;
  running.fill(1);
  // From the innermost dim outwards, into reversed order.
  for (size_t i = 0; i < out.rank(); ++i) {
    const int64_t dim = out[out.rank() - 1 - i];
    std::array<int64_t, kOperands> step{};
    bool mergeable = plan.rank > 0;
    for (size_t k = 0; k < kOperands; ++k) {
      const Shape& s = *operands[k];
      const int64_t own = i < s.rank() ? s[s.rank() - 1 - i] : 1;
      step[k] = own == 1 ? 0 : running[k];
      running[k] *= own;
      if (mergeable && dim != 1) {
        const size_t last = plan.rank - 1;
        mergeable = step[k] == plan.steps[k][last] * plan.dims[last];
      }
    }
    if (dim == 1) continue;
    if (mergeable) {
      plan.dims[plan.rank - 1] *= dim;
      continue;
    }
    for (size_t k = 0; k < kOperands; ++k) plan.steps[k][plan.rank] = step[k];
    plan.dims[plan.rank++] = dim;
  }
  if (plan.rank == 0) plan.dims[plan.rank++] = 1;
  return plan;
}

// One innermost run: operand offsets and steps in elements, from out_offset on.
template <size_t kOperands>
using Offsets = std::array<int64_t, kOperands>;
template <size_t kOperands>
using RunRow = void (*)(const void* row, int64_t out_offset, const Offsets<kOperands>& offsets,
                        const Offsets<kOperands>& steps, int64_t count);

// The walk itself, compiled once and not with every operation and type: what differs is behind one
// call per run.
template <size_t kOperands>
[[gnu::noinline]] void walk_runs(const BroadcastPlan<kOperands>& plan, const Exec& exec,
                                 const void* row, RunRow<kOperands> run) {
  constexpr int64_t kCut = 16384;
  const int64_t inner = plan.dims[0];
  const int64_t cuts = (inner + kCut - 1) / kCut;
  int64_t outer = 1;
  for (size_t i = 1; i < plan.rank; ++i) outer *= plan.dims[i];
  Offsets<kOperands> inner_steps;
  for (size_t k = 0; k < kOperands; ++k) inner_steps[k] = plan.steps[k][0];
  const auto one = [&](int64_t index) {
    const int64_t begin = index % cuts * kCut;
    const int64_t count = begin + kCut < inner ? kCut : inner - begin;
    Offsets<kOperands> offsets;
    for (size_t k = 0; k < kOperands; ++k) offsets[k] = begin * plan.steps[k][0];
    int64_t rest = index / cuts;
    for (size_t i = 1; i < plan.rank; ++i) {
      for (size_t k = 0; k < kOperands; ++k) offsets[k] += rest % plan.dims[i] * plan.steps[k][i];
      rest /= plan.dims[i];
    }
    run(row, index / cuts * inner + begin, offsets, inner_steps, count);
  };
  const int64_t rows_per_item = inner >= 1024 ? 1 : 1024 / (inner < 1 ? 1 : inner) + 1;
  parallel_ranges(exec, outer * cuts, rows_per_item, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) one(i);
  });
}

// Calls row(out_offset, operand offsets, operand steps, count) for each innermost run. Long runs
// are cut so that threads can share them.
template <size_t kOperands, class Row>
void walk_broadcast(const BroadcastPlan<kOperands>& plan, const Exec& exec, const Row& row) {
  walk_runs<kOperands>(plan, exec, &row,
                       [](const void* erased, int64_t out, const Offsets<kOperands>& offsets,
                          const Offsets<kOperands>& steps, int64_t count) {
                         (*static_cast<const Row*>(erased))(out, offsets, steps, count);
                       });
}

// One of two operands has a short row that repeats under a long walk of the other.
struct Repeat {
  static constexpr int64_t kMaxPeriod = 64;

  int64_t period = 0;  // elements of the row; 0: there is none
  size_t operand = 0;
};

// Makes one run of the row and its repetitions, in which that operand has step 0.
inline Repeat merge_repeats(BroadcastPlan<2>& plan) {
  if (plan.rank < 2 || plan.dims[0] > Repeat::kMaxPeriod) return {};
  for (const size_t k : {0U, 1U}) {
    const auto& other = plan.steps[1 - k];
    if (plan.steps[k][0] != 1 || plan.steps[k][1] != 0) continue;
    if (other[0] != 1 || other[1] != plan.dims[0]) continue;
    const Repeat repeat{plan.dims[0], k};
    plan.dims[1] *= plan.dims[0];
    plan.steps[1 - k][1] = 1;
    std::move(plan.dims.begin() + 1, plan.dims.end(), plan.dims.begin());
    for (auto& steps : plan.steps) std::move(steps.begin() + 1, steps.end(), steps.begin());
    --plan.rank;
    return repeat;
  }
  return {};
}

// Calls f(a element, b element) for every element of y; steps 0 and 1 get loops of their own, so
// that compilers can vectorise them.
template <class In, class Out, class F>
void map_two(const TensorView& a, const TensorView& b, const TensorView& y, const Exec& exec,
             F&& f) {
  const auto plan = plan_broadcast<2>(y.shape, {&a.shape, &b.shape});
  walk_broadcast(plan, exec, [&](int64_t out, const auto& offsets, const auto& steps, int64_t n) {
    const In* pa = a.as<const In>() + offsets[0];
    const In* pb = b.as<const In>() + offsets[1];
    Out* py = y.as<Out>() + out;
    if (steps[0] == 1 && steps[1] == 1) {
      for (int64_t i = 0; i < n; ++i) py[i] = f(pa[i], pb[i]);
    } else if (steps[0] == 1 && steps[1] == 0) {
      const In value = *pb;
      for (int64_t i = 0; i < n; ++i) py[i] = f(pa[i], value);
    } else if (steps[0] == 0 && steps[1] == 1) {
      const In value = *pa;
      for (int64_t i = 0; i < n; ++i) py[i] = f(value, pb[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) py[i] = f(pa[i * steps[0]], pb[i * steps[1]]);
    }
  });
}

}  // namespace ascendrt::ops
