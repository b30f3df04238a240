// Operators of the table that belong to no other group. Owns: their attributes and shape rules.
// Must never: hold arithmetic; that is in ops/.
#include <algorithm>
#include <cstring>
#include <limits>

#include "model/op_set.hpp"
#include "ops/elementwise.hpp"
#include "ops/misc.hpp"
#include "ops/signal.hpp"

namespace ascendrt::model {
namespace {

// --- losses and sums ---

ops::LossForm loss_form(const OpView& v) {
  const std::string name = v.op.attrs.string_or("reduction", "mean");
  if (name == "none") return ops::LossForm::kNone;
  if (name == "sum") return ops::LossForm::kSum;
  if (name == "mean") return ops::LossForm::kMean;
  v.fail("reduction " + name + " is not computed");
}

// NLLLoss(x, target, weight).
std::vector<TensorType> infer_loss(const OpView& v) {
  v.want_count(2, 3);
  v.want_float(0);
  const ops::Shape& x = v.shape(0);
  if (x.rank() < 2) v.fail("needs rank 2 or more");
  ops::Shape target = {x[0]};
  for (size_t i = 2; i < x.rank(); ++i) target.push_back(x[i]);
  if (!(v.shape(1) == target)) v.fail("targets of shape " + v.shape(1).text() + " do not fit");
  if (v.has(2)) v.want_float(2);
  if (v.has(2) && v.shape(2).elements() != x[1]) v.fail("needs one weight per class");
  const bool each = loss_form(v) == ops::LossForm::kNone;
  return {{ACL_FLOAT, each ? target : ops::Shape{}}};
}

Kernel build_loss(const OpView& v, std::span<const TensorType>) {
  std::optional<int64_t> ignored;
  if (v.op.attrs.find("ignore_index") != nullptr) ignored = v.op.attrs.int_or("ignore_index", 0);
  return make_kernel([form = loss_form(v), ignored](Inputs in, Outputs out, const ops::Exec& exec) {
    const float* weight = in.size() > 2 ? in[2].as<const float>() : nullptr;
    ops::nll_loss(form, in[0], in[1], weight, ignored ? &*ignored : nullptr, out[0], exec);
  });
}

std::vector<ops::Shape> shapes_of(const OpView& v) {
  std::vector<ops::Shape> shapes;
  for (size_t i = 0; i < v.inputs.size(); ++i) shapes.push_back(v.shape(i));
  return shapes;
}

std::vector<TensorType> infer_einsum(const OpView& v) {
  v.want_count(1, v.inputs.size());
  if (!ops::is_plain_number(v.dtype(0))) v.fail("needs numbers");
  for (size_t i = 1; i < v.inputs.size(); ++i) {
    if (v.dtype(i) != v.dtype(0)) v.fail("operands of different types");
  }
  const auto shapes = shapes_of(v);
  const auto plan = ops::plan_einsum(v.op.attrs.string_or("equation", ""), shapes);
  return {{v.dtype(0), ops::einsum_shape(plan, shapes)}};
}

Kernel build_einsum(const OpView& v, std::span<const TensorType>) {
  const auto plan = ops::plan_einsum(v.op.attrs.string_or("equation", ""), shapes_of(v));
  return make_kernel([plan](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::einsum(plan, {in.begin(), in.end()}, out[0], exec);
  });
}

std::vector<TensorType> infer_det(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  const ops::Shape& x = v.shape(0);
  const size_t rank = x.rank();
  if (rank < 2 || x[rank - 1] != x[rank - 2]) v.fail("needs square matrices");
  return {{ACL_FLOAT, ops::Shape(x.dims().first(rank - 2))}};
}

Kernel build_det(const OpView&, std::span<const TensorType>) {
  return make_kernel([](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::determinants(in[0], out[0], exec);
  });
}

// --- dropout: (x, ratio, training) gives y and a mask ---

std::vector<TensorType> infer_dropout(const OpView& v) {
  v.want_count(1, 3);
  v.want_float(0);
  return {{ACL_FLOAT, v.shape(0)}, {ACL_BOOL, v.shape(0)}};
}

Kernel build_dropout(const OpView& v, std::span<const TensorType>) {
  const auto seed = static_cast<uint32_t>(v.op.attrs.int_or("seed", 0));
  return make_kernel([seed](Inputs in, Outputs out, const ops::Exec& exec) {
    const bool trains = in.size() > 2 && in[2].data != nullptr && *in[2].as<const uint8_t>() != 0;
    float ratio = 0.5F;
    if (in.size() > 1 && in[1].data != nullptr) ops::cast(in[1], {&ratio, ACL_FLOAT, {}}, exec);
    if (!(ratio >= 0.0F && ratio < 1.0F)) ops::fail("Dropout", "a ratio outside [0, 1)");
    ops::dropout(in[0], trains ? ratio : 0.0F, seed, out[0], out[1].as<uint8_t>(), exec);
  });
}

std::vector<aclDataType> dropout_types(const OpView& v) { return {v.dtype(0), ACL_BOOL}; }

// --- the same bytes as another type ---

std::vector<TensorType> infer_bitcast(const OpView& v) {
  v.want_count(1, 1);
  const auto to = static_cast<aclDataType>(v.op.attrs.int_or("type", ACL_DT_UNDEFINED));
  if (ops::dtype_size(to) == 0 || ops::dtype_size(to) != ops::dtype_size(v.dtype(0))) {
    v.fail("only types of the same size");
  }
  return {{to, v.shape(0)}};
}

Kernel build_view(const OpView&, std::span<const TensorType>) { return {{}, 0, true}; }

std::vector<aclDataType> bitcast_type(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("type", ACL_DT_UNDEFINED))};
}

// --- caches: TensorScatter(cache, update, starts) ---

size_t cache_axis(const OpView& v) {
  const size_t axis =
      ops::resolve_axis(v.op.type, v.op.attrs.int_or("axis", -2), v.shape(0).rank());
  if (axis == 0) v.fail("the axis of batches");
  return axis;
}

std::vector<TensorType> infer_cache(const OpView& v) {
  v.want_count(2, 3);
  const size_t axis = cache_axis(v);
  ops::Shape update = v.shape(1);
  if (v.dtype(1) != v.dtype(0) || update.rank() != v.shape(0).rank() ||
      update[axis] > v.shape(0)[axis]) {
    v.fail("an update that does not fit");
  }
  update[axis] = v.shape(0)[axis];
  if (!(update == v.shape(0)) || (v.has(2) && v.shape(2).elements() != update[0])) {
    v.fail("an update that does not fit");
  }
  return {v.inputs[0].type};
}

Kernel build_cache(const OpView& v, std::span<const TensorType>) {
  const std::string name = v.op.attrs.string_or("mode", "linear");
  if (name != "linear" && name != "circular") v.fail("mode " + name + " is not computed");
  const auto mode = name == "linear" ? ops::CacheMode::kLinear : ops::CacheMode::kCircular;
  return make_kernel([mode, axis = cache_axis(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    std::vector<int64_t> starts(static_cast<size_t>(in[0].shape[0]), 0);
    if (in.size() > 2) ops::cast(in[2], {starts.data(), ACL_INT64, in[2].shape}, exec);
    ops::write_cache(mode, in[0], in[1], starts.data(), axis, out[0], exec);
  });
}

// --- normalisations ---

struct Norm {
  ops::NormForm form;
  size_t axis;
  float epsilon;
};

// LayerNormV3(x, gamma, beta) gives y, mean and 1 / deviation; RmsNorm(x, gamma) gives y and
// 1 / root mean square. What is normalised: from begin_norm_axis, else the dims of gamma.
Norm norm_of(const OpView& v) {
  const bool rms = v.op.type == "RmsNorm";
  v.want_count(2, rms ? 2 : 3);
  for (size_t i = 0; i < v.inputs.size(); ++i) v.want_float(i);
  const auto rank = static_cast<int64_t>(v.shape(0).rank());
  const auto gamma = static_cast<int64_t>(v.shape(1).rank());
  const int64_t axis = v.op.attrs.int_or("begin_norm_axis", rank - gamma);
  Norm n{rms ? ops::NormForm::kRootMeanSquare : ops::NormForm::kCentered,
         ops::resolve_axis(v.op.type, axis, v.shape(0).rank()),
         v.op.attrs.float_or("epsilon", rms ? 1e-6F : 1e-5F)};
  const ops::Shape tail(v.shape(0).dims().subspan(n.axis));
  for (size_t i = 1; i < v.inputs.size(); ++i) {
    if (v.has(i) && !(ops::broadcast_shape(v.op.type, tail, v.shape(i)) == tail)) {
      v.fail("gamma or beta of shape " + v.shape(i).text() + " do not fit");
    }
  }
  return n;
}

std::vector<TensorType> infer_norm(const OpView& v) {
  const Norm n = norm_of(v);
  TensorType kept = v.inputs[0].type;
  for (size_t i = n.axis; i < kept.shape.rank(); ++i) kept.shape[i] = 1;
  if (n.form == ops::NormForm::kRootMeanSquare) return {v.inputs[0].type, kept};
  return {v.inputs[0].type, kept, kept};
}

Kernel build_norm(const OpView& v, std::span<const TensorType>) {
  return make_kernel([n = norm_of(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::NormTensors t;
    t.scale = &in[1];
    t.offset = in.size() > 2 && in[2].data != nullptr ? &in[2] : nullptr;
    t.rstd = out.back().as<float>();
    if (out.size() > 2) t.mean = out[1].as<float>();
    ops::normalize(n.form, in[0], n.axis, t, n.epsilon, out[0], exec);
  });
}

std::vector<aclDataType> norm_types(const OpView& v) {
  return std::vector<aclDataType>(v.op.type == "RmsNorm" ? 2 : 3, v.dtype(0));
}

std::vector<TensorType> infer_group(const OpView& v) {
  v.want_count(3, 3);
  for (size_t i = 0; i < 3; ++i) v.want_float(i);
  const ops::Shape& x = v.shape(0);
  const int64_t groups = v.op.attrs.int_or("num_groups", 0);
  if (x.rank() < 3 || groups < 1 || x[1] % groups != 0) v.fail("num_groups does not fit");
  const int64_t values = v.flag("per_group") ? groups : x[1];
  if (v.shape(1).elements() != values || v.shape(2).elements() != values) {
    v.fail("scale and bias need " + std::to_string(values) + " values");
  }
  return {v.inputs[0].type};
}

Kernel build_group(const OpView& v, std::span<const TensorType>) {
  const float epsilon = v.op.attrs.float_or("epsilon", 1e-5F);
  const int64_t groups = v.op.attrs.int_or("num_groups", 1);
  return make_kernel([epsilon, groups](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::group_norm(in[0], groups, in[1], in[2], epsilon, out[0], exec);
  });
}

std::vector<TensorType> infer_response(const OpView& v) {
  v.want_count(1, 1);
  v.want_float(0);
  if (v.shape(0).rank() < 2) v.fail("needs channels");
  return {v.inputs[0].type};
}

Kernel build_response(const OpView& v, std::span<const TensorType>) {
  ops::ResponseParams p;
  p.radius = v.op.attrs.int_or("depth_radius", 5);
  p.bias = v.op.attrs.float_or("bias", 1.0F);
  p.alpha = v.op.attrs.float_or("alpha", 1.0F);
  p.beta = v.op.attrs.float_or("beta", 0.5F);
  return make_kernel([p](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::local_response(p, in[0], out[0], exec);
  });
}

// --- signals ---

void want_range(const OpView& v, const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  v.fail("the " + std::string(what) + " is " + std::to_string(value) + ", " +
         std::to_string(least) + " to " + std::to_string(most) + " is possible");
}

struct Transform {
  ops::DftParams params;
  size_t axis;
  ops::Shape y;
};

// DFT(x, length, axis).
Transform transform_of(const OpView& v) {
  v.want_count(1, 3);
  v.want_float(0);
  const ops::Shape& x = v.shape(0);
  const size_t rank = x.rank();
  if (rank < 2 || x[rank - 1] < 1 || x[rank - 1] > 2) v.fail("the last dim must be 1 or 2");
  const int64_t axis = v.has(2) ? v.constant_int(2) : v.op.attrs.int_or("axis", -2);
  Transform t{{}, ops::resolve_axis(v.op.type, axis, rank), x};
  if (t.axis == rank - 1 || x[t.axis] < 1) v.fail("the axis of parts, or an empty one");
  t.params.inverse = v.flag("inverse");
  const bool half = v.flag("onesided");
  const bool to_real = half && t.params.inverse;
  const int64_t usual = to_real ? 2 * (x[t.axis] - 1) : x[t.axis];
  t.params.length = v.has(1) ? v.constant_int(1) : usual;
  want_range(v, "length", t.params.length, 1, 1 << 24);
  t.y[t.axis] = half && !to_real ? t.params.length / 2 + 1 : t.params.length;
  t.y[rank - 1] = to_real ? 1 : 2;
  return t;
}

std::vector<TensorType> infer_dft(const OpView& v) { return {{ACL_FLOAT, transform_of(v).y}}; }

Kernel build_dft(const OpView& v, std::span<const TensorType>) {
  return make_kernel([t = transform_of(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    ops::dft(t.params, in[0], t.axis, out[0], exec);
  });
}

struct Frames {
  int64_t step, length;
  ops::Shape y;
};

// STFT(signal, step, window, length).
Frames frames_of(const OpView& v) {
  v.want_count(2, 4);
  v.want_float(0);
  if (v.has(2)) v.want_float(2);
  const ops::Shape& x = v.shape(0);
  if (x.rank() < 2 || x.rank() > 3) v.fail("a signal of shape " + x.text());
  Frames f{v.constant_int(1), 0, {}};
  f.length = v.has(3) ? v.constant_int(3) : v.has(2) ? v.shape(2).elements() : 0;
  want_range(v, "step", f.step, 1, std::numeric_limits<int64_t>::max());
  want_range(v, "length", f.length, 1, x[1]);
  if (v.has(2) && v.shape(2).elements() != f.length) {
    v.fail("a window of " + std::to_string(v.shape(2).elements()) + " values for frames of " +
           std::to_string(f.length));
  }
  const int64_t bins = v.flag("onesided", true) ? f.length / 2 + 1 : f.length;
  f.y = {x[0], (x[1] - f.length) / f.step + 1, bins, 2};
  return f;
}

std::vector<TensorType> infer_stft(const OpView& v) { return {{ACL_FLOAT, frames_of(v).y}}; }

Kernel build_stft(const OpView& v, std::span<const TensorType>) {
  return make_kernel([f = frames_of(v)](Inputs in, Outputs out, const ops::Exec& exec) {
    const float* window = in.size() > 2 ? in[2].as<const float>() : nullptr;
    ops::stft(in[0], f.step, f.length, window, out[0], exec);
  });
}

std::vector<aclDataType> output_datatype(const OpView& v) {
  return {static_cast<aclDataType>(v.op.attrs.int_or("output_datatype", ACL_FLOAT))};
}

std::vector<TensorType> infer_window(const OpView& v) {
  v.want_count(1, 1);
  const int64_t size = v.constant_int(0);
  want_range(v, "size", size, 0, 1 << 28);
  return {{output_datatype(v)[0], {size}}};
}

Kernel build_window(const OpView& v, std::span<const TensorType>) {
  const auto kind = v.op.type == "HannWindow"      ? ops::WindowKind::kHann
                    : v.op.type == "HammingWindow" ? ops::WindowKind::kHamming
                                                   : ops::WindowKind::kBlackman;
  const auto symmetry =
      v.flag("periodic", true) ? ops::Symmetry::kPeriodic : ops::Symmetry::kSymmetric;
  return make_kernel([kind, symmetry](Inputs, Outputs out, const ops::Exec& exec) {
    ops::make_window(kind, symmetry, out[0], exec);
  });
}

// MelWeightMatrix(bins, length, rate, low, high).
ops::MelParams mel_of(const OpView& v) {
  v.want_count(5, 5);
  ops::MelParams p{v.constant_int(0), v.constant_int(1), v.constant_int(2),
                   static_cast<double>(v.constant_float(3)),
                   static_cast<double>(v.constant_float(4))};
  want_range(v, "number of bins", p.bins, 1, 1 << 20);
  want_range(v, "length", p.length, 1, 1 << 24);
  want_range(v, "sample rate", p.rate, 1, std::numeric_limits<int64_t>::max());
  return p;
}

std::vector<TensorType> infer_mel(const OpView& v) {
  const ops::MelParams p = mel_of(v);
  return {{output_datatype(v)[0], {p.length / 2 + 1, p.bins}}};
}

Kernel build_mel(const OpView& v, std::span<const TensorType>) {
  return make_kernel([p = mel_of(v)](Inputs, Outputs out, const ops::Exec& exec) {
    ops::mel_weights(p, out[0], exec);
  });
}

constexpr Halves kNative = Halves::kNative;
constexpr Halves kWidened = Halves::kWidened;

constexpr OpType kTable[] = {
    {"NLLLoss", infer_loss, build_loss},
    {"Einsum", infer_einsum, build_einsum},
    {"MatrixDeterminant", infer_det, build_det},
    {"DropOutDoMask", infer_dropout, build_dropout, kWidened, dropout_types},
    {"Bitcast", infer_bitcast, build_view, kNative, bitcast_type},
    {"TensorScatter", infer_cache, build_cache, kNative},
    {"LayerNormV3", infer_norm, build_norm, kWidened, norm_types},
    {"RmsNorm", infer_norm, build_norm, kWidened, norm_types},
    {"GroupNorm", infer_group, build_group},
    {"LRN", infer_response, build_response},
    {"DFT", infer_dft, build_dft},
    {"STFT", infer_stft, build_stft},
    {"HannWindow", infer_window, build_window, kNative, output_datatype},
    {"HammingWindow", infer_window, build_window, kNative, output_datatype},
    {"BlackmanWindow", infer_window, build_window, kNative, output_datatype},
    {"MelWeightMatrix", infer_mel, build_mel, kNative, output_datatype},
};

}  // namespace

std::span<const OpType> misc_op_types() { return kTable; }

}  // namespace ascendrt::model
