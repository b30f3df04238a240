// src: hicann/ge docs/zh/user_guides/atc_tools (description file of single operators),
//      base/common/single_op_parser.cc (names of files)
#include "model/single_op_file.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/similar.hpp"
#include "model/convert_graph.hpp"
#include "model/convert_io.hpp"
#include "model/convert_shapes.hpp"
#include "model/om_reader.hpp"
#include "model/om_writer.hpp"
#include "model/single_op.hpp"
#include "ops/elementwise.hpp"

namespace ascendrt::model {
namespace {

using base::Json;

constexpr double kExact = 0x1p53;  // from here on whole numbers of a file cannot be told apart

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// --- members of the description ---

const Json& member(const Json& from, const char* name) {
  const Json* found = from.find(name);
  if (found == nullptr) refuse(std::string("'") + name + "' is missing");
  return *found;
}

const base::JsonArray& list(const Json& value, const char* name) {
  const auto* found = std::get_if<base::JsonArray>(&value.value);
  if (found == nullptr) refuse(std::string("'") + name + "' is no list");
  return *found;
}

template <class T>
T read(const Json& value, const char* name);

template <>
std::string read(const Json& value, const char* name) {
  if (value.string() == nullptr) refuse(std::string("'") + name + "' is no text");
  return *value.string();
}

template <>
bool read(const Json& value, const char* name) {
  const bool* found = std::get_if<bool>(&value.value);
  if (found == nullptr) refuse(std::string("'") + name + "' is neither true nor false");
  return *found;
}

template <>
float read(const Json& value, const char* name) {
  const double* found = std::get_if<double>(&value.value);
  if (found == nullptr) refuse(std::string("'") + name + "' is no number");
  if (std::abs(*found) > std::numeric_limits<float>::max()) {
    refuse(std::string("'") + name + "' is beyond the largest float");
  }
  return static_cast<float>(*found);
}

template <>
int64_t read(const Json& value, const char* name) {
  constexpr double kEnd = 0x1p63;
  const double* found = std::get_if<double>(&value.value);
  if (found == nullptr || std::trunc(*found) != *found || std::abs(*found) > kEnd) {
    refuse(std::string("'") + name + "' is no whole number of 64 bits");
  }
  if (std::abs(*found) >= kExact && std::abs(*found) != kEnd) {
    refuse(std::string("'") + name +
           "' is beyond 2^53, where numbers are not read exactly; only the ends of 64 bits are");
  }
  return *found == kEnd ? INT64_MAX : static_cast<int64_t>(*found);
}

template <class T>
std::vector<T> read_list(const Json& value, const char* name) {
  std::vector<T> out;
  for (const Json& each : list(value, name)) out.push_back(read<T>(each, name));
  return out;
}

// --- tensors ---

struct Described {
  SingleOperand operand;
  std::string file_part;  // of the name of a file: type, format and dims
};

constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"HALF", "FLOAT16"}, {"FP16", "FLOAT16"}, {"FLOAT32", "FLOAT"}, {"BFLOAT16", "BF16"}};

int32_t type_of(const std::string& text) {
  std::string name = upper(text);
  for (const auto& [other, usual] : kOtherNames) {
    if (name == other) name = usual;
  }
  const int32_t type = dtype_from_name(name);
  if (type == kUndefined) refuse("'type' is '" + text + "', which is no type of elements");
  return type;
}

int32_t format_of(const std::string& text) {
  const int32_t format = format_from_name(upper(text));
  if (format == kFormatUndefined) refuse("'format' is '" + text + "', which is no format");
  return format;
}

// Floats are rounded; everything else holds the value as the file has it.
void want_held(const std::vector<double>& values, const OwnedTensor& made) {
  const aclDataType dtype = made.type.dtype;
  const bool rounds = dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
  std::vector<double> held(values.size());
  ops::cast(made.view(), {held.data(), ACL_DOUBLE, made.type.shape}, {});
  for (size_t i = 0; i < values.size(); ++i) {
    const bool exact = held[i] == values[i] && (dtype == ACL_DOUBLE || std::abs(held[i]) < kExact);
    if (rounds ? std::isfinite(held[i]) : exact) continue;
    refuse("value " + std::to_string(i) + " of 'const_value' is none that " +
           ops::dtype_name(dtype) + " holds");
  }
}

std::shared_ptr<const Bytes> values_of(const Json& from, const TensorType& type) {
  std::vector<double> values;
  for (const Json& each : list(member(from, "const_value"), "const_value")) {
    const double* number = std::get_if<double>(&each.value);
    const bool* truth = std::get_if<bool>(&each.value);
    if (number == nullptr && (truth == nullptr || type.dtype != ACL_BOOL)) {
      refuse("'const_value' holds what is no number");
    }
    values.push_back(number != nullptr ? *number : static_cast<double>(*truth));
  }
  const auto count = static_cast<int64_t>(values.size());
  if (count != type.shape.elements()) {
    refuse("'const_value' has " + std::to_string(count) + " values, the shape " +
           type.shape.text() + " " + std::to_string(type.shape.elements()));
  }
  const OwnedTensor made = make_tensor(type);
  ops::cast({values.data(), ACL_DOUBLE, type.shape}, made.view(), {});
  want_held(values, made);
  return made.bytes;
}

Described described(const Json& from) {
  const auto type = read<std::string>(member(from, "type"), "type");
  const auto format = read<std::string>(member(from, "format"), "format");
  Described made;
  if (upper(type) == "UNDEFINED" && upper(format) == "RESERVED") {  // left out on purpose
    made.operand.connected = false;
    made.file_part = "_28_40";
    return made;
  }
  const Dims dims = read_list<int64_t>(member(from, "shape"), "shape");
  if (!byte_size(dims, type_of(type))) {
    refuse(
        "'shape' has a dim below 0 or too many elements; sizes must be told, ranges are not "
        "compiled here");
  }
  made.operand.type = {static_cast<aclDataType>(type_of(type)), to_shape(dims)};
  made.operand.format = format_of(format);
  made.file_part = "_" + std::to_string(type_of(type)) + "_" + std::to_string(format_of(format));
  for (const int64_t dim : dims) made.file_part += "_" + std::to_string(dim);
  const Json* fixed = from.find("is_const");
  if (fixed != nullptr && read<bool>(*fixed, "is_const")) {
    made.operand.known = values_of(from, made.operand.type);
  }
  return made;
}

std::vector<Described> tensors(const Json& from, const char* name) {
  std::vector<Described> out;
  const Json* found = from.find(name);
  if (found == nullptr) return out;
  for (const Json& each : list(*found, name)) {
    try {
      out.push_back(described(each));
    } catch (const base::Error& error) {
      refuse(std::string(name) + " " + std::to_string(out.size()) + ": " + error.text);
    }
  }
  return out;
}

// --- attributes ---

AttrValue value_of(const std::string& type, const Json& value) {
  constexpr const char* kName = "value";
  if (type == "bool") return read<bool>(value, kName);
  if (type == "int") return read<int64_t>(value, kName);
  if (type == "float") return read<float>(value, kName);
  if (type == "string") return read<std::string>(value, kName);
  if (type == "list_bool") return read_list<bool>(value, kName);
  if (type == "list_int") return read_list<int64_t>(value, kName);
  if (type == "list_float") return read_list<float>(value, kName);
  if (type == "list_string") return read_list<std::string>(value, kName);
  if (type == "list_list_int") {
    std::vector<std::vector<int64_t>> rows;
    for (const Json& row : list(value, kName)) rows.push_back(read_list<int64_t>(row, kName));
    return rows;
  }
  if (type == "data_type") {
    if (value.string() == nullptr) return read<int64_t>(value, kName);
    const std::string& name = *value.string();
    return int64_t{type_of(name.starts_with("DT_") ? name.substr(3) : name)};
  }
  constexpr std::string_view kTypes[] = {"bool",      "int",          "float",      "string",
                                         "list_bool", "list_int",     "list_float", "list_string",
                                         "data_type", "list_list_int"};
  refuse("'type' is '" + type + "', which is no type of attributes" +
         base::did_you_mean(type, {std::begin(kTypes), std::end(kTypes)}));
}

AttrMap attributes(const Json& from) {
  AttrMap attrs;
  const Json* found = from.find("attr");
  if (found == nullptr) return attrs;
  for (const Json& each : list(*found, "attr")) {
    const auto name = read<std::string>(member(each, "name"), "name");
    try {
      attrs.set(name,
                value_of(read<std::string>(member(each, "type"), "type"), member(each, "value")));
    } catch (const base::Error& error) {
      refuse("attribute '" + name + "': " + error.text);
    }
  }
  return attrs;
}

// --- operators ---

struct File {
  std::string name;
  Model model;
};

std::string file_name(const Json& entry, size_t index, const std::string& type,
                      const std::vector<Described>& inputs, const std::vector<Described>& outputs) {
  constexpr size_t kLongest = 128;
  const Json* given = entry.find("name");
  std::string name = given == nullptr ? "" : read<std::string>(*given, "name").substr(0, kLongest);
  const bool valid = !name.empty() && name != "." && name != ".." &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
                     });
  if (!valid) {
    name = std::to_string(index) + "_" + type;
    for (const auto* tensors : {&inputs, &outputs}) {
      for (const Described& tensor : *tensors) name += tensor.file_part;
    }
  }
  return name.substr(0, kLongest) + ".om";
}

void check_results(const std::vector<TensorType>& results, const std::vector<Described>& wanted) {
  if (wanted.empty() || wanted.size() > results.size()) {
    refuse("'output_desc' describes " + std::to_string(wanted.size()) +
           " outputs, the operator has " + std::to_string(results.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TensorType& type = wanted[i].operand.type;
    if (type == results[i]) continue;
    refuse("output " + std::to_string(i) + " is " + ops::dtype_name(results[i].dtype) + " " +
           results[i].shape.text() + ", described is " + ops::dtype_name(type.dtype) + " " +
           type.shape.text());
  }
}

File read_operator(const Json& entry, size_t index, const std::string& soc_version) {
  const auto type = read<std::string>(member(entry, "op"), "op");
  const auto inputs = tensors(entry, "input_desc");
  const auto outputs = tensors(entry, "output_desc");
  std::vector<SingleOperand> operands;
  for (const Described& input : inputs) operands.push_back(input.operand);
  const SingleOp op(type, attributes(entry), std::move(operands));
  File made{file_name(entry, index, type, inputs, outputs), {}};
  Model& model = made.model;
  model.graphs.emplace_back().name = made.name.substr(0, made.name.size() - 3);
  model.name = model.graphs[0].name;
  model.soc_version = soc_version;
  GraphBuilder builder(model.graphs[0]);
  auto results = op.build(builder);
  std::vector<TensorType> types;
  for (const GraphValue& result : results) types.push_back(result.type);
  check_results(types, outputs);
  results.resize(outputs.size());
  builder.add_outputs(results);
  number_inputs(model.graphs[0]);
  complete(model);
  record_plan(model);
  return made;
}

std::vector<File> read_operators(const std::string& path, const std::string& soc_version) {
  constexpr size_t kDeepest = 12;
  const Bytes bytes = read_model_file(path, "description of operators");
  const auto json =
      base::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kDeepest);
  const auto* entries = json ? std::get_if<base::JsonArray>(&json->value) : nullptr;
  if (entries == nullptr || entries->empty()) {
    refuse("'" + path + "' is no JSON list of operators, [{\"op\": ..., \"input_desc\": [...]}]");
  }
  std::vector<File> files;
  std::map<std::string, size_t> taken;  // names, and who has them
  std::string wrong;
  for (size_t i = 0; i < entries->size(); ++i) {
    const Json* type = (*entries)[i].find("op");
    const std::string* name = type == nullptr ? nullptr : type->string();
    try {
      files.push_back(read_operator((*entries)[i], i, soc_version));
      const auto [other, is_new] = taken.emplace(files.back().name, i);
      if (!is_new) {
        refuse("its file would be '" + other->first + "', as that of operator " +
               std::to_string(other->second) + "; give it another 'name'");
      }
    } catch (const base::Error& error) {
      wrong +=
          "\n  operator " + std::to_string(i) + " (" + (name ? *name : "?") + "): " + error.text;
    }
  }
  if (!wrong.empty()) refuse("'" + path + "' cannot be compiled:" + wrong);
  return files;
}

}  // namespace

std::vector<std::string> write_single_ops(const std::string& description, const std::string& folder,
                                          const std::string& soc_version) {
  auto files = read_operators(description, soc_version);
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::vector<std::string> paths;
  for (File& file : files) {
    paths.push_back(folder.empty() ? file.name
                                   : (std::filesystem::path(folder) / file.name).string());
    write_om(file.model, paths.back());
  }
  return paths;
}

}  // namespace ascendrt::model
