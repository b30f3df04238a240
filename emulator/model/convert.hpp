// From an ONNX file to an offline model. Owns: the options and the conversion as a whole.
// Must never: write anything before the whole graph is converted.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/aipp.hpp"
#include "model/model.hpp"
#include "model/precision.hpp"
#include "model/weight_files.hpp"

namespace ascendrt::model {

// The shape given for one input. A dim of -1 is decided by a gear, or when the model runs.
struct ShapeOption {
  Dims dims;
  std::vector<std::pair<int64_t, int64_t>> ranges;  // per dim; upper -1: no bound

  bool is_fixed() const;
};

// A tensor by the node that makes it.
struct NodeOutput {
  std::string node;
  int64_t index = 0;
};

struct OutputType {
  NodeOutput output;  // node empty: every output
  int32_t dtype = kUndefined;
};

struct ConvertOptions {
  std::string soc_version;                         // empty: runs on any
  std::map<std::string, ShapeOption> input_shape;  // by input name
  std::vector<std::string> shape_order;            // its names in the order they were given in
  int32_t input_format = kFormatUndefined;         // NCHW, NCDHW or ND; undefined: by rank
  Gears gears;                                     // kind and values
  std::vector<NodeOutput> out_nodes;               // empty: the outputs of the file
  std::vector<std::string> out_names;              // or outputs of the file by their names
  std::vector<OutputType> output_types;
  std::vector<std::string> input_fp16_nodes;
  std::vector<AippConfig> aipp;
  std::string aipp_text;  // they were read from
  PrecisionMode precision = PrecisionMode::kOrigin;
  ExternalWeights external = ExternalWeights::kNone;
  bool fuses = true;         // operators are merged where that changes no result
  std::string command_line;  // recorded in the file
  std::string folder;        // of the network: where files that it names are looked for
  std::vector<std::pair<std::string, std::string>> given;  // names and values, as they were set
};

// Sets what the option of that name (without dashes) says. False: the name is not known here.
// Raises 100000 with a text that starts with the name for a bad value.
bool set_convert_option(ConvertOptions& options, std::string_view name, std::string_view value);
// Options that contradict each other, or need another one: raises 100000.
void check_convert_options(const ConvertOptions& options);

// "key=value" lines with the names of set_convert_option. Blank lines are skipped; an unknown key
// or a bad value raises 100000.
ConvertOptions parse_convert_options(std::string_view text);

// The complete model (om_writer's complete() was applied, memory is planned). Raises 145000; the
// text lists every node that cannot be converted with op type, name and opset.
Model convert_onnx(std::span<const uint8_t> onnx_bytes, const ConvertOptions& options);

// Reads, converts, writes. `origin` and `target` are paths; an empty target writes nothing. Raises
// 145002 when the file cannot be read, 100004 when the target cannot be written; nothing is left
// behind then.
Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options);

}  // namespace ascendrt::model
