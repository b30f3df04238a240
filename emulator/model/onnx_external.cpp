// Tensors of ONNX models that lie in files beside the model.
// Owns: the folder that they may come from. Must never: open a file outside of it.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"
#include "model/onnx_reader.hpp"

namespace ascendrt::model::onnx {
namespace {

[[noreturn]] void refuse(const TensorData& tensor, const std::string& text) {
  fail_model(kGeParamInvalid, "tensor '" + tensor.name + "' keeps its data in another file" + text);
}

// Without links and dots; empty: there is no such file.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : "";
}

class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path.empty() ? "" : real_path(path)) {}

  void fill(TensorData& tensor) {
    const ExternalData where = std::move(*tensor.external);
    tensor.external.reset();
    if (path_.empty()) {
      refuse(tensor,
             ", and the model does not come from a file; save it with the data inside "
             "(onnx.save_model with save_as_external_data=False)");
    }
    const Bytes& file = content(tensor, where.location);
    const auto total = static_cast<int64_t>(file.size());
    const int64_t needed = byte_size(tensor.dims, tensor.dtype).value_or(-1);
    const int64_t stored = tensor.pairs ? (needed + 1) / 2 : needed;
    const int64_t length = where.length >= 0 ? where.length : stored;
    if (length < 0 || where.offset > total || length > total - where.offset) {
      refuse(tensor, ": " + std::to_string(length) + " bytes at offset " +
                         std::to_string(where.offset) + " of '" + where.location + "', which has " +
                         std::to_string(total) + " bytes");
    }
    const auto first = file.begin() + where.offset;
    tensor.bytes.assign(first, first + length);
    finish_tensor(tensor);
  }

 private:
  const Bytes& content(const TensorData& tensor, const std::string& location) {
    const auto known = files_.find(location);
    if (known != files_.end()) return known->second;
    if (location.empty()) refuse(tensor, ", but does not say which (location)");
    const std::string path = real_path(location[0] == '/' ? location : path_ + "/" + location);
    if (path.empty()) {
      refuse(tensor, ": there is no '" + location + "' in the folder '" + path_ +
                         "' of the model; put it there");
    }
    if (!path.starts_with(path_ == "/" ? path_ : path_ + "/")) {
      refuse(tensor, ": '" + location + "' lies outside the folder '" + path_ +
                         "' of the model, where nothing is read");
    }
    return files_.emplace(location, read_model_file(path, "data file")).first->second;
  }

  std::string path_;
  std::map<std::string, Bytes> files_;  // by location
};

void fill(Graph& graph, Folder& folder) {
  for (TensorData& tensor : graph.initializers) {
    if (tensor.external) folder.fill(tensor);
  }
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) {
      if (attribute.tensor && attribute.tensor->external) folder.fill(*attribute.tensor);
      if (attribute.graph) fill(*attribute.graph, folder);
    }
  }
}

}  // namespace

void read_external(Graph& graph, const std::string& folder_path) {
  Folder folder(folder_path);
  fill(graph, folder);
}

}  // namespace ascendrt::model::onnx
