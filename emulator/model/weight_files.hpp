// Constants of a model in files beside it, as ATC's --external_weight writes them.
// Owns: their names, the ops that stand for them (FileConstant) and the way back.
// Must never: read outside the folder it is given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace ascendrt::model {

// src: hicann/ge documentation of --external_weight
enum class ExternalWeights : uint8_t {
  kNone,      // in the model file
  kEach,      // weight/weight_<hash of the content>
  kCombined,  // weight/<name of the model file>_weight_combined
};

// write_om() with the constants in files; all are put in place, or none.
void write_om_external(Model& model, const std::string& path, ExternalWeights kind);

// The content of a weight file that the caller holds in memory, by the name of the file.
struct GivenWeights {
  std::string file;
  std::span<const uint8_t> bytes;
};

struct WeightSources {
  std::string folder;  // empty: there is none
  std::vector<GivenWeights> given;
};

// Makes constants of the ops that stand for files. Raises 145000 for given memory that is too
// small, 500002 for a file that is missing or too short.
void attach_weights(Model& model, const WeightSources& sources);

// The folder of the weights of a model file.
std::string weight_folder(const std::string& om_path);

}  // namespace ascendrt::model
