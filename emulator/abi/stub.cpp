#include "abi/stub.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <new>
#include <string>

#include "abi/boundary.hpp"
#include "abi/ctl.hpp"

namespace ascendrt::abi {
namespace {

constexpr base::Code kNotSupported = 207000;  // ACL_ERROR_RT_FEATURE_NOT_SUPPORT

std::array<std::atomic<uint64_t>, kApiCount> g_calls;

// Plain stdio: a stub may be the first thing a process calls, before any logging exists.
void say(const char* name) noexcept {
  std::fprintf(stderr, "[ascendrt] %s is not emulated: it answers \"not supported\"\n", name);
}

base::Code note_absence(const char* name) noexcept {
  try {
    return note_failure_of(
        name, {kNotSupported, base::Layer::kRuntime,
               std::string(name) + " is not emulated; use a call that `ascendrt coverage` lists"});
  } catch (const std::bad_alloc&) {
    return kNotSupported;
  }
}

}  // namespace

void stub_called(ApiId api) noexcept {
  // relaxed: a counter, nothing else is published with it.
  const uint64_t before = g_calls[static_cast<size_t>(api)].fetch_add(1, std::memory_order_relaxed);
  if (before == 0) say(api_name(api));
}

base::Code stub_status(ApiId api) noexcept {
  stub_called(api);
  return note_absence(api_name(api));
}

void stub_cxx_called(const char* signature, std::atomic<bool>& said) noexcept {
  // relaxed: only decides who prints.
  if (!said.exchange(true, std::memory_order_relaxed)) say(signature);
}

uint32_t stub_cxx_status(const char* signature, std::atomic<bool>& said) noexcept {
  stub_cxx_called(signature, said);
  return static_cast<uint32_t>(note_absence(signature));
}

uint64_t stub_calls(ApiId api) noexcept {
  return g_calls[static_cast<size_t>(api)].load(std::memory_order_relaxed);
}

}  // namespace ascendrt::abi

// A client without link-time needs (the Python binding) called a function that no library has: it
// leaves the same text as a stub.
ART_CTL void art_ctl_absent(const char* name) { ascendrt::abi::note_absence(name); }
