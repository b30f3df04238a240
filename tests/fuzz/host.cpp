// Host memory as the fuzzers see it: less than libFuzzer's limit of one allocation; what they hand
// over is there.
#include <string>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/budget.hpp"
#include "memory/fault.hpp"

void ascendrt::memory::want_host(uint64_t bytes, const std::string& what) {
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, what + " needs " + std::to_string(bytes) + " bytes");
}

void ascendrt::memory::check_readable(const void* /*address*/, uint64_t /*size_bytes*/,
                                      const char* /*what*/) {}
