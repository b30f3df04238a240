// The one exception type of the core. Owns: code, layer and text of a failure.
// Must never: know ABI function names, cross the C boundary (abi/boundary.hpp is the only catch).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/printable.hpp"

namespace ascendrt::base {

using Code = int32_t;

// Which layer of the real runtime finds the mistake. Failures of the acl layer are returned to the
// caller but are not stored as the thread's last error; failures of the runtime layer are.
enum class Layer : uint8_t { kAcl, kRuntime, kRuntimeNotStored };

struct Error {
  Code code;
  Layer layer;
  std::string text;  // what happened, with argument names and ids; likely cause and fix
};

// The text may name things of files: control characters in it are escaped here, once for all.
[[noreturn]] inline void fail(Code code, const std::string& text, Layer layer = Layer::kRuntime) {
  throw Error{code, layer, printable(text, true)};
}

}  // namespace ascendrt::base
