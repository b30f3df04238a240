// Pseudo-random numbers that a seed repeats on every machine. The sole source of randomness.
// Must never: hold hidden state; who draws keeps the counter.
#pragma once

#include <cstdint>

namespace ascendrt::base {

// Mixes a seed and the number of the draw (splitmix64).
constexpr uint64_t random_at(uint64_t seed, uint64_t draw) {
  uint64_t z = seed + (draw + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace ascendrt::base
