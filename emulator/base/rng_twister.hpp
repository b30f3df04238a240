// The Mersenne twister, where results must be those of libraries that draw from it.
// Must never: seed itself.
#pragma once

#include <cstdint>
#include <random>

namespace ascendrt::base {

class Twister {
 public:
  explicit Twister(uint32_t seed) : source_(seed) {}
  // 53 random bits as a number in [0, 1).
  double uniform() {
    const double high = source_() >> 5U;
    const double low = source_() >> 6U;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

 private:
  std::mt19937 source_;
};

}  // namespace ascendrt::base
