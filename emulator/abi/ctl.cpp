// Control entries art_ctl_*: what the project's own tools ask of the core beyond the vendor's ABI.
// No facade carries them. Owns: their C form (texts go into the caller's buffer, cut and
// terminated). Must never: touch the last error or the recent message of a thread.
#include "abi/ctl.hpp"

#include <string>

#include "memory/memory.hpp"
#include "model/convert.hpp"

namespace ascendrt::abi {
namespace {

std::string convert(const char* onnx, const char* om, const char* options) {
  if (onnx == nullptr || om == nullptr) base::fail(ACL_ERROR_INVALID_PARAM, "a path is missing");
  model::convert_onnx_file(onnx, om, model::parse_convert_options(options ? options : ""));
  return {};
}

}  // namespace
}  // namespace ascendrt::abi

// Converts an ONNX file to an OM file. `options` are lines as model::parse_convert_options reads
// them, or null. Returns 0, or a code with its text in `message`; then nothing was written.
ART_CTL int32_t art_ctl_om_convert(const char* onnx, const char* om, const char* options,
                                   char* message, size_t size) {
  return ascendrt::abi::answer(message, size,
                               [&] { return ascendrt::abi::convert(onnx, om, options); });
}

// What pages back device memory, in words.
ART_CTL int32_t art_ctl_page_kind(char* text, size_t size) {
  return ascendrt::abi::answer(text, size, [] { return ascendrt::memory::page_kind(); });
}
