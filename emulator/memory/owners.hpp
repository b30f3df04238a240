// Who asked for a block: a name for tagged blocks, a call stack for all when tracing is on.
// Owns: the table of names and the stacks of live blocks. Must never: be needed to free a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ascendrt::memory {

// Note [Owners]
// A block's owner is a small number beside its run; 0 is "a call of the program". Models and
// operators register a name and allocate with its number. Numbers are given back when their last
// holder goes, so a server that reloads models for weeks does not run out.
enum class OwnerKind : uint8_t { kUser, kModel, kOperator, kRuntime };
inline constexpr size_t kOwnerKinds = 4;

class Owner {
 public:
  Owner() = default;
  // Shares the number of an equal name.
  Owner(OwnerKind kind, const std::string& name);
  Owner(Owner&& other) noexcept;
  Owner& operator=(Owner&& other) noexcept;
  ~Owner();
  uint16_t number() const { return number_; }

 private:
  uint16_t number_ = 0;
};

// "model resnet50", "operator MatMul", "user call".
std::string owner_text(uint16_t number);
OwnerKind owner_kind(uint16_t number);

// Call stacks by address, kept only with ASCENDRT_MEMORY_TRACE=1.
class CallSites {
 public:
  void remember(const void* address);
  void forget(const void* address);
  // One line per frame of the client, outermost last; empty when unknown.
  std::vector<std::string> of(const void* address) const;
};
CallSites& call_sites();

}  // namespace ascendrt::memory
