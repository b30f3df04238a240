// Graphs that the vendor's compiler laid out: made plain, or a list of what stands against it.
// Owns: the options and the choice between the file alone and the source it was made from.
// Must never: change the description of a model, guess in silence, or fail a load because a graph
// cannot be computed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace ascendrt::model {

struct VendorOptions {
  enum class Missing : uint8_t { kInfer, kRefuse };  // attributes that the compiler dropped
  enum class Random : uint8_t { kDraw, kZero };      // what random operators give
  Missing missing = Missing::kInfer;
  Random random = Random::kDraw;
  int64_t seed = 0;
  std::string source;   // a file, a folder or "none"; empty: look beside the model
  std::string om_path;  // empty: loaded from memory
};

// ASCENDRT_OM_STRICT, ASCENDRT_OM_RANDOM, ASCENDRT_OM_SOURCE; raises 100000 for bad values.
VendorOptions vendor_options(std::string om_path);

// Sets model.plain or model.unresolved, with model.inferred and model.source, unless the model is a
// native one. Raises 145000 when the source named in the options does not fit the model.
void make_plain(Model& model, const VendorOptions& options);
// Says on stderr what was inferred, or which source is used.
void tell_plain(const Model& model);

// --- the two ways, and what they have to say ---

struct Plain {
  std::shared_ptr<Model> model;         // null: see unresolved
  std::vector<std::string> unresolved;  // one line per op that cannot be computed
  std::vector<std::string> inferred;    // one line per attribute the file does not hold
};
// From the graph of the file alone.
Plain plain_graph(const Model& model, const VendorOptions& options);
// From the ONNX file that the model was made from: its arithmetic behind the inputs and outputs of
// the model. Raises 145000 with the differences when it does not fit. `folder`: where it lies.
Model plain_source(const Model& model, std::span<const uint8_t> onnx_bytes,
                   const std::string& folder = "");
// The name of the source in the recorded command line; empty: none.
std::string recorded_source(const Model& model);

}  // namespace ascendrt::model
