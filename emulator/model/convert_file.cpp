// Owns: the options of a conversion, reading the origin and writing the target.
// Must never: look into the model.
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "gen/soc.inc"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_writer.hpp"

namespace ascendrt::model {
namespace {

[[noreturn]] void bad_option(const std::string& text) { fail_model(kAclInvalidParam, text); }

Dims parse_dims(std::string_view entry, std::string_view text) {
  Dims dims;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || stop != part.data() + part.size() || value < 1) {
      bad_option("input_shape: '" + std::string(entry) + "' is not of the form name:1,3,224,224");
    }
    dims.push_back(value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return dims;
}

// "a:1,3,48,192;b:1,4". Names may hold colons, shapes may not.
void parse_input_shape(std::string_view text, ConvertOptions& options) {
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string_view entry = text.substr(0, end);
    const size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos || colon == 0) {
      bad_option("input_shape: '" + std::string(entry) + "' is not of the form name:1,3,224,224");
    }
    options.input_shape[std::string(entry.substr(0, colon))] =
        parse_dims(entry, entry.substr(colon + 1));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

// A chip or a family of chips that exists: a model for any other could be loaded nowhere.
void check_soc(std::string_view name) {
  for (const gen::Soc& soc : gen::kSocs) {
    if (name == soc.name || name == soc.short_name) return;
  }
  bad_option("soc_version: no chip is called '" + std::string(name) +
             "'; names are like Ascend910B1 or Ascend310P3");
}

Bytes read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  Bytes bytes(size > 0 ? static_cast<size_t>(size) : 0);
  if (size >= 0) {
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), size);
  }
  if (!file) {
    const char* reason = errno != 0 ? std::strerror(errno) : "not a readable file";
    fail_model(kGePathInvalid, "ONNX file '" + path + "' cannot be read: " + reason);
  }
  return bytes;
}

}  // namespace

ConvertOptions parse_convert_options(std::string_view text) {
  ConvertOptions options;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t equals = line.find('=');
    if (!line.empty()) {
      const std::string_view key = line.substr(0, equals);
      const std::string_view value =
          equals == std::string_view::npos ? std::string_view{} : line.substr(equals + 1);
      if (key == "soc_version") {
        check_soc(value);
        options.soc_version = value;
      } else if (key == "input_shape") {
        parse_input_shape(value, options);
      } else if (key == "command_line") {
        options.command_line = value;
      } else if (key == "precision_mode") {
        const auto mode = find_precision_mode(value);
        if (!mode) {
          bad_option("precision_mode '" + std::string(value) + "' is not known; known are " +
                     std::string(kPrecisionModes));
        }
        options.precision = *mode;
      } else {
        bad_option(
            "option '" + std::string(key) +
            "' is not known; known are soc_version, input_shape, precision_mode and command_line");
      }
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return options;
}

Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options) {
  const Bytes bytes = read_file(origin);
  try {
    Model model = convert_onnx(bytes, options);
    write_om(model, target);
    return model;
  } catch (const base::Error& error) {
    if (error.code != kGeParamInvalid) throw;
    fail_model(error.code, "'" + origin + "': " + error.text);
  }
}

}  // namespace ascendrt::model
