// What the language has no words for on the hot paths.
// Owns: hints to processor and loader. Must never: change what a program means.
#pragma once

#include <cstddef>

// thread_local for a few hot words without destructors: reached by one load where the library's
// others cost a call. Some 100 bytes in all, the loader has little of that room for a library that
// is loaded late.
#define ART_FAST_THREAD_LOCAL [[gnu::tls_model("initial-exec")]] constinit thread_local

namespace ascendrt::base {

inline constexpr size_t kCacheLine = 64;

// This thread only looks again.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The object will be written soon: fetches it from the processor that has it. Any address will do.
template <class T>
void prefetch_for_write(const T* object) {
  const auto* bytes = reinterpret_cast<const std::byte*>(object);
  for (size_t line = 0; line < sizeof(T); line += kCacheLine) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(bytes[line]));
#else
    __builtin_prefetch(bytes + line, 1);
#endif
  }
}

}  // namespace ascendrt::base
