#include "memory/arena.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/os.hpp"
#include "memory/text.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kAliasAlignment = 2ULL << 20;
// In every 16-bit word: a NaN in fp16, bf16 and fp32, an unlikely integer, and odd to look at.
constexpr uint16_t kFreshPattern = 0x7FCD;
constexpr uint16_t kFreedPattern = 0x7FDD;

}  // namespace

Arena::Arena(const Setup& setup, Ledger& ledger, Budget& budget)
    : setup_(setup), ledger_(ledger), budget_(budget), heap_(setup.bytes, *this) {
  const std::string name = "ascendrt-device-" + std::to_string(setup.device);
  file_ = os::make_memory_file(name.c_str(), setup.bytes);
  alias_ = setup.open ? setup.client : os::reserve(setup.bytes, kAliasAlignment);
  os::map_file(file_, alias_, setup.bytes);
  os::want_huge_pages(alias_, setup.bytes);
}

std::byte* Arena::allocate(uint64_t bytes, const PagePlan& plan) {
  Heap::Result block{Heap::Outcome::kNoRange, 0};
  if (bytes > heap_.bytes()) refuse_allocation(bytes, block.outcome);
  budget_.admit(bytes);
  if (plan.kind == Pages::kNormal) {
    block = heap_.allocate(bytes);
  } else {
    const uint64_t span = (bytes + plan.page_bytes - 1) / plan.page_bytes * plan.page_bytes;
    block = heap_.allocate(bytes, span, static_cast<uint8_t>(plan.kind));
    if (block.outcome != Heap::Outcome::kOk && plan.fallback) block = heap_.allocate(bytes);
  }
  if (block.outcome != Heap::Outcome::kOk) refuse_allocation(bytes, block.outcome);
  const bool wanted =
      setup_.fill == Fill::kOn || (setup_.fill == Fill::kAuto && bytes <= kFillAutoBytes);
  if (wanted) fill(block.offset, bytes, kFreshPattern);
  return setup_.client + block.offset;
}

void Arena::free(std::byte* address) {
  const auto offset = static_cast<uint64_t>(address - setup_.client);
  const Found found = heap_.find(offset);
  const bool starts = found.state == BlockState::kLive && found.block.offset == offset;
  if (starts && setup_.fill == Fill::kOn) fill(offset, found.block.bytes, kFreedPattern);
  if (starts && heap_.free(offset)) return;
  base::fail(ACL_ERROR_RT_PARAM_INVALID,
             "cannot free " + describe(setup_.client, address, heap_.find(offset)) +
                 "; free each allocation once, with the address that malloc gave");
}

uint64_t Arena::touched_bytes() const { return os::touched_bytes(file_); }

bool Arena::acquire(Block run, uint8_t tag) {
  return ledger_.charge(static_cast<uint32_t>(setup_.device), static_cast<Pages>(tag), run.bytes,
                        heap_.bytes());
}

void Arena::release(Block run, uint8_t tag) {
  ledger_.release(static_cast<uint32_t>(setup_.device), static_cast<Pages>(tag), run.bytes);
}

void Arena::discard(Block free_run) { os::punch_hole(file_, free_run.offset, free_run.bytes); }

void Arena::meter(uint64_t offset, uint64_t bytes) {
  budget_.meter(bytes, [&] { return os::untouched_bytes(alias_ + offset, bytes); });
}

void Arena::fill(uint64_t offset, uint64_t bytes, uint16_t pattern) {
  auto* words = reinterpret_cast<uint16_t*>(alias_ + offset);
  std::fill_n(words, bytes / sizeof(uint16_t), pattern);
}

void Arena::refuse_allocation(uint64_t bytes, Heap::Outcome outcome) {
  const auto device = static_cast<uint32_t>(setup_.device);
  const uint64_t used = std::min(ledger_.used(device).total(), setup_.bytes);
  std::string text = "device " + std::to_string(device) + " has no room for " + size_text(bytes) +
                     ": " + size_text(setup_.bytes - used) + " of " + size_text(setup_.bytes) +
                     " are free";
  if (outcome == Heap::Outcome::kNoRange) {
    text += ", the largest free block of this process has " + size_text(heap_.largest_free_bytes());
  }
  if (const std::string others = ledger_.other_holders(device); !others.empty()) {
    text += "; other processes of the emulated machine '" + ledger_.machine() + "' hold " + others;
  }
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
             text + "; free device memory, or emulate a larger device with ASCENDRT_HBM_SIZE");
}

void Arena::refuse_view(const std::byte* address, uint64_t bytes, const Found& found) const {
  std::string text = "device " + std::to_string(setup_.device) + ": the " + size_text(bytes) +
                     " from " + describe(setup_.client, address, found);
  if (found.state == BlockState::kLive) {
    const auto offset = static_cast<uint64_t>(address - setup_.client);
    const uint64_t left = found.block.offset + found.block.bytes - offset;
    text += " and reach " + size_text(bytes - left) + " past its end";
  }
  base::fail(ACL_ERROR_RT_PARAM_INVALID, text);
}

std::string describe(const std::byte* client, const std::byte* address, const Found& found) {
  const std::string subject = "address " + address_text(address);
  const auto offset = static_cast<uint64_t>(address - client);
  const std::string block = "allocation of " + size_text(found.block.bytes) + " at " +
                            address_text(client + found.block.offset);
  if (found.state == BlockState::kNever) return subject + ", where nothing is allocated";
  const uint64_t inside = offset - found.block.offset;
  if (found.state == BlockState::kFreed) {
    return subject + (inside == 0 ? ", which is the " : ", which lies in the ") + block +
           " that was freed";
  }
  return subject +
         (inside == 0 ? ", the start of the "
                      : ", which lies " + size_text(inside) + " into the ") +
         block;
}

}  // namespace ascendrt::memory
