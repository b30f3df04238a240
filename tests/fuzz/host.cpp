// Host memory as the fuzzers see it: less than libFuzzer's limit of one allocation.
#include <string>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/budget.hpp"

void ascendrt::memory::want_host(uint64_t bytes, const std::string& what) {
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, what + " needs " + std::to_string(bytes) + " bytes");
}
