#include "memory/owners.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/mutex.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr size_t kOwnersMax = 4096;
constexpr int kFramesMax = 24;
const char kInThisLibrary = 0;  // lies in our own library

struct Entry {
  std::pair<OwnerKind, std::string> name;
  uint32_t holders = 0;
};

struct Names {
  base::RankedMutex mutex{base::Rank::kLeaf};
  std::vector<Entry> entries{Entry{{OwnerKind::kUser, ""}, 1}};
};

// Both leaked on purpose: blocks are freed from static destructors of the client.
Names& names() {
  static auto* const all = new Names;
  return *all;
}

struct Stack {
  std::array<void*, kFramesMax> frames;
  int count;
};
struct Stacks {
  base::RankedMutex mutex{base::Rank::kLeaf};
  std::unordered_map<const void*, Stack> of;
};
Stacks& stacks() {
  static auto* const all = new Stacks;
  return *all;
}

}  // namespace

// When all numbers are in use the block counts as the program's.
Owner::Owner(OwnerKind kind, const std::string& name) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  const std::pair wanted{kind, name};
  size_t free = 0;
  for (size_t i = 1; i < all.entries.size(); ++i) {
    if (all.entries[i].holders == 0) free = i;
    if (all.entries[i].holders > 0 && all.entries[i].name == wanted) {
      ++all.entries[i].holders;
      number_ = static_cast<uint16_t>(i);
      return;
    }
  }
  if (free == 0 && all.entries.size() < kOwnersMax) {
    free = all.entries.size();
    all.entries.emplace_back();
  }
  if (free == 0) return;
  all.entries[free] = {wanted, 1};
  number_ = static_cast<uint16_t>(free);
}

Owner::Owner(Owner&& other) noexcept : number_(std::exchange(other.number_, 0)) {}

Owner& Owner::operator=(Owner&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Owner::~Owner() {
  if (number_ == 0) return;
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  --all.entries[number_].holders;
}

OwnerKind owner_kind(uint16_t number) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  return number < all.entries.size() ? all.entries[number].name.first : OwnerKind::kUser;
}

std::string owner_text(uint16_t number) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  if (number == 0 || number >= all.entries.size()) return "user call";
  constexpr std::array kKinds{"user call", "model ", "operator ", "runtime "};
  const auto& [kind, name] = all.entries[number].name;
  return kKinds[static_cast<size_t>(kind)] + name;
}

CallSites& call_sites() {
  static CallSites all;
  return all;
}

void CallSites::remember(const void* address) {
  Stack stack{};
  stack.count = backtrace(stack.frames.data(), kFramesMax);
  const std::lock_guard lock(stacks().mutex);
  stacks().of[address] = stack;
}

void CallSites::forget(const void* address) {
  const std::lock_guard lock(stacks().mutex);
  stacks().of.erase(address);
}

std::vector<std::string> CallSites::of(const void* address) const {
  Stack stack{};
  {
    const std::lock_guard lock(stacks().mutex);
    const auto found = stacks().of.find(address);
    if (found == stacks().of.end()) return {};
    stack = found->second;
  }
  Dl_info own{};
  dladdr(&kInThisLibrary, &own);
  std::vector<std::string> lines;
  for (const void* frame : std::span(stack.frames).first(static_cast<size_t>(stack.count))) {
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) {
      lines.push_back(address_text(frame));
      continue;
    }
    if (lines.empty() && info.dli_fbase == own.dli_fbase) continue;  // frames of the runtime
    const auto inside =
        static_cast<const std::byte*>(frame) - static_cast<const std::byte*>(info.dli_fbase);
    // In the form that addr2line -e FILE takes.
    lines.push_back(std::string(info.dli_sname != nullptr ? info.dli_sname : "?") + " in " +
                    info.dli_fname + " +" + address_text(reinterpret_cast<const void*>(inside)));
  }
  return lines;
}

}  // namespace ascendrt::memory
