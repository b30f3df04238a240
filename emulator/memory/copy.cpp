// Copies and fills by address. Must never: touch a device range that view() has not checked.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/fault.hpp"
#include "memory/machine.hpp"
#include "memory/memory.hpp"
#include "memory/text.hpp"
#include "memory/virtual.hpp"
#include "ops/parallel.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ascendrt::memory {
namespace {

// Note [Large copies]
// What does not fit the caches is written past them: no line of the destination is read before it
// is overwritten, and nothing useful is driven out. From kShareFrom on a second thread copies half
// of the pieces; one core does not use up the bandwidth of the memory.
constexpr uint64_t kStreamFrom = (4ULL << 20) + 1;
constexpr uint64_t kShareFrom = 16ULL << 20;
constexpr uint64_t kPiece = 2ULL << 20;
constexpr unsigned kThreads = 2;

bool disjoint(const std::byte* dst, const std::byte* src, uint64_t bytes) {
  const auto distance = reinterpret_cast<uintptr_t>(dst) - reinterpret_cast<uintptr_t>(src);
  return std::min(distance, ~distance + 1) >= bytes;
}

void copy_past_caches(std::byte* dst, const std::byte* src, uint64_t bytes) {
#if defined(__x86_64__)
  constexpr uint64_t kLine = 64;
  const uint64_t head = std::min(-reinterpret_cast<uintptr_t>(dst) % kLine, bytes);
  std::memcpy(dst, src, head);
  uint64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(src + at);
    auto* to = reinterpret_cast<__m128i*>(dst + at);
    const __m128i line[] = {_mm_loadu_si128(from), _mm_loadu_si128(from + 1),
                            _mm_loadu_si128(from + 2), _mm_loadu_si128(from + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, line[i]);
  }
  _mm_sfence();  // these stores are not ordered otherwise
  std::memcpy(dst + at, src + at, bytes - at);
#else
  std::memcpy(dst, src, bytes);
#endif
}

constexpr uint64_t kSmallestPage = 4096;

struct CopyJob {
  std::byte* dst;
  const std::byte* src;
  Rows rows;
};

void run_copy(void* argument) {
  const auto& job = *static_cast<const CopyJob*>(argument);
  for (uint64_t row = 0; row < job.rows.height; ++row) {
    std::byte* dst = job.dst + row * job.rows.dst_pitch;
    const std::byte* src = job.src + row * job.rows.src_pitch;
    const uint64_t width = job.rows.width;
    if (width >= kStreamFrom && disjoint(dst, src, width)) {
      copy_past_caches(dst, src, width);
    } else {
      std::memmove(dst, src, width);
    }
  }
}

void run_piece(void* argument) {
  const auto& job = *static_cast<const CopyJob*>(argument);
  copy_past_caches(job.dst, job.src, job.rows.width);
}

struct FillJob {
  void* dst;
  int value;
  uint64_t bytes;
};

void run_fill(void* argument) {
  const auto& job = *static_cast<const FillJob*>(argument);
  std::memset(job.dst, job.value, job.bytes);
}

[[noreturn]] void refuse_host_address(const void* address) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "host address " + address_text(address) +
                                             " cannot be read or written: the buffer is shorter "
                                             "than the size that was given, was freed, "
                                             "or is no address at all");
}

// Views cannot fault; only host memory of the client can.
void run(void (*body)(void*), void* job, bool host) {
  if (!host) return body(job);
  const void* address = nullptr;
  if (!survive_fault(body, job, &address)) refuse_host_address(address);
}

struct TouchJob {
  const std::byte* first;
  uint64_t bytes;
};

void run_touch(void* argument) {
  const auto& job = *static_cast<const TouchJob*>(argument);
  for (uint64_t at = 0; at < job.bytes; at += kSmallestPage) {
    static_cast<void>(*static_cast<const volatile std::byte*>(job.first + at));
  }
  static_cast<void>(*static_cast<const volatile std::byte*>(job.first + job.bytes - 1));
}

// Leaked on purpose: its thread may be at work when the process ends.
ops::Workers& copiers() {
  static auto* const workers =
      new ops::Workers(static_cast<int>(std::min(kThreads, std::thread::hardware_concurrency())));
  return *workers;
}

void copy_shared(const CopyJob& whole) {
  const uint64_t bytes = whole.rows.width;
  std::atomic<const void*> fault{nullptr};
  ops::parallel_ranges({copiers()}, static_cast<int64_t>(bytes), kPiece,
                       [&](int64_t begin, int64_t end) {
                         const auto width = static_cast<uint64_t>(end - begin);
                         CopyJob piece{whole.dst + begin, whole.src + begin, {width, 1, 0, 0}};
                         const void* address = nullptr;
                         if (!survive_fault(run_piece, &piece, &address)) fault.store(address);
                       });
  if (fault.load() != nullptr) refuse_host_address(fault.load());
}

bool on_host(const void* address) {
  const Machine* all = machine_or_null();
  if (all != nullptr && all->device_of(address) >= 0) return false;
  const Virtual* reserved = virtual_memory_or_null();
  return reserved == nullptr || !reserved->holds(address) ||
         reserved->locate(address).place != Place::kDevice;
}

// Bytes from the first to the last one that the rows touch. Saturates.
uint64_t extent(uint64_t pitch, const Rows& rows) {
  uint64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(rows.height - 1, pitch, &bytes) ||
                        __builtin_add_overflow(bytes, rows.width, &bytes);
  return overflow ? UINT64_MAX : bytes;
}

}  // namespace

void check_readable(const void* address, uint64_t size_bytes, const char* what) {
  if (size_bytes == 0) return;
  TouchJob job{static_cast<const std::byte*>(address), size_bytes};
  const void* fault = nullptr;
  if (address != nullptr && survive_fault(run_touch, &job, &fault)) return;
  base::fail(ACL_ERROR_INVALID_PARAM,
             "argument " + std::string(what) + " says " + std::to_string(size_bytes) +
                 " bytes at " + address_text(address) + ", which the host cannot read: device " +
                 "memory (copy it to the host first), less memory than that, or no address at all",
             base::Layer::kAcl);
}

void copy_rows(void* dst, const void* src, const Rows& rows) {
  if (rows.height == 0 || rows.width == 0) return;
  CopyJob job{static_cast<std::byte*>(view(dst, extent(rows.dst_pitch, rows))),
              static_cast<const std::byte*>(view(src, extent(rows.src_pitch, rows))), rows};
  if (rows.height == 1 && rows.width >= kShareFrom && disjoint(job.dst, job.src, rows.width)) {
    return copy_shared(job);
  }
  run(run_copy, &job, on_host(dst) || on_host(src));
}

void copy(void* dst, const void* src, uint64_t size_bytes) {
  copy_rows(dst, src, {size_bytes, 1, size_bytes, size_bytes});
}

void fill(void* dst, int32_t value, uint64_t size_bytes) {
  FillJob job{view(dst, size_bytes), value, size_bytes};
  run(run_fill, &job, on_host(dst));
}

}  // namespace ascendrt::memory
