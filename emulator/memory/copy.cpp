// Copies and fills by address. Must never: touch a device range that view() has not checked.
#include <cstring>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/fault.hpp"
#include "memory/memory.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

struct CopyJob {
  std::byte* dst;
  const std::byte* src;
  Rows rows;
};

void run_copy(void* argument) {
  const auto& job = *static_cast<const CopyJob*>(argument);
  for (uint64_t row = 0; row < job.rows.height; ++row) {
    std::memmove(job.dst + row * job.rows.dst_pitch, job.src + row * job.rows.src_pitch,
                 job.rows.width);
  }
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

// Views cannot fault; only host memory of the client can.
void run(void (*body)(void*), void* job, bool host) {
  if (!host) return body(job);
  const void* address = nullptr;
  if (survive_fault(body, job, &address)) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "host address " + address_text(address) +
                                             " cannot be read or written: the buffer is shorter "
                                             "than the size that was given, was freed, "
                                             "or is no address at all");
}

bool on_host(const void* address) { return locate(address).place != Place::kDevice; }

// Bytes from the first to the last one that the rows touch. Saturates.
uint64_t extent(uint64_t pitch, const Rows& rows) {
  uint64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(rows.height - 1, pitch, &bytes) ||
                        __builtin_add_overflow(bytes, rows.width, &bytes);
  return overflow ? UINT64_MAX : bytes;
}

}  // namespace

void copy_rows(void* dst, const void* src, const Rows& rows) {
  if (rows.height == 0 || rows.width == 0) return;
  CopyJob job{static_cast<std::byte*>(view(dst, extent(rows.dst_pitch, rows))),
              static_cast<const std::byte*>(view(src, extent(rows.src_pitch, rows))), rows};
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
