// Owns: finding and replacing patterns. Must never: merge a value that somebody else reads, unless
// it stays.
#include "model/fuse.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "model/conv_chain.hpp"
#include "model/fuse_chain.hpp"
#include "model/fuse_graph.hpp"

namespace ascendrt::model {
namespace {

using Index = FusionGraph::Index;
constexpr Index kNone = FusionGraph::kNone;

bool is_any(const Op& op, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), op.type) != types.end();
}

// What merged operators compute with; doubles stay in operators of their own.
bool is_computed(const TensorDesc& desc) {
  return desc.dtype == kFloat || desc.dtype == kFloat16 || desc.dtype == kBfloat16;
}

// --- (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dim ---

class LayerNormPattern {
 public:
  explicit LayerNormPattern(FusionGraph& graph) : g_(graph) {}

  void find_all() {
    for (Index i = 0; i < g_.size(); ++i) {
      if (g_.alive(i) && g_.op(i).type == "Add" && match(i)) replace();
    }
  }

 private:
  // The operand of a commutative op that is made by a `type`; `other` becomes the other one.
  Index operand_of_type(Index i, std::string_view type, size_t& other) const {
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const Index from = g_.producer(i, k);
      if (from != kNone && g_.op(from).type == type && g_.op(i).inputs.size() == 2) {
        other = 1 - k;
        return from;
      }
    }
    return kNone;
  }

  // A mean over the last dim that keeps it.
  bool is_mean(Index i) const {
    if (i == kNone || g_.op(i).type != "ReduceMean") return false;
    const auto axes = g_.constant_ints(i, 1);
    const auto rank = static_cast<int64_t>(g_.op(i).input_descs[0].dims.size());
    return g_.op(i).attrs.get_bool("keep_dims").value_or(false) && axes && axes->size() == 1 &&
           ((*axes)[0] == -1 || (*axes)[0] == rank - 1);
  }

  bool is_parameter(Index i, size_t input) const {
    const Op& op = g_.op(i);
    const Dims& dims = op.input_descs[input].dims;
    return g_.is_constant(i, input) && !dims.empty() && dims.back() == length_ &&
           element_count(dims) == length_;
  }

  bool is_centred(Index i) const {
    return i != kNone && g_.op(i).type == "Sub" && g_.op(i).inputs[0] == x_ &&
           is_mean(g_.producer(i, 1)) && g_.op(g_.producer(i, 1)).inputs[0] == x_;
  }

  // x - mean, given one of the places that use it.
  bool match_centred(Index i) {
    if (i == kNone || g_.op(i).type != "Sub") return false;
    x_ = g_.op(i).inputs[0];
    return is_centred(i);
  }

  bool match_variance(Index mean) {
    if (!is_mean(mean)) return false;
    const Index square = g_.producer(mean, 0);
    if (square == kNone) return false;
    const Op& op = g_.op(square);
    const bool squares = op.type == "Square" ||
                         (op.type == "Pow" && g_.constant_float(square, 1) == 2.0F) ||
                         (op.type == "Mul" && op.inputs[0] == op.inputs[1]);
    if (!squares || !is_centred(g_.producer(square, 0))) return false;
    parts_.insert(parts_.end(), {square, g_.producer(square, 0)});
    return true;
  }

  bool match(Index last) {
    parts_ = {last};
    add_ = last;
    scaled_ = operand_of_type(last, "Mul", beta_);
    if (scaled_ == kNone || !is_computed(g_.op(last).output_descs[0])) return false;
    length_ =
        g_.op(last).output_descs[0].dims.empty() ? -1 : g_.op(last).output_descs[0].dims.back();
    const Index ratio = operand_of_type(scaled_, "RealDiv", gamma_);
    if (ratio == kNone || length_ < 1) return false;
    const Index root = g_.producer(ratio, 1);
    if (!match_centred(g_.producer(ratio, 0)) || root == kNone || g_.op(root).type != "Sqrt") {
      return false;
    }
    const Index sum = g_.producer(root, 0);
    if (sum == kNone || g_.op(sum).type != "Add") return false;
    size_t constant = 0;
    const Index mean = operand_of_type(sum, "ReduceMean", constant);
    if (mean == kNone || !match_variance(mean)) return false;
    const auto epsilon = g_.constant_float(sum, constant);
    if (!epsilon || !is_parameter(last, beta_) || !is_parameter(scaled_, gamma_)) return false;
    epsilon_ = *epsilon;
    const Index centred = g_.producer(ratio, 0);
    parts_.insert(parts_.end(), {scaled_, ratio, root, sum, mean, centred, g_.producer(centred, 1),
                                 g_.producer(parts_[2], 1)});
    return g_.op(last).output_descs[0].dims == g_.op(centred).input_descs[0].dims &&
           g_.closed(parts_, last);
  }

  void replace() {
    const Op& last = g_.op(add_);
    const Op& scaled = g_.op(scaled_);
    const Op& centred = g_.op(parts_[2]);
    const auto axis = static_cast<int64_t>(last.output_descs[0].dims.size()) - 1;
    Op op;
    op.type = "LayerNorm";
    op.name = last.name;
    op.inputs = {x_, scaled.inputs[gamma_], last.inputs[beta_]};
    op.input_descs = {centred.input_descs[0], scaled.input_descs[gamma_], last.input_descs[beta_]};
    op.output_descs = last.output_descs;
    op.attrs.set("begin_norm_axis", axis);
    op.attrs.set("begin_params_axis", axis);
    op.attrs.set("epsilon", epsilon_);
    g_.replace(parts_, add_, std::move(op));
  }

  FusionGraph& g_;
  std::vector<Index> parts_;
  std::string x_;
  Index add_ = kNone, scaled_ = kNone;
  size_t beta_ = 0, gamma_ = 0;
  int64_t length_ = 0;
  float epsilon_ = 0.0F;
};

// --- softmax(q k^T * scale + mask) v ---

class AttentionPattern {
 public:
  explicit AttentionPattern(FusionGraph& graph) : g_(graph) {}

  void find_all() {
    for (Index i = 0; i < g_.size(); ++i) {
      if (g_.alive(i) && g_.op(i).type == "SoftmaxV2" && match(i)) replace();
    }
  }

 private:
  static bool is_product(const Op& op) {
    const auto set = [&](std::string_view name) { return op.attrs.get_bool(name).value_or(false); };
    return is_any(op, {"BatchMatMulV2", "BatchMatMul"}) && op.inputs.size() == 2 &&
           !set("adj_x1") && !set("adj_x2");
  }

  bool over_last_dim(Index i) const {
    const auto* axes = g_.op(i).attrs.get_ints("axes");
    return axes != nullptr && axes->size() == 1 && ((*axes)[0] == -1 || (*axes)[0] == 3);
  }

  // Walks up from the softmax: a mask, a scale, the product.
  bool match_scores(Index softmax) {
    mask_.clear();
    scale_ = 1.0F;
    divides_ = false;
    Index at = g_.producer(softmax, 0);
    if (at != kNone && g_.op(at).type == "Add") {
      const Index before = masked_side(at);
      if (before == kNone) return false;
      parts_.push_back(at);
      at = before;
    }
    if (at != kNone && is_any(g_.op(at), {"RealDiv", "Mul"})) {
      const auto scale = g_.constant_float(at, 1);
      if (!scale) return false;
      scale_ = *scale;
      divides_ = g_.op(at).type == "RealDiv";
      parts_.push_back(at);
      at = g_.producer(at, 0);
    }
    if (at == kNone || !is_product(g_.op(at))) return false;
    products_ = at;
    parts_.push_back(at);
    return true;
  }

  // The side of the sum that comes from the product; the other one is the mask.
  Index masked_side(Index add) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Index from = g_.producer(add, side);
      if (from == kNone || !is_any(g_.op(from), {"RealDiv", "Mul", "BatchMatMulV2"})) continue;
      const bool scaled = g_.op(from).type != "BatchMatMulV2";
      if (scaled && !g_.constant_float(from, 1)) continue;
      if (g_.op(from).output_descs[0].dims != g_.op(add).output_descs[0].dims) continue;
      mask_ = g_.op(add).inputs[1 - side];
      mask_desc_ = g_.op(add).input_descs[1 - side];
      return from;
    }
    return kNone;
  }

  bool mask_fits(const Dims& scores) const {
    const Dims& dims = mask_desc_.dims;
    if (mask_.empty()) return true;
    if (dims.empty() || dims.size() > 4 || dims.back() != scores[3]) return false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != 1 && dims[i] != scores[4 - dims.size() + i]) return false;
    }
    return true;
  }

  // The value before a transposition by `perm`; empty when it is none.
  std::string before(const std::string& value, const std::vector<int64_t>& perm, TensorDesc& desc) {
    const Index i = g_.maker(value);
    if (i == kNone || g_.op(i).type != "Transpose" || g_.constant_ints(i, 1) != perm) return {};
    turned_.push_back(i);
    desc = g_.op(i).input_descs[0];
    return g_.op(i).inputs[0];
  }

  bool match(Index softmax) {
    parts_ = {softmax};
    turned_.clear();
    const Dims& scores = g_.op(softmax).output_descs[0].dims;
    if (scores.size() != 4 || !is_computed(g_.op(softmax).output_descs[0]) ||
        !over_last_dim(softmax) || !match_scores(softmax))
      return false;
    sums_ = g_.only_reader(softmax);
    if (sums_ == kNone || !is_product(g_.op(sums_)) || g_.producer(sums_, 0) != softmax)
      return false;
    parts_.push_back(sums_);
    last_ = sums_;
    const Op& products = g_.op(products_);
    const Op& sums = g_.op(sums_);
    const Dims& q = products.input_descs[0].dims;
    const Dims& v = sums.input_descs[1].dims;
    if (!FusionGraph::is_known(scores) || q.size() != 4 || v.size() != 4 || !mask_fits(scores) ||
        products.input_descs[1].dims.size() != 4) {
      return false;
    }
    for (const Dims* dims : {&q, &products.input_descs[1].dims, &v}) {
      if ((*dims)[0] != scores[0] || (*dims)[1] != scores[1]) return false;
    }
    if (!rows_first() && !heads_first()) return false;
    return g_.closed(parts_, last_) && !g_.reads_one_of(last_, mask_, parts_);
  }

  // Operands [batch, rows, heads, size], turned for the products and back behind them.
  bool rows_first() {
    const Op& products = g_.op(products_);
    const Op& sums = g_.op(sums_);
    operands_[0] = before(products.inputs[0], {0, 2, 1, 3}, descs_[0]);
    operands_[1] = before(products.inputs[1], {0, 2, 3, 1}, descs_[1]);
    if (operands_[1].empty()) {
      const std::string turned = before(products.inputs[1], {0, 1, 3, 2}, descs_[1]);
      if (!turned.empty()) operands_[1] = before(turned, {0, 2, 1, 3}, descs_[1]);
    }
    operands_[2] = before(sums.inputs[1], {0, 2, 1, 3}, descs_[2]);
    const Index back = g_.only_reader(sums_);
    if (operands_[0].empty() || operands_[1].empty() || operands_[2].empty() || back == kNone ||
        g_.op(back).type != "Transpose" ||
        g_.constant_ints(back, 1) != std::vector<int64_t>{0, 2, 1, 3}) {
      return false;
    }
    layout_ = "BSND";
    parts_.push_back(back);
    last_ = back;
    return true;
  }

  bool heads_first() {
    const Op& products = g_.op(products_);
    const Op& sums = g_.op(sums_);
    operands_[0] = products.inputs[0];
    descs_[0] = products.input_descs[0];
    operands_[1] = before(products.inputs[1], {0, 1, 3, 2}, descs_[1]);
    operands_[2] = sums.inputs[1];
    descs_[2] = sums.input_descs[1];
    layout_ = "BNSD";
    return !operands_[1].empty();
  }

  void replace() {
    Op op;
    op.type = kFusedAttention;
    op.name = g_.op(sums_).name;
    for (size_t i = 0; i < 3; ++i) {
      op.inputs.push_back(operands_[i]);
      op.input_descs.push_back(descs_[i]);
    }
    if (!mask_.empty()) {
      op.inputs.push_back(mask_);
      op.input_descs.push_back(mask_desc_);
    }
    op.output_descs = g_.op(last_).output_descs;
    op.attrs.set("num_heads", g_.op(products_).output_descs[0].dims[1]);
    op.attrs.set("input_layout", std::string(layout_));
    op.attrs.set("scale_value", scale_);
    if (divides_) op.attrs.set(kScaleDivides, true);
    g_.add_unread(parts_, turned_);
    g_.replace(parts_, last_, std::move(op));
  }

  FusionGraph& g_;
  std::vector<Index> parts_;
  std::vector<Index> turned_;  // transpositions that are passed over
  Index products_ = kNone, sums_ = kNone, last_ = kNone;
  std::string operands_[3], mask_;
  TensorDesc descs_[3], mask_desc_;
  std::string_view layout_;
  float scale_ = 1.0F;
  bool divides_ = false;
};

// --- a matrix product and what follows it ---

class ProductPattern {
 public:
  explicit ProductPattern(FusionGraph& graph) : g_(graph) {}

  void find_all() {
    for (Index i = 0; i < g_.size(); ++i) {
      if (!g_.alive(i)) continue;
      const Op& op = g_.op(i);
      if (!is_any(op, {"MatMulV2", "MatMul", "BatchMatMulV2", "BatchMatMul"})) continue;
      if (!is_computed(op.output_descs[0]) || op.inputs.size() > 2) continue;
      if (!FusionGraph::is_known(op.output_descs[0].dims)) continue;
      for (const size_t side : {size_t{0}, size_t{1}}) turn_operand(i, side);
      grow(i);
    }
  }

 private:
  static std::string_view turn_name(const Op& op, size_t side) {
    const bool batched = op.type.starts_with("Batch");
    if (side == 0) return batched ? "adj_x1" : "transpose_x1";
    return batched ? "adj_x2" : "transpose_x2";
  }

  // A transposition of the last two dims becomes a flag.
  void turn_operand(Index product, size_t side) {
    const Index i = g_.producer(product, side);
    if (i == kNone || g_.op(i).type != "Transpose") return;
    const auto perm = g_.constant_ints(i, 1);
    const size_t rank = g_.op(i).input_descs[0].dims.size();
    if (!perm || perm->size() != rank || rank < 2) return;
    for (size_t k = 0; k < rank; ++k) {
      const size_t from = k + 2 < rank ? k : (k + 2 == rank ? rank - 1 : rank - 2);
      if ((*perm)[k] != static_cast<int64_t>(from)) return;
    }
    Op op = g_.op(product);
    const std::string_view name = turn_name(op, side);
    op.attrs.set(name, !op.attrs.get_bool(name).value_or(false));
    op.inputs[side] = g_.op(i).inputs[0];
    op.input_descs[side] = g_.op(i).input_descs[0];
    std::vector<Index> parts = {product};
    g_.add_unread(parts, {i});
    g_.replace(parts, product, std::move(op));
  }

  // Adds readers of the region in order while they are element-wise; the longest region with one
  // result wins.
  void grow(Index product) {
    constexpr size_t kMostSteps = 16;
    Op start = g_.op(product);
    const Index bias = add_bias(product, start);
    const Index from = bias == kNone ? product : bias;
    ChainRegion region(g_, {.root = g_.op(from).name + ":0",
                            .y = g_.op(product).output_descs[0],
                            .ready_before = product,
                            .takes_rows = true});
    region.parts().push_back(product);
    if (bias != kNone) region.parts().push_back(bias);
    std::optional<ChainRegion> best;
    if (bias != kNone) best = region;
    while (region.steps() < kMostSteps) {
      const Index next = g_.first_reader(region.parts());
      if (next == kNone || !region.absorb(next)) break;
      if (region.is_whole()) best = region;
    }
    if (best) replace(start, *best, bias);
  }

  // A vector added to every row becomes the bias.
  Index add_bias(Index product, Op& start) const {
    const Index add = g_.only_reader(product);
    if (add == kNone || g_.op(add).type != "Add") return kNone;
    const Op& op = g_.op(add);
    const size_t side = g_.producer(add, 0) == product ? 1 : 0;
    const Dims& y = start.output_descs[0].dims;
    const Dims& dims = op.input_descs[side].dims;
    if (!g_.is_constant(add, side) || op.output_descs[0].dims != y || dims.empty() ||
        dims.back() != y.back() || element_count(dims) != y.back()) {
      return kNone;
    }
    start.inputs.push_back(op.inputs[side]);
    start.input_descs.push_back(op.input_descs[side]);
    return add;
  }

  void replace(Op op, ChainRegion& region, Index bias) {
    const Index last = region.parts().back();
    op.output_descs = g_.op(last).output_descs;
    if (region.steps() > 0) {
      if (bias == kNone) {
        op.inputs.emplace_back();
        op.input_descs.emplace_back();
      }
      op.type = kFusedMatMul;
      region.describe(op);
    }
    g_.replace(region.parts(), last, std::move(op));
  }

  FusionGraph& g_;
};

// --- element-wise operators behind each other ---

class ElementwisePattern {
 public:
  ElementwisePattern(FusionGraph& graph, const std::unordered_set<std::string>& taken)
      : g_(graph), taken_(taken) {}

  void find_all() {
    for (Index i = 0; i < g_.size(); ++i) {
      if (g_.alive(i)) grow(i);
    }
  }

 private:
  bool is_free(Index i) const { return !taken_.contains(g_.op(i).name); }

  // The operand that the steps start from: the first one of the result's shape.
  std::string root_of(Index i) const {
    const Op& op = g_.op(i);
    for (size_t k = 0; k < op.inputs.size() && k < op.input_descs.size(); ++k) {
      const bool fits = op.input_descs[k].dims == op.output_descs[0].dims;
      if (fits && !op.inputs[k].empty() && !g_.is_constant(i, k)) return op.inputs[k];
    }
    return {};
  }

  void grow(Index first) {
    constexpr size_t kMostSteps = 24;
    const Op& op = g_.op(first);
    if (op.output_descs.size() != 1 || !is_computed(op.output_descs[0]) || !is_free(first)) return;
    const std::string root = root_of(first);
    if (root.empty() || !FusionGraph::is_known(op.output_descs[0].dims)) return;
    ChainRegion region(
        g_, {.root = root, .y = op.output_descs[0], .ready_before = first, .takes_rows = false});
    if (!region.absorb(first)) return;
    std::optional<ChainRegion> best;
    while (region.steps() < kMostSteps) {
      const Index next = g_.first_reader(region.parts());
      if (next == kNone || !is_free(next) || !region.absorb(next)) break;
      if (region.is_whole()) best = region;
    }
    if (best) replace(*best, root);
  }

  void replace(ChainRegion& region, const std::string& root) {
    const Op& first = g_.op(region.parts().front());
    Op op;
    op.type = kFusedElementwise;
    op.name = first.name;
    op.inputs = {root};
    op.input_descs = {first.output_descs[0]};
    op.output_descs = g_.op(region.parts().back()).output_descs;
    region.describe(op);
    g_.replace(region.parts(), region.parts().back(), std::move(op));
  }

  FusionGraph& g_;
  const std::unordered_set<std::string>& taken_;
};

// What is computed together with a convolution anyhow.
std::unordered_set<std::string> parts_of_chains(const Graph& graph) {
  const ConvChains chains(graph);
  std::unordered_set<std::string> names;
  for (const Op& op : graph.ops) {
    if (chains.of(op) != nullptr) names.insert(op.name);
  }
  return names;
}

}  // namespace

void fuse(Graph& graph) {
  const auto taken = parts_of_chains(graph);
  FusionGraph view(graph);
  LayerNormPattern(view).find_all();
  AttentionPattern(view).find_all();
  ProductPattern(view).find_all();
  ElementwisePattern(view, taken).find_all();
  view.finish();
}

}  // namespace ascendrt::model
