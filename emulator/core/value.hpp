// Values in device memory that streams write and wait for.
// Must never: touch memory but through memory::view.
#pragma once

#include <cstdint>

#include "core/graph.hpp"

namespace ascendrt::core {

class Stream;

// A write (type VALUE_WRITE) or a wait; what the recorded task shows and lets replace.
struct ValueTask : Watch {
  void* address = nullptr;
  uint64_t value = 0;
  uint32_t flag = 0;  // ACL_STREAM_WAIT_VALUE_*

  bool ready() override;
  bool foreign() override;
  void write() const;
};

void write_value(Stream& stream, void* address, uint64_t value);
void wait_value(Stream& stream, void* address, uint64_t value, uint32_t flag);
TaskBody value_body(const base::Ref<ValueTask>& task);

}  // namespace ascendrt::core
