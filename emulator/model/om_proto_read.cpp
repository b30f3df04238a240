// Decoding of ModelDef and ModelTaskDef. Owns: the mapping of fields to the in-memory form.
#include <algorithm>
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
  switch (r.field()) {
    case 10:
      desc.size = r.i64();
      break;
    case 11:
      desc.weight_size = r.i64();
      break;
    case 12:
      desc.reuse_input = r.boolean();
      break;
    case 13:
      desc.output_tensor = r.boolean();
      break;
    case 14:
      desc.device_type = r.string();
      break;
    case 15:
      desc.input_tensor = r.boolean();
      break;
    case 16:
      desc.real_dim_count = r.i64();
      break;
    case 17:
      desc.reuse_input_index = r.i64();
      break;
    case 18:
      desc.data_offset = r.i64();
      break;
    default:
      break;
  }
}

TensorDesc read_desc(Reader r) {
  TensorDesc desc;
  r.charge(sizeof(TensorDesc));
  while (r.next()) {
    switch (r.field()) {
      case 1:
        desc.name = r.string();
        break;
      case 2:
        desc.dtype = dtype_from_proto(r.i64());
        break;
      case 3:
        desc.dims = read_shape(r.message("ShapeDef"));
        break;
      case 4:
        desc.layout = r.string();
        desc.format = format_from_name(desc.layout);
        break;
      case 5:
        read_map_entry(r.message("TensorDescriptor.attr"), desc.attrs);
        break;
      default:
        read_desc_detail(r, desc);
        break;
    }
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
  switch (r.field()) {
    case 2:
      return r.strings(parts.strings);
    case 3:
      return r.ints(parts.ints);
    case 4:
      return r.floats(parts.floats);
    case 5:
      return r.bools(parts.bools);
    case 7:
      return r.strings(parts.raw.values);
    case 8:
      parts.descs.push_back(read_desc(r.message("TensorDescriptor")));
      return;
    case 9:
      r.charge(sizeof(Tensor));
      parts.tensors.push_back(read_tensor(r.message("TensorDef")));
      return;
    case 10:
      parts.graphs.push_back(read_graph(r.message("GraphDef")));
      return;
    case 11:
      parts.named.push_back(read_named(r.message("NamedAttrs")));
      return;
    case 12:
      return r.ints(parts.dtypes.values);
    case 20:
      parts.val_type = r.i64();
      return;
    default:
      return;
  }
}

int64_t guess_list_kind(const ListParts& parts) {
  const bool filled[] = {false,
                         !parts.strings.empty(),
                         !parts.ints.empty(),
                         !parts.floats.empty(),
                         !parts.bools.empty(),
                         !parts.raw.values.empty(),
                         !parts.descs.empty(),
                         !parts.tensors.empty(),
                         !parts.graphs.empty(),
                         !parts.named.empty(),
                         !parts.dtypes.values.empty()};
  const auto* found = std::find(std::begin(filled), std::end(filled), true);
  return found == std::end(filled) ? 0 : found - std::begin(filled);
}

AttrValue read_list(Reader r) {
  ListParts parts;
  while (r.next()) read_list_field(r, parts);
  const int64_t guess = guess_list_kind(parts);
  switch (guess != 0 ? guess : parts.val_type) {
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
    switch (r.field()) {
      case 1:
        value = read_list(r.message("ListValue"));
        break;
      case 2:
        r.charge(r.bytes().size());
        value = r.string();
        break;
      case 3:
        value = r.i64();
        break;
      case 4:
        value = r.f32();
        break;
      case 5:
        value = r.boolean();
        break;
      case 7:
        r.charge(r.bytes().size());
        value = RawBytes{r.string()};
        break;
      case 10:
        value = Box(read_named(r.message("NamedAttrs")));
        break;
      case 11:
        value = Box(read_desc(r.message("TensorDescriptor")));
        break;
      case 12:
        r.charge(sizeof(Tensor));
        value = Box(read_tensor(r.message("TensorDef")));
        break;
      case 13:
        value = Box(read_graph(r.message("GraphDef")));
        break;
      case 14:
        value = read_rows<int64_t>(r.message("ListListInt"), read_int_row);
        break;
      case 15:
        value = DataTypeAttr{r.i64()};
        break;
      case 16:
        value = read_rows<float>(r.message("ListListFloat"), read_float_row);
        break;
      case 17:
        value = Expression{r.string()};
        break;
      default:
        break;
    }
  }
  return value;
}

// The fields of OpDef that connect it and place it in memory.
void read_op_wiring(const Reader& r, Op& op) {
  switch (r.field()) {
    case 23:
      return r.strings(op.input_names);
    case 24:
      return r.strings(op.src_names);
    case 25:
      return r.ints(op.src_indices);
    case 26:
      return r.strings(op.dst_names);
    case 27:
      return r.ints(op.dst_indices);
    case 28:
      return r.ints(op.input_offsets);
    case 29:
      return r.ints(op.output_offsets);
    case 30:
      return r.ints(op.workspace_offsets);
    case 31:
      return r.ints(op.workspace_bytes);
    case 32:
      return r.bools(op.is_input_const);
    case 35:
      return r.strings(op.subgraphs);
    default:
      return;
  }
}

Op read_op(Reader r) {
  Op op;
  r.charge(sizeof(Op));
  while (r.next()) {
    switch (r.field()) {
      case 1:
        op.name = r.string();
        break;
      case 2:
        op.type = r.string();
        break;
      case 5:
        r.strings(op.inputs);
        break;
      case 10:
        read_map_entry(r.message("OpDef.attr"), op.attrs);
        break;
      case 21:
        op.id = r.i64();
        break;
      case 22:
        op.stream_id = r.i64();
        break;
      case 33:
        op.input_descs.push_back(read_desc(r.message("TensorDescriptor")));
        break;
      case 34:
        op.output_descs.push_back(read_desc(r.message("TensorDescriptor")));
        break;
      default:
        read_op_wiring(r, op);
        break;
    }
  }
  op.attrs.keep_last();
  return op;
}

Graph read_graph(Reader r) {
  Graph graph;
  r.charge(sizeof(Graph));
  while (r.next()) {
    switch (r.field()) {
      case 1:
        graph.name = r.string();
        break;
      case 4:
        r.strings(graph.inputs);
        break;
      case 5:
        r.strings(graph.outputs);
        break;
      case 6:
        graph.ops.push_back(read_op(r.message("OpDef")));
        break;
      case 11:
        read_map_entry(r.message("GraphDef.attr"), graph.attrs);
        break;
      default:
        break;
    }
  }
  graph.attrs.keep_last();
  return graph;
}

}  // namespace

void parse_model_def(std::span<const uint8_t> bytes, Model& model) {
  wire::Budget budget(bytes.size());
  Reader r(bytes, budget, "ModelDef");
  while (r.next()) {
    switch (r.field()) {
      case 1:
        model.name = r.string();
        break;
      case 2:
        model.version = static_cast<uint32_t>(r.u64());
        break;
      case 3:
        model.custom_version = r.string();
        break;
      case 7:
        model.graphs.push_back(read_graph(r.message("GraphDef")));
        break;
      case 11:
        read_map_entry(r.message("ModelDef.attr"), model.attrs);
        break;
      default:
        break;
    }
  }
  model.attrs.keep_last();
}

TaskInfo parse_task_info(std::span<const uint8_t> bytes) {
  wire::Budget budget(bytes.size());
  TaskInfo info;
  info.present = true;
  Reader r(bytes, budget, "ModelTaskDef");
  while (r.next()) {
    switch (r.field()) {
      case 10: {
        Reader task = r.message("TaskDef");
        while (task.next()) {
        }
        ++info.task_count;
        break;
      }
      case 11:
        info.memory_size = r.u64();
        break;
      case 12:
        info.stream_num = r.u64();
        break;
      case 13:
        info.event_num = r.u64();
        break;
      case 14:
        info.weight_size = r.u64();
        break;
      case 18:
        info.batch_num = r.u64();
        break;
      default:
        break;
    }
  }
  return info;
}

}  // namespace ascendrt::model
