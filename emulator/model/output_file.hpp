// A file that is written as a whole or not at all. Owns: the temporary file beside its target.
// Must never: leave a half-written file behind, replace what is no regular file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/signals_wait.hpp"

namespace ascendrt::model {

// Gone unless it was renamed. A signal that ends the process (Ctrl-C) waits for that as well. On
// one thread from the constructor to the destructor. All calls raise 100004 naming path and system
// reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& target);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const uint8_t> data);  // all of it, once, and to disk
  void rename();
  // Whether the target was there before; false: a failure later on should take it away again.
  bool replaces() const { return replaces_; }
  const std::string& target() const { return target_; }

 private:
  [[noreturn]] void fail(const char* what) const;
  void close();

  base::SignalsWait waits_;  // to the very end
  std::string target_;       // behind links
  std::string temporary_;
  int fd_ = -1;
  bool replaces_ = false;
  bool renamed_ = false;
};

}  // namespace ascendrt::model
