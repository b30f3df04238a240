// The answers of gen/stubs.cpp: functions that a known client links but nothing implements.
// Owns: the "said once" notes and the call counts. Must never answer success for a status.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/error.hpp"
#include "gen/api_id.hpp"

namespace ascendrt::abi {

// Counts the call; the first one of each function is noted on stderr by name.
void stub_called(ApiId api) noexcept;
// Same, and sets the thread's error: answers 207000. Functions whose type has no room for a code
// leave it at the note.
base::Code stub_status(ApiId api) noexcept;
// The same two for C++ entries, named by their signature; `said` is the entry's own flag.
void stub_cxx_called(const char* signature, std::atomic<bool>& said) noexcept;
uint32_t stub_cxx_status(const char* signature, std::atomic<bool>& said) noexcept;
// How often a stub was called in this process.
uint64_t stub_calls(ApiId api) noexcept;

}  // namespace ascendrt::abi
