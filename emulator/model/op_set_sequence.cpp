// Recurrent layers and attention in the operator table. Owns: their attributes and shape rules.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/op_set_matmul.hpp"
#include "ops/attention.hpp"
#include "ops/elementwise.hpp"
#include "ops/recurrent.hpp"

namespace ascendrt::model {
namespace {

const float* floats(Inputs in, size_t i) {
  return in.size() > i ? in[i].as<const float>() : nullptr;
}

void want_floats(const OpView& v, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) {
    if (v.has(i)) v.want_float(i);
  }
}

void want_elements(const OpView& v, size_t i, int64_t count) {
  if (v.has(i) && v.shape(i).elements() != count) {
    v.fail("input " + std::to_string(i) + " has shape " + v.shape(i).text() + ", " +
           std::to_string(count) + " elements are needed");
  }
}

// --- recurrent layers: (x, w, r, bias, lengths, first h, first c, peepholes) ---

struct GateRow {
  std::string_view name;
  ops::Gate kind;
  float alpha, beta;  // defaults
};

constexpr GateRow kGates[] = {
    {"Sigmoid", ops::Gate::kSigmoid, 0, 0},
    {"Tanh", ops::Gate::kTanh, 0, 0},
    {"Relu", ops::Gate::kRelu, 0, 0},
    {"Affine", ops::Gate::kAffine, 1, 0},
    {"LeakyRelu", ops::Gate::kLeakyRelu, 0.01F, 0},
    {"ThresholdedRelu", ops::Gate::kThresholdedRelu, 1, 0},
    {"ScaledTanh", ops::Gate::kScaledTanh, 1, 1},
    {"HardSigmoid", ops::Gate::kHardSigmoid, 0.2F, 0.5F},
    {"Elu", ops::Gate::kElu, 1, 0},
    {"Softsign", ops::Gate::kSoftsign, 0, 0},
    {"Softplus", ops::Gate::kSoftplus, 0, 0},
};

template <class T>
std::vector<T> list_or_none(const OpView& v, std::string_view name) {
  const AttrValue* value = v.op.attrs.find(name);
  if (value == nullptr || value->as<EmptyList>() != nullptr) return {};
  const auto* list = value->as<std::vector<T>>();
  if (list == nullptr) {
    v.fail("attribute '" + std::string(name) + "' is no list of " +
           (std::is_same_v<T, float> ? "numbers with a point" : "texts"));
  }
  return *list;
}

void set_functions(const OpView& v, ops::RecurrentParams& p) {
  const size_t each = p.cell == ops::Cell::kRnn ? 1 : (p.cell == ops::Cell::kGru ? 2 : 3);
  std::vector<std::string> names = list_or_none<std::string>(v, "activations");
  if (names.empty()) {
    const std::vector<std::string> usual = {"Sigmoid", "Tanh", "Tanh"};
    const auto first = usual.begin() + (p.cell == ops::Cell::kRnn ? 1 : 0);
    for (int64_t d = 0; d < p.directions; ++d) {
      names.insert(names.end(), first, first + static_cast<std::ptrdiff_t>(each));
    }
  }
  if (names.size() != each * static_cast<size_t>(p.directions)) v.fail("activations");
  const auto alphas = list_or_none<float>(v, "activation_alpha");
  const auto betas = list_or_none<float>(v, "activation_beta");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* row = std::find_if(std::begin(kGates), std::end(kGates),
                                   [&](const GateRow& r) { return r.name == names[i]; });
    if (row == std::end(kGates)) v.fail("activation " + names[i] + " is not computed");
    ops::GateFunction f{row->kind, row->alpha, row->beta};
    if (i < alphas.size()) f.alpha = alphas[i];
    if (i < betas.size()) f.beta = betas[i];
    p.functions.push_back(f);
  }
}

constexpr std::string_view kByteLstm = "DynamicQuantizeLSTM";

bool is_lstm(const OpView& v) { return v.op.type == "CommonLSTM" || v.op.type == kByteLstm; }

// Bytes [directions][depth][width] at input i, their scales and zero points from input `scale` on:
// one per direction, or per column of it.
void want_byte_weights(const OpView& v, size_t i, size_t scale, int64_t depth, int64_t width) {
  const ops::Shape& w = v.shape(i);
  if ((v.dtype(i) != ACL_INT8 && v.dtype(i) != ACL_UINT8) || w[1] != depth || w[2] != width) {
    v.fail("weights of shape " + w.text() + " do not fit");
  }
  v.want_float(scale);
  for (const size_t k : {scale, scale + 1}) {
    const ops::Shape& s = v.shape(k);
    const bool fits = s.rank() >= 1 && s.rank() <= 2 && s[0] == w[0] &&
                      (s.rank() == 1 || s[1] == 1 || s[1] == width);
    if (!fits) v.fail("input " + std::to_string(k) + " has shape " + s.text());
  }
  if (v.dtype(scale + 1) != v.dtype(i)) v.fail("zero points of another type than the weights");
}

ops::RecurrentParams recurrent_params(const OpView& v) {
  const bool bytes = v.op.type == kByteLstm;
  v.want_count(3, bytes ? 12 : 8);
  want_floats(v, {0, 3, 5, 6, 7});
  if (!bytes) want_floats(v, {1, 2});
  for (const size_t i : {0U, 1U, 2U}) v.want_rank(i, 3);
  ops::RecurrentParams p;
  p.cell = is_lstm(v)                 ? ops::Cell::kLstm
           : v.op.type == "CommonGRU" ? ops::Cell::kGru
                                      : ops::Cell::kRnn;
  p.batch_first = v.op.attrs.int_or("layout", 0) != 0;
  p.steps = v.shape(0)[p.batch_first ? 1 : 0];
  p.batch = v.shape(0)[p.batch_first ? 0 : 1];
  p.inputs = v.shape(0)[2];
  p.hidden = v.shape(2)[bytes ? 1 : 2];
  p.directions = v.shape(1)[0];
  const std::string direction = v.op.attrs.string_or("direction", "forward");
  p.reverse = direction == "reverse";
  p.clip = v.op.attrs.float_or("clip", 0.0F);
  p.linear_before_reset = v.op.attrs.int_or("linear_before_reset", 0) != 0;
  p.input_forget = v.op.attrs.int_or("input_forget", 0) != 0;
  if (p.directions != (direction == "bidirectional" ? 2 : 1) || p.hidden < 1) v.fail("direction");
  const int64_t width = p.directions * p.gates() * p.hidden;
  if (bytes) {
    want_byte_weights(v, 1, 8, p.inputs, p.gates() * p.hidden);
    want_byte_weights(v, 2, 10, p.hidden, p.gates() * p.hidden);
  }
  want_elements(v, 1, width * p.inputs);
  want_elements(v, 2, width * p.hidden);
  want_elements(v, 3, 2 * width);
  want_elements(v, 4, p.batch);
  if (v.has(4) && v.dtype(4) != ACL_INT32) v.fail("lengths must be int32");
  for (const size_t i : {5U, 6U}) want_elements(v, i, p.directions * p.batch * p.hidden);
  want_elements(v, 7, p.directions * 3 * p.hidden);
  set_functions(v, p);
  return p;
}

std::vector<TensorType> infer_recurrent(const OpView& v) {
  const ops::RecurrentParams p = recurrent_params(v);
  const TensorType all{ACL_FLOAT, p.batch_first
                                      ? ops::Shape{p.batch, p.steps, p.directions, p.hidden}
                                      : ops::Shape{p.steps, p.directions, p.batch, p.hidden}};
  const TensorType last{ACL_FLOAT, p.batch_first ? ops::Shape{p.batch, p.directions, p.hidden}
                                                 : ops::Shape{p.directions, p.batch, p.hidden}};
  if (p.cell == ops::Cell::kLstm) return {all, last, last};
  return {all, last};
}

// Null unless both weights are constant floats.
std::shared_ptr<const ops::PackedRecurrent> constant_weights(const OpView& v,
                                                             const ops::RecurrentParams& p) {
  if (v.op.type == kByteLstm || !v.inputs[1].is_constant || !v.inputs[2].is_constant) return {};
  std::vector<float> w;
  std::vector<float> r;
  return std::make_shared<const ops::PackedRecurrent>(
      ops::pack_recurrent(p, aligned_floats(v.inputs[1], w), aligned_floats(v.inputs[2], r)));
}

Kernel build_recurrent(const OpView& v, std::span<const TensorType>) {
  const ops::RecurrentParams p = recurrent_params(v);
  const auto packed = constant_weights(v, p);
  // A GRU multiplies with the rows of r one by one as well.
  const uint8_t unread = packed == nullptr ? 0 : (p.cell == ops::Cell::kGru ? 0b010 : 0b110);
  const auto run = [p, packed](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::RecurrentTensors t;
    t.packed = packed.get();
    t.x = floats(in, 0);
    if (in.size() > 11) {
      t.byte_w = {in[1], in[8], in[9]};
      t.byte_r = {in[2], in[10], in[11]};
    } else {
      t.w = floats(in, 1);
      t.r = floats(in, 2);
    }
    t.bias = floats(in, 3);
    t.lengths = in.size() > 4 ? in[4].as<const int32_t>() : nullptr;
    t.first_h = floats(in, 5);
    t.first_c = floats(in, 6);
    t.peephole = floats(in, 7);
    t.y = out[0].as<float>();
    t.last_h = out[1].as<float>();
    if (out.size() > 2) t.last_c = out[2].as<float>();
    ops::recurrent(p, t, exec);
  };
  return {run, 0, false, 0, unread};
}

std::vector<aclDataType> recurrent_types(const OpView& v) {
  return std::vector<aclDataType>(is_lstm(v) ? 3 : 2, v.dtype(0));
}

// --- attention: (q, k, v, mask, past k, past v, lengths) ---

ops::HeadLayout layout_of(const OpView& v, size_t i, std::string_view heads_attr) {
  const ops::Shape& s = v.shape(i);
  if (s.rank() == 4) return {s[1], s[2], s[3], false};
  v.want_rank(i, 3);
  const int64_t heads = v.op.attrs.int_or(heads_attr, 0);
  if (heads < 1 || s[2] % heads != 0) v.fail("attribute " + std::string(heads_attr));
  return {heads, s[1], s[2] / heads, true};
}

template <class Params>
void set_heads(const OpView& v, Params& p) {
  p.batch = v.shape(0)[0];
  p.q = p.y = layout_of(v, 0, "q_num_heads");
  p.k = layout_of(v, 1, "kv_num_heads");
  p.v = layout_of(v, 2, "kv_num_heads");
  p.y.size = p.v.size;
}

ops::AttentionParams attention_params(const OpView& v) {
  v.want_count(3, 7);
  want_floats(v, {0, 1, 2, 4, 5});
  ops::AttentionParams p;
  set_heads(v, p);
  p.past = v.has(4) ? v.shape(4)[2] : 0;
  if (p.k.heads < 1 || p.q.heads % p.k.heads != 0 || p.v.heads != p.k.heads ||
      p.v.rows != p.k.rows || p.k.size != p.q.size) {
    v.fail("heads or sizes do not fit");
  }
  want_elements(v, 4, p.batch * p.k.heads * p.past * p.k.size);
  want_elements(v, 5, p.batch * p.v.heads * p.past * p.v.size);
  want_elements(v, 6, p.batch);
  const auto size = static_cast<float>(p.q.size);
  p.scale = v.op.attrs.float_or("scale", 1.0F / std::sqrt(size));
  p.cap = v.op.attrs.float_or("softcap", 0.0F);
  p.causal = v.flag("is_causal");
  p.left = v.op.attrs.int_or("left_window_size", -1);
  p.right = v.op.attrs.int_or("right_window_size", -1);
  p.scores = static_cast<ops::Scores>(v.op.attrs.int_or("qk_matmul_output_mode", 0) & 3);
  if (v.has(3)) {
    const ops::Shape& mask = v.shape(3);
    if (v.dtype(3) != ACL_BOOL) v.want_float(3);
    const int64_t full[] = {p.batch, p.q.heads, p.q.rows};
    if (mask.rank() < 1 || mask.rank() > 4) v.fail("the mask");
    for (size_t i = 0; i + 1 < mask.rank(); ++i) {
      if (mask[i] != 1 && mask[i] != full[4 - mask.rank() + i]) v.fail("the mask does not fit");
    }
  }
  return p;
}

std::vector<TensorType> infer_attention(const OpView& v) {
  const ops::AttentionParams p = attention_params(v);
  const int64_t total = p.past + p.k.rows;
  const ops::Shape y = p.y.packed ? ops::Shape{p.batch, p.y.rows, p.y.heads * p.y.size}
                                  : ops::Shape{p.batch, p.y.heads, p.y.rows, p.y.size};
  return {{ACL_FLOAT, y},
          {ACL_FLOAT, {p.batch, p.k.heads, total, p.k.size}},
          {ACL_FLOAT, {p.batch, p.v.heads, total, p.v.size}},
          {ACL_FLOAT, {p.batch, p.q.heads, p.q.rows, total}}};
}

Kernel build_attention(const OpView& v, std::span<const TensorType>) {
  return make_kernel([p = attention_params(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    std::vector<int64_t> lengths;
    if (in.size() > 6 && in[6].data != nullptr) {
      lengths.resize(static_cast<size_t>(in[6].elements()));
      ops::cast(in[6], {lengths.data(), ACL_INT64, in[6].shape}, exec);
    }
    ops::AttentionTensors t;
    t.q = floats(in, 0);
    t.k = floats(in, 1);
    t.v = floats(in, 2);
    t.mask = in.size() > 3 && in[3].data != nullptr ? &in[3] : nullptr;
    t.past_k = floats(in, 4);
    t.past_v = floats(in, 5);
    t.lengths = lengths.empty() ? nullptr : lengths.data();
    t.y = out[0].as<float>();
    t.present_k = out[1].as<float>();
    t.present_v = out[2].as<float>();
    t.scores = out[3].as<float>();
    ops::attention(p, t, exec);
  });
}

std::vector<aclDataType> four_types(const OpView& v) {
  return std::vector<aclDataType>(4, v.dtype(0));
}

// LinearAttention(q, k, v, past state, decay, beta).
ops::LinearParams linear_params(const OpView& v) {
  v.want_count(3, 6);
  want_floats(v, {0, 1, 2, 3, 4, 5});
  ops::LinearParams p;
  set_heads(v, p);
  if (p.q.heads % p.k.heads != 0 || p.k.size != p.q.size || p.v.heads != p.k.heads ||
      p.k.rows != p.q.rows || p.v.rows != p.q.rows || !p.q.packed) {
    v.fail("heads or sizes do not fit");
  }
  p.scale = v.op.attrs.float_or("scale", 0.0F);
  if (p.scale == 0.0F) p.scale = 1.0F / std::sqrt(static_cast<float>(p.k.size));
  want_elements(v, 3, p.batch * p.k.heads * p.k.size * p.v.size);
  const std::string rule = v.op.attrs.string_or("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear") v.fail("update_rule " + rule);
  if (gated != v.has(4) || corrected != v.has(5)) v.fail("decay or beta against update_rule");
  if (gated) p.decays = v.shape(4)[v.shape(4).rank() - 1];
  if (corrected) p.betas = v.shape(5)[v.shape(5).rank() - 1];
  if ((gated && p.decays != p.k.heads && p.decays != p.k.heads * p.k.size) ||
      (corrected && p.betas != 1 && p.betas != p.k.heads)) {
    v.fail("decay or beta does not fit");
  }
  want_elements(v, 4, p.batch * p.k.rows * p.decays);
  want_elements(v, 5, p.batch * p.k.rows * p.betas);
  return p;
}

std::vector<TensorType> infer_linear(const OpView& v) {
  const ops::LinearParams p = linear_params(v);
  return {{ACL_FLOAT, {p.batch, p.y.rows, p.y.heads * p.y.size}},
          {ACL_FLOAT, {p.batch, p.k.heads, p.k.size, p.v.size}}};
}

Kernel build_linear(const OpView& v, std::span<const TensorType>) {
  return make_kernel([p = linear_params(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    std::memset(out[1].data, 0, out[1].size_bytes());
    if (floats(in, 3) != nullptr) std::memcpy(out[1].data, in[3].data, out[1].size_bytes());
    ops::linear_attention(p, floats(in, 0), floats(in, 1), floats(in, 2), floats(in, 4),
                          floats(in, 5), out[1].as<float>(), out[0].as<float>(), exec);
  });
}

std::vector<aclDataType> two_types(const OpView& v) { return {v.dtype(0), v.dtype(0)}; }

// RotaryEmbedding(x, cosines, sines, positions).
struct Rotation {
  ops::HeadLayout layout;
  int64_t batch, pairs, rows;  // rows of the caches
};

Rotation rotation(const OpView& v) {
  v.want_count(3, 4);
  want_floats(v, {0, 1, 2});
  Rotation r{layout_of(v, 0, "num_heads"), v.shape(0)[0], 0, 0};
  const int64_t turned = v.op.attrs.int_or("rotary_embedding_dim", 0);
  r.pairs = (turned > 0 ? turned : r.layout.size) / 2;
  const ops::Shape& cosines = v.shape(1);
  if (cosines.rank() < 2 || 2 * r.pairs > r.layout.size || cosines[cosines.rank() - 1] != r.pairs ||
      !(v.shape(2) == cosines)) {
    v.fail("caches of shape " + cosines.text() + " do not fit");
  }
  r.rows = cosines.elements(0, cosines.rank() - 1);
  want_elements(v, 3, r.batch * r.layout.rows);
  if (!v.has(3)) want_elements(v, 1, r.batch * r.layout.rows * r.pairs);
  return r;
}

std::vector<TensorType> infer_rotation(const OpView& v) {
  static_cast<void>(rotation(v));
  return {v.inputs[0].type};
}

Kernel build_rotation(const OpView& v, std::span<const TensorType>) {
  const auto pairs = v.flag("interleaved") ? ops::Pairs::kNeighbours : ops::Pairs::kHalves;
  return make_kernel([r = rotation(v), pairs](Inputs in, Outputs out, const ops::Exec& exec) {
    std::vector<int64_t> positions;
    if (in.size() > 3 && in[3].data != nullptr) {
      positions.resize(static_cast<size_t>(in[3].elements()));
      ops::cast(in[3], {positions.data(), ACL_INT64, in[3].shape}, exec);
      for (const int64_t at : positions) {
        if (at < 0 || at >= r.rows) ops::fail("RotaryEmbedding", "a position outside the cache");
      }
    }
    ops::rotate_positions(r.layout, r.batch, pairs, r.pairs, floats(in, 0), floats(in, 1),
                          floats(in, 2), positions.empty() ? nullptr : positions.data(),
                          out[0].as<float>(), exec);
  });
}

constexpr Halves kWidened = Halves::kWidened;

constexpr OpType kTable[] = {
    {"CommonRNN", infer_recurrent, build_recurrent, kWidened, recurrent_types},
    {"CommonGRU", infer_recurrent, build_recurrent, kWidened, recurrent_types},
    {"CommonLSTM", infer_recurrent, build_recurrent, kWidened, recurrent_types},
    {kByteLstm, infer_recurrent, build_recurrent, kWidened, recurrent_types},
    {"Attention", infer_attention, build_attention, kWidened, four_types},
    {"LinearAttention", infer_linear, build_linear, kWidened, two_types},
    {"RotaryEmbedding", infer_rotation, build_rotation},
};

}  // namespace

std::span<const OpType> sequence_op_types() { return kTable; }

}  // namespace ascendrt::model
