// Owns: the settings, the search for the source of a model, what people are told.
// Must never: read a file that is not the one the user or the model named.
#include "model/vendor.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "model/om_container.hpp"
#include "model/om_reader.hpp"

namespace ascendrt::model {
namespace {

constexpr const char* kNoSource = "none";

[[noreturn]] void bad_setting(const std::string& text) {
  fail_model(kAclInvalidParam, "environment variable " + text);
}

bool is_file(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string file_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// Where the source may lie: under the recorded name, else under the model's own, in the folder of
// the setting or beside the model. Empty: nowhere.
std::string find_source(const Model& model, const VendorOptions& options) {
  if (options.source == kNoSource) return "";
  if (!options.source.empty() && !is_folder(options.source)) return options.source;
  const std::string folder = !options.source.empty()   ? options.source + "/"
                             : options.om_path.empty() ? ""
                                                       : folder_of(options.om_path) + "/";
  std::vector<std::string> names;
  const std::string recorded = recorded_source(model);
  if (recorded.ends_with(".onnx")) names.push_back(file_name(recorded));
  std::string stem = file_name(options.om_path);
  if (stem.ends_with(".om")) stem.resize(stem.size() - 3);
  if (!stem.empty()) names.push_back(stem + ".onnx");
  for (const std::string& name : names) {
    if (!folder.empty() && is_file(folder + name)) return folder + name;
  }
  return recorded.ends_with(".onnx") && is_file(recorded) ? recorded : "";
}

// Says what would help, or why nothing would, below a list of what is missing.
std::string advice(const Model& model) {
  if (is_phone_file(model.header)) {
    return "the file was made by the phone-side toolkit (version " + model.header.platform_version +
           "), whose operators are not Ascend's";
  }
  const std::string recorded = recorded_source(model);
  std::string text = "the ONNX file it was made from would supply this: put it beside the model";
  if (recorded.ends_with(".onnx")) text += " (its recorded name is '" + file_name(recorded) + "')";
  if (!recorded.empty() && !recorded.ends_with(".onnx")) {
    text += " (it was made from '" + file_name(recorded) + "'; export that as ONNX)";
  }
  return text + " or name it in ASCENDRT_OM_SOURCE";
}

void tell_inferred(const Model& model) {
  std::string text = "model '" + model.name + "': " + std::to_string(model.inferred.size()) +
                     " things are not in the file and were inferred; results may differ from the "
                     "device's. ASCENDRT_OM_STRICT=1 refuses instead; " +
                     advice(model);
  for (const std::string& line : model.inferred) text += "\n  inferred: " + line;
  base::log_line(text);
}

void use_source(Model& model, const std::string& path) {
  const Bytes bytes = read_model_file(path, "source");
  try {
    model.plain = std::make_shared<Model>(plain_source(model, bytes, folder_of(path)));
  } catch (const base::Error& error) {
    fail_model(kGeParamInvalid, "source '" + path + "' of model '" + model.name +
                                    "': " + error.text +
                                    "; it supplies the arithmetic of the model and "
                                    "must be the file the model was made from");
  }
  model.source = path;
}

}  // namespace

VendorOptions vendor_options(std::string om_path) {
  VendorOptions options;
  options.om_path = std::move(om_path);
  if (base::env_int("ASCENDRT_OM_STRICT", 0, 0, 1) == 1) {
    options.missing = VendorOptions::Missing::kRefuse;
  }
  if (base::env("ASCENDRT_OM_RANDOM") == "zero") {
    options.random = VendorOptions::Random::kZero;
  } else {
    try {
      options.seed = base::env_int("ASCENDRT_OM_RANDOM", 0, 0, INT64_MAX);
    } catch (const base::Error&) {
      bad_setting("ASCENDRT_OM_RANDOM='" + *base::env("ASCENDRT_OM_RANDOM") +
                  "' is neither \"zero\" nor a seed (an integer from 0); correct or unset it");
    }
  }
  options.source = base::env("ASCENDRT_OM_SOURCE").value_or("");
  if (!options.source.empty() && options.source != kNoSource && !is_file(options.source) &&
      !is_folder(options.source)) {
    bad_setting("ASCENDRT_OM_SOURCE='" + options.source +
                "' is neither an ONNX file, nor a folder of such, nor \"none\"; correct or unset "
                "it");
  }
  return options;
}

std::string recorded_source(const Model& model) {
  const std::string command = model.attrs.string_or("atc_cmdline", "");
  const size_t option = command.find("--model");
  if (option == std::string::npos) return "";
  const size_t begin = command.find_first_not_of("= ", option + 7);
  if (begin == std::string::npos) return "";
  return command.substr(begin, command.find(' ', begin) - begin);
}

// A source that the user named is always taken; one that merely lies there only when the file alone
// leaves something open.
void make_plain(Model& model, const VendorOptions& options) {
  if (model.is_native() || model.root() == nullptr) return;
  const std::string source = find_source(model, options);
  if (!source.empty() && source == options.source) return use_source(model, source);
  Plain plain = plain_graph(model, options);
  const bool strict = options.missing == VendorOptions::Missing::kRefuse;
  if (!source.empty() && (!plain.unresolved.empty() || !plain.inferred.empty())) {
    try {
      return use_source(model, source);
    } catch (const base::Error& error) {  // the model still loads and describes
      model.unresolved = {error.text + "; ASCENDRT_OM_SOURCE=none leaves it aside"};
      return;
    }
  }
  if (strict && !plain.inferred.empty()) {
    auto& list = plain.unresolved;
    list.insert(list.end(), plain.inferred.begin(), plain.inferred.end());
    list.emplace_back("ASCENDRT_OM_STRICT=1: what the file does not hold is not inferred");
  }
  if (!plain.unresolved.empty()) {
    model.unresolved = std::move(plain.unresolved);
    model.unresolved.push_back(advice(model));
    return;
  }
  model.inferred = std::move(plain.inferred);
  model.plain = std::move(plain.model);
}

void tell_plain(const Model& model) {
  if (!model.inferred.empty()) tell_inferred(model);
  if (model.source.empty()) return;
  base::log_line("model '" + model.name + "': computed as its source '" + model.source + "' says");
}

}  // namespace ascendrt::model
