// Named places where a test can make the n-th pass fail. Owns: the plan and the counts.
// Must never: cost more than one relaxed load where nothing is planned.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ascendrt::probe {

namespace detail {
extern std::atomic<bool> planned;
bool counts_and_fails(const char* site);
}  // namespace detail

// True when this pass of the site is to fail. A failing site stays failed until fail_from() is
// called again: a retry must not hide it.
inline bool fails(const char* site) {
  return detail::planned.load(std::memory_order_relaxed) && detail::counts_and_fails(site);
}

// Lets the pass number `pass` (from 1) of a site fail, and `times` in all; pass 0 ends the plan.
void fail_from(const std::string& site, uint64_t pass, uint64_t times);
// Passes of the planned site so far.
uint64_t passes();

}  // namespace ascendrt::probe
