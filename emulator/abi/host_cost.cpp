// What calls cost the calling thread when time is modelled. Owns: which figure of the timing table
// stands for which function. Must never: be reached in real time.
#include <memory>
#include <string>

#include "abi/boundary.hpp"
#include "base/config.hpp"
#include "core/executor.hpp"
#include "core/host_clock.hpp"
#include "core/stepped_executor.hpp"
#include "gen/timing.inc"

namespace ascendrt::abi {
namespace {

struct Class {
  double gen::TimingRow::* figure = &gen::TimingRow::host_other_us;
  bool looks = false;
};

// Polling has to bring the clock forward, whatever the settings say.
constexpr double kLeastLookUs = 0.1;

Class class_of(ApiId api) {
  using Row = gen::TimingRow;
  switch (api) {
    case ApiId::aclrtMemcpyAsync:
    case ApiId::aclrtMemcpy:
    case ApiId::aclrtMemcpy2d:
    case ApiId::aclrtMemcpy2dAsync:
    case ApiId::aclrtMemset:
    case ApiId::aclrtMemsetAsync:
    case ApiId::aclrtLaunchHostFunc:
    case ApiId::aclrtLaunchCallback:
      return {&Row::host_launch_us};
    case ApiId::aclmdlExecute:
    case ApiId::aclmdlExecuteAsync:
      return {&Row::host_model_us};
    case ApiId::aclrtRecordEvent:
    case ApiId::aclrtResetEvent:
    case ApiId::aclrtStreamWaitEvent:
    case ApiId::aclrtStreamWaitEventWithTimeout:
      return {&Row::host_event_us};
    case ApiId::aclrtCreateEvent:
    case ApiId::aclrtCreateEventWithFlag:
    case ApiId::aclrtCreateEventExWithFlag:
    case ApiId::aclrtDestroyEvent:
      return {&Row::host_event_create_us};
    case ApiId::aclrtStreamQuery:
    case ApiId::aclrtQueryEvent:
    case ApiId::aclrtQueryEventStatus:
    case ApiId::aclrtQueryEventWaitStatus:
    case ApiId::aclrtEventElapsedTime:
    case ApiId::aclrtEventGetTimestamp:
    case ApiId::aclrtGetEventId:
    case ApiId::aclrtGetEventAvailNum:
      return {&Row::host_query_us, true};
    case ApiId::aclrtMalloc:
    case ApiId::aclrtMallocAlign32:
    case ApiId::aclrtMallocCached:
    case ApiId::aclrtMallocWithCfg:
      return {&Row::host_malloc_us};
    case ApiId::aclrtFree:
      return {&Row::host_free_us};
    case ApiId::aclrtMallocHost:
      return {&Row::host_malloc_host_us};
    case ApiId::aclInit:
      return {&Row::host_init_us};
    case ApiId::aclrtSetDevice:
      return {&Row::host_set_device_us};
    case ApiId::aclFinalize:
      return {&Row::host_finalize_us};
    case ApiId::aclrtSynchronizeStream:
    case ApiId::aclrtSynchronizeStreamWithTimeout:
    case ApiId::aclrtSynchronizeDevice:
    case ApiId::aclrtSynchronizeDeviceWithTimeout:
    case ApiId::aclrtSynchronizeEvent:
    case ApiId::aclrtSynchronizeEventWithTimeout:
    case ApiId::aclrtProcessReport:
      return {nullptr};  // the wait itself is charged at its end
    default:
      return {};
  }
}

bool wants_real_time() {
  const auto mode = base::env("ASCENDRT_CLOCK");
  return !mode || mode->empty() || *mode == "real";
}

}  // namespace

void HostCall::begin(ApiId api) {
  if (core::g_clock.load(std::memory_order_relaxed) == core::Clock::kUnknown) {
    if (wants_real_time()) {
      core::g_clock.store(core::Clock::kReal, std::memory_order_relaxed);
      return;
    }
    core::executor();
  }
  if (!core::time_is_modelled()) return;
  const Class found = class_of(api);
  core::CallCost cost;
  if (found.figure != nullptr) cost.us = core::stepped_executor()->figures().*found.figure;
  cost.looks = found.looks;
  if (cost.looks && cost.us < kLeastLookUs) cost.us = kLeastLookUs;
  core::enter_host_call(api_name(api), cost);
  active_ = true;
}

void HostCall::end() { core::leave_host_call(); }

}  // namespace ascendrt::abi
