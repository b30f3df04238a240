// What was probably meant by a word that is none of the known ones. Owns: the measure of nearness.
// Must never: decide anything; its answers are for error texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ascendrt::base {

// "; did you mean A or B?" with the nearest of the known words, each behind `prefix`; `otherwise`
// when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known,
                         std::string_view prefix = "", std::string_view otherwise = "");

}  // namespace ascendrt::base
