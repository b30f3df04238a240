// A model told as JSON, for people and tools. Owns: the form of the text.
// Must never: change the model or need a device.
#pragma once

#include <string>

#include "model/model.hpp"

namespace ascendrt::model {

// One object: name, soc_version, graphs (ops with inputs, outputs, attributes) and, when this
// project can run the model, the plan of its memory; else what is missing. For a compiled model
// also what was inferred to run it, and the source that is used instead. Types are acl numbers.
std::string model_json(const Model& model);

// The definition in the file, as the vendor's compiler writes it (--mode=1).
std::string model_def_json(const Model& model);

}  // namespace ascendrt::model
