// Files of operators that run by themselves, made from a description (`atc --singleop`).
// Owns: the form of the description, the names of the files. Must never: write a part of them.
#pragma once

#include <string>
#include <vector>

namespace ascendrt::model {

// Writes one model per operator into `folder`, which is made when it is not there, and returns
// their paths. Raises 145000 with all that is wrong in the description and 100004 when a file
// cannot be written; models are made before the first is written.
std::vector<std::string> write_single_ops(const std::string& description, const std::string& folder,
                                          const std::string& soc_version);

}  // namespace ascendrt::model
