// Encoding of ModelDef and ModelTaskDef. Owns: the mapping from the in-memory form to fields.
#include <utility>

#include "model/om_proto.hpp"

namespace ascendrt::model {
namespace {

using wire::Writer;

// val_type of ListValue.
enum ListKind : int64_t {
  kStrings = 1,
  kInts = 2,
  kFloats = 3,
  kBools = 4,
  kRaw = 5,
  kDescs = 6,
  kTensors = 7,
  kGraphs = 8,
  kNamed = 9,
  kDtypes = 10,
};

Writer write_attr(const AttrValue& value);
Writer write_graph(const Graph& graph);

void write_map(Writer& out, uint32_t field, const AttrMap& attrs) {
  for (const Attr& attr : attrs.items()) {
    Writer entry;
    entry.string(1, attr.name);
    entry.message(2, write_attr(attr.value));
    out.message(field, entry);
  }
}

Writer write_desc(const TensorDesc& desc) {
  Writer out;
  out.string_opt(1, desc.name);
  out.i64_opt(2, dtype_to_proto(desc.dtype));
  Writer shape;
  shape.packed_ints(1, desc.dims);
  out.message(3, shape);
  if (!desc.layout.empty()) {
    out.string(4, desc.layout);
  } else if (desc.format != kFormatUndefined) {
    out.string(4, format_name(desc.format));
  }
  write_map(out, 5, desc.attrs);
  out.i64_opt(10, desc.size);
  out.i64_opt(11, desc.weight_size);
  out.boolean_opt(12, desc.reuse_input);
  out.boolean_opt(13, desc.output_tensor);
  out.string_opt(14, desc.device_type);
  out.boolean_opt(15, desc.input_tensor);
  out.i64_opt(16, desc.real_dim_count);
  out.i64_opt(17, desc.reuse_input_index);
  out.i64_opt(18, desc.data_offset);
  return out;
}

Writer write_tensor(const Tensor& tensor) {
  Writer out;
  out.message(1, write_desc(tensor.desc));
  if (!tensor.data.empty()) out.bytes(2, tensor.data);
  return out;
}

Writer write_named(const NamedAttrs& named) {
  Writer out;
  out.string_opt(1, named.name);
  write_map(out, 2, named.attrs);
  return out;
}

// Writes the value as one field of AttrDef; one overload per kind.
struct AttrWriter {
  Writer& out;

  void operator()(std::monostate) const {}
  void operator()(const std::string& v) const { out.string(2, v); }
  void operator()(int64_t v) const { out.i64(3, v); }
  void operator()(float v) const { out.f32(4, v); }
  void operator()(bool v) const { out.varint(5, v ? 1 : 0); }
  void operator()(const RawBytes& v) const { out.string(7, v.value); }
  void operator()(const DataTypeAttr& v) const { out.i64(15, v.value); }
  void operator()(const Expression& v) const { out.string(17, v.value); }
  void operator()(const Box<NamedAttrs>& v) const { out.message(10, write_named(*v)); }
  void operator()(const Box<TensorDesc>& v) const { out.message(11, write_desc(*v)); }
  void operator()(const Box<Tensor>& v) const { out.message(12, write_tensor(*v)); }
  void operator()(const Box<Graph>& v) const { out.message(13, write_graph(*v)); }
  void operator()(const EmptyList& v) const {
    list(v.val_type, [](Writer&) {});
  }
  void operator()(const std::vector<std::string>& v) const {
    list(kStrings, [&](Writer& items) { items.strings(2, v); });
  }
  void operator()(const std::vector<int64_t>& v) const {
    list(kInts, [&](Writer& items) { items.packed_ints(3, v); });
  }
  void operator()(const std::vector<float>& v) const {
    list(kFloats, [&](Writer& items) { items.packed_floats(4, v); });
  }
  void operator()(const std::vector<bool>& v) const {
    list(kBools, [&](Writer& items) { items.packed_bools(5, v); });
  }
  void operator()(const RawBytesList& v) const {
    list(kRaw, [&](Writer& items) { items.strings(7, v.values); });
  }
  void operator()(const DataTypeList& v) const {
    list(kDtypes, [&](Writer& items) { items.packed_ints(12, v.values); });
  }
  void operator()(const std::vector<TensorDesc>& v) const { messages(kDescs, 8, v, write_desc); }
  void operator()(const std::vector<Tensor>& v) const { messages(kTensors, 9, v, write_tensor); }
  void operator()(const std::vector<Graph>& v) const { messages(kGraphs, 10, v, write_graph); }
  void operator()(const std::vector<NamedAttrs>& v) const { messages(kNamed, 11, v, write_named); }
  void operator()(const std::vector<std::vector<int64_t>>& v) const {
    rows(14, v, [](Writer& row, const std::vector<int64_t>& each) { row.packed_ints(1, each); });
  }
  void operator()(const std::vector<std::vector<float>>& v) const {
    rows(16, v, [](Writer& row, const std::vector<float>& each) { row.packed_floats(1, each); });
  }

 private:
  // An empty list has no other type information than val_type.
  template <class F>
  void list(int64_t kind, F write_items) const {
    Writer items;
    write_items(items);
    items.i64_opt(20, kind);
    out.message(1, items);
  }
  template <class T, class F>
  void messages(int64_t kind, uint32_t field, const std::vector<T>& values, F write) const {
    list(kind, [&](Writer& items) {
      for (const T& value : values) items.message(field, write(value));
    });
  }
  template <class T, class F>
  void rows(uint32_t field, const std::vector<std::vector<T>>& values, F write) const {
    Writer all;
    for (const std::vector<T>& each : values) {
      Writer row;
      write(row, each);
      all.message(1, row);
    }
    out.message(field, all);
  }
};

Writer write_attr(const AttrValue& value) {
  Writer out;
  std::visit(AttrWriter{out}, value.value);
  return out;
}

Writer write_op(const Op& op) {
  Writer out;
  out.string(1, op.name);
  out.string(2, op.type);
  out.strings(5, op.inputs);
  write_map(out, 10, op.attrs);
  out.i64_opt(21, op.id);
  out.i64_opt(22, op.stream_id);
  out.strings(23, op.input_names);
  out.strings(24, op.src_names);
  out.packed_ints(25, op.src_indices);
  out.strings(26, op.dst_names);
  out.packed_ints(27, op.dst_indices);
  out.packed_ints(28, op.input_offsets);
  out.packed_ints(29, op.output_offsets);
  out.packed_ints(30, op.workspace_offsets);
  out.packed_ints(31, op.workspace_bytes);
  out.packed_bools(32, op.is_input_const);
  for (const TensorDesc& desc : op.input_descs) out.message(33, write_desc(desc));
  for (const TensorDesc& desc : op.output_descs) out.message(34, write_desc(desc));
  out.strings(35, op.subgraphs);
  return out;
}

Writer write_graph(const Graph& graph) {
  Writer out;
  out.string_opt(1, graph.name);
  out.strings(4, graph.inputs);
  out.strings(5, graph.outputs);
  for (const Op& op : graph.ops) out.message(6, write_op(op));
  write_map(out, 11, graph.attrs);
  return out;
}

}  // namespace

Bytes serialize_model_def(const Model& model) {
  Writer out;
  out.string_opt(1, model.name);
  out.i64_opt(2, model.version);
  out.string_opt(3, model.custom_version);
  for (const Graph& graph : model.graphs) out.message(7, write_graph(graph));
  write_map(out, 11, model.attrs);
  return out.take();
}

Bytes serialize_task_info(const TaskInfo& info) {
  Writer out;
  out.string(1, "ascendrt");  // no launch list: the graph itself is run
  out.varint(11, info.memory_size);
  out.varint(12, info.stream_num);
  out.i64_opt(13, static_cast<int64_t>(info.event_num));
  out.varint(14, info.weight_size);
  out.i64_opt(18, static_cast<int64_t>(info.batch_num));
  return out.take();
}

}  // namespace ascendrt::model
