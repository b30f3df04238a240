// A whole offline model: graphs, weights and the description a caller sees.
// Owns: Model, IoDesc, Gears, HeaderInfo. Must never: know containers or device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/ir.hpp"

namespace ascendrt::model {

// Constant bytes, either owned or borrowed from memory that outlives the model (owner then keeps
// it).
struct Blob {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
  // Gives back memory of a part that nobody will read again; empty: the owner cannot.
  std::function<void(std::span<const uint8_t>)> forget = {};

  static Blob own(Bytes data);
};

// One input or output as the caller of the model sees it.
struct IoDesc {
  std::string name;
  Dims dims;     // -1 where a gear or the dynamic shape decides
  Dims dims_v2;  // after static AIPP; equals dims otherwise
  int32_t dtype = kUndefined;
  int32_t format = kFormatUndefined;
  uint64_t size = 0;                                     // bytes; of the largest gear; 0 when open
  std::vector<std::pair<int64_t, int64_t>> shape_range;  // empty: none; upper -1 = open

  bool is_open() const;  // some dim is not fixed
  // Bytes with every open dim at the upper bound of its range; 0: a bound is not known.
  uint64_t largest_size() const;
  bool operator==(const IoDesc&) const = default;
};

enum class GearKind : uint8_t { kNone, kBatch, kImage, kDims };

// The shapes a model with static gears was compiled for.
struct Gears {
  GearKind kind = GearKind::kNone;
  std::vector<std::vector<int64_t>> values;  // one list per gear, in file order
  std::vector<std::string> data_names;       // order of the data the values talk about
  std::vector<std::string> output_shapes;    // "gear,output,d0,d1.." lines of the file, verbatim
  bool operator==(const Gears&) const = default;
};

struct HeaderInfo {
  uint32_t version = 0;
  uint8_t model_type = 0;  // 0 IR, 3 flow, 5 bundle
  bool encrypted = false;
  std::string name;
  std::string platform_version;
  uint32_t model_num = 1;
  bool unknown_shape = false;
  uint32_t ir_version = 0;
};

// What the launch list (TASK_INFO) says about resources.
struct TaskInfo {
  bool present = false;
  uint64_t memory_size = 0;
  uint64_t weight_size = 0;
  uint64_t stream_num = 0;
  uint64_t event_num = 0;
  uint64_t batch_num = 0;
  uint64_t task_count = 0;
};

struct Model {
  std::string name;
  uint32_t version = 0;
  std::string custom_version;
  std::vector<Graph> graphs;  // root first; the rest are found by name
  AttrMap attrs;
  Blob weights;
  uint64_t external_bytes = 0;  // of the weights: what came from other files
  TaskInfo task_info;
  std::string soc_version;  // empty: not told
  std::vector<IoDesc> inputs;
  std::vector<IoDesc> outputs;
  Gears gears;
  HeaderInfo header;
  std::vector<Model> parts;  // further blocks of a file with several sub models
  // Of a graph that another compiler laid out, by make_plain() of vendor.hpp: the same arithmetic
  // in operators of the table, or why there is none. The graphs above stay as the file has them.
  std::shared_ptr<Model> plain;
  std::vector<std::string> unresolved;
  std::vector<std::string> inferred;  // what the file does not say and `plain` rests on
  std::string source;                 // the file whose arithmetic `plain` is; empty: the model's

  const Graph* root() const { return graphs.empty() ? nullptr : &graphs.front(); }
  const Graph* find_graph(std::string_view graph_name) const;
  bool is_dynamic() const { return header.model_num > 1 || header.unknown_shape; }
  // True for files our own writer made: unfused graphs with every attribute.
  bool is_native() const { return attrs.get_int(kNativeMarker).value_or(0) == 1; }
  // Data of a Const op: its weights slice, or the bytes kept in the attribute. Empty when neither.
  std::span<const uint8_t> constant_data(const Op& const_op) const {
    return constant_data(const_op, weights.bytes);
  }
  // The same when the weights lie elsewhere.
  std::span<const uint8_t> constant_data(const Op& const_op,
                                         std::span<const uint8_t> weight_bytes) const;

  static constexpr std::string_view kNativeMarker = "_ascendrt_ir";
};

}  // namespace ascendrt::model
