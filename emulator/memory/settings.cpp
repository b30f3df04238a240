#include "memory/settings.hpp"

#include <array>

#include "base/config.hpp"
#include "base/error.hpp"
#include "gen/abi.h"

namespace ascendrt::memory {
namespace {

struct Knob {
  const char* variable;
  const char* name;  // in the JSON of aclInit
  uint64_t MemorySettings::* field;
  uint64_t max;
};
constexpr uint64_t kMostBytes = 1ULL << 40;
constexpr std::array kKnobs{
    Knob{"ASCEND_RT_MEM_POOL_SIZE", "pool_size", &MemorySettings::pool_bytes, kMostBytes},
    Knob{"ASCENDRT_MEMORY_GROWTH", "growth", &MemorySettings::growth_bytes, kMostBytes},
    Knob{"ASCENDRT_MEMORY_THREAD_CACHE", "thread_cache", &MemorySettings::thread_cache_bytes,
         kMostBytes},
    Knob{"ASCENDRT_MEMORY_CACHE", "cache", &MemorySettings::cache_bytes, kMostBytes},
    Knob{"ASCENDRT_MEMORY_FRAGMENTATION", "fragmentation", &MemorySettings::fragmentation_percent,
         100},
};

[[noreturn]] void refuse(const std::string& what, const std::string& value, uint64_t max) {
  base::fail(ACL_ERROR_INVALID_PARAM, what + "='" + value + "' is not " +
                                          (max == 100 ? "a number of percent from 0 to 100"
                                                      : "a size from 0 to 1T such as 64M"));
}

uint64_t parse(const std::string& what, const std::string& value, uint64_t max) {
  const auto bytes = base::size_bytes(value);
  if (!bytes || *bytes > max) refuse(what, value, max);
  return *bytes;
}

bool read_switch(const char* name) { return base::env_int(name, 0, 0, 1) == 1; }

// One knob by its name in the configuration.
void set(MemorySettings& settings, const std::string& name, const std::string& value) {
  std::string known;
  for (const Knob& knob : kKnobs) {
    if (name == knob.name) {
      settings.*knob.field = parse("memory." + name + " in the configuration", value, knob.max);
      return;
    }
    known += known.empty() ? "" : ", ";
    known += knob.name;
  }
  base::fail(ACL_ERROR_INVALID_PARAM,
             "memory." + name + " in the configuration is no knob; known are: " + known);
}

}  // namespace

MemorySettings MemorySettings::read(const Section& section) {
  MemorySettings settings;
  for (const auto& [name, value] : section) set(settings, name, value);
  for (const Knob& knob : kKnobs) {
    const auto value = base::env(knob.variable);
    if (value && !value->empty()) {
      settings.*knob.field =
          parse(std::string("environment variable ") + knob.variable, *value, knob.max);
    }
  }
  settings.context_reclaim = read_switch("ASCENDRT_CONTEXT_RECLAIM");
  settings.trace = read_switch("ASCENDRT_MEMORY_TRACE");
  return settings;
}

}  // namespace ascendrt::memory
