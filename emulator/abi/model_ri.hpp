// Checks that the entries of model instances share. Must never: hold state.
#pragma once

#include "core/model_instance.hpp"

namespace ascendrt::abi {

// 207000: a branch of a condition is no instance of its own.
void check_not_branch(const core::ModelInstance& instance);
// 107026 while the instance is captured.
void check_recorded(const core::ModelInstance& instance);
// 107027 while the stream is captured.
void check_not_captured(const core::Stream& stream);

}  // namespace ascendrt::abi
