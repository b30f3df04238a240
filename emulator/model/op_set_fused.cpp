// Operators that the converter makes of several: FusedMatMul (a product and what follows element by
// element), FusedElementwise and PromptFlashAttention. Owns: how their attributes become the
// arguments of kernels. Must never: hold arithmetic; that is in ops/.
#include <memory>

#include "model/fuse.hpp"
#include "model/op_set.hpp"
#include "model/op_set_matmul.hpp"
#include "ops/attention.hpp"
#include "ops/chain.hpp"

namespace ascendrt::model {
namespace {

// --- FusedMatMul(a, b, bias, tensors beside the product ...) ---

constexpr size_t kFirstBeside = 3;

ops::ChainOperand chain_operand(int64_t code) {
  if (code == kChainProduct) return {};
  if (code >= 0) return {ops::ChainFrom::kStep, static_cast<size_t>(code)};
  return {ops::ChainFrom::kBeside, static_cast<size_t>(kFirstChainBeside - code)};
}

// The steps in the attributes; every index in them is checked.
std::vector<ops::ChainStep> chain_steps(const OpView& v, size_t first_beside) {
  const auto* types = v.op.attrs.get_strings(kChainTypes);
  const std::vector<int64_t> operands = v.ints(kChainOperands);
  const auto* params = v.op.attrs.get_floats(kChainParams);
  if (types == nullptr || params == nullptr || operands.size() != 2 * types->size() ||
      params->size() != 2 * types->size()) {
    v.fail("its steps are not described");
  }
  std::vector<ops::ChainStep> steps;
  for (size_t i = 0; i < types->size(); ++i) {
    for (const int64_t code : {operands[2 * i], operands[2 * i + 1]}) {
      const bool known = code < 0 || code < static_cast<int64_t>(i);
      const bool beside = code <= kFirstChainBeside;
      if (!known || (beside && !v.has(first_beside + chain_operand(code).index))) {
        v.fail("step " + std::to_string(i) + " reads what is not there");
      }
    }
    ops::ChainStep step;
    Op alone;
    alone.type = (*types)[i];
    if (!find_element_wise(alone, step)) v.fail("step " + alone.type + " is not computed");
    step.params = {(*params)[2 * i], (*params)[2 * i + 1]};
    step.a = chain_operand(operands[2 * i]);
    step.b = chain_operand(operands[2 * i + 1]);
    steps.push_back(step);
  }
  return steps;
}

ops::Shape product_shape(const OpView& v, MatmulShape& s) {
  s = matmul_shape(v, kFirstBeside);
  ops::Shape y = s.batch;
  y.push_back(s.rows);
  y.push_back(s.columns);
  return y;
}

ops::Spread spread_of(const OpView& v, size_t input, const ops::Shape& y) {
  const ops::Shape& own = v.shape(input);
  v.want_float(input);
  if (own.elements() == 1) return ops::Spread::kOne;
  if (own.elements() == y.elements()) return ops::Spread::kFull;
  if (own.elements() == y[y.rank() - 1] && own[own.rank() - 1] == own.elements()) {
    return ops::Spread::kRow;
  }
  v.fail("input " + std::to_string(input) + " of shape " + own.text() + " does not spread over " +
         y.text());
}

std::shared_ptr<const ops::Chain> chain_of(const OpView& v) {
  MatmulShape s;
  const ops::Shape y = product_shape(v, s);
  auto chain = std::make_shared<ops::Chain>();
  std::vector<ops::Spread> spreads;
  for (size_t i = kFirstBeside; i < v.inputs.size(); ++i) spreads.push_back(spread_of(v, i, y));
  if (!chain->set_steps(chain_steps(v, kFirstBeside)))
    v.fail("its steps need too many temporary tiles");
  chain->set_beside(std::move(spreads));
  // The operands were widened; what the op gives tells what its parts are rounded to.
  const int32_t made = v.op.output_descs.empty() ? kUndefined : v.op.output_descs[0].dtype;
  if (made == kFloat16 || made == kBfloat16) chain->set_rounding(static_cast<aclDataType>(made));
  return chain;
}

std::vector<TensorType> infer_fused(const OpView& v) {
  v.want_float(0);
  static_cast<void>(chain_of(v));
  MatmulShape s;
  return {{ACL_FLOAT, product_shape(v, s)}};
}

Kernel build_fused(const OpView& v, std::span<const TensorType>) {
  const auto chain = chain_of(v);
  const Matmul matmul = make_matmul(v, kFirstBeside);
  const int64_t columns = matmul.shape.columns;
  uint8_t in_place = 0;
  MatmulShape s;
  const ops::Shape y = product_shape(v, s);
  for (size_t i = kFirstBeside; i < v.inputs.size() && i < 8; ++i) {
    if (spread_of(v, i, y) == ops::Spread::kFull) in_place |= static_cast<uint8_t>(1U << i);
  }
  const auto run = [chain, matmul, columns](Inputs in, Outputs out, const ops::Exec& exec,
                                            float* room) {
    std::vector<const float*> beside;
    for (size_t i = kFirstBeside; i < in.size(); ++i) beside.push_back(in[i].as<const float>());
    const ops::FinishTile finish = [&](const ops::ResultTile& tile) {
      chain->run(tile, beside, columns);
    };
    matmul.run(in, out, exec, &finish, room);
  };
  Kernel kernel = make_kernel(
      [run](Inputs in, Outputs out, const ops::Exec& exec) { run(in, out, exec, nullptr); });
  kernel.run_halves = run;
  kernel.scratch_bytes = matmul.scratch_bytes;
  kernel.in_place = in_place;
  kernel.unread = matmul.unread();
  return kernel;
}

// --- FusedElementwise(x, tensors beside it ...) ---

// Of the type that it computes on: halves are widened tile by tile, and rounded once.
struct Elementwise {
  ops::Chain chain;
  std::vector<ops::Spread> spreads;  // of the inputs behind x
};

std::shared_ptr<const Elementwise> elementwise_of(const OpView& v) {
  const aclDataType dtype = v.dtype(0);
  if (dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16) v.fail("needs floats");
  auto made = std::make_shared<Elementwise>();
  for (size_t i = 1; i < v.inputs.size(); ++i) {
    if (v.dtype(i) != dtype) v.fail("input " + std::to_string(i) + " has another type than x");
    const bool one = v.shape(i).elements() == 1;
    if (!one && !(v.shape(i) == v.shape(0))) {
      v.fail("input " + std::to_string(i) + " of shape " + v.shape(i).text() +
             " does not spread over " + v.shape(0).text());
    }
    made->spreads.push_back(one ? ops::Spread::kOne : ops::Spread::kFull);
  }
  if (!made->chain.set_steps(chain_steps(v, 1))) v.fail("its steps need too many temporary tiles");
  made->chain.set_beside(made->spreads);
  return made;
}

std::vector<TensorType> infer_elementwise(const OpView& v) {
  static_cast<void>(elementwise_of(v));
  return {v.inputs[0].type};
}

Kernel build_elementwise(const OpView& v, std::span<const TensorType>) {
  const auto made = elementwise_of(v);
  uint8_t in_place = 1;
  for (size_t i = 0; i < made->spreads.size() && i < 7; ++i) {
    if (made->spreads[i] == ops::Spread::kFull) in_place |= static_cast<uint8_t>(2U << i);
  }
  return {[made](Inputs in, Outputs out, const ops::Exec& exec) {
            ops::run_elementwise(made->chain, made->spreads, in, out[0], exec);
          },
          0, false, in_place};
}

// --- PromptFlashAttention(query, key, value, pse_shift) ---

ops::HeadLayout heads_of(const OpView& v, size_t input, bool rows_first) {
  v.want_float(input);
  v.want_rank(input, 4);
  const ops::Shape& s = v.shape(input);
  return rows_first ? ops::HeadLayout{s[2], s[1], s[3], true}
                    : ops::HeadLayout{s[1], s[2], s[3], false};
}

ops::AttentionParams attention_params(const OpView& v) {
  v.want_count(3, 4);
  const std::string layout = v.op.attrs.string_or("input_layout", "");
  if (layout != "BSND" && layout != "BNSD") v.fail("input_layout " + layout + " is not computed");
  ops::AttentionParams p;
  p.batch = v.shape(0)[0];
  p.q = heads_of(v, 0, layout == "BSND");
  p.k = heads_of(v, 1, layout == "BSND");
  p.v = heads_of(v, 2, layout == "BSND");
  p.y = p.q;
  p.y.size = p.v.size;
  if (v.shape(1)[0] != p.batch || v.shape(2)[0] != p.batch || p.k.heads != p.q.heads ||
      p.v.heads != p.q.heads || p.v.rows != p.k.rows || p.k.size != p.q.size) {
    v.fail("heads or sizes do not fit");
  }
  p.scale = v.op.attrs.float_or("scale_value", 1.0F);
  p.divides = v.flag(kScaleDivides);
  p.plain = true;
  if (!v.has(3)) return p;
  v.want_float(3);
  const ops::Shape& mask = v.shape(3);
  const int64_t full[] = {p.batch, p.q.heads, p.q.rows, p.k.rows};
  if (mask.rank() < 1 || mask.rank() > 4) v.fail("pse_shift has shape " + mask.text());
  for (size_t i = 0; i < mask.rank(); ++i) {
    const bool last = i + 1 == mask.rank();
    if (mask[i] != full[4 - mask.rank() + i] && (last || mask[i] != 1)) {
      v.fail("pse_shift has shape " + mask.text());
    }
  }
  return p;
}

std::vector<TensorType> infer_attention(const OpView& v) {
  const ops::AttentionParams p = attention_params(v);
  if (p.y.packed) return {{ACL_FLOAT, {p.batch, p.y.rows, p.y.heads, p.y.size}}};
  return {{ACL_FLOAT, {p.batch, p.y.heads, p.y.rows, p.y.size}}};
}

Kernel build_attention(const OpView& v, std::span<const TensorType>) {
  return make_kernel([p = attention_params(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::AttentionTensors t;
    t.q = in[0].as<const float>();
    t.k = in[1].as<const float>();
    t.v = in[2].as<const float>();
    t.mask = in.size() > 3 && in[3].data != nullptr ? &in[3] : nullptr;
    t.y = out[0].as<float>();
    ops::attention(p, t, exec);
  });
}

constexpr OpType kTable[] = {
    {kFusedMatMul, infer_fused, build_fused},
    {kFusedElementwise, infer_elementwise, build_elementwise, Halves::kNative},
    {kFusedAttention, infer_attention, build_attention},
};

}  // namespace

std::span<const OpType> fused_op_types() { return kTable; }

}  // namespace ascendrt::model
