// In-memory form of an offline model: the graph, its attributes, weights and description.
// Owns: plain data that mirrors the ModelDef of the file, in acl numbers. Written by the OM and
// ONNX readers, read by the planner, the executor, the OM writer and the description calls. Must
// never: know file offsets, containers, device memory or ABI functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/types.hpp"

namespace ascendrt::model {

using Bytes = std::vector<uint8_t>;

struct AttrValue;
struct Attr;
struct Op;
struct Graph;

// Name -> value in insertion order. Look-ups are linear: an op has tens of attributes at most.
class AttrMap {
 public:
  const AttrValue* find(std::string_view name) const;
  AttrValue* find(std::string_view name);
  void set(std::string_view name, AttrValue value);  // replaces
  void append(std::string name, AttrValue value);    // caller knows the name is new
  bool erase(std::string_view name);
  // Of names that append() brought in twice the last one counts, as in every protobuf library.
  void keep_last();
  const std::vector<Attr>& items() const { return items_; }
  std::vector<Attr>& items() { return items_; }

  // Typed look-ups: nullopt / null when absent or of another kind.
  std::optional<int64_t> get_int(std::string_view name) const;
  std::optional<float> get_float(std::string_view name) const;
  std::optional<bool> get_bool(std::string_view name) const;
  const std::string* get_string(std::string_view name) const;
  const std::vector<int64_t>* get_ints(std::string_view name) const;
  const std::vector<float>* get_floats(std::string_view name) const;
  const std::vector<std::string>* get_strings(std::string_view name) const;
  // Same with a default for what is absent; a value of another kind is refused with 145000.
  int64_t int_or(std::string_view name, int64_t fallback) const;
  float float_or(std::string_view name, float fallback) const;
  std::string string_or(std::string_view name, std::string_view fallback) const;
  std::vector<int64_t> ints_or(std::string_view name, std::vector<int64_t> fallback) const;

  bool operator==(const AttrMap& other) const;  // order does not matter

 private:
  std::vector<Attr> items_;
};

struct TensorDesc {
  std::string name;
  int32_t dtype = kUndefined;
  Dims dims;
  int32_t format = kFormatUndefined;
  std::string layout;  // format name as the file spells it; empty: format_name(format) is written
  int64_t size = 0;    // bytes; what it counts depends on the place (FORMAT: input 0 of Data exact)
  int64_t weight_size = 0;
  int64_t data_offset = 0;  // Const: byte offset of the data in the weights
  int64_t real_dim_count = 0;
  int64_t reuse_input_index = 0;
  bool reuse_input = false;
  bool input_tensor = false;
  bool output_tensor = false;
  std::string device_type;
  AttrMap attrs;

  // The logical view: origin_shape / origin_format attributes, else dims / format.
  Dims origin_dims() const;
  int32_t origin_format() const;
  void set_origin(const Dims& dims, int32_t format);
  bool operator==(const TensorDesc&) const = default;
};

// A value kept behind a pointer (large or recursive), compared and copied as a value.
template <class T>
class Box {
 public:
  Box(T value) : value_(std::make_shared<const T>(std::move(value))) {}  // NOLINT: value wrapper
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  bool operator==(const Box& other) const { return **this == *other; }

 private:
  std::shared_ptr<const T> value_;
};

struct Tensor {
  TensorDesc desc;
  Bytes data;  // empty when the data lies in the weights at desc.data_offset
  bool operator==(const Tensor&) const = default;
};

struct NamedAttrs {
  std::string name;
  AttrMap attrs;
  bool operator==(const NamedAttrs&) const = default;
};

// Kinds that share a C++ type are told apart by wrappers.
struct RawBytes {
  std::string value;
  bool operator==(const RawBytes&) const = default;
};
struct Expression {
  std::string value;
  bool operator==(const Expression&) const = default;
};
struct DataTypeAttr {
  int64_t value = 0;  // ge/acl number
  bool operator==(const DataTypeAttr&) const = default;
};
struct EmptyList {  // a list whose element kind only val_type tells (0 = not told)
  int64_t val_type = 0;
  bool operator==(const EmptyList&) const = default;
};
struct RawBytesList {
  std::vector<std::string> values;
  bool operator==(const RawBytesList&) const = default;
};
struct DataTypeList {
  std::vector<int64_t> values;
  bool operator==(const DataTypeList&) const = default;
};

struct AttrValue {
  using Value =
      std::variant<std::monostate, std::string, int64_t, float, bool, RawBytes, DataTypeAttr,
                   Expression, Box<NamedAttrs>, Box<TensorDesc>, Box<Tensor>, Box<Graph>, EmptyList,
                   std::vector<std::string>, std::vector<int64_t>, std::vector<float>,
                   std::vector<bool>, RawBytesList, DataTypeList, std::vector<NamedAttrs>,
                   std::vector<TensorDesc>, std::vector<Tensor>, std::vector<Graph>,
                   std::vector<std::vector<int64_t>>, std::vector<std::vector<float>>>;
  Value value;

  AttrValue() = default;
  template <class T>
    requires std::is_constructible_v<Value, T&&>
  AttrValue(T&& v) : value(std::forward<T>(v)) {}  // NOLINT: value wrapper
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool operator==(const AttrValue&) const = default;
};

struct Attr {
  std::string name;
  AttrValue value;
  bool operator==(const Attr&) const = default;
};

// One entry of Op::inputs. index -1 = control edge (order only, no data).
struct InputRef {
  std::string_view node;
  int64_t index = 0;
};

struct Op {
  std::string name;
  std::string type;
  int64_t id = 0;  // execution order
  int64_t stream_id = 0;
  std::vector<std::string> inputs;  // "node:index", "node:-1" control, "" optional not connected
  std::vector<TensorDesc> input_descs;  // one per data input, also the not connected ones
  std::vector<TensorDesc> output_descs;
  AttrMap attrs;
  std::vector<std::string> input_names;
  std::vector<std::string> src_names;  // NetOutput: who makes output i, with src_indices
  std::vector<int64_t> src_indices;
  std::vector<std::string> dst_names;
  std::vector<int64_t> dst_indices;
  std::vector<int64_t> input_offsets;   // in feature memory, connected inputs only
  std::vector<int64_t> output_offsets;  // in feature memory
  std::vector<int64_t> workspace_offsets;
  std::vector<int64_t> workspace_bytes;
  std::vector<bool> is_input_const;
  std::vector<std::string> subgraphs;  // names of graphs of the same model

  // Data input i, nullopt when i is out of range, not connected or malformed.
  std::optional<InputRef> input(size_t i) const;
  const Tensor* constant() const;  // of a Const or Constant; null: there is none
  bool operator==(const Op&) const = default;
};

// "name:3" -> {name, 3}; nullopt for "" and for text without a decimal index.
std::optional<InputRef> parse_input(std::string_view text);

struct Graph {
  std::string name;
  std::vector<std::string> inputs;   // "node:index"
  std::vector<std::string> outputs;  // "node:index"
  std::vector<Op> ops;
  AttrMap attrs;

  const Op* find_op(std::string_view op_name) const;
  bool operator==(const Graph&) const = default;
};

// Producers before consumers, otherwise by id and place in the file. Ops of a cycle and those
// behind one are left out.
std::vector<const Op*> execution_order(const Graph& graph);

}  // namespace ascendrt::model
