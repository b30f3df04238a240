// Sizes and addresses as people read them, for error texts.
#pragma once

#include <cstdint>
#include <string>

namespace ascendrt::memory {

// "1.5 GiB (1610612736 bytes)"; below 1 KiB only the bytes.
std::string size_text(uint64_t bytes);
// "0x7f12a0000000"
std::string address_text(const void* address);

}  // namespace ascendrt::memory
