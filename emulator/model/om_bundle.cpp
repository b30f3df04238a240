// Owns: the walk over a bundle's table, and its image.
#include "model/om_bundle.hpp"

#include <utility>

#include "memory/fault.hpp"
#include "model/om_writer.hpp"
#include "model/output_file.hpp"

namespace ascendrt::model {
namespace {

// Only what the real reader tests: neither the magic nor the length in the header is looked at.
class Walk {
 public:
  Walk(std::span<const uint8_t> file, const std::string& origin) : file_(file), origin_(origin) {}

  void check_header() const {
    if (file_.size() < kHeaderSize + kTableHead) {
      refuse("has " + std::to_string(file_.size()) + " bytes, a bundle has at least " +
             std::to_string(kHeaderSize + kTableHead));
    }
    if (file_[HeaderAt::kType] == kTypeBundle) return;
    refuse("is no bundle: its header says kind " + std::to_string(file_[HeaderAt::kType]) +
           ", bundles have 5; load a single model with aclmdlLoadFromFile or aclmdlLoadFromMem");
  }

  void walk(uint64_t& variable_bytes, std::vector<std::span<const uint8_t>>& members) const {
    const auto count = load_le<uint32_t>(file_, kHeaderSize);
    uint64_t at = kHeaderSize + kTableHead + kTableRow * count;
    if (at > file_.size()) {
      refuse("has a table of " + std::to_string(count) + " parts that runs past its end; " +
             kDamaged);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const size_t row = kHeaderSize + kTableHead + kTableRow * i;
      const auto kind = load_le<uint32_t>(file_, row);
      const auto size = load_le<uint64_t>(file_, row + 16);
      const uint64_t left = file_.size() - at;
      const bool variables = kind == kPartBundleVariables;
      if (size > left || (variables && left < sizeof(uint64_t))) {
        refuse("has a part " + std::to_string(i) + " at offset " + std::to_string(at) +
               " that claims " + std::to_string(size) + " bytes of " + std::to_string(left) +
               " left; " + kDamaged);
      }
      if (variables) variable_bytes = load_le<uint64_t>(file_, static_cast<size_t>(at));
      if (kind == kPartBundleModel) {
        members.push_back(file_.subspan(static_cast<size_t>(at), static_cast<size_t>(size)));
      }
      at += size;
    }
  }

 private:
  static constexpr const char* kDamaged = "it is truncated or damaged";
  [[noreturn]] void refuse(const std::string& text) const {
    fail_model(kAclInvalidParam, origin_ + " " + text);
  }

  std::span<const uint8_t> file_;
  const std::string& origin_;
};

void put_header(Image& image, size_t members, uint64_t file_bytes) {
  image.put(kOmMagic);
  image.put(static_cast<uint32_t>(kHeaderSize));
  image.put(kVersionNew);
  image.zeros_until(HeaderAt::kType);
  image.put(static_cast<uint8_t>(kTypeBundle));
  image.zeros_until(HeaderAt::kModelNum);
  image.put(static_cast<uint32_t>(members));
  image.zeros_until(HeaderAt::kModelLength);
  image.put(file_bytes);  // of all, unlike in the header of a single model
  image.zeros_until(kHeaderSize);
}

// Refused now rather than when the bundle is loaded.
void check_member(const OmSource& source) {
  if (Bundle::is_bundle(source.bytes())) {
    fail_model(kAclInvalidParam,
               source.origin() + " is itself a bundle; name the models that it was made of");
  }
  source.read_description();
}

Bytes serialize(const std::vector<OmSource>& sources) {
  constexpr uint64_t kVariableBytes = 0;
  std::vector<Part> parts;
  uint64_t size = kHeaderSize + kTableHead + kTableRow * (1 + sources.size());
  Image variables(sizeof kVariableBytes);
  variables.put(kVariableBytes);
  const Bytes variable_part = variables.take();
  parts.push_back({kPartBundleVariables, variable_part});
  for (const OmSource& source : sources) parts.push_back({kPartBundleModel, source.bytes()});
  // Offsets count from the end of the header, again unlike those of a single model.
  const uint64_t offset = size - kHeaderSize;
  for (const Part& part : parts) size += part.bytes.size();
  Image image(size);
  put_header(image, sources.size(), size);
  put_parts(image, parts, offset);
  return image.take();
}

}  // namespace

Bundle::Bundle(Bytes bytes, std::string path, std::string origin)
    : bytes_(std::make_shared<const Bytes>(std::move(bytes))),
      path_(std::move(path)),
      origin_(std::move(origin)) {
  const Walk walk(*bytes_, origin_);
  walk.check_header();
  walk.walk(variable_bytes_, members_);
}

bool Bundle::is_bundle(std::span<const uint8_t> file) {
  return file.size() >= kHeaderSize && load_le<uint32_t>(file, HeaderAt::kMagic) == kOmMagic &&
         file[HeaderAt::kType] == kTypeBundle;
}

Bundle Bundle::from_file(const std::string& path) {
  Bytes bytes = read_model_file(path);
  const std::string origin = "bundle file '" + path + "'";
  if (bytes.size() < kHeaderSize) {
    fail_model(kGeDataSizeInvalid, origin + " has " + std::to_string(bytes.size()) +
                                       " bytes, the header alone has " +
                                       std::to_string(kHeaderSize) + "; is it truncated?");
  }
  return {std::move(bytes), path, origin};
}

Bundle Bundle::from_memory(const void* data, size_t size) {
  memory::check_readable(data, size, "model");
  const auto* start = static_cast<const uint8_t*>(data);
  return {Bytes(start, start + size), "", "bundle in memory (" + std::to_string(size) + " bytes)"};
}

OmSource Bundle::member(size_t index) const {
  return OmSource::part_of(members_[index], bytes_,
                           "model " + std::to_string(index) + " of " + origin_, path_);
}

void write_bundle(const std::vector<std::string>& files, const std::string& path) {
  if (files.empty()) fail_model(kAclInvalidParam, "a bundle needs at least one model file");
  std::vector<OmSource> sources;
  for (const std::string& file : files) {
    sources.push_back(OmSource::from_file(file));
    check_member(sources.back());
  }
  OutputFile file(path);
  file.write(serialize(sources));
  file.rename();
}

}  // namespace ascendrt::model
