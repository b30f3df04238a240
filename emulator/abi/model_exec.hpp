// Loading and running models, for the entries of several files. Owns: the order of their checks.
// Must never: know how the client told what to load or run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "abi/model_objects.hpp"
#include "model/loaded.hpp"
#include "model/om_reader.hpp"
#include "model/weight_files.hpp"

namespace ascendrt::abi {

// Failures of the graph engine are not stored as a thread's last error.
[[noreturn]] void refuse_model(base::Code code, const std::string& text);

// The loaded model of that id, or 145003.
std::shared_ptr<model::LoadedModel> find_loaded(uint32_t id);

// Steps in the order in which the real library finds faults; the type probe has passed.
// `weights`: where those are that the model keeps in other files; of a model in a file the folder
// beside it.
void load_model(const model::OmSource& source, model::Entry entry, const model::ModelMemory& memory,
                uint32_t* id, model::WeightSources weights = {});

// Loads model `index` of a bundle and counts it among the bundle's. 148053 for an unknown bundle.
void load_bundle_member(uint32_t bundle, size_t index, const model::ModelMemory& memory,
                        uint32_t* id, model::WeightSources weights = {});
// 100000 for a model that belongs to a bundle, which unloads it.
void check_no_bundle_member(uint32_t id);

// How long a blocking run waits, and where it runs; stream null: the model's own.
struct RunOptions {
  core::Stream* stream = nullptr;
  int64_t timeout_ms = -1;
};

void execute_model(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                   const RunOptions& options);
void execute_model_async(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                         aclrtStream stream);

}  // namespace ascendrt::abi
