// Owns: the choice of a type per op and the casts between them. Must never: touch bodies of control
// ops; what enters and leaves them keeps its type.
#include "model/precision.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "model/op_set.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

template <size_t kCount>
bool listed(const std::string_view (&list)[kCount], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool has(std::string_view type, std::string_view part) {
  return type.find(part) != std::string_view::npos;
}

// Operands of these are attributes in disguise, or the types are the op's meaning.
constexpr std::string_view kKept[] = {"Range",
                                      "GridSample",
                                      "AffineGrid",
                                      "RoiAlign",
                                      "NonMaxSuppressionV6",
                                      "EyeLike",
                                      "HannWindow",
                                      "CenterCropPad",
                                      "HammingWindow",
                                      "BlackmanWindow",
                                      "DFT",
                                      "STFT",
                                      "Bitcast",
                                      "MelWeightMatrix",
                                      "DropOutDoMask",
                                      "If",
                                      "StatelessIf",
                                      "Loop",
                                      "Scan",
                                      "NLLLoss"};

// Kept in float32 by mixed precision: small errors grow, or results leave the range of halves.
constexpr std::string_view kDelicate[] = {
    "Exp",          "Log",         "Pow",        "Erf",        "Softplus",     "Reciprocal",
    "Rsqrt",        "Sqrt",        "Square",     "SoftmaxV2",  "BatchNorm",    "LayerNorm",
    "LogSoftmaxV2", "LayerNormV3", "RmsNorm",    "GroupNorm",  "InstanceNorm", "LpNormV2",
    "SquareSumV1",  "ReduceSum",   "ReduceMean", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp",
    "Cumsum",       "Cumprod",     "LRN",        "Sinh",       "Cosh",         "Tan"};

bool is_cube(std::string_view type) {
  return has(type, "Conv") || has(type, "MatMul") || has(type, "Attention") ||
         has(type, "Common") || type == "Einsum";
}

bool keeps_types(std::string_view type) {
  return listed(kKept, type) || has(type, "Quantize") || has(type, "Integer") ||
         has(type, "QLinear");
}

bool is_float(int32_t dtype) { return dtype == kFloat || dtype == kFloat16 || dtype == kBfloat16; }

class Pass {
 public:
  Pass(Graph& graph, PrecisionMode mode) : graph_(graph), mode_(mode) {}

  void run() {
    std::vector<Op> before = std::move(graph_.ops);
    for (const Op& op : before) names_.insert(op.name);
    for (Op& op : before) add(std::move(op));
    graph_.ops = std::move(made_);
    drop_unused();
  }

 private:
  struct Known {
    TensorDesc desc;
    const Bytes* constant = nullptr;
  };

  void add(Op op);
  void add_outputs(Op op);
  int32_t wanted(const Op& op) const;
  bool retype(Op& op, int32_t dtype);
  void keep(Op& op);
  void finish(Op op);
  std::string as(const std::string& ref, int32_t dtype);
  std::string add_constant(const std::string& ref, int32_t dtype);
  std::string add_cast(const std::string& ref, int32_t dtype);
  std::string rounded(const std::string& ref);
  std::string unique(std::string name);
  void drop_unused();

  Graph& graph_;
  PrecisionMode mode_;
  std::vector<Op> made_;
  std::unordered_map<std::string, Known> known_;  // by reference "op:index"
  std::map<std::pair<std::string, int32_t>, std::string> converted_;
  std::map<std::string, std::string> rounded_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> own_;  // ops made here and constants: dropped when unused
  int casts_ = 0;
};

std::string Pass::unique(std::string name) {
  while (!names_.insert(name).second) name += '_';
  return name;
}

void Pass::finish(Op op) {
  for (size_t i = 0; i < op.output_descs.size(); ++i) {
    Known known{op.output_descs[i], nullptr};
    if (op.constant() != nullptr) known.constant = &op.constant()->data;
    known_.insert_or_assign(op.name + ":" + std::to_string(i), std::move(known));
  }
  if (op.type == "Const") own_.insert(op.name);
  made_.push_back(std::move(op));
}

// As the graph engine narrows constants: what is beyond the range is the largest value, whose bits
// are next to those of infinity, so that a mask of -3.4e38 times 0 stays 0.
void saturate(const ops::TensorView& x) {
  if (x.dtype != ACL_FLOAT16 && x.dtype != ACL_BF16) return;
  const uint16_t infinity = x.dtype == ACL_BF16 ? 0x7F80 : 0x7C00;
  for (uint16_t& bits : std::span(x.as<uint16_t>(), static_cast<size_t>(x.shape.elements()))) {
    if ((bits & 0x7FFF) == infinity) --bits;
  }
}

std::string Pass::add_constant(const std::string& ref, int32_t dtype) {
  const Known& from = known_.at(ref);
  Tensor tensor{from.desc, {}};
  tensor.desc.dtype = dtype;
  const TensorType before = tensor_type(from.desc);
  const TensorType after = tensor_type(tensor.desc);
  OwnedTensor to = make_tensor(after);
  ops::cast({const_cast<uint8_t*>(from.constant->data()), before.dtype, before.shape}, to.view(),
            {});
  saturate(to.view());
  tensor.data = std::move(*to.bytes);
  Op op;
  op.name = unique(ref.substr(0, ref.rfind(':')) + "_" + ops::dtype_name(after.dtype));
  op.type = "Const";
  op.output_descs.push_back(tensor.desc);
  op.attrs.set("value", Box(std::move(tensor)));
  std::string made = op.name + ":0";
  finish(std::move(op));
  return made;
}

std::string Pass::add_cast(const std::string& ref, int32_t dtype) {
  Op op;
  op.name = unique("trans_Cast_" + std::to_string(casts_++));
  op.type = "Cast";
  op.inputs.push_back(ref);
  op.input_descs.push_back(known_.at(ref).desc);
  op.output_descs = op.input_descs;
  op.output_descs[0].dtype = dtype;
  op.attrs.set("dst_type", static_cast<int64_t>(dtype));
  own_.insert(op.name);
  std::string made = op.name + ":0";
  finish(std::move(op));
  return made;
}

// The value as that type; itself when it is.
std::string Pass::as(const std::string& ref, int32_t dtype) {
  const auto found = known_.find(ref);
  if (found == known_.end() || found->second.desc.dtype == dtype) return ref;
  std::string& made = converted_[{ref, dtype}];
  if (made.empty()) {
    const bool constant = found->second.constant != nullptr;
    made = constant ? add_constant(ref, dtype) : add_cast(ref, dtype);
  }
  return made;
}

// float32 values that a half can hold.
std::string Pass::rounded(const std::string& ref) {
  std::string& made = rounded_[ref];
  if (made.empty()) {
    const std::string half = as(ref, kFloat16);
    made =
        known_.at(half).constant != nullptr ? add_constant(half, kFloat) : add_cast(half, kFloat);
  }
  return made;
}

// The operands as the op had them.
void Pass::keep(Op& op) {
  for (size_t i = 0; i < op.inputs.size() && i < op.input_descs.size(); ++i) {
    if (!is_float(op.input_descs[i].dtype)) continue;
    if (op.type == "Cast") {
      op.input_descs[i].dtype = known_.at(op.inputs[i]).desc.dtype;
    } else {
      op.inputs[i] = as(op.inputs[i], op.input_descs[i].dtype);
    }
  }
}

// kUndefined: the op keeps its types.
int32_t Pass::wanted(const Op& op) const {
  if (keeps_types(op.type) || op.type == "Cast") return kUndefined;
  const bool cube = is_cube(op.type);
  switch (mode_) {
    case PrecisionMode::kOrigin:
      return kUndefined;
    case PrecisionMode::kForceFp32:
      return kFloat;
    case PrecisionMode::kForceFp16:
      return kFloat16;
    case PrecisionMode::kCubeFp16:
      return cube ? kFloat16 : kUndefined;
    case PrecisionMode::kCubeBfloat16:
      return cube ? kBfloat16 : kUndefined;
    default:
      break;
  }
  const int32_t half = mode_ == PrecisionMode::kMixedFp16 ? kFloat16 : kBfloat16;
  if (cube) return half;
  if (listed(kDelicate, op.type)) return kFloat;
  bool any = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto found = known_.find(op.inputs[i]);
    if (found == known_.end() || found->second.constant != nullptr) continue;
    if (!is_float(found->second.desc.dtype)) continue;
    if (found->second.desc.dtype != half) return kFloat;
    any = true;
  }
  return any ? half : kFloat;
}

// Only the picture of a Resize is data, and the statistics of a BatchNorm are float32 on the device
// too: a variance may be smaller than any half.
bool converts(const Op& op, size_t input) {
  const bool first_only = op.type == "Resize" || op.type == "BatchNorm";
  return is_float(op.input_descs[input].dtype) && (!first_only || input == 0);
}

// Empty when the op refuses its operands.
std::vector<TensorType> results_of(const OpType& type, const OpView& view) {
  try {
    return type.compute != nullptr ? late_types(type, view) : infer_op(type, view);
  } catch (const ops::NotKnown&) {
    return late_types(type, view);
  } catch (const base::Error&) {
    return {};
  }
}

// Gives the op operands of the type. False when it does not take them; it is as before then.
bool Pass::retype(Op& op, int32_t dtype) {
  const OpType* type = find_op_type(op.type);
  if (type == nullptr) return false;
  const bool round = mode_ == PrecisionMode::kForceFp32 && is_cube(op.type);
  Op changed = op;
  OpView view{changed, {}, {}};
  bool any = false;
  for (size_t i = 0; i < changed.inputs.size(); ++i) {
    Operand operand;
    operand.connected = !changed.inputs[i].empty();
    if (operand.connected && converts(changed, i)) {
      any = true;
      changed.inputs[i] = round ? rounded(changed.inputs[i]) : as(changed.inputs[i], dtype);
      changed.input_descs[i].dtype = dtype;
    } else if (operand.connected && is_float(changed.input_descs[i].dtype)) {
      changed.inputs[i] = as(changed.inputs[i], changed.input_descs[i].dtype);
    }
    if (operand.connected) {
      const Known& source = known_.at(changed.inputs[i]);
      operand.type = tensor_type(changed.input_descs[i]);
      operand.is_constant = source.constant != nullptr;
      if (operand.is_constant) operand.constant = *source.constant;
    }
    view.inputs.push_back(operand);
  }
  if (!any) return false;
  const std::vector<TensorType> results = results_of(*type, view);
  if (results.empty() || results.size() < changed.output_descs.size()) return false;
  for (size_t i = 0; i < changed.output_descs.size(); ++i) {
    changed.output_descs[i].dtype = results[i].dtype;
  }
  op = std::move(changed);
  return true;
}

void Pass::add_outputs(Op op) {
  keep(op);
  graph_.outputs = op.inputs;
  made_.push_back(std::move(op));
}

void Pass::add(Op op) {
  if (op.type == "NetOutput") return add_outputs(std::move(op));
  if (op.type == "Data" || op.type == "Const") return finish(std::move(op));
  const int32_t dtype = wanted(op);
  if (dtype == kUndefined || !retype(op, dtype)) keep(op);
  finish(std::move(op));
}

// Constants that are used in another type only, casts of operands that an op refused.
void Pass::drop_unused() {
  std::unordered_set<std::string> used;
  std::vector<Op> kept;
  for (size_t i = graph_.ops.size(); i-- > 0;) {
    Op& op = graph_.ops[i];
    if (own_.contains(op.name) && !used.contains(op.name)) continue;
    for (const std::string& input : op.inputs) used.insert(input.substr(0, input.rfind(':')));
    kept.push_back(std::move(op));
  }
  std::reverse(kept.begin(), kept.end());
  graph_.ops = std::move(kept);
}

}  // namespace

std::optional<PrecisionMode> find_precision_mode(std::string_view name) {
  static const std::map<std::string_view, PrecisionMode> kModes = {
      {"must_keep_origin_dtype", PrecisionMode::kOrigin},
      {"origin", PrecisionMode::kOrigin},
      {"force_fp32", PrecisionMode::kForceFp32},
      {"cube_fp16in_fp32out", PrecisionMode::kForceFp32},
      {"force_fp16", PrecisionMode::kForceFp16},
      {"fp16", PrecisionMode::kForceFp16},
      {"allow_fp32_to_fp16", PrecisionMode::kCubeFp16},
      {"allow_fp32_to_bf16", PrecisionMode::kCubeBfloat16},
      {"allow_mix_precision", PrecisionMode::kMixedFp16},
      {"allow_mix_precision_fp16", PrecisionMode::kMixedFp16},
      {"mixed_float16", PrecisionMode::kMixedFp16},
      {"allow_mix_precision_bf16", PrecisionMode::kMixedBfloat16},
      {"mixed_bfloat16", PrecisionMode::kMixedBfloat16},
  };
  const auto found = kModes.find(name);
  if (found == kModes.end()) return std::nullopt;
  return found->second;
}

void apply_precision(Graph& graph, PrecisionMode mode) { Pass(graph, mode).run(); }

}  // namespace ascendrt::model
