// Owns: reading configuration files and filling in what they leave to the network.
#include "model/aipp.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>

#include "model/om_container.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void bad(const std::string& text) {
  constexpr size_t kLongest = 500;  // a file of another kind may be one word
  const bool fits = text.size() <= kLongest;
  fail_model(kAclInvalidParam,
             "insert_op_conf: " + (fits ? text : text.substr(0, kLongest) + " ..."));
}
[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, "AIPP: " + text); }

// Words and the marks { } : of the text; from # to the end of a line is a comment.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '{' || c == '}' || c == ':') {
      tokens.emplace_back(1, c);
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ',' || c == ';') {
      ++i;
    } else {
      const size_t end = c == '"' ? text.find('"', i + 1) : text.find_first_of(" \t\r\n{}:#,;", i);
      const size_t stop = std::min(end, text.size());
      tokens.emplace_back(text.substr(i + (c == '"' ? 1 : 0), stop - i - (c == '"' ? 1 : 0)));
      i = c == '"' ? stop + 1 : stop;
    }
  }
  return tokens;
}

// The fields of one aipp_op. Every field is read once; what is left over is not known.
class Fields {
 public:
  void add(const std::string& key, const std::string& value) {
    if (!values_.emplace(key, value).second) bad(key + " is given twice");
  }
  int64_t number(const std::string& key, int64_t low, int64_t high, int64_t fallback) {
    const std::string text = take(key);
    if (text.empty()) return fallback;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || *stop != '\0' || value < low || value > high) {
      bad(key + ": '" + text + "' is no integer from " + std::to_string(low) + " to " +
          std::to_string(high));
    }
    return value;
  }
  float real(const std::string& key, float low, float high, float fallback) {
    const std::string text = take(key);
    if (text.empty()) return fallback;
    float value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || *stop != '\0' || !(value >= low && value <= high)) {
      bad(key + ": '" + text + "' is no number from " + std::to_string(low) + " to " +
          std::to_string(high));
    }
    return value;
  }
  bool flag(const std::string& key) {
    const std::string text = take(key);
    if (text == "true" || text == "1") return true;
    if (!text.empty() && text != "false" && text != "0") bad(key + ": '" + text + "' is no switch");
    return false;
  }
  std::string take(const std::string& key) {
    const auto node = values_.extract(key);
    return node.empty() ? "" : node.mapped();
  }
  bool has(const std::string& key) const { return values_.contains(key); }
  void finish() const {
    if (!values_.empty()) bad("aipp_op has no field '" + values_.begin()->first + "'");
  }

 private:
  std::map<std::string, std::string> values_;
};

constexpr int64_t kMostPixels = 4096;
constexpr int64_t kMostPadding = 32;
constexpr float kMostHalf = 65504.0F;

uint8_t format_of(Fields& fields) {
  constexpr std::pair<std::string_view, ops::ImageFormat> kFormats[] = {
      {"YUV420SP_U8", ops::ImageFormat::kYuv420sp},
      {"XRGB8888_U8", ops::ImageFormat::kXrgb8888},
      {"RGB888_U8", ops::ImageFormat::kRgb888},
      {"YUV400_U8", ops::ImageFormat::kYuv400}};
  const std::string text = fields.take("input_format");
  for (const auto& [name, format] : kFormats) {
    if (text == name) return static_cast<uint8_t>(format);
  }
  bad("input_format: '" + text +
      "' is none of YUV420SP_U8, XRGB8888_U8, RGB888_U8, YUV400_U8; a static AIPP needs one");
}

void read_colours(Fields& fields, ops::AippHead& head) {
  constexpr int64_t kDefault[] = {298, 516, 0, 298, -100, -208, 298, 0, 409};
  for (int64_t i = 0; i < 9; ++i) {
    const std::string key = "matrix_r" + std::to_string(i / 3) + "c" + std::to_string(i % 3);
    head.matrix[static_cast<size_t>(i)] =
        static_cast<int16_t>(fields.number(key, -32677, 32676, kDefault[i]));
  }
  constexpr int64_t kBias[] = {16, 128, 128};
  for (size_t i = 0; i < 3; ++i) {
    const std::string end = "_bias_" + std::to_string(i);
    head.output_bias[i] = static_cast<uint8_t>(fields.number("output" + end, 0, 255, kBias[i]));
    head.input_bias[i] = static_cast<uint8_t>(fields.number("input" + end, 0, 255, kBias[i]));
  }
}

void read_sizes(Fields& fields, ops::AippImage& image) {
  const auto pixels = [&](const char* key) {
    return static_cast<int32_t>(fields.number(key, 0, kMostPixels, 0));
  };
  const auto margin = [&](const char* key) {
    return static_cast<int32_t>(fields.number(key, 0, kMostPadding, 0));
  };
  image.crop = fields.flag("crop") ? 1 : 0;
  image.crop_w0 = pixels("load_start_pos_w");
  image.crop_h0 = pixels("load_start_pos_h");
  image.crop_w = pixels("crop_size_w");
  image.crop_h = pixels("crop_size_h");
  image.resize = fields.flag("resize") ? 1 : 0;
  image.resize_w = pixels("resize_output_w");
  image.resize_h = pixels("resize_output_h");
  image.padding = fields.flag("padding") ? 1 : 0;
  image.left = margin("left_padding_size");
  image.right = margin("right_padding_size");
  image.top = margin("top_padding_size");
  image.bottom = margin("bottom_padding_size");
}

void read_scale(Fields& fields, ops::AippImage& image) {
  for (size_t c = 0; c < 4; ++c) {
    const std::string end = "_chn_" + std::to_string(c);
    image.mean[c] = static_cast<int16_t>(fields.number("mean" + end, 0, 255, 0));
    image.min[c] = ops::float_to_half(fields.real("min" + end, 0, 255, 0));
    image.var_reci[c] = ops::float_to_half(fields.real("var_reci" + end, -kMostHalf, kMostHalf, 1));
  }
}

AippConfig config_of(Fields& fields) {
  AippConfig config;
  const std::string mode = fields.take("aipp_mode");
  if (mode != "static" && mode != "dynamic") {
    bad("aipp_mode: '" + mode + "' is neither static nor dynamic");
  }
  config.dynamic = mode == "dynamic";
  config.input_rank = fields.number("related_input_rank", 0, INT32_MAX, 0);
  config.input_name = fields.take("related_input_name");
  config.max_src_bytes = fields.number("max_src_image_size", 0, INT64_MAX, 0);
  for (const char* unused : {"support_rotation", "single_line_mode", "rotation_angle",
                             "cpadding_value", "input_edge_idx"}) {
    fields.take(unused);  // reserved: no chip does anything with them
  }
  if (config.dynamic && config.max_src_bytes == 0)
    bad("a dynamic aipp_op needs max_src_image_size");
  if (!config.dynamic || fields.has("input_format")) config.head.format = format_of(fields);
  config.head.csc_switch = fields.flag("csc_switch") ? 1 : 0;
  config.head.rbuv_swap = fields.flag("rbuv_swap_switch") ? 1 : 0;
  config.head.ax_swap = fields.flag("ax_swap_switch") ? 1 : 0;
  config.head.src_w = static_cast<int32_t>(fields.number("src_image_size_w", 0, kMostPixels, 0));
  config.head.src_h = static_cast<int32_t>(fields.number("src_image_size_h", 0, kMostPixels, 0));
  config.padding_value = fields.real("padding_value", -kMostHalf, kMostHalf, 0);
  read_colours(fields, config.head);
  read_sizes(fields, config.image);
  read_scale(fields, config.image);
  fields.finish();
  return config;
}

}  // namespace

std::vector<AippConfig> parse_aipp(std::string_view text) {
  const std::vector<std::string> tokens = tokens_of(text);
  std::vector<AippConfig> configs;
  const auto at = [&](size_t i) { return i < tokens.size() ? tokens[i] : std::string(); };
  for (size_t i = 0; i < tokens.size();) {
    if (at(i) != "aipp_op" || at(i + 1) != "{") bad("'" + at(i) + "' is no aipp_op { ... }");
    Fields fields;
    for (i += 2; at(i) != "}"; i += 3) {
      if (i + 2 >= tokens.size() || at(i + 1) != ":") {
        bad("behind '" + at(i) + "' a ':' and a value are missing, or the last '}' is");
      }
      fields.add(at(i), at(i + 2));
    }
    ++i;
    configs.push_back(config_of(fields));
  }
  if (configs.empty()) bad("there is no aipp_op { ... } in the file");
  return configs;
}

ops::AippParams static_params(const AippConfig& config, const Dims& dims) {
  ops::AippParams params{config.head, {}, config.padding_value};
  ops::AippHead& head = params.head;
  ops::AippImage image = config.image;
  const auto height = static_cast<int32_t>(dims[2]);
  const auto width = static_cast<int32_t>(dims[3]);
  const auto fill = [](int32_t& value, int32_t fallback) { value = value == 0 ? fallback : value; };
  if (head.src_w == 0 || head.src_h == 0) {
    if (image.crop != 0 || image.padding != 0 || image.resize != 0) {
      refuse("crop, resize and padding need src_image_size_w and src_image_size_h");
    }
    head.src_w = width;
    head.src_h = height;
  }
  fill(image.crop_w, width);
  fill(image.crop_h, height);
  fill(image.resize_w, width);
  fill(image.resize_h, height);
  image.resize_in_w = image.crop != 0 ? image.crop_w : head.src_w;
  image.resize_in_h = image.crop != 0 ? image.crop_h : head.src_h;
  if (static_cast<ops::ImageFormat>(head.format) == ops::ImageFormat::kYuv420sp &&
      (head.src_w % 2 != 0 || head.src_h % 2 != 0)) {
    refuse("YUV420SP images need even sizes, the source has " + std::to_string(head.src_w) + "x" +
           std::to_string(head.src_h));
  }
  const auto [out_w, out_h] = ops::aipp_output_size(head, image);
  if (out_w != width || out_h != height) {
    refuse("the image comes out as " + std::to_string(out_w) + "x" + std::to_string(out_h) +
           " (width x height), the network takes " + std::to_string(width) + "x" +
           std::to_string(height));
  }
  if (dims[0] < 1 || dims[0] > INT8_MAX) refuse("batches from 1 to 127 are possible");
  head.batch = static_cast<int8_t>(dims[0]);
  params.images.assign(static_cast<size_t>(dims[0]), image);
  return params;
}

namespace {

void tell_sizes(const ops::AippHead& head, const ops::AippImage& image, AttrMap& attrs) {
  const std::pair<const char*, int32_t> numbers[] = {
      {"src_image_size_w", head.src_w},    {"src_image_size_h", head.src_h},
      {"load_start_pos_w", image.crop_w0}, {"load_start_pos_h", image.crop_h0},
      {"crop_size_w", image.crop_w},       {"crop_size_h", image.crop_h},
      {"resize_output_w", image.resize_w}, {"resize_output_h", image.resize_h},
      {"left_padding_size", image.left},   {"right_padding_size", image.right},
      {"top_padding_size", image.top},     {"bottom_padding_size", image.bottom}};
  for (const auto& [name, value] : numbers) attrs.set(name, int64_t{value});
  attrs.set("crop", image.crop != 0);
  attrs.set("resize", image.resize != 0);
  attrs.set("padding", image.padding != 0);
}

void tell_colours(const ops::AippHead& head, const ops::AippImage& image, AttrMap& attrs) {
  attrs.set("csc_switch", head.csc_switch != 0);
  attrs.set("rbuv_swap_switch", head.rbuv_swap != 0);
  attrs.set("ax_swap_switch", head.ax_swap != 0);
  for (size_t i = 0; i < 9; ++i) {
    attrs.set("matrix_r" + std::to_string(i / 3) + "c" + std::to_string(i % 3),
              int64_t{head.matrix[i]});
  }
  for (size_t c = 0; c < 4; ++c) {
    const std::string end = std::to_string(c);
    attrs.set("mean_chn_" + end, int64_t{image.mean[c]});
    attrs.set("min_chn_" + end, ops::half_to_float(image.min[c]));
    attrs.set("var_reci_chn_" + end, ops::half_to_float(image.var_reci[c]));
    if (c == 3) continue;
    attrs.set("input_bias_" + end, int64_t{head.input_bias[c]});
    attrs.set("output_bias_" + end, int64_t{head.output_bias[c]});
  }
}

}  // namespace

NamedAttrs aipp_attributes(const AippConfig& config, const ops::AippParams* params) {
  NamedAttrs out{"aipp", {}};
  AttrMap& attrs = out.attrs;
  attrs.set("aipp_mode", int64_t{config.dynamic ? 2 : 1});
  attrs.set("related_input_rank", config.input_rank);
  if (params == nullptr) {
    attrs.set("max_src_image_size", config.max_src_bytes);
    return out;
  }
  attrs.set("input_format", int64_t{params->head.format});
  attrs.set("padding_value", params->padding_value);
  tell_sizes(params->head, params->images.front(), attrs);
  tell_colours(params->head, params->images.front(), attrs);
  return out;
}

int64_t aipp_data_bytes(int64_t images) {
  return static_cast<int64_t>(sizeof(ops::AippHead)) +
         images * static_cast<int64_t>(sizeof(ops::AippImage));
}

Dims image_dims(ops::ImageFormat format, int64_t images, int64_t width, int64_t height) {
  return {images, height, width, static_cast<int64_t>(ops::image_channels(format))};
}

Dims image_dims_v2(ops::ImageFormat format, int64_t images, int64_t width, int64_t height) {
  if (format == ops::ImageFormat::kYuv420sp) return {images, height * 3 / 2, width, 1};
  return image_dims(format, images, width, height);
}

const Op* input_op(const Model& model, size_t index) {
  const Graph* root = model.root();
  int64_t place = 0;
  for (size_t i = 0; root != nullptr && i < root->ops.size(); ++i) {
    const Op& op = root->ops[i];
    if (op.type != "Data" && op.type != "AippData" && op.type != "AnnData") continue;
    if (op.attrs.int_or("index", place) == static_cast<int64_t>(index)) return &op;
    ++place;
  }
  return nullptr;
}

}  // namespace ascendrt::model
