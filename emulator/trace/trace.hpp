// The trace of a run in modelled time: a file that Chrome and Perfetto show.
// Owns: the spans until they are written, and the file's form. Must never: hold an address or a
// real time; two equal runs give equal bytes.
#pragma once

#include "probe/probe.hpp"

namespace ascendrt::trace {

// The sink for the file that ASCENDRT_TRACE names; null when it is unset.
probe::Sink* from_environment();

}  // namespace ascendrt::trace
