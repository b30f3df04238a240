#include "abi/stub.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <new>
#include <string>

#include "abi/boundary.hpp"

namespace ascendrt::abi {
namespace {

constexpr base::Code kNotSupported = 207000;  // ACL_ERROR_RT_FEATURE_NOT_SUPPORT

std::array<std::atomic<uint64_t>, kApiCount> g_calls;

// Plain stdio: a stub may be the first thing a process calls, before any logging exists.
void say(const char* name) noexcept {
  std::fprintf(stderr, "[ascendrt] %s is not emulated: it answers \"not supported\"\n", name);
}

}  // namespace

void stub_called(ApiId api) noexcept {
  // relaxed: a counter, nothing else is published with it.
  const uint64_t before = g_calls[static_cast<size_t>(api)].fetch_add(1, std::memory_order_relaxed);
  if (before == 0) say(api_name(api));
}

base::Code stub_status(ApiId api) noexcept {
  stub_called(api);
  try {
    return note_failure(api, {kNotSupported, base::Layer::kRuntime,
                              std::string(api_name(api)) +
                                  " is not emulated; use a call that `ascendrt coverage` lists"});
  } catch (const std::bad_alloc&) {
    return kNotSupported;
  }
}

void stub_cxx_called(const char* signature, std::atomic<bool>& said) noexcept {
  // relaxed: only decides who prints.
  if (!said.exchange(true, std::memory_order_relaxed)) say(signature);
}

uint32_t stub_cxx_status(const char* signature, std::atomic<bool>& said) noexcept {
  stub_cxx_called(signature, said);
  return static_cast<uint32_t>(kNotSupported);
}

uint64_t stub_calls(ApiId api) noexcept {
  return g_calls[static_cast<size_t>(api)].load(std::memory_order_relaxed);
}

}  // namespace ascendrt::abi
