// From an ONNX file to an offline model. Owns: the options and the conversion as a whole.
// Must never: write anything before the whole graph is converted.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "model/model.hpp"
#include "model/precision.hpp"

namespace ascendrt::model {

struct ConvertOptions {
  std::string soc_version;                  // empty: runs on any
  std::map<std::string, Dims> input_shape;  // by input name
  std::string command_line;                 // recorded in the file
  PrecisionMode precision = PrecisionMode::kOrigin;
};

// "key=value" lines: soc_version, input_shape ("x:1,3,48,192;y:1,4"), precision_mode, command_line.
// Blank lines are skipped; an unknown key or a bad value raises 100000.
ConvertOptions parse_convert_options(std::string_view text);

// The complete model (om_writer's complete() was applied, memory is planned). Raises 145000; the
// text lists every node that cannot be converted with op type, name and opset.
Model convert_onnx(std::span<const uint8_t> onnx_bytes, const ConvertOptions& options);

// Reads, converts, writes. `origin` and `target` are paths. Raises 145002 when the file cannot be
// read, 100004 when the target cannot be written; nothing is left behind then.
Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options);

}  // namespace ascendrt::model
