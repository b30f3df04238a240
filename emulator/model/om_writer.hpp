// Writes offline model files: 256 byte header (version 2), 64 bit partition table, parts 8, 0,
// 1, 2. Owns: completing a model so that a reader accepts it, serialising, atomic output. Must
// never: drop or fuse anything of the graph; leave a half-written file behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/model.hpp"
#include "model/om_container.hpp"
#include "model/om_image.hpp"

namespace ascendrt::model {

// A 64 bit partition table, and the parts behind it. `offset`: of the first part, counted as the
// kind of file counts.
void put_parts(Image& image, std::span<const Part> parts, uint64_t offset);

// Makes a freshly built graph complete, in place. Needs from the builder: unique op names, op
// types, inputs ("node:idx"), input and output descs with dtype, dims and format; Data ops; one
// NetOutput; Const ops with their bytes in attribute "value" (Tensor.data). Fills what is missing:
//   ids in list order, sizes, origin_*, index of Data, src_* / dst_* of ops, is_input_const,
//   operator input and output names; moves Const bytes into model.weights (512 byte pieces) and
//   repeats their offsets at the consumers; model attributes (memory_size from task_info,
//   weight_size, stream_num, names of outputs, soc_version, producer marker); inputs/outputs
//   descriptions.
// Throws 145000 naming the op when the graph is not well formed.
void complete(Model& model);

// The file image. The model must be complete.
Bytes serialize_om(const Model& model);

// complete + serialize + write through a temporary file in the same directory, fsync and rename.
// Throws 100004 naming path and system reason; the old file, if any, is then untouched.
void write_om(Model& model, const std::string& path);

}  // namespace ascendrt::model
