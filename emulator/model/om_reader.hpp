// Reads offline model files: container, partitions, graph, weights, description.
// Owns: OmSource (the bytes and where they came from) and the codes each fault answers with.
// Must never: touch devices or contexts, change the bytes, trust any number in them.
//
// The steps follow the order in which the real library finds faults, so that a caller can put its
// own tests (null out pointers, aclInit, context) between them:
//   1. OmSource::from_file / from_memory   type probe: 145002, 145006
//   2. check_header                        load calls only: fewer than 256 bytes
//   3. is_dynamic                          which executor it would go to
//   4. read / query_sizes                  content
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/file_bytes.hpp"
#include "model/model.hpp"

namespace ascendrt::model {

enum class Entry : uint8_t { kLoadFile, kLoadMemory, kQuerySize };

struct QuerySizes {
  uint64_t work = 0;
  uint64_t weight = 0;
};

class OmSource {
 public:
  static OmSource from_file(const std::string& path);
  // Borrows the memory for the life of the source; models read from it own their weights.
  static OmSource from_memory(const void* data, size_t size);
  // A model inside a larger file, which `owner` keeps. No type probe: a part has no kind of its
  // own to be told by.
  static OmSource part_of(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                          const std::string& origin, const std::string& path);

  // Throws when the file is shorter than the header. `entry` picks the code.
  void check_header(Entry entry) const;
  // Several sub models or "unknown shape" in the header. Needs a passed check_header.
  bool is_dynamic() const;
  // The whole model. `device_soc` is the name of the device it is for; empty = no SoC check.
  Model read(const std::string& device_soc) const;
  QuerySizes query_sizes() const;
  // Graph and description alone: no SoC check, launch list and constants not looked at. Also for
  // files of neighbouring products that share the container.
  Model read_description() const;

  std::span<const uint8_t> bytes() const { return bytes_; }
  // "model file '...'" or "model in memory (n bytes)"
  const std::string& origin() const { return origin_; }
  const std::string& path() const { return path_; }  // empty: memory

 private:
  OmSource(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner, std::string origin);
  void probe() const;

  std::span<const uint8_t> bytes_;
  std::shared_ptr<const void> owner_;      // null: borrowed from the caller
  std::shared_ptr<const FileBytes> file_;  // null: others may read the bytes again
  std::string origin_;
  std::string path_;
};

// All bytes of a regular file; 145002 with the reason when it cannot be read. `what` names it.
Bytes read_model_file(const std::string& path, const char* what = "model file");

// "." for a plain name.
std::string folder_of(const std::string& path);

// Whether a model built for `model_soc` may run on `device_soc`: the same name, or two members of
// one short family (Ascend910B1 and Ascend910B3). Instruction sets agree inside a family; core
// counts do not matter to an executor that plans per device.
bool soc_compatible(const std::string& model_soc, const std::string& device_soc);

// Fills inputs, outputs, gears and soc_version from graphs[0] and attrs, as the reader does.
void describe(Model& model);

}  // namespace ascendrt::model
