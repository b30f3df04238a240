// Entries: writing and waiting for values in device memory. Must never: hold state of its own.
#include "core/value.hpp"

#include <string>

#include "abi/boundary.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

namespace {

// src: manual of aclrtValueWrite, table of products
void check_chip() {
  const gen::Soc& soc = core::runtime().soc();
  if (!core::is_old_scheduler(soc) && !core::is_310b(soc)) return;
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             std::string(soc.name) + " has no value tasks; use events",
             base::Layer::kRuntimeNotStored);
}

// The stream, after what does not need a context was found right.
base::Ref<core::Stream> stream_for(const void* address, uint32_t flag, uint32_t last,
                                   aclrtStream handle) {
  check_not_null(address, "devAddr");
  check_chip();
  const auto stream = core::stream_behind(handle);
  if (flag > last) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "flag " + std::to_string(flag) + "; it is at most " + std::to_string(last));
  }
  const auto value = reinterpret_cast<uintptr_t>(address);
  if (memory::locate(address).place != memory::Place::kDevice || value % sizeof(uint64_t) != 0) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "argument devAddr is no device memory of 8 bytes, aligned to 8; allocate it with "
               "aclrtMalloc");
  }
  return core::in_current_context(stream);
}

}  // namespace

extern "C" {

aclError art_emu_aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return call<ApiId::aclrtValueWrite>(
      [&] { core::write_value(*stream_for(devAddr, flag, 0, stream), devAddr, value); });
}

aclError art_emu_aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return call<ApiId::aclrtValueWait>([&] {
    const auto queue = stream_for(devAddr, flag, ACL_STREAM_WAIT_VALUE_NOR, stream);
    core::wait_value(*queue, devAddr, value, flag);
  });
}

}  // extern "C"
