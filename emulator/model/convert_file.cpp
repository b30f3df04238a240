// Owns: reading the origin of a conversion and writing its target.
// Must never: look into the model.
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "model/weight_files.hpp"

namespace ascendrt::model {

Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options) {
  const Bytes bytes = read_model_file(origin, "ONNX file");
  std::error_code missing;  // a target that is not there yet is another file
  if (!target.empty() && std::filesystem::equivalent(origin, target, missing)) {
    fail_model(kAclWriteFile,
               "output '" + target + "' is the ONNX file itself; give it another name");
  }
  try {
    ConvertOptions placed = options;
    placed.folder = folder_of(origin);
    Model model = convert_onnx(bytes, placed);
    if (target.empty()) return model;
    if (options.external != ExternalWeights::kNone) {
      write_om_external(model, target, options.external);
    } else {
      write_om(model, target);
    }
    return model;
  } catch (const base::Error& error) {
    if (error.code != kGeParamInvalid) throw;
    fail_model(error.code, "'" + origin + "': " + error.text);
  }
}

}  // namespace ascendrt::model
