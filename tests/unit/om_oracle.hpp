// What loading some bytes as an offline model must answer, worked out from the description of the
// format alone. Owns: a second walk over header and tables. Must never: call the product's reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/ir.hpp"

namespace ascendrt::test {

struct Documented {
  int32_t load = 0;   // code of a load from a file; 0: the container is sound
  int32_t query = 0;  // code of the size query
  // When the container is sound: (id, bytes) of the partitions of all blocks, in order.
  std::vector<std::vector<std::pair<uint32_t, model::Bytes>>> blocks;
  std::vector<std::pair<size_t, size_t>> tables;  // begin and end of each table
};
Documented documented(const model::Bytes& file);

}  // namespace ascendrt::test
