// Ops that the compiler merged out of several. Owns: which ops there were, by the name of the
// kernel, and which operand goes where. Must never: run a merged op whose parts are not all known.
//
// Note [Operands of merged ops]: the kernel names its parts in order, the file lists the operands
// of the merged op; which part takes which is not recorded. Every part takes its operands from the
// list in turn or from results of earlier parts, and each result is used once. Often that leaves
// one way. Where it leaves several and an operand is listed twice, two branches start there: the
// later parts then take fresh operands before results (a golden run of one file shows it); else a
// chain is likelier. Either is an inference.
#include <algorithm>
#include <set>

#include "model/vendor_call.hpp"

namespace ascendrt::model {
namespace {

enum class Part : uint8_t {
  kPlain,
  kConv,
  kTransposed,
  kBackprop,
  kProduct,
  kNorm,
  kPrelu,
  kPipe,
  kLost
};

struct PartRow {
  std::string_view token;  // in names of kernels
  std::string_view type;   // kPlain: in the operator table; kLost: what the file does not hold
  size_t operands;
  Part part = Part::kPlain;
};

constexpr PartRow kParts[] = {
    {"conv2d", "Conv2D", 2, Part::kConv},
    {"conv2d_transpose_d", "Conv2DTransposeD", 2, Part::kTransposed},
    {"conv2d_backprop_input_d", "Conv2DBackpropInputD", 2, Part::kBackprop},
    {"mat_mul", "MatMulV2", 2, Part::kProduct},
    {"mat_mul_v2", "MatMulV2", 2, Part::kProduct},
    {"matmul_v2", "MatMulV2", 2, Part::kProduct},
    {"fix_pipe", "FixPipe", 1, Part::kPipe},
    {"bninference_d", "BNInferenceD", 3, Part::kNorm},
    {"prelu", "PRelu", 2, Part::kPrelu},
    {"relu", "Relu", 1},
    {"relu6", "Relu6", 1},
    {"abs", "Abs", 1},
    {"sigmoid", "Sigmoid", 1},
    {"tanh", "Tanh", 1},
    {"exp", "Exp", 1},
    {"log", "Log", 1},
    {"neg", "Neg", 1},
    {"sqrt", "Sqrt", 1},
    {"rsqrt", "Rsqrt", 1},
    {"square", "Square", 1},
    {"reciprocal", "Reciprocal", 1},
    {"softplus", "Softplus", 1},
    {"softsign", "Softsign", 1},
    {"gelu", "Gelu", 1},
    {"mish", "Mish", 1},
    {"floor", "Floor", 1},
    {"ceil", "Ceil", 1},
    {"add", "Add", 2},
    {"sub", "Sub", 2},
    {"mul", "Mul", 2},
    {"real_div", "RealDiv", 2},
    {"div", "Div", 2},
    {"maximum", "Maximum", 2},
    {"minimum", "Minimum", 2},
    {"leaky_relu", "negative_slope", 1, Part::kLost},
    {"elu", "alpha", 1, Part::kLost},
    {"swish", "scale", 1, Part::kLost},
    {"adds", "value", 1, Part::kLost},
    {"muls", "value", 1, Part::kLost},
    {"power", "power, scale and shift", 1, Part::kLost},
    {"cast", "dst_type", 1, Part::kLost},
};

std::string kernel_name(const Op& op) {
  const std::string* own = op.attrs.get_string(op.name + "_kernelname");
  return own != nullptr ? *own : op.attrs.string_or("_kernelname", "");
}

constexpr size_t kMaxParts = 24;
constexpr std::string_view kPrefix = "te_fused_op_";

bool is_hash(std::string_view word) {
  return word.size() >= 16 && word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "te_fused_op_conv2d_relu_<hash>..." -> rows of conv2d and relu; the longest name counts.
std::vector<const PartRow*> parts_of(const VendorCall& call) {
  const std::string name = kernel_name(call.op);
  if (!name.starts_with(kPrefix)) call.fail("which operators were merged is not in the file");
  std::string_view rest = std::string_view(name).substr(kPrefix.size());
  std::vector<const PartRow*> parts;
  while (!rest.empty() && !is_hash(rest.substr(0, rest.find('_')))) {
    const PartRow* best = nullptr;
    for (const PartRow& row : kParts) {
      const bool fits = rest.starts_with(row.token) &&
                        (rest.size() == row.token.size() || rest[row.token.size()] == '_');
      if (fits && (best == nullptr || row.token.size() > best->token.size())) best = &row;
    }
    if (best == nullptr) {
      call.fail("the merged operator at '" + std::string(rest.substr(0, 40)) + "' of kernel '" +
                name.substr(0, 80) + "' is not known");
    }
    parts.push_back(best);
    if (parts.size() > kMaxParts) call.fail("the name of its kernel lists too many operators");
    rest.remove_prefix(std::min(best->token.size() + 1, rest.size()));
  }
  if (parts.empty()) call.fail("which operators were merged is not in the file");
  return parts;
}

// --- the fixed-function unit behind a convolution: operands have fixed places ---

enum Slot : size_t { kBias = 2, kOther = 4, kSlope0 = 6, kSlope1 = 9, kSlots = 13 };

// One activation: a slope given as operand, or a Relu that only the list of types tells.
GraphValue activate(const VendorCall& call, const GraphValue& x, size_t slot, bool relu,
                    const char* suffix) {
  const std::string name = call.op.name + suffix;
  if (call.has(slot)) {
    return call.graph.add_one("PRelu", name + "prelu", {x, call.per_channel(slot)});
  }
  return relu ? call.graph.add_one("Relu", name + "relu", {x}) : x;
}

struct PipeForm {
  bool adds = false;
  bool relu0 = false, relu1 = false;
};

PipeForm pipe_form(const VendorCall& call) {
  for (const size_t slot : {3U, 5U, 7U, 8U, 10U, 11U, 12U}) {
    if (call.has(slot))
      call.fail("operand " + std::to_string(slot) + " of fix_pipe is not computed");
  }
  const auto* types = call.op.attrs.get_strings("_datadump_original_op_types");
  if (types == nullptr) call.fail("the types of its merged operators are not in the file");
  std::vector<std::string_view> order;  // what has a place in the pipe
  for (const std::string& type : *types) {
    if (type == "Relu" || type == "Add") order.push_back(type);
    constexpr std::string_view kFolded[] = {"PRelu", "BatchNorm", "BiasAdd",        "Conv2D",
                                            "Pad",   "PadV3",     "Conv2DTranspose"};
    if (type != "Relu" && type != "Add" &&
        std::find(std::begin(kFolded), std::end(kFolded), type) == std::end(kFolded)) {
      call.fail("its merged operator " + type + " is not known in fix_pipe");
    }
  }
  const auto relus = std::count(order.begin(), order.end(), "Relu");
  PipeForm form;
  form.adds = call.has(kOther);
  if (form.adds != (std::count(order.begin(), order.end(), "Add") == 1)) {
    call.fail("its operands and the types of its merged operators do not fit");
  }
  const bool free0 = !call.has(kSlope0);
  const bool free1 = form.adds && !call.has(kSlope1);
  if (relus > (free0 ? 1 : 0) + (free1 ? 1 : 0)) call.fail("it has more activations than places");
  if (relus == 1 && free0 && free1) {
    form.relu1 = order.back() == "Relu";
    form.relu0 = !form.relu1;
    call.infer(std::string("a Relu ") + (form.relu1 ? "behind" : "before") +
               " the Add, by the order of the recorded types");
    return form;
  }
  form.relu0 = relus > 0 && free0;
  form.relu1 = relus > (form.relu0 ? 1 : 0) && free1;
  return form;
}

GraphValue run_pipe(const VendorCall& call, GraphValue x) {
  const PipeForm form = pipe_form(call);
  x = activate(call, x, kSlope0, form.relu0, "/");
  if (!form.adds) return x;
  x = call.graph.add_one("Add", call.op.name + "/add", {x, call.in(kOther)});
  return activate(call, x, kSlope1, form.relu1, "/add/");
}

// --- operands in turn ---

// Where an operand of a part comes from: number of an operand of the op, or of an earlier part.
struct Source {
  bool fresh;
  size_t index;
};
using Assignment = std::vector<std::vector<Source>>;

// Enumerates the ways to give operands to parts; stops at kMany.
class Assigner {
 public:
  Assigner(std::vector<size_t> operands, size_t given, bool fresh_first)
      : operands_(std::move(operands)), given_(given), fresh_first_(fresh_first) {
    place(0, 0, {}, {});
  }
  const std::vector<Assignment>& found() const { return found_; }

 private:
  static constexpr size_t kMany = 64;
  static constexpr size_t kMostVisited = 100'000;

  // `open` are results that no part has taken yet, oldest first.
  void place(size_t part, size_t next, const std::vector<size_t>& open, Assignment done) {
    if (found_.size() >= kMany || ++visited_ > kMostVisited) return;
    if (part == operands_.size()) {
      if (next == given_ && open.size() == 1) found_.push_back(std::move(done));
      return;
    }
    const size_t wants = operands_[part];
    for (size_t i = 0; i <= wants; ++i) {
      const size_t fresh = fresh_first_ ? wants - i : i;
      if (next + fresh > given_ || wants - fresh > open.size()) continue;
      take(part, next, fresh, open, done);
    }
  }

  // Earlier results: the newest in a chain, the oldest where branches meet.
  void take(size_t part, size_t next, size_t fresh, const std::vector<size_t>& open,
            const Assignment& done) {
    const size_t made = operands_[part] - fresh;
    std::vector<size_t> rest = open;
    std::vector<Source> sources;
    for (size_t i = 0; i < made; ++i) {
      const auto at =
          fresh_first_ ? rest.begin() : rest.end() - static_cast<std::ptrdiff_t>(made - i);
      sources.push_back({false, *at});
      rest.erase(at);
    }
    for (size_t i = 0; i < fresh; ++i) sources.push_back({true, next + i});
    rest.push_back(part);
    Assignment longer = done;
    longer.push_back(std::move(sources));
    place(part + 1, next + fresh, rest, std::move(longer));
  }

  std::vector<size_t> operands_;
  size_t given_;
  bool fresh_first_;
  size_t visited_ = 0;
  std::vector<Assignment> found_;
};

bool listed_twice(const VendorCall& call) {
  std::set<std::string_view> seen;
  return std::any_of(call.op.inputs.begin(), call.op.inputs.end(), [&](const std::string& input) {
    const auto ref = parse_input(input);
    return ref && ref->index >= 0 && !seen.insert(input).second;
  });
}

std::string names_of(const std::vector<const PartRow*>& parts) {
  std::string names;
  for (const PartRow* part : parts) names += (names.empty() ? "" : ", ") + std::string(part->token);
  return names;
}

Assignment assign(const VendorCall& call, const std::vector<const PartRow*>& parts,
                  const std::vector<size_t>& given) {
  std::vector<size_t> operands;
  size_t needed = 1;
  for (const PartRow* part : parts) {
    operands.push_back(part->operands);
    needed += part->operands - 1;
  }
  // A convolution or product may have a bias behind its two operands.
  const Part first = parts[0]->part;
  const bool takes_bias = first == Part::kConv || first == Part::kTransposed ||
                          first == Part::kBackprop || first == Part::kProduct;
  if (takes_bias && given.size() == needed + 1) ++operands[0];
  const bool branches = listed_twice(call);
  const Assigner ways(operands, given.size(), branches);
  if (ways.found().empty()) {
    call.fail(std::to_string(given.size()) + " operands do not fit the merged operators " +
              names_of(parts));
  }
  if (ways.found().size() > 1) {
    call.infer("which of its " + std::to_string(given.size()) + " operands goes to which of " +
               names_of(parts) + ": " + (branches ? "two branches" : "a chain") + " assumed");
  }
  return ways.found().front();
}

// Whether a matrix is transposed is lost as well; the shapes of operands and result may tell.
GraphValue product(const VendorCall& call, const std::string& name,
                   const std::vector<GraphValue>& operands) {
  const ops::Shape& a = operands[0].type.shape;
  const ops::Shape& b = operands[1].type.shape;
  const Dims y = call.out_desc().origin_dims();
  if (a.rank() != 2 || b.rank() != 2 || y.size() != 2) call.fail("a product of other ranks");
  std::vector<std::pair<bool, bool>> found;
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      const bool fits = a[turn_a ? 1 : 0] == y[0] && b[turn_b ? 0 : 1] == y[1] &&
                        a[turn_a ? 0 : 1] == b[turn_b ? 1 : 0];
      if (fits) found.emplace_back(turn_a, turn_b);
    }
  }
  const std::string shapes = a.text() + " by " + b.text();
  if (found.size() != 1) {
    call.fail("whether its matrices are transposed is not in the file, and the shapes " + shapes +
              " leave " + std::to_string(found.size()) + " answers");
  }
  call.infer("transposed matrices: " + std::string(found[0].first ? "the first" : "not the first") +
             ", " + (found[0].second ? "the second" : "not the second") + ", by shapes " + shapes);
  AttrMap attrs;
  attrs.set("transpose_x1", found[0].first);
  attrs.set("transpose_x2", found[0].second);
  return call.graph.add_one("MatMulV2", name, {operands.begin(), operands.end()}, std::move(attrs));
}

GraphValue run_part(const VendorCall& call, const PartRow& part, size_t number,
                    const std::vector<GraphValue>& operands, const std::vector<size_t>& places) {
  const std::string name =
      number == 0 ? call.op.name : call.op.name + "/" + std::string(part.token);
  const std::optional<size_t> bias = places.size() > 2 ? std::optional(places[2]) : std::nullopt;
  switch (part.part) {
    case Part::kConv:
      return make_convolution(call, places[0], places[1], bias);
    case Part::kTransposed:
      return make_transposed(call, places[0], places[1], bias);
    case Part::kBackprop:
      return make_transposed(call, places[1], places[0], bias);
    case Part::kProduct:
      return product(call, name, operands);
    case Part::kNorm: {
      const GraphValue sum =
          call.graph.add_one("Add", name + "/add", {operands[0], call.per_channel(places[1])});
      return call.graph.add_one("Mul", name, {sum, call.per_channel(places[2])});
    }
    case Part::kPrelu:
      return call.graph.add_one("PRelu", name, {operands[0], call.per_channel(places[1])});
    case Part::kLost:
      call.fail(std::string(part.type) + " of its merged operator " + std::string(part.token) +
                " is not in the file");
    default:
      return call.graph.add_one(std::string(part.type), name, {operands.begin(), operands.end()});
  }
}

}  // namespace

bool is_merged(const Op& op) {
  return op.type == "AutomaticBufferFusionOp" || kernel_name(op).starts_with(kPrefix);
}

std::vector<GraphValue> make_merged(const VendorCall& call) {
  const std::vector<const PartRow*> parts = parts_of(call);
  if (parts.size() == 2 && parts[1]->part == Part::kPipe) {
    const bool transposed = parts[0]->part == Part::kTransposed;
    if (!transposed && parts[0]->part != Part::kConv) call.fail("fix_pipe behind it is not known");
    const GraphValue y =
        transposed ? make_transposed(call, 0, 1, kBias) : make_convolution(call, 0, 1, kBias);
    return {run_pipe(call, y)};
  }
  std::vector<size_t> given;  // connected operands
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.has(i)) given.push_back(i);
  }
  const Assignment assignment = assign(call, parts, given);
  std::vector<GraphValue> results;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<GraphValue> operands;
    std::vector<size_t> places;  // of the op's operands; results of parts have none
    for (const Source& source : assignment[i]) {
      operands.push_back(source.fresh ? call.in(given[source.index]) : results[source.index]);
      places.push_back(source.fresh ? given[source.index] : call.inputs.size());
    }
    results.push_back(run_part(call, *parts[i], i, operands, places));
  }
  return {results.back()};
}

}  // namespace ascendrt::model
