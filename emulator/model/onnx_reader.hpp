// Reads ONNX files. Owns: the parts of ModelProto a converter needs, as plain data.
// Must never: interpret operators, trust a number of the file, read outside its folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/ir.hpp"

namespace ascendrt::model::onnx {

// Where a tensor's bytes lie beside the file.
struct ExternalData {
  std::string location;  // relative to the folder of the file
  int64_t offset = 0;
  int64_t length = -1;  // -1: what shape and type need
};

struct TensorData {
  std::string name;
  int32_t dtype = kUndefined;  // acl number
  Dims dims;
  Bytes bytes;                           // little endian, exactly dims x element size
  std::optional<ExternalData> external;  // only while the file is read
  bool pairs = false;                    // 4-bit elements, two in a byte, until finish_tensor
};

struct Graph;

struct Attribute {
  enum class Kind : uint8_t {
    kOther,
    kFloat,
    kInt,
    kString,
    kTensor,
    kGraph,
    kFloats,
    kInts,
    kStrings
  };
  std::string name;
  Kind kind = Kind::kOther;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::optional<TensorData> tensor;
  std::shared_ptr<Graph> graph;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;
  std::vector<std::string> inputs;  // "" = not connected
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;
  // Null when it is not there; of another kind than wanted it is refused, as by all below.
  const Attribute* find(std::string_view attribute, Attribute::Kind wanted) const;
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  int64_t int_or(std::string_view attribute, int64_t fallback) const;
  float float_or(std::string_view attribute, float fallback) const;
  std::string string_or(std::string_view attribute, std::string_view fallback) const;
  std::vector<int64_t> ints_or(std::string_view attribute, std::vector<int64_t> fallback) const;
};

// A tensor that a graph declares: an input, an output or one between.
struct GraphInput {
  std::string name;
  int32_t dtype = kUndefined;
  bool has_shape = false;
  Dims dims;                        // -1 = not fixed in the file
  std::vector<std::string> params;  // names of dims that are not fixed, "" without a name
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<TensorData> initializers;
  std::vector<GraphInput> inputs;  // without those that are initializers
  std::vector<GraphInput> outputs;
  std::vector<GraphInput> declared;  // tensors between
};

struct File {
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  // by domain, "" = the standard operators
  Graph graph;
};

// Throws base::Error 145000: not a well-formed file, or one that uses sparse tensors or functions,
// or data in other files that are not in `folder` (empty: there is none) or too short. Texts name
// the field and what to do.
File read(std::span<const uint8_t> bytes, const std::string& folder = "");

// Brings in the tensors that lie in other files. Part of read().
void read_external(Graph& graph, const std::string& folder);
// Refuses a tensor whose bytes are not what its type and shape need; 4-bit elements are unpacked
// (unsigned ones, which have no acl type, become uint8).
void finish_tensor(TensorData& tensor);

int32_t dtype_from_onnx(int64_t type);  // kUndefined when there is no counterpart

}  // namespace ascendrt::model::onnx
