// Bundles: several offline models in one file. Owns: the layout of a bundle, reading and writing
// it. Must never: look inside a member, or know devices.
//
// src: hicann/ge base/common/helper/model_helper.cc SaveBundleModelBufferToMem,
// api/acl/acl_model/model/model.cpp GetBundleNumAndOffset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/om_reader.hpp"

namespace ascendrt::model {

// An opened bundle. Copies share the bytes.
class Bundle {
 public:
  static Bundle from_file(const std::string& path);
  // Copies the memory: members are loaded long after the call that named it.
  static Bundle from_memory(const void* data, size_t size);
  // Whether these bytes claim to be a bundle; decides which reader a file goes to.
  static bool is_bundle(std::span<const uint8_t> file);

  uint64_t variable_bytes() const { return variable_bytes_; }
  const std::vector<std::span<const uint8_t>>& members() const { return members_; }
  const std::string& path() const { return path_; }  // empty: memory
  // Member `index`, which must be one, as a source of its own.
  OmSource member(size_t index) const;
  // Where a member starts in the file.
  size_t offset_of(size_t index) const {
    return static_cast<size_t>(members_[index].data() - bytes_->data());
  }

 private:
  Bundle(Bytes bytes, std::string path, std::string origin);

  std::shared_ptr<const Bytes> bytes_;
  std::string path_;
  std::string origin_;
  uint64_t variable_bytes_ = 0;
  std::vector<std::span<const uint8_t>> members_;
};

// Writes the files, each a sound offline model and no bundle, as one bundle without variables.
// Raises the reader's codes, 100000 without files, 100004; nothing is written then.
void write_bundle(const std::vector<std::string>& files, const std::string& path);

}  // namespace ascendrt::model
