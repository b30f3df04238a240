// Entries: copies and fills. Must never: hold state of its own, or touch memory but through
// memory/.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/boundary.hpp"
#include "abi/copies.hpp"
#include "core/capture.hpp"
#include "core/chip.hpp"
#include "core/context.hpp"
#include "core/device.hpp"
#include "core/executor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"
#include "gen/prototypes.h"
#include "memory/memory.hpp"

namespace ascendrt::abi {
namespace {

using core::Engine;
using memory::Place;

constexpr uint64_t kWidthMax = 5'000'000;
constexpr uint64_t kHeightMax = 5 * 1024 * 1024;
constexpr int64_t kForever = -1;

void check_kind(aclrtMemcpyKind kind, aclrtMemcpyKind first, aclrtMemcpyKind last) {
  if (kind >= first && kind <= last) return;
  refuse_argument("argument kind is " + std::to_string(kind) + ", not one of " +
                  std::to_string(first) + ".." + std::to_string(last));
}

void check_fits(uint64_t count, uint64_t room, const char* room_name) {
  if (count <= room && room != 0) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument count is " + std::to_string(count) + ", but " +
                                             room_name + " is " + std::to_string(room) +
                                             "; the destination is too small");
}

// The context of calls that do not take the JSON default device. src: rules S1 of aclInit.
base::Ref<core::Context> context_without_default() {
  auto context = core::current_context_or_null();
  if (!context) {
    base::fail(ACL_ERROR_RT_CONTEXT_NULL,
               "the calling thread has set no device (or it was reset since); call aclrtSetDevice "
               "or aclrtSetCurrentContext in this thread");
  }
  return context;
}

const char* name_of(Place place) {
  switch (place) {
    case Place::kPageable:
      return "pageable host memory";
    case Place::kPinned:
      return "pinned host memory";
    case Place::kManaged:
      return "managed memory";
    default:
      return "device memory";
  }
}

// What a device uses as its own.
bool on_device(Place place) { return place == Place::kDevice || place == Place::kManaged; }

aclrtMemcpyKind kind_between(Place dst, Place src) {
  const bool to_device = on_device(dst);
  if (on_device(src)) {
    return to_device ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
  }
  return to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_HOST;
}

// Kinds that are accepted besides the true one when one side is pageable.
bool accepts(Place dst, Place src, aclrtMemcpyKind kind) {
  if (dst == Place::kDevice || src == Place::kDevice) return kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  if (src == Place::kPinned) return kind == ACL_MEMCPY_HOST_TO_DEVICE;
  if (dst == Place::kPinned) return kind == ACL_MEMCPY_DEVICE_TO_HOST;
  return true;  // pageable on both sides
}

// The kind that counts. Between places the runtime knows it is the true one, whatever was given;
// with pageable memory the given one, if it fits. src: hicann/runtime api_error.cc, table of
// section 6.
aclrtMemcpyKind effective_kind(Place dst, Place src, aclrtMemcpyKind kind) {
  const aclrtMemcpyKind true_kind = kind_between(dst, src);
  const bool managed = dst == Place::kManaged || src == Place::kManaged;
  if (managed) return kind == ACL_MEMCPY_DEFAULT ? true_kind : kind;
  if (dst != Place::kPageable && src != Place::kPageable) return true_kind;
  if (kind == ACL_MEMCPY_DEFAULT || kind == true_kind) return true_kind;
  if (accepts(dst, src, kind)) return kind;
  base::fail(ACL_ERROR_RT_PARAM_INVALID, "argument kind is " + std::to_string(kind) +
                                             ", but the copy goes from " + name_of(src) + " to " +
                                             name_of(dst) + "; use ACL_MEMCPY_DEFAULT");
}

Engine engine_of(aclrtMemcpyKind kind) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_DEVICE:
      return Engine::kHostToDevice;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return Engine::kDeviceToHost;
    default:
      return Engine::kDeviceToDevice;
  }
}

core::Load load_between(Place dst, Place src, uint64_t bytes) {
  core::Load load;
  load.bytes = bytes;
  load.pageable = dst == Place::kPageable || src == Place::kPageable;
  return load;
}

// Work the caller waits for. With modelled time it takes its turn on the copy engine.
template <class F>
void blocking(const core::Context& context, const void* dst, const void* src, uint64_t bytes,
              F work) {
  if (!core::time_is_modelled()) return work();
  const Place to = memory::locate(dst).place;
  const Place from = memory::locate(src).place;
  const aclrtMemcpyKind kind = kind_between(to, from);
  if (kind == ACL_MEMCPY_HOST_TO_HOST) return work();
  core::executor().transfer(context.device().index(), engine_of(kind), "memcpy",
                            load_between(to, from, bytes), std::move(work));
}

}  // namespace

void copy_blocking(void* dst, size_t dest_max, const void* src, size_t count,
                   aclrtMemcpyKind kind) {
  if (count == 0) return;
  check_not_null(dst, "dst");
  check_not_null(src, "src");
  check_kind(kind, ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
  check_fits(count, dest_max, "destMax");
  if (dst == src) return;
  core::Context& context = core::borrow_current_context();
  core::check_blocking_allowed();
  blocking(context, dst, src, count, [=] { memory::copy(dst, src, count); });
}

namespace {

// The client may reuse the source at once: it is copied aside before the call returns.
void copy_buffered(core::Stream& stream, void* dst, const void* src, size_t count) {
  const auto buffer = std::make_shared<std::vector<std::byte>>(count);
  memory::copy(buffer->data(), src, count);
  stream.submit(Engine::kHostToDevice, "memcpy",
                task([=] { memory::copy(dst, buffer->data(), count); }),
                load_between(Place::kDevice, Place::kPageable, count));
}

// Copies of pageable memory wait for the stream and block, which a capture may forbid.
void check_may_block(const base::Ref<core::Stream>& stream) {
  if (stream && stream->capturing()) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               "stream " + std::to_string(stream->id()) +
                   " is captured, and a copy of pageable host memory cannot be; use memory of "
                   "aclrtMallocHost");
  }
  if (!core::capture_forbids_blocking()) return;
  base::fail(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
             "a copy of pageable host memory blocks, which a capture under way forbids; use memory "
             "of aclrtMallocHost, or allow it with aclmdlRICaptureThreadExchangeMode (RELAXED)");
}

}  // namespace

void copy_async(void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind,
                aclrtStream handle) {
  if (count == 0) return;
  check_not_null(dst, "dst");
  check_not_null(src, "src");
  check_kind(kind, ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
  const auto stream = core::stream_behind(handle);
  check_fits(count, dest_max, "destMax");
  const auto context = context_without_default();
  if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
    return copy_buffered(*core::in_current_context(stream), dst, src, count);
  }
  const Place to = memory::locate(dst).place;
  const Place from = memory::locate(src).place;
  const aclrtMemcpyKind real = effective_kind(to, from, kind);
  if (real == ACL_MEMCPY_HOST_TO_HOST) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "host to host is not a copy for the device; use memcpy, or aclrtMemcpy",
               base::Layer::kRuntimeNotStored);
  }
  if (dst == src) return;
  const bool pageable = to == Place::kPageable || from == Place::kPageable;
  if (pageable && real != ACL_MEMCPY_DEVICE_TO_DEVICE) {
    check_may_block(stream);
    (stream ? stream : context->default_stream())->synchronize_or_raise(kForever);
    return blocking(*context, dst, src, count, [=] { memory::copy(dst, src, count); });
  }
  core::in_current_context(stream)->submit(engine_of(real), "memcpy",
                                           task([=] { memory::copy(dst, src, count); }),
                                           load_between(to, from, count));
}

namespace {

// Arguments of both 2D forms after the shortcut for nothing to copy.
void check_rows(const void* dst, const void* src, const memory::Rows& rows, aclrtMemcpyKind kind) {
  check_not_null(dst, "dst");
  check_not_null(src, "src");
  if (rows.width > rows.dst_pitch || rows.width > rows.src_pitch) {
    refuse_argument("argument width is " + std::to_string(rows.width) + ", above a pitch (dpitch " +
                    std::to_string(rows.dst_pitch) + ", spitch " + std::to_string(rows.src_pitch) +
                    ")");
  }
  check_kind(kind, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEFAULT);
}

void check_limits(const memory::Rows& rows) {
  if (rows.width <= kWidthMax && rows.height <= kHeightMax) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "a 2D copy of " + std::to_string(rows.height) + " rows of " +
                 std::to_string(rows.width) + " bytes is above the limits, " +
                 std::to_string(kHeightMax) + " rows and " + std::to_string(kWidthMax) + " bytes");
}

[[noreturn]] void refuse_direction(Place dst, Place src, const char* allowed) {
  base::fail(ACL_ERROR_RT_PARAM_INVALID, std::string("a 2D copy from ") + name_of(src) + " to " +
                                             name_of(dst) + " is not possible, only " + allowed);
}

// The driver of a board on which the 310B is the root complex has no copy of rows.
// src: the manual page of aclrtMemcpy2d; 207000 is what such a board was seen to say
void check_rows_there() {
  if (!core::is_310b(core::runtime().soc()) || !memory::open_mode()) return;
  base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             "driver error: feature not support. A board whose host and device are one (a 310B as "
             "root complex, ASCENDRT_DEVICE_MEMORY=open here) copies no rows; copy each with "
             "aclrtMemcpy, or all of them at once");
}

void copy_rows_blocking(void* dst, const void* src, const memory::Rows& rows,
                        aclrtMemcpyKind kind) {
  if (rows.width == 0 || rows.height == 0) return;
  check_rows(dst, src, rows, kind);
  check_limits(rows);
  if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
    base::fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "aclrtMemcpy2d does not copy inside the device; use aclrtMemcpy2dAsync");
  }
  const Place to = memory::locate(dst).place;
  const Place from = memory::locate(src).place;
  if (on_device(to) == on_device(from)) {
    refuse_direction(to, from, "host to device and back");
  }
  const auto context = core::current_context();
  core::check_blocking_allowed();
  check_rows_there();
  blocking(*context, dst, src, rows.width * rows.height,
           [=] { memory::copy_rows(dst, src, rows); });
}

// Chips with the older scheduler (and 310B) take no null stream here, and say so before anything is
// said about a context. src: hicann/runtime api_error.cc, rule S6 of aclrtMemcpy2dAsync
void check_null_stream() {
  const gen::Soc& soc = core::runtime().soc();
  if (core::is_old_scheduler(soc) || core::is_310b(soc)) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID,
               std::string(soc.name) + " needs a stream here, null is not the default stream");
  }
  core::current_context();
}

void copy_rows_async(void* dst, const void* src, const memory::Rows& rows, aclrtMemcpyKind kind,
                     aclrtStream handle) {
  if (rows.width == 0 || rows.height == 0) return;
  check_rows(dst, src, rows, kind);
  const auto stream = core::stream_behind(handle);
  check_limits(rows);
  if (!stream) check_null_stream();
  const Place to = memory::locate(dst).place;
  const Place from = memory::locate(src).place;
  const aclrtMemcpyKind real = kind_between(to, from);
  if (real == ACL_MEMCPY_HOST_TO_HOST) {
    refuse_direction(to, from, "host to device and back, and device to device");
  }
  const auto queue = core::in_current_context(stream);
  check_rows_there();
  if (to == Place::kPageable || from == Place::kPageable) {
    check_may_block(queue);
    queue->synchronize_or_raise(kForever);
    return blocking(queue->context(), dst, src, rows.width * rows.height,
                    [=] { memory::copy_rows(dst, src, rows); });
  }
  queue->submit(engine_of(real), "memcpy2d", task([=] { memory::copy_rows(dst, src, rows); }),
                load_between(to, from, rows.width * rows.height));
}

void check_fillable(const void* address) {
  if (memory::locate(address).place != Place::kPageable) return;
  base::fail(
      ACL_ERROR_RT_PARAM_INVALID,
      "argument devPtr is neither device memory nor memory of aclrtMallocHost; use memset for "
      "ordinary host memory");
}

}  // namespace
}  // namespace ascendrt::abi

using namespace ascendrt;       // NOLINT(google-build-using-namespace)
using namespace ascendrt::abi;  // NOLINT(google-build-using-namespace)

extern "C" {

aclError art_emu_aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                             aclrtMemcpyKind kind) {
  return call<ApiId::aclrtMemcpy>([&] { copy_blocking(dst, destMax, src, count, kind); });
}

aclError art_emu_aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                  aclrtMemcpyKind kind, aclrtStream stream) {
  return call<ApiId::aclrtMemcpyAsync>([&] { copy_async(dst, destMax, src, count, kind, stream); });
}

aclError art_emu_aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch,
                               size_t width, size_t height, aclrtMemcpyKind kind) {
  return call<ApiId::aclrtMemcpy2d>(
      [&] { copy_rows_blocking(dst, src, {width, height, dpitch, spitch}, kind); });
}

aclError art_emu_aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                                    size_t width, size_t height, aclrtMemcpyKind kind,
                                    aclrtStream stream) {
  return call<ApiId::aclrtMemcpy2dAsync>(
      [&] { copy_rows_async(dst, src, {width, height, dpitch, spitch}, kind, stream); });
}

aclError art_emu_aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return call<ApiId::aclrtMemset>([&] {
    if (count == 0) return;
    check_not_null(devPtr, "devPtr");
    const auto context = core::current_context();
    check_fits(count, maxCount, "maxCount");
    check_fillable(devPtr);
    core::check_blocking_allowed();
    blocking(*context, devPtr, devPtr, count, [=] { memory::fill(devPtr, value, count); });
  });
}

aclError art_emu_aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                  aclrtStream stream) {
  return call<ApiId::aclrtMemsetAsync>([&] {
    if (count == 0) return;
    check_not_null(devPtr, "devPtr");
    const base::Peek inside;
    core::Stream* given = core::peek_stream(stream);
    check_fits(count, maxCount, "maxCount");
    core::Stream& queue = core::peek_in_current_context(given);
    check_fillable(devPtr);
    queue.submit(Engine::kDeviceToDevice, "memset",
                 task([=] { memory::fill(devPtr, value, count); }),
                 load_between(Place::kDevice, Place::kDevice, count));
  });
}

}  // extern "C"
