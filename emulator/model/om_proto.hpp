// The ModelDef, ModelTaskDef messages and the enumerated attributes of offline models.
// Owns: field numbers. Must never: know containers. Faults throw wire::Malformed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/model.hpp"
#include "model/wire.hpp"

namespace ascendrt::model {

// name, version, graphs, attrs of the model; attributes still as the file has them.
void parse_model_def(std::span<const uint8_t> bytes, Model& model);
TaskInfo parse_task_info(std::span<const uint8_t> bytes);
Bytes serialize_model_def(const Model& model);
Bytes serialize_task_info(const TaskInfo& info);

// Newer files store names and string values of op and tensor attributes as numbers. The dictionary
// lies in the attributes of the first model of a file and serves all models of it.
struct AttrDictionary {
  std::vector<std::string> names;
  std::vector<std::string> values;
  std::vector<bool> is_string;  // per name: an integer stands for a string value
};
// Takes the dictionary out of the model's attributes. Not present: nullopt.
std::optional<AttrDictionary> take_dictionary(Model& model);
// Replaces numbers by names and values. `budget_bytes` = size of the message they came from.
void expand_attributes(Model& model, const AttrDictionary& dictionary, uint64_t budget_bytes);

}  // namespace ascendrt::model
