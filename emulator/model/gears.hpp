// The graphs of a model with gears. Owns: the names and attributes by which the vendor's files tell
// the branches, and a branch as a model of its own. Must never: convert or run anything.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "model/model.hpp"

namespace ascendrt::model {

// src: hicann/ge compiler/graph/passes/multi_batch/multi_batch_clone_pass.cc
struct GearNames {
  static constexpr std::string_view kData = "ascend_mbatch_shape_data";
  static constexpr std::string_view kConst = "ascend_mbatch_shape_const";
  static constexpr std::string_view kMapIndex = "ascend_mbatch_shape_mapindex";
  static constexpr std::string_view kCase = "ascend_mbatch_shape_case";
  static constexpr std::string_view kBranch = "_ascend_mbatch_batch_";  // behind op names
};

// The op that chooses the branch; null: the model has no gears.
const Op* find_gear_case(const Graph& root);

// Number of the gear with these values; nullopt when the model was not compiled for them.
std::optional<size_t> find_gear(const Gears& gears, GearKind kind,
                                const std::vector<int64_t>& values);
// The one that needs the most memory; what runs when no gear is set.
size_t largest_gear(const Model& model);
// Dims of output `output` in gear `gear`, as the file lists them; null when it does not.
std::optional<Dims> gear_output_dims(const Gears& gears, size_t gear, size_t output);

// The inputs whose dims make up a gear, in the order of its values.
std::vector<const IoDesc*> gear_inputs(const Gears& gears, const std::vector<IoDesc>& inputs);

// The branch of one gear as a model that takes all inputs of the whole. Weights are shared. Raises
// 145000 for a file whose branches do not fit together.
Model gear_model(const Model& whole, size_t gear);

}  // namespace ascendrt::model
