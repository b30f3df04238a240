// Decoding of ModelDef and ModelTaskDef. Owns: the mapping of fields to the in-memory form.
#include <iterator>
#include <utility>

#include "model/om_proto.hpp"

namespace ascendrt::model {
namespace {

using wire::Reader;

AttrValue read_attr(Reader r);
Graph read_graph(Reader r);

void read_map_entry(Reader r, AttrMap& out) {
  std::string name;
  AttrValue value;
  while (r.next()) {
    if (r.field() == 1) {
      name = r.string();
    } else if (r.field() == 2) {
      value = read_attr(r.message("AttrDef"));
    }
  }
  r.charge(sizeof(Attr) + name.size());
  out.append(std::move(name), std::move(value));
}

Dims read_shape(Reader r) {
  Dims dims;
  while (r.next()) {
    if (r.field() == 1) r.ints(dims);
  }
  return dims;
}

// Fields of TensorDescriptor beyond name, type, shape, layout and attributes.
void read_desc_detail(const Reader& r, TensorDesc& desc) {
  const uint32_t field = r.field();
  if (field == 10) desc.size = r.i64();
  if (field == 11) desc.weight_size = r.i64();
  if (field == 12) desc.reuse_input = r.boolean();
  if (field == 13) desc.output_tensor = r.boolean();
  if (field == 14) desc.device_type = r.string();
  if (field == 15) desc.input_tensor = r.boolean();
  if (field == 16) desc.real_dim_count = r.i64();
  if (field == 17) desc.reuse_input_index = r.i64();
  if (field == 18) desc.data_offset = r.i64();
}

TensorDesc read_desc(Reader r) {
  TensorDesc desc;
  r.charge(sizeof(TensorDesc));
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 1) desc.name = r.string();
    if (field == 2) desc.dtype = dtype_from_proto(r.i64());
    if (field == 3) desc.dims = read_shape(r.message("ShapeDef"));
    if (field == 4) {
      desc.layout = r.string();
      desc.format = format_from_name(desc.layout);
    }
    if (field == 5) read_map_entry(r.message("TensorDescriptor.attr"), desc.attrs);
    read_desc_detail(r, desc);
  }
  desc.attrs.keep_last();
  return desc;
}

Tensor read_tensor(Reader r) {
  Tensor tensor;
  while (r.next()) {
    if (r.field() == 1) {
      tensor.desc = read_desc(r.message("TensorDescriptor"));
    } else if (r.field() == 2) {
      const std::span<const uint8_t> data = r.bytes();
      r.charge(data.size());
      tensor.data.assign(data.begin(), data.end());
    }
  }
  return tensor;
}

NamedAttrs read_named(Reader r) {
  NamedAttrs named;
  r.charge(sizeof(NamedAttrs));
  while (r.next()) {
    if (r.field() == 1) {
      named.name = r.string();
    } else if (r.field() == 2) {
      read_map_entry(r.message("NamedAttrs.attr"), named.attrs);
    }
  }
  named.attrs.keep_last();
  return named;
}

// ListValue: several lists, of which val_type names the meant one. Old writers leave val_type out.
struct ListParts {
  std::vector<std::string> strings;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<bool> bools;
  RawBytesList raw;
  std::vector<TensorDesc> descs;
  std::vector<Tensor> tensors;
  std::vector<Graph> graphs;
  std::vector<NamedAttrs> named;
  DataTypeList dtypes;
  int64_t val_type = 0;
};

void read_list_field(const Reader& r, ListParts& parts) {
  const uint32_t field = r.field();
  if (field == 2) r.strings(parts.strings);
  if (field == 3) r.ints(parts.ints);
  if (field == 4) r.floats(parts.floats);
  if (field == 5) r.bools(parts.bools);
  if (field == 7) r.strings(parts.raw.values);
  if (field == 8) parts.descs.push_back(read_desc(r.message("TensorDescriptor")));
  if (field == 9) {
    r.charge(sizeof(Tensor));
    parts.tensors.push_back(read_tensor(r.message("TensorDef")));
  }
  if (field == 10) parts.graphs.push_back(read_graph(r.message("GraphDef")));
  if (field == 11) parts.named.push_back(read_named(r.message("NamedAttrs")));
  if (field == 12) r.ints(parts.dtypes.values);
  if (field == 20) parts.val_type = r.i64();
}

AttrValue read_list(Reader r) {
  constexpr int64_t kKindOfField[] = {0, 0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 9, 10};
  ListParts parts;
  int64_t filled = 0;
  while (r.next()) {
    read_list_field(r, parts);
    if (filled == 0 && r.field() < std::size(kKindOfField)) filled = kKindOfField[r.field()];
  }
  switch (filled != 0 ? filled : parts.val_type) {
    case 1:
      return std::move(parts.strings);
    case 2:
      return std::move(parts.ints);
    case 3:
      return std::move(parts.floats);
    case 4:
      return std::move(parts.bools);
    case 5:
      return std::move(parts.raw);
    case 6:
      return std::move(parts.descs);
    case 7:
      return std::move(parts.tensors);
    case 8:
      return std::move(parts.graphs);
    case 9:
      return std::move(parts.named);
    case 10:
      return std::move(parts.dtypes);
    default:
      return EmptyList{parts.val_type};
  }
}

std::vector<int64_t> read_int_row(Reader r) {
  std::vector<int64_t> row;
  while (r.next()) {
    if (r.field() == 1) r.ints(row);
  }
  return row;
}

std::vector<float> read_float_row(Reader r) {
  std::vector<float> row;
  while (r.next()) {
    if (r.field() == 1) r.floats(row);
  }
  return row;
}

template <class T>
std::vector<std::vector<T>> read_rows(Reader r, std::vector<T> (*read_row)(Reader)) {
  std::vector<std::vector<T>> rows;
  while (r.next()) {
    if (r.field() != 1) continue;
    r.charge(sizeof(std::vector<T>));
    rows.push_back(read_row(r.message("list of lists")));
  }
  return rows;
}

AttrValue read_attr(Reader r) {
  AttrValue value;
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 1) value = read_list(r.message("ListValue"));
    if (field == 2) {
      r.charge(r.bytes().size());
      value = r.string();
    }
    if (field == 3) value = r.i64();
    if (field == 4) value = r.f32();
    if (field == 5) value = r.boolean();
    if (field == 7) {
      r.charge(r.bytes().size());
      value = RawBytes{r.string()};
    }
    if (field == 10) value = Box(read_named(r.message("NamedAttrs")));
    if (field == 11) value = Box(read_desc(r.message("TensorDescriptor")));
    if (field == 12) {
      r.charge(sizeof(Tensor));
      value = Box(read_tensor(r.message("TensorDef")));
    }
    if (field == 13) value = Box(read_graph(r.message("GraphDef")));
    if (field == 14) value = read_rows<int64_t>(r.message("ListListInt"), read_int_row);
    if (field == 15) value = DataTypeAttr{r.i64()};
    if (field == 16) value = read_rows<float>(r.message("ListListFloat"), read_float_row);
    if (field == 17) value = Expression{r.string()};
  }
  return value;
}

// The fields of OpDef that connect it and place it in memory.
void read_op_wiring(const Reader& r, Op& op) {
  const uint32_t field = r.field();
  if (field == 23) r.strings(op.input_names);
  if (field == 24) r.strings(op.src_names);
  if (field == 25) r.ints(op.src_indices);
  if (field == 26) r.strings(op.dst_names);
  if (field == 27) r.ints(op.dst_indices);
  if (field == 28) r.ints(op.input_offsets);
  if (field == 29) r.ints(op.output_offsets);
  if (field == 30) r.ints(op.workspace_offsets);
  if (field == 31) r.ints(op.workspace_bytes);
  if (field == 32) r.bools(op.is_input_const);
  if (field == 35) r.strings(op.subgraphs);
}

Op read_op(Reader r) {
  Op op;
  r.charge(sizeof(Op));
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 1) op.name = r.string();
    if (field == 2) op.type = r.string();
    if (field == 5) r.strings(op.inputs);
    if (field == 10) read_map_entry(r.message("OpDef.attr"), op.attrs);
    if (field == 21) op.id = r.i64();
    if (field == 22) op.stream_id = r.i64();
    if (field == 33) op.input_descs.push_back(read_desc(r.message("TensorDescriptor")));
    if (field == 34) op.output_descs.push_back(read_desc(r.message("TensorDescriptor")));
    read_op_wiring(r, op);
  }
  op.attrs.keep_last();
  return op;
}

Graph read_graph(Reader r) {
  Graph graph;
  r.charge(sizeof(Graph));
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 1) graph.name = r.string();
    if (field == 4) r.strings(graph.inputs);
    if (field == 5) r.strings(graph.outputs);
    if (field == 6) graph.ops.push_back(read_op(r.message("OpDef")));
    if (field == 11) read_map_entry(r.message("GraphDef.attr"), graph.attrs);
  }
  graph.attrs.keep_last();
  return graph;
}

}  // namespace

void parse_model_def(std::span<const uint8_t> bytes, Model& model) {
  wire::Budget budget(bytes.size());
  Reader r(bytes, budget, "ModelDef");
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 1) model.name = r.string();
    if (field == 2) model.version = static_cast<uint32_t>(r.u64());
    if (field == 3) model.custom_version = r.string();
    if (field == 7) model.graphs.push_back(read_graph(r.message("GraphDef")));
    if (field == 11) read_map_entry(r.message("ModelDef.attr"), model.attrs);
  }
  model.attrs.keep_last();
}

TaskInfo parse_task_info(std::span<const uint8_t> bytes) {
  wire::Budget budget(bytes.size());
  TaskInfo info;
  info.present = true;
  Reader r(bytes, budget, "ModelTaskDef");
  while (r.next()) {
    const uint32_t field = r.field();
    if (field == 10) {
      Reader task = r.message("TaskDef");
      while (task.next()) {
      }
      ++info.task_count;
    }
    if (field == 11) info.memory_size = r.u64();
    if (field == 12) info.stream_num = r.u64();
    if (field == 13) info.event_num = r.u64();
    if (field == 14) info.weight_size = r.u64();
    if (field == 18) info.batch_num = r.u64();
  }
  return info;
}

}  // namespace ascendrt::model
