// Owns: field numbers of onnx.proto. Must never: copy a length from the file into an allocation
// without the budget of the wire reader.
#include "model/onnx_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "model/om_container.hpp"
#include "model/wire.hpp"

namespace ascendrt::model::onnx {
namespace {

[[noreturn]] void refuse(const std::string& text) { fail_model(kGeParamInvalid, text); }

template <class T>
void append(Bytes& out, const T& value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

// Typed data fields of TensorProto. int32_data also holds all narrower types.
struct TypedData {
  std::vector<float> floats;
  std::vector<int64_t> int32s, int64s, uint64s;
  std::vector<double> doubles;
};

Bytes pack(const TensorData& tensor, const TypedData& typed) {
  Bytes out;
  switch (tensor.dtype) {
    case kFloat:
      for (const float v : typed.floats) append(out, v);
      break;
    case kDouble:
      for (const double v : typed.doubles) append(out, v);
      break;
    case kInt64:
      for (const int64_t v : typed.int64s) append(out, v);
      break;
    case kUint64:
      for (const int64_t v : typed.uint64s) append(out, v);
      break;
    case kUint32:
      for (const int64_t v : typed.uint64s) append(out, static_cast<uint32_t>(v));
      break;
    default:
      for (const int64_t v : typed.int32s) {
        const size_t size = dtype_size(tensor.dtype);
        const size_t at = out.size();
        out.resize(at + size);
        std::memcpy(out.data() + at, &v, std::min<size_t>(size, 4));  // little endian
      }
  }
  return out;
}

// 4-bit elements are stored in pairs, low half first; here each has a byte of its own.
Bytes unpack_nibbles(const TensorData& tensor) {
  const auto count = static_cast<size_t>(element_count(tensor.dims).value_or(0));
  if (tensor.bytes.size() != (count + 1) / 2) return tensor.bytes;  // refused by its size
  Bytes out(count);
  for (size_t i = 0; i < count; ++i) {
    const auto nibble = static_cast<uint8_t>((tensor.bytes[i / 2] >> (i % 2 * 4)) & 15U);
    const bool negative = tensor.dtype == kInt4 && nibble >= 8;
    out[i] = negative ? static_cast<uint8_t>(nibble | 0xF0U) : nibble;
  }
  return out;
}

void check_tensor(const TensorData& tensor) {
  const std::string who = "tensor '" + tensor.name + "'";
  const auto size = byte_size(tensor.dims, tensor.dtype);
  if (tensor.dtype == kUndefined || dtype_size(tensor.dtype) == 0 || !size) {
    refuse(who + " has a type or a shape that cannot be used");
  }
  if (static_cast<uint64_t>(*size) != tensor.bytes.size()) {
    refuse(who + " holds " + std::to_string(tensor.bytes.size()) +
           " bytes, its shape and type need " + std::to_string(*size));
  }
}

// False when the field is none of the typed data.
bool read_typed(const wire::Reader& r, TypedData& typed) {
  switch (r.field()) {
    case 4:
      return r.floats(typed.floats), true;
    case 5:
      return r.ints(typed.int32s), true;
    case 7:
      return r.ints(typed.int64s), true;
    case 10:
      return r.doubles(typed.doubles), true;
    case 11:
      return r.ints(typed.uint64s), true;
    default:
      return false;
  }
}

// One StringStringEntryProto of external_data.
void read_external_entry(wire::Reader r, const TensorData& tensor, ExternalData& external) {
  std::string key;
  std::string value;
  while (r.next()) {
    if (r.field() == 1) key = r.string();
    if (r.field() == 2) value = r.string();
  }
  if (key == "location") external.location = value;
  if (key != "offset" && key != "length") return;
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size() || number < 0) {
    refuse("tensor '" + tensor.name + "' has the " + key + " '" + value + "' in another file");
  }
  (key == "offset" ? external.offset : external.length) = number;
}

void set_type(TensorData& tensor, int64_t type) {
  constexpr int64_t kUint4 = 21;
  tensor.dtype = type == kUint4 ? static_cast<int32_t>(kUint8) : dtype_from_onnx(type);
  tensor.pairs = type == kUint4 || tensor.dtype == kInt4 || tensor.dtype == kFp4E2m1;
}

TensorData read_tensor(wire::Reader r) {
  TensorData tensor;
  TypedData typed;
  std::optional<std::span<const uint8_t>> raw;
  ExternalData external;
  bool is_external = false;
  while (r.next()) {
    if (read_typed(r, typed)) continue;
    switch (r.field()) {
      case 1:
        r.ints(tensor.dims);
        break;
      case 2:
        set_type(tensor, r.i64());
        break;
      case 8:
        tensor.name = r.string();
        break;
      case 9:
        raw = r.bytes();
        r.charge(raw->size());
        break;
      case 13:
        read_external_entry(r.message("external_data"), tensor, external);
        break;
      case 14:
        is_external = r.i64() == 1;
        break;
      default:
        break;
    }
  }
  if (is_external) {
    tensor.external = std::move(external);
    return tensor;
  }
  tensor.bytes = raw ? Bytes(raw->begin(), raw->end()) : pack(tensor, typed);
  finish_tensor(tensor);
  return tensor;
}

Graph read_graph(wire::Reader r);

const char* kind_name(Attribute::Kind kind) {
  constexpr const char* kNames[] = {"of a type that no operator uses",
                                    "a number with a point",
                                    "a whole number",
                                    "a text",
                                    "a tensor",
                                    "a graph",
                                    "a list of numbers with a point",
                                    "a list of whole numbers",
                                    "a list of texts"};
  return kNames[static_cast<size_t>(kind)];
}

// The kind of value that the field holds; kOther when it holds none that is understood.
Attribute::Kind read_attribute_value(const wire::Reader& r, Attribute& a) {
  using Kind = Attribute::Kind;
  switch (r.field()) {
    case 2:
      return a.f = r.f32(), Kind::kFloat;
    case 3:
      return a.i = r.i64(), Kind::kInt;
    case 4:
      return a.s = r.string(), Kind::kString;
    case 5:
      return a.tensor = read_tensor(r.message("TensorProto")), Kind::kTensor;
    case 6:
      return a.graph = std::make_shared<Graph>(read_graph(r.message("GraphProto"))), Kind::kGraph;
    case 7:
      return r.floats(a.floats), Kind::kFloats;
    case 8:
      return r.ints(a.ints), Kind::kInts;
    case 9:
      return r.strings(a.strings), Kind::kStrings;
    default:
      return Kind::kOther;
  }
}

// Nothing when it has neither a value nor a type: it is as good as not given.
std::optional<Attribute> read_attribute(wire::Reader r) {
  using Kind = Attribute::Kind;
  Attribute a;
  int64_t type = 0;
  while (r.next()) {
    if (r.field() == 1) {
      a.name = r.string();
    } else if (r.field() == 20) {
      type = r.i64();
    } else if (const Kind kind = read_attribute_value(r, a); kind != Kind::kOther) {
      a.kind = kind;
    }
  }
  // The declared type tells an empty list from nothing, and a 0 that was left out.
  constexpr Kind kByType[] = {Kind::kOther,  Kind::kFloat,  Kind::kInt,
                              Kind::kString, Kind::kTensor, Kind::kGraph,
                              Kind::kFloats, Kind::kInts,   Kind::kStrings};
  if (type <= 0 && a.kind == Kind::kOther) return std::nullopt;
  const Kind declared = type <= 0 ? a.kind : type < 9 ? kByType[type] : Kind::kOther;
  if (a.kind != Kind::kOther && a.kind != declared) {
    refuse("attribute '" + a.name + "' declares that it is " + kind_name(declared) + " and is " +
           kind_name(a.kind));
  }
  a.kind = declared;
  if (a.kind == Kind::kTensor && !a.tensor) refuse("attribute '" + a.name + "' holds no tensor");
  if (a.kind == Kind::kGraph && !a.graph) refuse("attribute '" + a.name + "' holds no graph");
  return a;
}

Node read_node(wire::Reader r) {
  Node node;
  while (r.next()) {
    switch (r.field()) {
      case 1:
        r.strings(node.inputs);
        break;
      case 2:
        r.strings(node.outputs);
        break;
      case 3:
        node.name = r.string();
        break;
      case 4:
        node.op_type = r.string();
        break;
      case 5:
        r.charge(sizeof(Attribute));
        if (auto read = read_attribute(r.message("AttributeProto"))) {
          node.attributes.push_back(std::move(*read));
        }
        break;
      case 7:
        node.domain = r.string();
        break;
      default:
        break;
    }
  }
  return node;
}

void read_dim(wire::Reader r, GraphInput& input) {
  int64_t value = -1;
  std::string param;
  while (r.next()) {
    if (r.field() == 1) value = r.i64();
    if (r.field() == 2) param = r.string();
  }
  r.charge(sizeof(std::string) + sizeof(int64_t));
  input.dims.push_back(value < 0 ? -1 : value);
  input.params.push_back(std::move(param));
}

void read_tensor_type(wire::Reader r, GraphInput& input) {
  while (r.next()) {
    if (r.field() == 1) input.dtype = dtype_from_onnx(r.i64());
    if (r.field() != 2) continue;
    input.has_shape = true;
    wire::Reader shape = r.message("TensorShapeProto");
    while (shape.next()) {
      if (shape.field() == 1) read_dim(shape.message("Dimension"), input);
    }
  }
}

GraphInput read_value_info(wire::Reader r) {
  GraphInput input;
  while (r.next()) {
    if (r.field() == 1) input.name = r.string();
    if (r.field() != 2) continue;
    wire::Reader type = r.message("TypeProto");
    while (type.next()) {
      if (type.field() == 1) read_tensor_type(type.message("TypeProto.Tensor"), input);
    }
  }
  return input;
}

Graph read_graph(wire::Reader r) {
  Graph graph;
  while (r.next()) {
    switch (r.field()) {
      case 1:
        r.charge(sizeof(Node));
        graph.nodes.push_back(read_node(r.message("NodeProto")));
        break;
      case 2:
        graph.name = r.string();
        break;
      case 5:
        r.charge(sizeof(TensorData));
        graph.initializers.push_back(read_tensor(r.message("TensorProto")));
        break;
      case 11:
        r.charge(sizeof(GraphInput));
        graph.inputs.push_back(read_value_info(r.message("ValueInfoProto")));
        break;
      case 12:
        r.charge(sizeof(GraphInput));
        graph.outputs.push_back(read_value_info(r.message("ValueInfoProto")));
        break;
      case 13:
        r.charge(sizeof(GraphInput));
        graph.declared.push_back(read_value_info(r.message("ValueInfoProto")));
        break;
      case 15:
        refuse("the model holds sparse tensors, which cannot be converted; store them densely");
      default:
        break;
    }
  }
  // Old files list initializers among the inputs.
  std::set<std::string_view> constants;
  for (const TensorData& tensor : graph.initializers) constants.insert(tensor.name);
  std::erase_if(graph.inputs, [&](const GraphInput& in) { return constants.contains(in.name); });
  return graph;
}

void read_opset(wire::Reader r, File& file) {
  std::string domain;
  int64_t version = 0;
  while (r.next()) {
    if (r.field() == 1) domain = r.string();
    if (r.field() == 2) version = r.i64();
  }
  file.opsets[domain == "ai.onnx" ? "" : domain] = version;
}

void read_model(wire::Reader r, File& file) {
  bool has_graph = false;
  while (r.next()) {
    switch (r.field()) {
      case 1:
        file.ir_version = r.i64();
        break;
      case 2:
        file.producer = r.string();
        break;
      case 7:
        if (has_graph) refuse("the file holds two graphs");
        has_graph = true;
        file.graph = read_graph(r.message("GraphProto"));
        break;
      case 8:
        read_opset(r.message("OperatorSetIdProto"), file);
        break;
      case 25:
        refuse(
            "the model defines functions of its own, which cannot be converted; inline them "
            "first (onnx.inliner.inline_local_functions)");
      default:
        break;
    }
  }
  if (!has_graph) refuse("the file is no ONNX model: it holds no graph");
}

}  // namespace

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

const Attribute* Node::find(std::string_view attribute, Attribute::Kind wanted) const {
  const Attribute* a = find(attribute);
  if (a != nullptr && a->kind != wanted) {
    refuse("attribute '" + a->name + "' is " + kind_name(a->kind) + ", " + kind_name(wanted) +
           " is needed");
  }
  return a;
}

int64_t Node::int_or(std::string_view attribute, int64_t fallback) const {
  const Attribute* a = find(attribute, Attribute::Kind::kInt);
  return a != nullptr ? a->i : fallback;
}

float Node::float_or(std::string_view attribute, float fallback) const {
  const Attribute* a = find(attribute, Attribute::Kind::kFloat);
  return a != nullptr ? a->f : fallback;
}

std::string Node::string_or(std::string_view attribute, std::string_view fallback) const {
  const Attribute* a = find(attribute, Attribute::Kind::kString);
  return a != nullptr ? a->s : std::string(fallback);
}

std::vector<int64_t> Node::ints_or(std::string_view attribute,
                                   std::vector<int64_t> fallback) const {
  const Attribute* a = find(attribute, Attribute::Kind::kInts);
  if (a != nullptr) return a->ints;
  return fallback;
}

int32_t dtype_from_onnx(int64_t type) {
  constexpr int32_t kTypes[] = {kUndefined,  kFloat,     kUint8,   kInt8,      kUint16,
                                kInt16,      kInt32,     kInt64,   kString,    kBool,
                                kFloat16,    kDouble,    kUint32,  kUint64,    kComplex64,
                                kComplex128, kBfloat16,  kFp8E4m3, kUndefined, kFp8E5m2,
                                kUndefined,  kUndefined, kInt4,    kFp4E2m1,   kFp8E8m0};
  const auto count = static_cast<int64_t>(std::size(kTypes));
  return type > 0 && type < count ? kTypes[type] : static_cast<int32_t>(kUndefined);
}

void finish_tensor(TensorData& tensor) {
  if (tensor.pairs) tensor.bytes = unpack_nibbles(tensor);
  tensor.pairs = false;
  check_tensor(tensor);
}

File read(std::span<const uint8_t> bytes, const std::string& folder) {
  constexpr std::string_view kModelFile = "IMOD";
  if (bytes.size() >= kModelFile.size() &&
      std::equal(kModelFile.begin(), kModelFile.end(), bytes.begin())) {
    refuse("the file is an offline model (.om) already; give the ONNX network it was made from");
  }
  File file;
  wire::Budget budget(bytes.size());
  try {
    read_model(wire::Reader(bytes, budget, "ModelProto"), file);
  } catch (const wire::Malformed& malformed) {
    refuse("the file is no well-formed ONNX model: " + malformed.text + " (at byte " +
           std::to_string(malformed.offset) + ")");
  }
  read_external(file.graph, folder);
  return file;
}

}  // namespace ascendrt::model::onnx
