// The seam for instruments: what the runtime tells about tasks and calls of modelled time.
// Owns: the one sink. Must never: cost anything while there is none, or be told under a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ascendrt::probe {

struct TaskSpan {
  const char* name = "";
  const char* label = nullptr;   // of the operator; may be null
  const char* engine = nullptr;  // static
  int32_t device = 0;
  int32_t stream = 0;  // -1: a copy that a host thread waits for
  uint32_t task = 0;   // number within the stream
  uint32_t cores = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct CallSpan {
  const char* name = "";
  uint32_t thread = 0;  // in the order of first calls
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// How the figures came about; goes into the header.
struct RunFacts {
  std::string clock;
  std::string soc;
  std::string timing;            // settings that differ from the chip's row
  std::optional<uint64_t> seed;  // of ASCENDRT_SCHED_SEED
  uint32_t host_threads = 0;
  uint64_t overtaken = 0;  // calls that came after the clock had gone on without their thread
};

class Sink {
 public:
  virtual void task(const TaskSpan& span) = 0;
  virtual void call(const CallSpan& span) = 0;
  // May come several times; the last one counts.
  virtual void write(const RunFacts& facts) = 0;

 protected:
  ~Sink() = default;
};

// Set by the composition root before anything runs; makes the sink the environment asks for, or
// null.
using Maker = Sink* (*)();
inline Maker g_maker = nullptr;

}  // namespace ascendrt::probe
