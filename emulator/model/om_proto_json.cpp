// The model definition as the vendor's compiler writes it to JSON (--mode=1): fields by their names
// in the schema, enums by name, floats as text, attributes as key and value; no weights, offsets or
// sizes. Owns: the table of fields. Must never: be given bytes that were not checked before.
// src: hicann/ge parser/parser/common/convert/pb2json.cc, api/atc/omg.cc
#include <cstdio>
#include <map>
#include <span>

#include "base/json.hpp"
#include "model/om_json.hpp"
#include "model/om_proto.hpp"
#include "model/wire.hpp"

namespace ascendrt::model {
namespace {

enum class Kind : uint8_t { kInt, kBool, kFloat, kText, kType, kListType, kMessage };
enum class Form : uint8_t {
  kModel,
  kGraph,
  kOp,
  kDesc,
  kShape,
  kTensor,
  kEntry,
  kAttr,
  kList,
  kNamed,
  kInts,
  kIntLists,
  kFloats,
  kFloatLists
};

struct Field {
  uint32_t number;
  const char* name;
  Kind kind = Kind::kInt;
  bool repeated = false;
  Form form = Form::kModel;  // of a message
};

constexpr bool kMany = true;

constexpr Field kModelFields[] = {{1, "name", Kind::kText},
                                  {2, "version"},
                                  {3, "custom_version", Kind::kText},
                                  {7, "graph", Kind::kMessage, kMany, Form::kGraph},
                                  {11, "attr", Kind::kMessage, kMany, Form::kEntry}};
constexpr Field kGraphFields[] = {{1, "name", Kind::kText},
                                  {4, "input", Kind::kText, kMany},
                                  {6, "op", Kind::kMessage, kMany, Form::kOp},
                                  {11, "attr", Kind::kMessage, kMany, Form::kEntry}};
constexpr Field kOpFields[] = {{1, "name", Kind::kText},
                               {2, "type", Kind::kText},
                               {5, "input", Kind::kText, kMany},
                               {10, "attr", Kind::kMessage, kMany, Form::kEntry},
                               {20, "has_out_attr", Kind::kBool},
                               {21, "id"},
                               {22, "stream_id"},
                               {23, "input_name", Kind::kText, kMany},
                               {24, "src_name", Kind::kText, kMany},
                               {25, "src_index", Kind::kInt, kMany},
                               {26, "dst_name", Kind::kText, kMany},
                               {27, "dst_index", Kind::kInt, kMany},
                               {28, "input_i", Kind::kInt, kMany},
                               {29, "output_i", Kind::kInt, kMany},
                               {32, "is_input_const", Kind::kBool, kMany},
                               {33, "input_desc", Kind::kMessage, kMany, Form::kDesc},
                               {34, "output_desc", Kind::kMessage, kMany, Form::kDesc},
                               {35, "subgraph_name", Kind::kText, kMany}};
constexpr Field kDescFields[] = {{1, "name", Kind::kText},
                                 {2, "dtype", Kind::kType},
                                 {3, "shape", Kind::kMessage, false, Form::kShape},
                                 {4, "layout", Kind::kText},
                                 {5, "attr", Kind::kMessage, kMany, Form::kEntry},
                                 {9, "has_out_attr", Kind::kBool},
                                 {12, "reuse_input", Kind::kBool},
                                 {13, "output_tensor", Kind::kBool},
                                 {14, "device_type", Kind::kText},
                                 {15, "input_tensor", Kind::kBool},
                                 {16, "real_dim_cnt"},
                                 {17, "reuse_input_index"}};
constexpr Field kShapeFields[] = {{1, "dim", Kind::kInt, kMany}};
constexpr Field kTensorFields[] = {{1, "desc", Kind::kMessage, false, Form::kDesc}};
constexpr Field kEntryFields[] = {{1, "key", Kind::kText},
                                  {2, "value", Kind::kMessage, false, Form::kAttr}};
constexpr Field kAttrFields[] = {{1, "list", Kind::kMessage, false, Form::kList},
                                 {2, "s", Kind::kText},
                                 {3, "i"},
                                 {4, "f", Kind::kFloat},
                                 {5, "b", Kind::kBool},
                                 {10, "func", Kind::kMessage, false, Form::kNamed},
                                 {11, "td", Kind::kMessage, false, Form::kDesc},
                                 {12, "t", Kind::kMessage, false, Form::kTensor},
                                 {13, "g", Kind::kMessage, false, Form::kGraph},
                                 {14, "list_list_int", Kind::kMessage, false, Form::kIntLists},
                                 {15, "dt"},
                                 {16, "list_list_float", Kind::kMessage, false, Form::kFloatLists},
                                 {17, "expression", Kind::kText}};
constexpr Field kListFields[] = {{2, "s", Kind::kText, kMany},
                                 {3, "i", Kind::kInt, kMany},
                                 {4, "f", Kind::kFloat, kMany},
                                 {5, "b", Kind::kBool, kMany},
                                 {8, "td", Kind::kMessage, kMany, Form::kDesc},
                                 {9, "t", Kind::kMessage, kMany, Form::kTensor},
                                 {10, "g", Kind::kMessage, kMany, Form::kGraph},
                                 {11, "na", Kind::kMessage, kMany, Form::kNamed},
                                 {12, "dt", Kind::kInt, kMany},
                                 {20, "val_type", Kind::kListType}};
constexpr Field kNamedFields[] = {{1, "name", Kind::kText},
                                  {2, "attr", Kind::kMessage, kMany, Form::kEntry}};
constexpr Field kIntsFields[] = {{1, "list_i", Kind::kInt, kMany}};
constexpr Field kIntListsFields[] = {{1, "list_list_i", Kind::kMessage, kMany, Form::kInts}};
constexpr Field kFloatsFields[] = {{1, "list_f", Kind::kFloat, kMany}};
constexpr Field kFloatListsFields[] = {{1, "list_list_f", Kind::kMessage, kMany, Form::kFloats}};

constexpr std::span<const Field> kForms[] = {
    kModelFields,  kGraphFields,    kOpFields,     kDescFields,      kShapeFields,
    kTensorFields, kEntryFields,    kAttrFields,   kListFields,      kNamedFields,
    kIntsFields,   kIntListsFields, kFloatsFields, kFloatListsFields};

std::string float_text(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
  return base::quoted(text);
}

std::string list_type(uint64_t number) {
  constexpr const char* kNames[] = {"NONE",  "STRING",      "INT",         "FLOAT",
                                    "BOOL",  "BYTES",       "TENSOR_DESC", "TENSOR",
                                    "GRAPH", "NAMED_ATTRS", "DATA_TYPE"};
  if (number >= std::size(kNames)) return std::to_string(number);
  return base::quoted(std::string("VT_LIST_") + kNames[number]);
}

std::string message_json(wire::Reader r, Form form);

// The values that one occurrence of a field holds: several when they are packed.
std::vector<std::string> values_of(const wire::Reader& r, const Field& field) {
  std::vector<std::string> out;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<bool> bools;
  switch (field.kind) {
    case Kind::kInt:
      r.ints(ints);
      for (const int64_t value : ints) out.push_back(std::to_string(value));
      break;
    case Kind::kBool:
      r.bools(bools);
      for (const bool value : bools) out.emplace_back(value ? "true" : "false");
      break;
    case Kind::kFloat:
      r.floats(floats);
      for (const float value : floats) out.push_back(float_text(value));
      break;
    case Kind::kText:
      out.push_back(base::quoted(r.string()));
      break;
    case Kind::kType:
      out.push_back(base::quoted(std::string("DT_") + dtype_name(dtype_from_proto(r.i64()))));
      break;
    case Kind::kListType:
      out.push_back(list_type(r.u64()));
      break;
    case Kind::kMessage:
      out.push_back(message_json(r.message(field.name), field.form));
      break;
  }
  return out;
}

std::string message_json(wire::Reader r, Form form) {
  const auto fields = kForms[static_cast<size_t>(form)];
  std::map<const Field*, std::string> found;  // in the order of the schema
  while (r.next()) {
    for (const Field& field : fields) {
      if (field.number != r.field()) continue;
      for (std::string& value : values_of(r, field)) {
        std::string& text = found[&field];
        if (!field.repeated) {
          text = std::move(value);
        } else {
          text += (text.empty() ? "" : ",") + value;
        }
      }
    }
  }
  std::string json;
  for (const auto& [field, text] : found) {
    json += (json.empty() ? "" : ",") + base::quoted(field->name) + ":";
    json += field->repeated ? "[" + text + "]" : text;
  }
  return "{" + json + "}";
}

}  // namespace

std::string model_def_json(const Model& model) {
  const Bytes bytes = serialize_model_def(model);
  wire::Budget budget(bytes.size());
  return message_json(wire::Reader(bytes, budget, "ModelDef"), Form::kModel);
}

}  // namespace ascendrt::model
