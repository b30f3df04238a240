// Owns: the form of a model whose shapes only a run tells, and the model for one choice of them.
// Must never: run anything; the shapes tried here tell what the caller is told about the outputs.
//
// Note [Open shapes]: rules and kernels are made for known shapes. A model of open ones therefore
// holds the network as it was imported; a run converts it for the shapes it was given, as the
// converter would have. What a description needs (types, ranks, dims that never change) is learned
// here by converting for a few shapes.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "base/log.hpp"
#include "model/convert_io.hpp"
#include "model/convert_shapes.hpp"
#include "model/imported.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"
#include "model/open_images.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

constexpr std::string_view kOptions = "_ascendrt_options";
constexpr std::string_view kAippText = "_ascendrt_aipp";          // of the model
constexpr std::string_view kNetworkDims = "_ascendrt_nchw_dims";  // of the Data op of an image
using Range = DimRange;

// An input as file and options have it.
struct OpenInput {
  const onnx::GraphInput* source;
  Dims dims;
  std::vector<Range> ranges;
  std::optional<OpenImage> image;  // in front of it
  bool has_rank() const { return dims != kNoRank; }
};

std::vector<OpenInput> open_inputs(const onnx::File& file, const ConvertOptions& options) {
  std::vector<OpenInput> inputs;
  for (const onnx::GraphInput& input : file.graph.inputs) {
    OpenInput open{&input, wanted_dims(input, options), {}, {}};
    const auto given = options.input_shape.find(input.name);
    for (size_t i = 0; open.has_rank() && i < open.dims.size(); ++i) {
      const int64_t dim = open.dims[i];
      Range range = dim < 0 ? Range{1, -1} : Range{dim, dim};
      if (dim < 0 && given != options.input_shape.end()) range = given->second.ranges[i];
      open.ranges.push_back(range);
    }
    if (const AippConfig* config = find_aipp(options, input.name, inputs.size())) {
      open.image = open_image(*config, input.name, open.dims, open.ranges);
    }
    inputs.push_back(std::move(open));
  }
  return inputs;
}

// --- shapes that are tried ---

// How open dims are chosen by their place: the first, those from the fourth on (widths of images),
// others (heights, lengths of sequences).
struct Choice {
  int64_t batch;
  int64_t other;
  int64_t width;

  int64_t at(size_t place) const { return place == 0 ? batch : place < 3 ? other : width; }
};
constexpr int64_t kLow = -1;   // the lower bounds
constexpr int64_t kHigh = -2;  // the upper bounds
// Sizes that networks take: multiples of their strides, short sequences, one element, one line.
constexpr Choice kChoices[] = {{kLow, kLow, kLow}, {kHigh, kHigh, kHigh},
                               {2, 64, 64},        {3, 96, 160},
                               {1, 32, 32},        {1, 1, 1},
                               {4, 4, 4},          {7, 7, 7},
                               {8, 16, 16},        {64, 64, 64},
                               {16, 16, 16},       {1, 48, 320},
                               {2, 48, 160},       {1, 32, 320},
                               {2, 32, 160},       {1, 320, 320},
                               {1, 8, 8}};
constexpr size_t kEnough = 3;
constexpr size_t kRanks[] = {4, 3, 2, 1};  // of inputs without one

std::optional<int64_t> chosen(int64_t size, const Range& range) {
  if (size == kLow) return range.first;
  if (size == kHigh) return range.second < 0 ? std::nullopt : std::optional(range.second);
  return range.second < 0 ? std::max(size, range.first)
                          : std::clamp(size, range.first, range.second);
}

// One size per name: dims that the file calls alike are alike. nullopt: there is no such choice.
std::optional<std::vector<Dims>> shapes_of(const std::vector<OpenInput>& inputs, Choice choice,
                                           size_t rank) {
  std::map<std::string, int64_t> by_name;
  std::vector<Dims> shapes;
  for (const OpenInput& input : inputs) {
    Dims dims = input.has_rank() ? input.dims : Dims(rank, -1);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] >= 0) continue;
      const auto size = chosen(choice.at(i), input.has_rank() ? input.ranges[i] : Range{1, -1});
      if (!size) return std::nullopt;
      const auto& params = input.source->params;
      dims[i] = i < params.size() && !params[i].empty()
                    ? by_name.emplace(params[i], *size).first->second
                    : *size;
    }
    shapes.push_back(std::move(dims));
  }
  return shapes;
}

ConvertOptions with_shapes(const ConvertOptions& options, const onnx::File& file,
                           const std::vector<Dims>& shapes) {
  ConvertOptions fixed = options;
  fixed.input_shape.clear();
  for (size_t i = 0; i < shapes.size(); ++i) {
    fixed.input_shape[file.graph.inputs[i].name] = {shapes[i], {}};
  }
  return fixed;
}

// --- what they tell ---

// Dims that are the same in all shapes tried stay, others become -1. So does 0: the shapes tried
// may have been too small to leave anything.
Dims merged(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return kNoRank;
  Dims out = a;
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] == b[i] && a[i] != 0 ? a[i] : -1;
  return out;
}

class Trials {
 public:
  Trials(const onnx::File& file, const ConvertOptions& options,
         const std::vector<OpenInput>& inputs)
      : inputs_(inputs) {
    const auto ranked = [](const OpenInput& input) { return input.has_rank(); };
    has_ranks_ = std::all_of(inputs.begin(), inputs.end(), ranked);
    for (const size_t rank : kRanks) {
      attempt_rank(file, options, rank);
      if (has_ranks_) break;
    }
    mark_open();
    if (!accepted_.empty()) return;
    // Of inputs without a rank some rank may fit, unless all were refused.
    if (refusal_ && (has_ranks_ || !contradicted_)) throw base::Error(*refusal_);
    base::warn_once(file.graph.name,
                    "none of the shapes tried fits the network, so it is converted unchecked; a "
                    "run will tell whether its shapes fit. The first trial said: " +
                        contradiction_);
  }

  const TensorDescs& tensors() const { return tensors_; }
  // Ranges of output `i` where all inputs are bounded; empty: not known.
  std::vector<Range> output_ranges(size_t i) const;
  // Whether dim `k` of output `i` follows the inputs, whatever the file declares.
  bool varies(size_t i, size_t k) const { return varying_.contains({i, k}); }

 private:
  void attempt_rank(const onnx::File& file, const ConvertOptions& options, size_t rank);
  bool attempt(const onnx::File& file, const ConvertOptions& fixed, Choice choice);
  void note(const std::vector<IoDesc>& outputs);
  bool varied() const;
  void mark_open();

  const std::vector<OpenInput>& inputs_;
  bool has_ranks_ = true;
  std::vector<std::vector<Dims>> accepted_;  // shapes of the inputs
  TensorDescs tensors_;
  std::vector<IoDesc> low_, high_, first_;  // outputs at the bounds and of the first trial
  std::set<std::pair<size_t, size_t>> varying_;
  std::optional<base::Error> refusal_;
  bool contradicted_ = false;
  std::string contradiction_;
};

// rank: of inputs without one.
void Trials::attempt_rank(const onnx::File& file, const ConvertOptions& options, size_t rank) {
  std::set<std::vector<Dims>> tried;
  size_t accepted = 0;
  for (const Choice choice : kChoices) {
    if (accepted >= kEnough && varied()) return;
    const auto shapes = shapes_of(inputs_, choice, rank);
    if (!shapes || !tried.insert(*shapes).second) continue;
    if (!attempt(file, with_shapes(options, file, *shapes), choice)) continue;
    accepted_.push_back(*shapes);
    ++accepted;
  }
}

bool Trials::attempt(const onnx::File& file, const ConvertOptions& fixed, Choice choice) {
  TensorDescs seen;
  try {
    Model model = convert_fixed(file, fixed, Purpose::kTrial, &seen);
    note(model.outputs);
    if (choice.batch == kLow) low_ = std::move(model.outputs);
    if (choice.batch == kHigh) high_ = std::move(model.outputs);
  } catch (const base::Error& error) {
    // A refusal holds for any shape; other codes are of shapes that contradict each other.
    if (error.code == kGeParamInvalid && !refusal_) refusal_ = error;
    contradicted_ = contradicted_ || error.code != kGeParamInvalid;
    if (contradiction_.empty()) contradiction_ = error.text;
    return false;
  }
  for (auto& [name, desc] : seen) {
    const auto [at, fresh] = tensors_.emplace(name, desc);
    if (!fresh) at->second.dims = merged(at->second.dims, desc.dims);
  }
  return true;
}

void Trials::note(const std::vector<IoDesc>& outputs) {
  if (first_.empty()) first_ = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Dims& before = first_[i].dims;
    const Dims& dims = outputs[i].dims;
    for (size_t k = 0; k < std::min(before.size(), dims.size()); ++k) {
      if (std::min(before[k], dims[k]) > 0 && before[k] != dims[k]) varying_.emplace(i, k);
    }
  }
}

// Every open dim had two sizes.
bool Trials::varied() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const OpenInput& input = inputs_[i];
    for (size_t k = 0; k < input.ranges.size(); ++k) {
      if (input.dims[k] >= 0 || input.ranges[k].first == input.ranges[k].second) continue;
      const auto same = [&](const auto& shapes) { return shapes[i][k] == accepted_[0][i][k]; };
      if (std::all_of(accepted_.begin(), accepted_.end(), same)) return false;
    }
  }
  return true;
}

// Where a dim of an input had one size only, or other ranks are possible, nothing says which dims
// follow it.
void Trials::mark_open() {
  if (accepted_.empty() || (varied() && has_ranks_)) return;
  for (auto& [name, desc] : tensors_) {
    for (int64_t& dim : desc.dims) dim = std::min<int64_t>(dim, -1);
    if (!has_ranks_) desc.dims = kNoRank;  // ranks that were not tried may fit as well
  }
}

std::vector<Range> Trials::output_ranges(size_t i) const {
  if (i >= low_.size() || i >= high_.size() || low_[i].dims.size() != high_[i].dims.size())
    return {};
  std::vector<Range> ranges;
  for (size_t k = 0; k < low_[i].dims.size(); ++k) {
    const auto [low, high] = std::minmax(low_[i].dims[k], high_[i].dims[k]);
    if (low < 0) return {};
    ranges.emplace_back(low, high);
  }
  return ranges;
}

// --- the model ---

void set_ranges(TensorDesc& desc, const std::vector<Range>& ranges) {
  std::vector<std::vector<int64_t>> rows;
  for (const auto& [low, high] : ranges) rows.push_back({low, high});
  if (!rows.empty()) desc.attrs.set("shape_range", std::move(rows));
}

void describe_image(Op& op, const OpenInput& input) {
  const OpenImage& image = *input.image;
  TensorDesc desc;
  desc.dtype = kUint8;
  desc.dims = image.dims;
  desc.format = kNhwc;
  set_ranges(desc, image.ranges);
  op.input_descs = op.output_descs = {desc};
  op.attrs.set(kNetworkDims, input.dims);
  op.attrs.set(kAippAttrs, Box(image.attrs));
  op.attrs.set(kAippMode, "static_aipp");
  op.attrs.set(kAippDims, image.dims);
}

void describe_inputs(Graph& root, const std::vector<OpenInput>& inputs,
                     const ConvertOptions& options) {
  size_t next = 0;
  for (Op& op : root.ops) {
    if (op.type != "Data") continue;
    const OpenInput& input = inputs.at(next++);
    if (input.image) {
      describe_image(op, input);
      continue;
    }
    TensorDesc desc;
    desc.dtype = input_type(options, *input.source);
    desc.dims = input.dims;
    desc.format = desc.dims.size() == 4 ? kNchw : kNd;
    const bool open = std::any_of(desc.dims.begin(), desc.dims.end(), [](auto d) { return d < 0; });
    if (open) set_ranges(desc, input.ranges);
    op.input_descs = op.output_descs = {desc};
  }
}

void describe_outputs(Graph& root, const onnx::File& file, const Trials& trials,
                      const ConvertOptions& options) {
  Op& op = root.ops.back();  // keep_imported adds it last
  for (size_t i = 0; i < op.input_descs.size(); ++i) {
    TensorDesc& desc = op.input_descs[i];
    const onnx::GraphInput& declared = file.graph.outputs[i];
    if (desc.dtype == kUndefined) desc.dtype = declared.dtype;  // no trial told
    if (desc.dims == kNoRank && declared.has_shape) desc.dims = declared.dims;
    for (size_t k = 0; k < desc.dims.size() && desc.dims.size() == declared.dims.size(); ++k) {
      if (desc.dims[k] == -1 && !trials.varies(i, k)) desc.dims[k] = declared.dims[k];
    }
    if (desc.dtype == kUndefined) {
      refuse("the type of output '" + declared.name + "' is neither declared nor inferred");
    }
    const int32_t wanted = output_type(options, i);
    if (wanted != kUndefined) desc.dtype = wanted;
    const bool open = std::any_of(desc.dims.begin(), desc.dims.end(), [](auto d) { return d < 0; });
    if (open) set_ranges(desc, trials.output_ranges(i));
  }
}

// What a later conversion for given shapes needs to know.
std::string kept_options(const ConvertOptions& options) {
  constexpr std::string_view kKept[] = {"precision_mode", "precision_mode_v2", "fusion",
                                        "output_type",    "input_fp16_nodes",  "out_nodes",
                                        "input_format"};
  std::string text;
  for (const auto& [name, value] : options.given) {
    if (std::find(std::begin(kKept), std::end(kKept), name) == std::end(kKept)) continue;
    text += (text.empty() ? "" : "\n") + name + "=" + value;
  }
  return text;
}

// --- one choice of shapes ---

// Constants of `made` that the whole model holds as well lie there; others stay in their ops.
void share_weights(const Model& whole, std::span<const uint8_t> weights, Model& made) {
  std::unordered_multimap<size_t, const uint8_t*> known;
  for (const Graph& graph : whole.graphs) {
    for (const Op& op : graph.ops) {
      const auto bytes = whole.constant_data(op, weights);
      const bool inside = !bytes.empty() && bytes.data() >= weights.data() &&
                          bytes.data() < weights.data() + weights.size();
      if (inside) known.emplace(bytes.size(), bytes.data());
    }
  }
  for (Graph& graph : made.graphs) {
    for (Op& op : graph.ops) {
      const auto bytes = made.constant_data(op);
      if (bytes.empty()) continue;
      Tensor tensor = *op.constant();
      const auto [first, last] = known.equal_range(bytes.size());
      const auto same = std::find_if(first, last, [&](const auto& entry) {
        return std::memcmp(entry.second, bytes.data(), bytes.size()) == 0;
      });
      if (same != last) {
        tensor.desc.data_offset = same->second - weights.data();
      } else {
        tensor.data.assign(bytes.begin(), bytes.end());
      }
      op.attrs.set("value", Box(std::move(tensor)));
    }
  }
  made.weights = {};
}

}  // namespace

bool has_open_dims(const onnx::File& file, const ConvertOptions& options) {
  return std::any_of(file.graph.inputs.begin(), file.graph.inputs.end(), [&](const auto& input) {
    const Dims dims = wanted_dims(input, options);
    return std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
  });
}

Model convert_dynamic(const onnx::File& file, const ConvertOptions& options) {
  const auto inputs = open_inputs(file, options);
  const Trials trials(file, options, inputs);
  Model model;
  model.soc_version = options.soc_version;
  if (!options.command_line.empty()) model.attrs.set("atc_cmdline", options.command_line);
  model.attrs.set(kOptions, kept_options(options));
  if (!options.aipp.empty()) model.attrs.set(kAippText, options.aipp_text);
  keep_imported(file, trials.tensors(), model);
  Graph& root = model.graphs.front();
  model.name = root.name;
  describe_inputs(root, inputs, options);
  describe_outputs(root, file, trials, options);
  apply_input_format(root, options.input_format);
  std::vector<std::string> names;
  for (size_t i = 0; i < root.outputs.size(); ++i) {
    names.push_back(root.outputs[i] + ":" + file.graph.outputs[i].name);
  }
  model.attrs.set("attr_model_out_nodes_name", std::move(names));
  model.header.unknown_shape = true;
  complete(model);
  return model;
}

namespace {

// The shapes of the network's inputs for those of the model's; images become what is made of them.
std::vector<Dims> network_shapes(const Model& whole, const ConvertOptions& options,
                                 const std::vector<Dims>& shapes, onnx::File& file) {
  std::vector<Dims> out = shapes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    onnx::GraphInput& input = file.graph.inputs[i];
    const AippConfig* config = find_aipp(options, input.name, i);
    const Op* data = config == nullptr ? nullptr : input_op(whole, i);
    const auto* open = data == nullptr ? nullptr : data->attrs.get_ints(kNetworkDims);
    if (open == nullptr) continue;
    input.has_shape = false;  // the model has the image's there
    out[i] = dims_behind(*config, *open, shapes[i]);
  }
  return out;
}

}  // namespace

Model specialise(const Model& whole, std::span<const uint8_t> weights,
                 const std::vector<Dims>& shapes) {
  onnx::File file = imported_file(whole, weights);
  if (file.graph.inputs.size() != shapes.size()) refuse("the model has another number of inputs");
  ConvertOptions options = parse_convert_options(whole.attrs.string_or(kOptions, ""));
  if (const auto* text = whole.attrs.get_string(kAippText)) options.aipp = parse_aipp(*text);
  const auto inner = network_shapes(whole, options, shapes, file);
  Model made = convert_fixed(file, with_shapes(options, file, inner), Purpose::kRun);
  if (made.inputs.size() != whole.inputs.size() || made.outputs.size() != whole.outputs.size()) {
    refuse("the network in the file has other inputs or outputs than the model");
  }
  share_weights(whole, weights, made);
  return made;
}

}  // namespace ascendrt::model
