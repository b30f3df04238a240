// What calls cost the calling thread when time is modelled. Owns: the two doors. Must never: be
// reached in real time.
#include <algorithm>
#include <string>

#include "abi/boundary.hpp"
#include "base/config.hpp"
#include "core/executor.hpp"
#include "core/host_clock.hpp"
#include "core/stepped_executor.hpp"
#include "gen/call_costs.inc"

namespace ascendrt::abi {
namespace {

// Polling has to bring the clock forward, whatever the settings say.
constexpr double kLeastLookUs = 0.1;

core::CallCost cost_of(ApiId api) {
  const gen::TimingRow& figures = core::stepped_executor()->figures();
  const auto* found =
      std::lower_bound(std::begin(gen::kCallFigures), std::end(gen::kCallFigures), api,
                       [](const gen::CallFigure& each, ApiId wanted) { return each.api < wanted; });
  if (found == std::end(gen::kCallFigures) || found->api != api) return {figures.host_other_us};
  if (found->looks) return {std::max(figures.host_query_us, kLeastLookUs), true};
  return {found->figure != nullptr ? figures.*(found->figure) : 0};
}

bool wants_real_time() {
  const auto mode = base::env("ASCENDRT_CLOCK");
  return !mode || mode->empty() || *mode == "real";
}

}  // namespace

void HostCall::begin(ApiId api) {
  if (core::forked_child()) {
    base::fail(
        ACL_ERROR_RT_INTERNAL_ERROR,
        "this process was forked from one that already used the runtime; device state, streams "
        "and threads do not survive a fork: start workers with the 'spawn' method, or fork "
        "before the first call");
  }
  if (core::g_clock.load(std::memory_order_relaxed) == core::Clock::kUnknown) {
    if (wants_real_time()) {
      core::g_clock.store(core::Clock::kReal, std::memory_order_relaxed);
      return;
    }
    core::executor();
  }
  if (!core::time_is_modelled()) return;
  core::enter_host_call(api_name(api), cost_of(api));
  active_ = true;
}

void charge_bytes(double gen::TimingRow::* us_per_mb, uint64_t bytes) {
  if (!core::time_is_modelled()) return;
  core::charge_host_call(core::stepped_executor()->figures().*us_per_mb *
                         static_cast<double>(bytes) / 1e6);
}

void HostCall::end() { core::leave_host_call(); }

}  // namespace ascendrt::abi
