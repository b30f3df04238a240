// Control entries of the memory tiers, for `ascendrt smi`, memory_stats() and tests.
// Owns: their C form. Must never: touch the last error or the recent message of a thread.
#include <algorithm>
#include <string>

#include "abi/ctl.hpp"
#include "core/runtime.hpp"
#include "memory/report.hpp"
#include "probe/faults.hpp"

namespace ascendrt::abi {
namespace {

enum Question : int32_t { kStatistics, kSnapshot, kMachine, kLedgers };

std::string told(int32_t question) {
  if (question == kLedgers) return memory::ledgers_json();  // of all machines: needs none
  core::runtime();                                          // configures the memory layer
  switch (question) {
    case kStatistics:
      return memory::snapshot_json(false);
    case kSnapshot:
      return memory::snapshot_json(true);
    case kMachine:
      return memory::machine_json();
    default:
      base::fail(ACL_ERROR_INVALID_PARAM, "no such question: " + std::to_string(question));
  }
}

}  // namespace
}  // namespace ascendrt::abi

// Gives the text to `take` as JSON: 0 statistics, 1 with all live blocks, 2 the emulated machine,
// 3 the ledger files of this user.
// Returns 0, or a code and then the reason in place of the text.
ART_CTL int32_t art_ctl_memory(int32_t question, void (*take)(const char* text, void* to),
                               void* to) {
  const auto pass = [&](const std::string& text) { take(text.c_str(), to); };
  return ascendrt::abi::answer_with(pass, [&] { return ascendrt::abi::told(question); });
}

// live, reserved, ready, blocks, peak of this process on a device; as many as `count` asks for.
ART_CTL int32_t art_ctl_memory_figures(int32_t device, int64_t* out, size_t count) {
  return ascendrt::abi::answer(nullptr, 0, [&] {
    const auto figures = ascendrt::memory::device_figures(device);
    std::copy_n(figures.begin(), std::min(count, figures.size()), out);
    return std::string();
  });
}

// Makes the ledger file of an emulated machine new; the message says what was done or why not.
ART_CTL int32_t art_ctl_ledger_reset(const char* machine, char* message, size_t size) {
  return ascendrt::abi::answer(message, size,
                               [&] { return ascendrt::memory::reset_ledger(machine); });
}

// Removes the ledger files of this user that no process uses; tells `take` which, as JSON.
ART_CTL int32_t art_ctl_ledgers_clean(void (*take)(const char* text, void* to), void* to) {
  const auto pass = [&](const std::string& text) { take(text.c_str(), to); };
  return ascendrt::abi::answer_with(pass, ascendrt::memory::clean_ledgers_json);
}

// Lets passes of a fault site fail, see probe/faults.hpp; returns how often the site planned before
// was passed.
ART_CTL int64_t art_ctl_fault(const char* site, uint64_t pass, uint64_t times) {
  const auto passed = static_cast<int64_t>(ascendrt::probe::passes());
  ascendrt::probe::fail_from(site, pass, times);
  return passed;
}
