// Which ops of a graph are computed together with a convolution: a normalization and a bias folded
// into its weights, an addition, an activation. Owns: the search. Must never: compile or compute
// anything.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/op_set.hpp"
#include "ops/blocked.hpp"
#include "ops/conv.hpp"

namespace ascendrt::model {

// In this order of computation; null: there is none. Results between them have one reader each.
struct ConvChain {
  const Op* conv = nullptr;
  const Op* norm = nullptr;
  const Op* bias = nullptr;  // Add of one constant for each channel
  const Op* add = nullptr;
  const Op* clamp = nullptr;  // Relu, Relu6 or ClipByValue with constant bounds
  size_t biased = 0;          // input of `bias` that is constant
  size_t addend = 0;          // input of `add` that comes from outside the chain

  std::vector<const Op*> parts() const;  // those there are
  const Op& tail() const { return *parts().back(); }
};

class ConvChains {
 public:
  explicit ConvChains(const Graph& graph);

  const ConvChain* of(const Op& op) const;  // null: the op is in no chain
  // The border that the convolutions reading output 0 of an op want around it.
  ops::Border border_behind(const Op& op) const;
  // One convolution alone reads output 0 and widens halves before it computes.
  bool is_widened_behind(const Op& op) const;
  // The border for quantised convolutions; filled with the zero point that the first one names.
  ops::Border byte_border_behind(const Op& op) const;

 private:
  using Reader = std::pair<const Op*, size_t>;  // and which of its inputs

  const Op* maker(const Op& op, size_t input) const;
  bool is_constant(const Op& op, size_t input) const;
  bool can_start(const Op& op) const;
  const Reader* only_reader(const Op& op) const;
  const Reader* next_part(const Op& op) const;
  template <class Reach>
  ops::Border joined(const Op& op, const Reach& reach) const;
  void extend(ConvChain& chain) const;

  std::unordered_map<std::string_view, const Op*> ops_;
  std::unordered_map<std::string_view, std::vector<Reader>> readers_;  // of output 0
  std::unordered_map<std::string_view, int> other_outputs_read_;
  std::deque<ConvChain> chains_;
  std::unordered_map<const Op*, const ConvChain*> chain_of_;
};

// An op with the types that its descriptors declare; halves count as float32. Nothing is constant.
OpView declared_view(const Op& op);

}  // namespace ascendrt::model
