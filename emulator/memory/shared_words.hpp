// A few words that streams of several processes set and wait for: exported notifies, IPC events.
// Owns: the page they lie in. Must never: trust a value in it; others may write anything.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/ref.hpp"
#include "memory/share.hpp"

namespace ascendrt::memory {

// Shared by a token as memory is, see Note [Sharing].
class SharedWords : public base::Counted {
 public:
  static base::Ref<SharedWords> make(Pids pids);
  // Raises 107000 with the reason.
  static base::Ref<SharedWords> open(uint64_t token);
  ~SharedWords() override;

  uint64_t token() const { return token_; }
  bool imported() const { return static_cast<bool>(held_); }
  std::atomic_ref<uint64_t> word(size_t index) const {
    return std::atomic_ref<uint64_t>(words_[index]);
  }

 private:
  SharedWords() = default;
  void map(int file);

  uint64_t* words_ = nullptr;
  uint64_t token_ = 0;
  int file_ = -1;             // of what this process made
  base::Ref<Physical> held_;  // of what it opened
};

}  // namespace ascendrt::memory
