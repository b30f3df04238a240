// Writing offline models. Owns: the file image of a single model.
#include "model/om_writer.hpp"

#include "model/om_inout.hpp"
#include "model/om_proto.hpp"
#include "model/output_file.hpp"

namespace ascendrt::model {
namespace {

constexpr uint32_t kIrVersion = 2;

void put_header(Image& image, const Model& model, uint64_t body_bytes) {
  image.put(kOmMagic);
  image.put(static_cast<uint32_t>(kHeaderSize));
  image.put(kVersionNew);
  image.zeros_until(HeaderAt::kName);  // no checksum, plain, 64 bit length, normal model, offline
  image.text(model.name, HeaderAt::kNameBytes);
  image.zeros_until(HeaderAt::kIrVersion);
  image.put(kIrVersion);
  image.put(uint32_t{1});  // one sub model
  image.text(model.custom_version, HeaderAt::kPlatformBytes);
  image.put(uint8_t{1});  // platform type
  image.zeros_until(HeaderAt::kModelLength);
  image.put(body_bytes);
  image.zeros_until(HeaderAt::kUnknownShape);
  image.put(uint8_t{model.header.unknown_shape});
  image.zeros_until(kHeaderSize);
}

}  // namespace

void put_parts(Image& image, std::span<const Part> parts, uint64_t offset) {
  image.put(static_cast<uint32_t>(parts.size()));
  image.put(uint32_t{0});
  for (const Part& part : parts) {
    image.put(part.id);
    image.put(uint32_t{0});
    image.put(offset);
    image.put(static_cast<uint64_t>(part.bytes.size()));
    offset += part.bytes.size();
  }
  for (const Part& part : parts) image.append(part.bytes);
}

Bytes serialize_om(const Model& model) {
  const Bytes inout = serialize_inout_info({model.inputs, model.outputs, model.gears});
  const Bytes model_def = serialize_model_def(model);
  const Bytes tasks = serialize_task_info(model.task_info);
  std::vector<Part> parts = {{kPartInOutInfo, inout}, {kPartModelDef, model_def}};
  if (!model.weights.bytes.empty()) parts.push_back({kPartWeights, model.weights.bytes});
  parts.push_back({kPartTaskInfo, tasks});

  uint64_t body = kTableHead + kTableRow * parts.size();
  for (const Part& part : parts) body += part.bytes.size();
  Image image(kHeaderSize + body);
  put_header(image, model, body);
  put_parts(image, parts, 0);
  return image.take();
}

void write_om(Model& model, const std::string& path) {
  complete(model);
  const Bytes image = serialize_om(model);
  OutputFile file(path);
  file.write(image);
  file.rename();
}

}  // namespace ascendrt::model
