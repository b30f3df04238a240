// Offline model files of every container variant, made for tests.
// Owns: a small network, its container variants (own packer, not the product's), attribute numbers.
// Must never: be linked into the product.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/om_reader.hpp"
#include "model/om_writer.hpp"

namespace ascendrt::test {

// Data(x, 1x3x4x4 float NCHW) -> Mul(Const) -> Relu (one attribute of every kind) -> NetOutput.
model::Model small_network();
// The same behind a Case op with three batch gears, as static gears are written.
model::Model gear_network();
// The same with op and tensor attributes replaced by numbers and the dictionary added.
model::Model numbered_network();

struct PackSpec {
  uint32_t version = 0x20000000;
  uint8_t model_type = 0;
  bool wide = true;
  uint32_t model_num = 1;
  bool unknown_shape = false;
  std::string platform = "1.11.z.0";
  std::vector<std::vector<std::pair<uint32_t, model::Bytes>>> blocks;
};
model::Bytes pack(const PackSpec& spec);

struct Seed {
  std::string name;
  model::Bytes file;
  size_t table_end;   // end of the first partition table
  size_t table_head;  // bytes before its first entry
  size_t table_row;   // bytes of an entry
  bool wide;
};
std::vector<Seed> all_seeds();
Seed seed(const std::string& name);

// Flips every byte of the header and of all tables with each pattern and compares what the reader
// makes of it with what the format promises.
void check_flips(const Seed& seed, const std::vector<int>& patterns);
// Cuts the file at every length that is a multiple of `step`, and at every one below its content.
void check_cuts(const Seed& seed, size_t step);

}  // namespace ascendrt::test
