// Owns: both directions, and taking back what was written when a later file fails.
#include "model/weight_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "model/output_file.hpp"

namespace ascendrt::model {
namespace {

constexpr std::string_view kType = "FileConstant";
constexpr std::string_view kLocation = "location";
constexpr std::string_view kPath = "file_path";
constexpr std::string_view kOffset = "offset";
constexpr std::string_view kLength = "length";
constexpr size_t kAlign = 512;

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void align(Bytes& bytes) { bytes.resize((bytes.size() + kAlign - 1) / kAlign * kAlign); }

// --- writing ---

// The files of one model: all or none.
class WeightFolder {
 public:
  explicit WeightFolder(std::string path) : path_(std::move(path)) {
    made_ = ::mkdir(path_.c_str(), 0777) == 0;
    if (made_ || errno == EEXIST) return;
    fail_model(kAclWriteFile,
               "folder '" + path_ + "' cannot be made: " + std::strerror(errno) +
                   "; the weights go there, check the directory and its permissions");
  }
  WeightFolder(const WeightFolder&) = delete;
  WeightFolder& operator=(const WeightFolder&) = delete;
  ~WeightFolder() {
    if (kept_) return;
    for (const OutputFile& file : files_) {
      if (placed_-- > 0 && !file.replaces()) ::unlink(file.target().c_str());
    }
    files_.clear();  // temporary files go before their folder
    if (made_) ::rmdir(path_.c_str());
  }

  void add(const std::string& name, std::span<const uint8_t> bytes) {
    files_.emplace_back(path_ + "/" + name).write(bytes);
  }
  void place() {
    for (OutputFile& file : files_) {
      file.rename();
      ++placed_;
    }
  }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  std::deque<OutputFile> files_;
  int64_t placed_ = 0;
  bool made_ = false;
  bool kept_ = false;
};

void make_file_constant(Op& op, const std::string& file, size_t offset, size_t length) {
  op.type = kType;
  op.attrs.erase("value");
  op.attrs.set(kLocation, file);
  op.attrs.set(kOffset, static_cast<int64_t>(offset));
  op.attrs.set(kLength, static_cast<int64_t>(length));
  op.attrs.set("dtype", DataTypeAttr{op.output_descs[0].dtype});
  op.attrs.set("shape", op.output_descs[0].dims);
}

// Moves the constants of a complete model to files.
void externalise(Model& model, WeightFolder& folder, ExternalWeights kind,
                 const std::string& combined) {
  std::map<std::string, size_t> places;  // by hash: offset
  Bytes all;
  for (Graph& graph : model.graphs) {
    for (Op& op : graph.ops) {
      const auto bytes = op.type == "Const" ? model.constant_data(op) : std::span<const uint8_t>{};
      if (bytes.empty() || op.output_descs.empty()) continue;
      const std::string hash = base::sha256(bytes);
      const auto [place, fresh] = places.emplace(hash, all.size());
      const bool one_file = kind == ExternalWeights::kCombined;
      const std::string name = one_file ? combined : "weight_" + hash;
      if (fresh && one_file) {
        all.insert(all.end(), bytes.begin(), bytes.end());
        align(all);
      } else if (fresh) {
        folder.add(name, bytes);
      }
      make_file_constant(op, name, one_file ? place->second : 0, bytes.size());
    }
  }
  if (!all.empty()) folder.add(combined, all);
  for (Graph& graph : model.graphs) {
    for (Op& op : graph.ops) {
      for (auto* descs : {&op.input_descs, &op.output_descs}) {
        for (TensorDesc& desc : *descs) desc.data_offset = desc.weight_size = 0;
      }
    }
  }
  model.weights = {};
}

// --- reading ---

class Attacher {
 public:
  Attacher(Model& model, const WeightSources& sources) : model_(model), sources_(sources) {}

  void run() {
    for (Graph& graph : model_.graphs) {
      for (Op& op : graph.ops) {
        if (op.type == kType) attach(op);
      }
    }
    if (places_.empty()) return;
    model_.external_bytes = weights_.size() - model_.weights.bytes.size();
    model_.weights = Blob::own(std::move(weights_));
  }

 private:
  [[noreturn]] static void refuse(int32_t code, const Op& op, const std::string& text) {
    fail_model(code, "the model keeps constant '" + op.name + "' in a file: " + text);
  }

  static std::string file_of(const Op& op) {
    std::string path = op.attrs.string_or(kLocation, "");
    if (path.empty()) path = op.attrs.string_or(kPath, "");
    const std::string name = name_in(path);
    if (name.empty()) refuse(kGeFailure, op, "but does not say in which (location)");
    return name;
  }

  std::span<const uint8_t> content(const Op& op, const std::string& name, bool& given) {
    for (const GivenWeights& weights : sources_.given) {
      if (weights.file == name) return given = true, weights.bytes;
    }
    const auto known = files_.find(name);
    if (known != files_.end()) return known->second;
    if (sources_.folder.empty()) {
      refuse(kGeFailure, op,
             "'" + name +
                 "', but it is loaded from memory; say where the files are "
                 "(ACL_MDL_WEIGHT_PATH_PTR) or give their contents "
                 "(aclmdlSetExternalWeightAddress)");
    }
    try {
      return files_.emplace(name, read_model_file(sources_.folder + "/" + name, "weight file"))
          .first->second;
    } catch (const base::Error& error) {
      refuse(kGeFailure, op, error.text + "; the folder of the weights belongs beside the model");
    }
  }

  void attach(Op& op) {
    if (op.output_descs.empty()) refuse(kGeFailure, op, "it is not described");
    TensorDesc& desc = op.output_descs[0];
    const std::string name = file_of(op);
    bool given = false;
    const auto bytes = content(op, name, given);
    const auto total = static_cast<int64_t>(bytes.size());
    const int64_t offset = op.attrs.int_or(kOffset, 0);
    int64_t length = op.attrs.int_or(kLength, 0);
    if (length <= 0) length = byte_size(desc.dims, desc.dtype).value_or(-1);
    if (offset < 0 || length < 0 || offset > total || length > total - offset) {
      refuse(given ? kGeParamInvalid : kGeFailure, op,
             std::to_string(length) + " bytes at offset " + std::to_string(offset) + " of '" +
                 name + "', which has " + std::to_string(total) + " bytes" +
                 (given ? " (aclmdlSetExternalWeightAddress)" : "; it was cut or is another file"));
    }
    const auto key = std::tuple(name, offset, length);
    const auto [place, fresh] = places_.emplace(key, 0);
    if (fresh)
      place->second =
          append(bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(length)));
    Tensor tensor{desc, {}};
    tensor.desc.data_offset = desc.data_offset = static_cast<int64_t>(place->second);
    tensor.desc.size = tensor.desc.weight_size = desc.weight_size = length;
    op.type = "Const";
    op.attrs.set("value", Box(std::move(tensor)));
  }

  size_t append(std::span<const uint8_t> bytes) {
    if (weights_.empty()) weights_.assign(model_.weights.bytes.begin(), model_.weights.bytes.end());
    align(weights_);
    const size_t at = weights_.size();
    weights_.insert(weights_.end(), bytes.begin(), bytes.end());
    return at;
  }

  Model& model_;
  const WeightSources& sources_;
  Bytes weights_;
  std::map<std::string, Bytes> files_;
  std::map<std::tuple<std::string, int64_t, int64_t>, size_t> places_;  // in weights_
};

}  // namespace

void write_om_external(Model& model, const std::string& path, ExternalWeights kind) {
  complete(model);
  std::string combined = name_in(path);
  if (combined.ends_with(".om")) combined.resize(combined.size() - 3);
  WeightFolder folder(weight_folder(path));
  externalise(model, folder, kind, combined + "_weight_combined");
  complete(model);
  OutputFile file(path);
  file.write(serialize_om(model));
  folder.place();
  file.rename();
  folder.keep();
}

void attach_weights(Model& model, const WeightSources& sources) { Attacher(model, sources).run(); }

std::string weight_folder(const std::string& om_path) { return folder_of(om_path) + "/weight"; }

}  // namespace ascendrt::model
