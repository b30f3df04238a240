#include "probe/faults.hpp"

#include "base/mutex.hpp"

namespace ascendrt::probe {

namespace detail {

std::atomic<bool> planned{false};

namespace {
struct Plan {
  base::RankedMutex mutex{base::Rank::kLeaf};
  std::string site;
  uint64_t pass = 0;
  uint64_t times = 0;
  uint64_t passed = 0;
};
Plan& plan() {
  static auto* const only = new Plan;  // leaked: sites are passed at exit too
  return *only;
}
}  // namespace

bool counts_and_fails(const char* site) {
  Plan& now = plan();
  const std::lock_guard lock(now.mutex);
  if (now.site != site) return false;
  ++now.passed;
  return now.pass != 0 && now.passed >= now.pass && now.passed - now.pass < now.times;
}

}  // namespace detail

void fail_from(const std::string& site, uint64_t pass, uint64_t times) {
  detail::Plan& now = detail::plan();
  const std::lock_guard lock(now.mutex);
  now.site = site;
  now.pass = pass;
  now.times = times;
  now.passed = 0;
  detail::planned.store(!site.empty(), std::memory_order_relaxed);
}

uint64_t passes() {
  detail::Plan& now = detail::plan();
  const std::lock_guard lock(now.mutex);
  return now.passed;
}

}  // namespace ascendrt::probe
