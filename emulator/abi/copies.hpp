// Copies as the entries of several files need them. Must never: hold state.
#pragma once

#include <cstddef>
#include <utility>

#include "abi/boundary.hpp"
#include "core/stream.hpp"

namespace ascendrt::abi {

// The whole of aclrtMemcpy and aclrtMemcpyAsync.
void copy_blocking(void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind);
void copy_async(void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind,
                aclrtStream stream);

// Addresses are looked at when the engine gets to them, as on a card. What is wrong then is a
// failure of the task, which the stream delivers. src: 507013 is the copy engine's failure code
template <class F>
core::TaskBody task(F work) {
  return [work = std::move(work)]() -> base::Code {
    try {
      work();
    } catch (base::Error& error) {
      if (error.code == ACL_ERROR_RT_PARAM_INVALID) error.code = ACL_ERROR_RT_SYS_DMA;
      throw;
    }
    return 0;
  };
}

}  // namespace ascendrt::abi
