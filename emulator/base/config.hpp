// Environment and configuration. The sole user of getenv.
// Must never: cache; a value is read once by its owner when the runtime starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ascendrt::base {

// Value of a variable, nothing when unset. Set-but-empty is an empty string.
std::optional<std::string> env(const char* name);

// Integer variable. Anything but a decimal integer in [min, max] raises 100000 with a text that
// names the variable, the value and the range.
int64_t env_int(const char* name, int64_t fallback, int64_t min, int64_t max);

// Size in bytes, with an optional suffix K, M, G or T (powers of 1024; "64G", "512MiB").
uint64_t env_size_bytes(const char* name, uint64_t fallback);

// A size written so; 0 is one. Nothing when it is none or does not fit.
std::optional<uint64_t> size_bytes(const std::string& text);

}  // namespace ascendrt::base
