// ONNX files for C++ tests, written field by field. Owns: the small subset the tests need.
// Must never: share code with the reader under test beyond the wire format.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "model/wire.hpp"

namespace ascendrt::test {

using model::wire::Writer;

class OnnxBytes {
 public:
  OnnxBytes& input(const std::string& name, const std::vector<int64_t>& dims, int64_t type = 1) {
    graph_.message(11, value_info(name, dims, type));
    return *this;
  }
  OnnxBytes& output(const std::string& name) {
    graph_.message(12, value_info(name, {}, 1));
    return *this;
  }
  OnnxBytes& shaped_output(const std::string& name, const std::vector<int64_t>& dims) {
    graph_.message(12, value_info(name, dims, 1));
    return *this;
  }
  // Of a shape that the file does not tell.
  OnnxBytes& open_output(const std::string& name) {
    Writer info;
    info.string(1, name);
    graph_.message(12, info);
    return *this;
  }
  OnnxBytes& floats(const std::string& name, const std::vector<int64_t>& dims,
                    const std::vector<float>& values) {
    Writer tensor;
    tensor.packed_ints(1, dims);
    tensor.i64(2, 1);
    tensor.packed_floats(4, values);
    tensor.string(8, name);
    graph_.message(5, tensor);
    return *this;
  }
  OnnxBytes& raw(const std::string& name, const std::vector<int64_t>& dims, int64_t type,
                 const std::vector<uint8_t>& bytes) {
    Writer tensor;
    tensor.packed_ints(1, dims);
    tensor.i64(2, type);
    tensor.string(8, name);
    tensor.bytes(9, bytes);
    graph_.message(5, tensor);
    return *this;
  }
  OnnxBytes& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const std::string& name = "",
                  const std::vector<Writer>& attributes = {}) {
    Writer node;
    node.strings(1, inputs);
    node.strings(2, outputs);
    node.string_opt(3, name);
    node.string(4, op);
    for (const Writer& attribute : attributes) node.message(5, attribute);
    graph_.message(1, node);
    return *this;
  }
  static Writer ints(const std::string& name, const std::vector<int64_t>& values) {
    Writer attribute;
    attribute.string(1, name);
    attribute.packed_ints(8, values);
    attribute.i64(20, 7);
    return attribute;
  }
  Writer& graph() { return graph_; }

  std::vector<uint8_t> file(int64_t opset = 13) const {
    Writer model;
    model.i64(1, 8);
    model.message(7, graph_);
    Writer import;
    import.i64(2, opset);
    model.message(8, import);
    return model.take();
  }

 private:
  static Writer value_info(const std::string& name, const std::vector<int64_t>& dims,
                           int64_t type) {
    Writer shape;
    for (const int64_t dim : dims) {
      Writer entry;
      if (dim >= 0) entry.i64(1, dim);
      if (dim < 0) entry.string(2, "n");
      shape.message(1, entry);
    }
    Writer tensor;
    tensor.i64(1, type);
    tensor.message(2, shape);
    Writer kind;
    kind.message(1, tensor);
    Writer info;
    info.string(1, name);
    info.message(2, kind);
    return info;
  }

  Writer graph_;
};

}  // namespace ascendrt::test
