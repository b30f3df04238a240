#include "memory/heap.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>

#include "memory/os.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kGrain = 32;  // sizes are multiples of it
constexpr unsigned kUnitShift = 6;
constexpr uint64_t kSmallMax = 16384;
constexpr uint64_t kFineMax = 512;  // up to here one size class per 64 bytes
constexpr uint64_t kSlabBytes = 65536;
constexpr uint64_t kBlocksPerSlab = 16;  // at least
constexpr uint64_t kTrimAfterBytes = 64ULL << 20;
constexpr unsigned kChunkShift = 21;

uint32_t class_of(uint64_t bytes) {
  if (bytes <= kFineMax) return static_cast<uint32_t>((bytes + 63) / 64 - 1);
  const auto top = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // >= 9
  return 8 + (top - 9) * 8 + static_cast<uint32_t>(((bytes - 1) >> (top - 3)) & 7);
}

uint64_t class_bytes(uint32_t size_class) {
  if (size_class < 8) return (size_class + 1) * 64ULL;
  const uint32_t top = 9 + (size_class - 8) / 8;
  return (1ULL << top) + ((size_class - 8) % 8 + 1) * (1ULL << (top - 3));
}

template <class T>
T* table(uint64_t entries) {
  return static_cast<T*>(os::reserve_table(entries * sizeof(T)));
}

template <class T>
void drop(T* entries, uint64_t count) {
  os::unmap(entries, count * sizeof(T));
}

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

Heap::Heap(uint64_t bytes, Backing& backing)
    : page_shift_(os::page_shift()),
      chunk_shift_(std::max(kChunkShift, page_shift_)),
      bytes_(bytes >> page_shift_ << page_shift_),
      backing_(backing),
      runs_(static_cast<uint32_t>(bytes >> page_shift_)),
      chunk_run_(table<std::atomic<uint32_t>>((bytes >> chunk_shift_) + 1)),
      page_run_(table<std::atomic<uint32_t>>((bytes >> page_shift_) + 1)),
      run_words_(table<std::atomic<uint64_t>>((bytes >> page_shift_) + 1)),
      run_classes_(table<std::atomic<uint8_t>>((bytes >> page_shift_) + 1)),
      block_words_(table<std::atomic<uint16_t>>((bytes >> kUnitShift) + 1)),
      run_tags_(table<std::atomic<uint8_t>>((bytes >> page_shift_) + 1)),
      slabs_(table<Slab*>((bytes >> page_shift_) + 1)) {}

Heap::~Heap() {
  for (uint64_t page = 0; page < bytes_ >> page_shift_; ++page) delete slabs_[page];
  drop(chunk_run_, (bytes_ >> chunk_shift_) + 1);
  drop(page_run_, (bytes_ >> page_shift_) + 1);
  drop(run_words_, (bytes_ >> page_shift_) + 1);
  drop(run_classes_, (bytes_ >> page_shift_) + 1);
  drop(block_words_, (bytes_ >> kUnitShift) + 1);
  drop(run_tags_, (bytes_ >> page_shift_) + 1);
  drop(slabs_, (bytes_ >> page_shift_) + 1);
}

Heap::Result Heap::allocate(uint64_t bytes, uint64_t span_bytes, uint8_t tag) {
  if (std::max(bytes, span_bytes) > bytes_) return {Outcome::kNoRange, 0};
  bytes = (bytes + kGrain - 1) / kGrain * kGrain;
  const uint64_t span = std::max(bytes, span_bytes);
  const std::lock_guard lock(mutex_);
  if (span <= kSmallMax && tag == 0) {
    const Result block = allocate_small(bytes);
    if (block.outcome == Outcome::kOk) return block;
  }
  return allocate_run(bytes, span, tag);  // also small blocks when only a few pages are left
}

Heap::Result Heap::allocate_run(uint64_t bytes, uint64_t span_bytes, uint8_t tag) {
  const Result run = take_run(span_bytes, tag);
  if (run.outcome != Outcome::kOk) return run;
  const uint64_t first = run.offset >> page_shift_;
  run_classes_[first].store(0, kRelaxed);
  run_words_[first].store(bytes << 1 | 1, kRelaxed);
  return run;
}

Heap::Result Heap::take_run(uint64_t bytes, uint8_t tag) {
  const auto pages = static_cast<uint32_t>((bytes + (1ULL << page_shift_) - 1) >> page_shift_);
  const uint32_t first = runs_.take(pages);
  if (first == Runs::kNone) return {Outcome::kNoRange, 0};
  bool acquired = false;
  try {
    acquired = backing_.acquire(run_block(first), tag);
  } catch (...) {
    runs_.give(first, false);
    throw;
  }
  if (!acquired) {
    runs_.give(first, false);
    return {Outcome::kRefused, 0};
  }
  run_tags_[first].store(tag, kRelaxed);
  write_index(first, pages);
  return {Outcome::kOk, uint64_t{first} << page_shift_};
}

void Heap::write_index(uint32_t first, uint32_t pages) {
  const unsigned pages_per_chunk = 1U << (chunk_shift_ - page_shift_);
  const uint32_t end = first + pages;
  uint32_t page = first;
  while (page < end) {
    const uint32_t chunk = page / pages_per_chunk;
    const uint32_t stop = std::min(end, (chunk + 1) * pages_per_chunk);
    const bool whole = stop - page == pages_per_chunk;
    chunk_run_[chunk].store(whole ? first + 1 : 0, kRelaxed);
    if (!whole) {
      for (uint32_t each = page; each < stop; ++each) page_run_[each].store(first + 1, kRelaxed);
    }
    page = stop;
  }
}

Block Heap::run_block(uint32_t first) const {
  return {uint64_t{first} << page_shift_, uint64_t{runs_.pages_of(first)} << page_shift_};
}

void Heap::give_run(uint32_t first) {
  const Block run = run_block(first);
  backing_.release(run, run_tags_[first].load(kRelaxed));
  runs_.give(first, true);
  freed_since_trim_ += run.bytes;
  if (freed_since_trim_ >= kTrimAfterBytes) trim_locked();
}

Heap::Slab* Heap::make_slab(uint32_t size_class, Outcome& outcome) {
  auto slab = std::make_unique<Slab>();
  const uint64_t size = class_bytes(size_class);
  const Result run = take_run(std::max(kSlabBytes, kBlocksPerSlab * size), 0);
  outcome = run.outcome;
  if (run.outcome != Outcome::kOk) return nullptr;
  const auto first = static_cast<uint32_t>(run.offset >> page_shift_);
  slab->first_page = first;
  slab->size_class = size_class;
  const uint64_t room = uint64_t{runs_.pages_of(first)} << page_shift_;
  slab->blocks =
      static_cast<uint32_t>(std::min<uint64_t>(room / size, 64 * slab->free_bits.size()));
  slab->free_blocks = slab->blocks;
  for (uint32_t block = 0; block < slab->blocks; ++block) {
    slab->free_bits[block / 64] |= 1ULL << (block % 64);
    block_words_[(run.offset + block * size) >> kUnitShift].store(0, kRelaxed);
  }
  run_words_[first].store(0, kRelaxed);
  run_classes_[first].store(static_cast<uint8_t>(size_class + 1), kRelaxed);
  slabs_[first] = slab.get();
  link(*slab);
  return slab.release();
}

Heap::Result Heap::allocate_small(uint64_t bytes) {
  const uint32_t size_class = class_of(bytes);
  Slab* slab = partial_[size_class];
  if (slab == nullptr) {
    Outcome outcome = Outcome::kOk;
    slab = make_slab(size_class, outcome);
    if (slab == nullptr) return {outcome, 0};
  }
  uint32_t word = 0;
  while (slab->free_bits[word] == 0) ++word;
  const auto bit = static_cast<uint32_t>(std::countr_zero(slab->free_bits[word]));
  slab->free_bits[word] &= slab->free_bits[word] - 1;
  if (--slab->free_blocks == 0) unlink(*slab);
  const uint64_t offset = (uint64_t{slab->first_page} << page_shift_) +
                          (uint64_t{word} * 64 + bit) * class_bytes(size_class);
  block_words_[offset >> kUnitShift].store(static_cast<uint16_t>(bytes / kGrain << 1 | 1),
                                           kRelaxed);
  return {Outcome::kOk, offset};
}

bool Heap::free(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const Found found = find(offset);
  if (found.state != BlockState::kLive || found.block.offset != offset) return false;
  const uint32_t first = run_of(offset) - 1;
  if (slabs_[first] != nullptr) {
    free_small(found.block, *slabs_[first]);
  } else {
    run_words_[first].store(found.block.bytes << 1, kRelaxed);
    give_run(first);
  }
  return true;
}

void Heap::free_small(Block block, Slab& slab) {
  block_words_[block.offset >> kUnitShift].store(static_cast<uint16_t>(block.bytes / kGrain << 1),
                                                 kRelaxed);
  const uint64_t inside = block.offset - (uint64_t{slab.first_page} << page_shift_);
  const uint64_t index = inside / class_bytes(slab.size_class);
  slab.free_bits[index / 64] |= 1ULL << (index % 64);
  if (slab.free_blocks++ == 0) link(slab);
  if (slab.free_blocks < slab.blocks) return;
  unlink(slab);
  const uint32_t first = slab.first_page;
  slabs_[first] = nullptr;
  delete &slab;
  give_run(first);
}

void Heap::link(Slab& slab) {
  Slab*& head = partial_[slab.size_class];
  slab.prev = nullptr;
  slab.next = head;
  if (head != nullptr) head->prev = &slab;
  head = &slab;
}

void Heap::unlink(Slab& slab) {
  if (slab.next != nullptr) slab.next->prev = slab.prev;
  (slab.prev != nullptr ? slab.prev->next : partial_[slab.size_class]) = slab.next;
}

Found Heap::find(uint64_t offset) const {
  if (offset >= bytes_) return {};
  const uint32_t run = run_of(offset);
  if (run == 0) return {};
  const uint32_t first = run - 1;
  if (const uint8_t size_class = run_classes_[first].load(kRelaxed); size_class != 0) {
    return find_small(first, size_class - 1, offset);
  }
  const uint64_t word = run_words_[first].load(kRelaxed);
  const Block block{uint64_t{first} << page_shift_, word >> 1};
  if (offset - block.offset >= block.bytes) return {};
  return {(word & 1) != 0 ? BlockState::kLive : BlockState::kFreed, block};
}

Found Heap::find_small(uint32_t first, uint32_t size_class, uint64_t offset) const {
  const uint64_t start = uint64_t{first} << page_shift_;
  const uint64_t size = class_bytes(size_class);
  const uint64_t at = start + (offset - start) / size * size;
  const uint16_t word = block_words_[at >> kUnitShift].load(kRelaxed);
  const Block block{at, (word >> 1) * kGrain};
  if (offset - at >= block.bytes) return {};
  return {(word & 1) != 0 ? BlockState::kLive : BlockState::kFreed, block};
}

uint64_t Heap::largest_free_bytes() const {
  const std::lock_guard lock(mutex_);
  return uint64_t{runs_.largest()} << page_shift_;
}

void Heap::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void Heap::trim_locked() {
  freed_since_trim_ = 0;
  runs_.clean([&](uint32_t first, uint32_t pages) {
    backing_.discard({uint64_t{first} << page_shift_, uint64_t{pages} << page_shift_});
  });
}

}  // namespace ascendrt::memory
