// Owns: the options of a conversion by the names of the vendor's compiler, and how values are
// written. Must never: look into a model; what needs the network is checked by the converter.
#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/similar.hpp"
#include "gen/soc.inc"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void bad_option(const std::string& text) { fail_model(kAclInvalidParam, text); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "a;b;" has two parts: scripts end lists with a separator.
std::vector<std::string_view> split_list(std::string_view text, char separator) {
  if (text.ends_with(separator)) text.remove_suffix(1);
  return text.empty() ? std::vector<std::string_view>{} : split(text, separator);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> number(std::string_view text) {
  text = trimmed(text);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// --- input_shape: "a:1,3,48,192;b:-1,1~8;scalar:" ---

[[noreturn]] void bad_shape(std::string_view entry) {
  bad_option("input_shape: '" + std::string(entry) +
             "' is not of the form NAME:1,3,48,192; a dim may also be -1 (with gears, or any size) "
             "or a range such as 1~8");
}

void add_dim(ShapeOption& shape, std::string_view part, std::string_view entry) {
  const size_t tilde = part.find('~');
  if (tilde == std::string_view::npos) {
    const auto value = number(part);
    if (!value || *value == 0 || *value < -1) bad_shape(entry);
    shape.dims.push_back(*value);
    shape.ranges.emplace_back(std::max<int64_t>(*value, 1), *value);
    return;
  }
  const auto low = number(part.substr(0, tilde));
  const auto high = number(part.substr(tilde + 1));
  if (!low || !high || *low < 1 || (*high != -1 && *high < *low)) bad_shape(entry);
  shape.dims.push_back(*low == *high ? *low : -1);
  shape.ranges.emplace_back(*low, *high);
}

// Names may hold colons, shapes may not.
void set_input_shape(ConvertOptions& options, std::string_view text) {
  for (const std::string_view entry : split_list(text, ';')) {
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos || colon == 0) bad_shape(entry);
    ShapeOption shape;
    const std::string_view dims = trimmed(entry.substr(colon + 1));
    if (!dims.empty()) {  // nothing: a scalar
      for (const std::string_view part : split(dims, ',')) add_dim(shape, part, entry);
    }
    const std::string name(trimmed(entry.substr(0, colon)));
    if (!options.input_shape.emplace(name, std::move(shape)).second) {
      bad_option("input_shape: input '" + name + "' is given twice");
    }
    options.shape_order.push_back(name);
  }
}

// "a:[1~8,3];b:[4]", the older way to give ranges.
void set_input_shape_range(ConvertOptions& options, std::string_view text) {
  if (text.starts_with('['))
    bad_option("input_shape_range: write the name of each input, a:[1~8,3]");
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == '[' || c == ']'; });
  set_input_shape(options, plain);
}

void set_input_format(ConvertOptions& options, std::string_view text) {
  const int32_t format = format_from_name(text);
  if (format != kNchw && format != kNcdhw && format != kNd) {
    bad_option("input_format: '" + std::string(text) +
               "' is none of the formats of ONNX networks: NCHW, NCDHW, ND");
  }
  options.input_format = format;
}

// --- gears ---

// src: hicann/ge docs of --dynamic_batch_size: at least 2 gears and at most 100.
constexpr size_t kFewestGears = 2;
constexpr size_t kMostGears = 100;

void set_gears(ConvertOptions& options, GearKind kind, const std::string& name,
               const std::vector<std::string_view>& gears) {
  if (options.gears.kind != GearKind::kNone) {
    bad_option(name +
               ": only one of dynamic_batch_size, dynamic_image_size and dynamic_dims can be set");
  }
  options.gears.kind = kind;
  for (const std::string_view gear : gears) {
    std::vector<int64_t> values;
    for (const std::string_view part : split(gear, ',')) {
      const auto value = number(part);
      if (!value || *value < 1) {
        bad_option(name + ": '" + std::string(gear) + "' holds a value that is no positive number");
      }
      values.push_back(*value);
    }
    if (kind == GearKind::kImage && values.size() != 2) {
      bad_option(name + ": '" + std::string(gear) + "' is not of the form HEIGHT,WIDTH");
    }
    if (!options.gears.values.empty() && options.gears.values[0].size() != values.size()) {
      bad_option(name + ": all gears must have as many values as the first one");
    }
    auto& known = options.gears.values;
    if (std::find(known.begin(), known.end(), values) != known.end()) {
      bad_option(name + ": gear '" + std::string(gear) + "' is given twice");
    }
    known.push_back(std::move(values));
  }
  const size_t count = options.gears.values.size();
  if (count < kFewestGears || count > kMostGears) {
    bad_option(name + ": " + std::to_string(count) + " gears are given, from " +
               std::to_string(kFewestGears) + " to " + std::to_string(kMostGears) +
               " are possible; a single shape needs no gears, only input_shape");
  }
}

void set_batch_gears(ConvertOptions& options, std::string_view text) {
  set_gears(options, GearKind::kBatch, "dynamic_batch_size", split_list(text, ','));
}
void set_image_gears(ConvertOptions& options, std::string_view text) {
  set_gears(options, GearKind::kImage, "dynamic_image_size", split_list(text, ';'));
}
void set_dims_gears(ConvertOptions& options, std::string_view text) {
  set_gears(options, GearKind::kDims, "dynamic_dims", split_list(text, ';'));
}

// --- outputs and types ---

// "node:0"; the last colon separates. nullopt: no index behind a colon.
std::optional<NodeOutput> node_output(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto index = number(text.substr(colon + 1));
  if (!index || *index < 0) return std::nullopt;
  return NodeOutput{std::string(text.substr(0, colon)), *index};
}

void set_out_nodes(ConvertOptions& options, std::string_view text) {
  for (const std::string_view entry : split_list(text, ';')) {
    const std::string_view name = trimmed(entry);
    if (auto output = node_output(name)) {
      options.out_nodes.push_back(std::move(*output));
    } else if (!name.empty()) {
      options.out_names.emplace_back(name);
    }
  }
  if (!options.out_nodes.empty() && !options.out_names.empty()) {
    bad_option("out_nodes: give either nodes (node_name:0) or names of outputs, not both");
  }
}

int32_t output_dtype(std::string_view name) {
  constexpr std::pair<std::string_view, int32_t> kTypes[] = {
      {"FP32", kFloat},  {"FP16", kFloat16},  {"INT8", kInt8},    {"UINT8", kUint8},
      {"INT16", kInt16}, {"UINT16", kUint16}, {"INT32", kInt32},  {"UINT32", kUint32},
      {"INT64", kInt64}, {"UINT64", kUint64}, {"DOUBLE", kDouble}};
  std::string known;
  for (const auto& [type, dtype] : kTypes) {
    if (type == name) return dtype;
    known += " " + std::string(type);
  }
  bad_option("output_type: '" + std::string(name) + "' is none of the types" + known);
}

// "FP16", or "node1:0:FP16;node2:0:FP32".
void set_output_type(ConvertOptions& options, std::string_view text) {
  for (const std::string_view entry : split_list(text, ';')) {
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos) {
      OutputType& all = options.output_types.emplace_back();
      all.dtype = output_dtype(trimmed(entry));
      continue;
    }
    const auto output = node_output(trimmed(entry.substr(0, colon)));
    if (!output) {
      bad_option("output_type: '" + std::string(entry) +
                 "' is neither a type nor of the form node_name:0:FP16");
    }
    options.output_types.push_back({*output, output_dtype(trimmed(entry.substr(colon + 1)))});
  }
}

void set_fp16_nodes(ConvertOptions& options, std::string_view text) {
  for (const std::string_view name : split_list(text, ';')) {
    options.input_fp16_nodes.emplace_back(trimmed(name));
  }
}

void set_external_weight(ConvertOptions& options, std::string_view text) {
  if (text != "0" && text != "1" && text != "2") {
    bad_option("external_weight: '" + std::string(text) +
               "' is none of 0 (in the model file), 1 (a file per weight), 2 (one file)");
  }
  options.external = static_cast<ExternalWeights>(text[0] - '0');
}

std::string read_option_file(std::string_view path, const char* what) {
  try {
    const Bytes content = read_model_file(std::string(path), what);
    return {content.begin(), content.end()};
  } catch (const base::Error& error) {
    bad_option(error.text);
  }
}

void set_aipp(ConvertOptions& options, std::string_view text) {
  options.aipp_text = read_option_file(text, "insert_op_conf: file");
  options.aipp = parse_aipp(options.aipp_text);
}

void set_precision_mode(ConvertOptions& options, std::string_view text) {
  const auto mode = find_precision_mode(text);
  if (!mode) {
    bad_option("precision_mode: '" + std::string(text) + "' is not known; known are " +
               std::string(kPrecisionModes));
  }
  options.precision = *mode;
}

void set_fusion(ConvertOptions& options, std::string_view text) {
  if (text != "on" && text != "off")
    bad_option("fusion: '" + std::string(text) + "' is not on or off");
  options.fuses = text == "on";
}

// The vendor's file names its own passes, which are not here; that all are off is understood.
void set_fusion_switches(ConvertOptions& options, std::string_view path) {
  const auto file = base::parse_json(read_option_file(path, "fusion_switch_file: file"), 8);
  const base::Json* switches = file ? file->find("Switch") : nullptr;
  if (switches == nullptr) {
    bad_option("fusion_switch_file: '" + std::string(path) +
               R"(' is no JSON of the form {"Switch": {"GraphFusion": {"ALL": "off"}}})");
  }
  const base::Json* passes = switches->find("GraphFusion");
  const base::Json* all = passes != nullptr ? passes->find("ALL") : nullptr;
  const std::string* state = all != nullptr ? all->string() : nullptr;
  if (state == nullptr) {
    return base::warn_once("fusion_switch_file",
                           "fusion_switch_file: passes of the vendor's compiler are not here; only "
                           "ALL of GraphFusion has an effect on the emulator");
  }
  set_fusion(options, *state);
  options.given.emplace_back("fusion", *state);
}

// A chip or a family of chips that exists: a model for any other could be loaded nowhere.
void set_soc_version(ConvertOptions& options, std::string_view name) {
  std::vector<std::string_view> known;
  for (const gen::Soc& soc : gen::kSocs) {
    known.emplace_back(soc.name);
    if (name != soc.name && name != soc.short_name) continue;
    options.soc_version = name;
    return;
  }
  bad_option("soc_version: no chip is called '" + std::string(name) + "'" +
             base::did_you_mean(name, known, "", "; names are like Ascend910B1 or Ascend310P3"));
}

void set_command_line(ConvertOptions& options, std::string_view text) {
  options.command_line = text;
}

struct Setter {
  std::string_view name;
  void (*set)(ConvertOptions&, std::string_view);
};
constexpr Setter kSetters[] = {
    {"soc_version", set_soc_version},
    {"input_shape", set_input_shape},
    {"input_shape_range", set_input_shape_range},
    {"input_format", set_input_format},
    {"dynamic_batch_size", set_batch_gears},
    {"dynamic_image_size", set_image_gears},
    {"dynamic_dims", set_dims_gears},
    {"out_nodes", set_out_nodes},
    {"output_type", set_output_type},
    {"input_fp16_nodes", set_fp16_nodes},
    {"insert_op_conf", set_aipp},
    {"external_weight", set_external_weight},
    {"precision_mode", set_precision_mode},
    {"precision_mode_v2", set_precision_mode},
    {"fusion", set_fusion},
    {"fusion_switch_file", set_fusion_switches},
    {"command_line", set_command_line},
};

size_t open_dims(const ConvertOptions& options) {
  size_t count = 0;
  for (const auto& [name, shape] : options.input_shape) {
    count += static_cast<size_t>(std::count(shape.dims.begin(), shape.dims.end(), -1));
  }
  return count;
}

}  // namespace

bool ShapeOption::is_fixed() const {
  return std::none_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
}

bool set_convert_option(ConvertOptions& options, std::string_view name, std::string_view value) {
  for (const Setter& setter : kSetters) {
    if (setter.name != name) continue;
    setter.set(options, value);
    options.given.emplace_back(name, value);
    return true;
  }
  return false;
}

void check_convert_options(const ConvertOptions& options) {
  const auto given = [&](std::string_view name) {
    return std::ranges::any_of(options.given, [&](const auto& o) { return o.first == name; });
  };
  if (given("precision_mode") && given("precision_mode_v2")) {
    bad_option("only one of precision_mode and precision_mode_v2 can be set");
  }
  const GearKind kind = options.gears.kind;
  if (kind == GearKind::kDims && !options.aipp.empty()) {
    bad_option(
        "insert_op_conf goes with dynamic_batch_size or dynamic_image_size, not dynamic_dims");
  }
  for (const AippConfig& config : options.aipp) {
    if (kind != GearKind::kImage || config.dynamic) continue;
    if (config.image.crop == 0 && config.image.padding == 0 && config.head.src_w == 0) continue;
    bad_option(
        "insert_op_conf with dynamic_image_size can have neither crop nor padding, and "
        "src_image_size_w and src_image_size_h must be 0");
  }
  if (kind == GearKind::kNone) return;
  const size_t open = open_dims(options);
  if (open == 0) {
    bad_option(std::string(
                   "gears need input_shape with a dim of -1 where the gear's values go, such as ") +
               (kind == GearKind::kImage ? "\"data:1,3,-1,-1\"" : "\"data:-1,3,224,224\""));
  }
  if (kind == GearKind::kImage && options.input_format == kNd) {
    bad_option("dynamic_image_size needs input_format NCHW; use dynamic_dims with ND");
  }
  if (kind == GearKind::kDims && options.gears.values[0].size() != open) {
    bad_option("dynamic_dims gives " + std::to_string(options.gears.values[0].size()) +
               " values per gear, input_shape has " + std::to_string(open) + " dims of -1");
  }
}

ConvertOptions parse_convert_options(std::string_view text) {
  ConvertOptions options;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string_view key = line.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : line.substr(equals + 1);
    if (set_convert_option(options, key, value)) continue;
    std::string known;
    for (const Setter& setter : kSetters) known += " " + std::string(setter.name);
    bad_option("option '" + std::string(key) + "' is not known; known are" + known);
  }
  check_convert_options(options);
  return options;
}

}  // namespace ascendrt::model
