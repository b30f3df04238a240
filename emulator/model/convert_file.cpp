// Owns: reading the origin of a conversion and writing its target.
// Must never: look into the model.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "model/convert.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "model/weight_files.hpp"

namespace ascendrt::model {
namespace {

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

Model convert_onnx_file(const std::string& origin, const std::string& target,
                        const ConvertOptions& options) {
  const Bytes bytes = read_file(origin);
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
