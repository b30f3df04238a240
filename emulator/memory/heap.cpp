#include "memory/heap.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>

#include "memory/os.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kSlabBytes = 65536;
constexpr uint64_t kBlocksPerSlab = 16;  // at least
constexpr uint64_t kTrimAfterBytes = 64ULL << 20;

template <class T>
T* table(uint64_t entries) {
  return static_cast<T*>(os::reserve_table(entries * sizeof(T)));
}

template <class T>
void drop(T* entries, uint64_t count) {
  os::unmap(entries, count * sizeof(T));
}

}  // namespace

struct Heap::Slab {
  Slab* next = nullptr;
  Slab* prev = nullptr;
  uint32_t first_page = 0;
  uint32_t size_class = 0;
  uint32_t blocks = 0;
  uint32_t free_blocks = 0;
  std::array<uint64_t, 16> free_bits{};
};

Heap::Heap(uint64_t bytes, Backing& backing)
    : page_shift_(os::page_shift()),
      bytes_(bytes >> page_shift_ << page_shift_),
      backing_(backing),
      runs_(static_cast<uint32_t>(bytes >> page_shift_)),
      chunk_words_(table<std::atomic<uint64_t>>((bytes >> chunk_bits()) + 1)),
      page_words_(table<std::atomic<uint64_t>>((bytes >> page_shift_) + 1)),
      run_rows_(table<Run>((bytes >> page_shift_) + 1)),
      block_words_(table<std::atomic<uint32_t>>((bytes >> kUnitShift) + 1)),
      slabs_(table<Slab*>((bytes >> page_shift_) + 1)) {}

Heap::~Heap() {
  for (uint64_t page = 0; page < bytes_ >> page_shift_; ++page) delete slabs_[page];
  drop(chunk_words_, (bytes_ >> chunk_bits()) + 1);
  drop(page_words_, (bytes_ >> page_shift_) + 1);
  drop(run_rows_, (bytes_ >> page_shift_) + 1);
  drop(block_words_, (bytes_ >> kUnitShift) + 1);
  drop(slabs_, (bytes_ >> page_shift_) + 1);
}

Heap::Result Heap::allocate(uint64_t bytes, uint64_t span_bytes, uint8_t tag, Home& home) {
  if (std::max(bytes, span_bytes) > bytes_) return {Outcome::kNoRange, 0};
  bytes = (bytes + kGrain - 1) / kGrain * kGrain;
  const uint64_t span = std::max(bytes, span_bytes);
  const std::lock_guard lock(mutex_);
  if (span <= kSmallMax && tag == 0) {
    const Result block = allocate_small(bytes, home);
    if (block.outcome == Outcome::kOk) return block;
  }
  return allocate_run(bytes, span, tag, home);  // also small blocks when only a few pages are left
}

Heap::Result Heap::allocate_run(uint64_t bytes, uint64_t span_bytes, uint8_t tag, Home& home) {
  const Result run = take_run(span_bytes, tag, 0, home);
  if (run.outcome != Outcome::kOk) return run;
  Run& row = run_rows_[run.offset >> page_shift_];
  row.slack.store(0, kRelaxed);
  row.word.store(RunWord::live(bytes, 0), kRelaxed);
  return run;
}

Heap::Result Heap::take_run(uint64_t bytes, uint8_t tag, uint32_t size_class, Home& home) {
  const auto pages = static_cast<uint32_t>((bytes + (1ULL << page_shift_) - 1) >> page_shift_);
  const uint32_t first = runs_.take(pages);
  if (first == Runs::kNone) return {Outcome::kNoRange, 0};
  bool acquired = false;
  try {
    acquired = backing_.acquire(run_block(first), tag, home);
  } catch (...) {
    runs_.give(first, false);
    throw;
  }
  if (!acquired) {
    runs_.give(first, false);
    return {Outcome::kRefused, 0};
  }
  Run& row = run_rows_[first];
  row.word.store(0, kRelaxed);
  row.pages.store(pages, kRelaxed);
  row.owner.store(0, kRelaxed);
  write_index(first, (uint64_t{first} + 1) | uint64_t{home.id()} << 32 |
                         uint64_t{size_class} << 48 | uint64_t{tag} << 56);
  return {Outcome::kOk, start_of(first)};
}

void Heap::write_index(uint32_t first, uint64_t word) {
  const unsigned pages_per_chunk = 1U << (chunk_bits() - page_shift_);
  const uint32_t end = first + pages_of(first);
  uint32_t page = first;
  while (page < end) {
    const uint32_t chunk = page / pages_per_chunk;
    const uint32_t stop = std::min(end, (chunk + 1) * pages_per_chunk);
    const bool whole = stop - page == pages_per_chunk;
    chunk_words_[chunk].store(whole ? word : 0, kRelaxed);
    if (!whole) {
      for (uint32_t each = page; each < stop; ++each) page_words_[each].store(word, kRelaxed);
    }
    page = stop;
  }
}

Block Heap::run_block(uint32_t first) const {
  return {uint64_t{first} << page_shift_, uint64_t{runs_.pages_of(first)} << page_shift_};
}

void Heap::give_run(uint32_t first, Home& home) {
  const Block run = run_block(first);
  backing_.release(run, tag_of(run.offset), home);
  runs_.give(first, true);
  freed_since_trim_ += run.bytes;
  if (freed_since_trim_ < kTrimAfterBytes) return;
  freed_since_trim_ = 0;
  if (backing_.worth_discarding()) trim_locked();
}

Heap::Slab* Heap::make_slab(uint32_t size_class, Outcome& outcome, Home& home) {
  auto slab = std::make_unique<Slab>();
  const uint64_t size = class_bytes(size_class);
  const Result run = take_run(std::max(kSlabBytes, kBlocksPerSlab * size), 0, size_class + 1, home);
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
  slabs_[first] = slab.get();
  link(*slab, home);
  return slab.release();
}

Heap::Result Heap::allocate_small(uint64_t bytes, Home& home) {
  const uint32_t size_class = class_of(bytes);
  Slab* slab = home.partial_[size_class];
  if (slab == nullptr) {
    Outcome outcome = Outcome::kOk;
    slab = make_slab(size_class, outcome, home);
    if (slab == nullptr) return {outcome, 0};
  }
  const uint64_t offset = pop_small(*slab);
  if (slab->free_blocks == 0) unlink(*slab, home);
  note_small_slack(offset, size_class, 0);
  revive_small(offset, bytes, 0);
  return {Outcome::kOk, offset};
}

uint64_t Heap::pop_small(Slab& slab) {
  uint32_t word = 0;
  while (slab.free_bits[word] == 0) ++word;
  const auto bit = static_cast<uint32_t>(std::countr_zero(slab.free_bits[word]));
  slab.free_bits[word] &= slab.free_bits[word] - 1;
  --slab.free_blocks;
  return start_of(slab.first_page) + (uint64_t{word} * 64 + bit) * class_bytes(slab.size_class);
}

uint32_t Heap::take_small(uint32_t size_class, std::span<uint64_t> out, Home& home) {
  const std::lock_guard lock(mutex_);
  uint32_t taken = 0;
  while (taken < out.size()) {
    Slab* slab = home.partial_[size_class];
    if (slab == nullptr) {
      if (taken > 0) break;  // what there is will do
      Outcome outcome = Outcome::kOk;
      slab = make_slab(size_class, outcome, home);
      if (slab == nullptr) break;
    }
    out[taken++] = pop_small(*slab);
    if (slab->free_blocks == 0) unlink(*slab, home);
  }
  return taken;
}

bool Heap::free(uint64_t offset, Home& home) {
  const Spot spot = spot_of(offset);
  if (!spot.known || retire(offset, spot, 0) == 0) return false;
  const std::lock_guard lock(mutex_);
  recycle_locked(offset, home);
  return true;
}

void Heap::recycle(std::span<const uint64_t> offsets, Home& home) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t offset : offsets) recycle_locked(offset, home);
}

void Heap::recycle_locked(uint64_t offset, Home& home) {
  const uint32_t first = spot_of(offset).first;
  if (slabs_[first] != nullptr) {
    recycle_small(offset, *slabs_[first], home);
  } else {
    give_run(first, home);
  }
}

void Heap::recycle_small(uint64_t offset, Slab& slab, Home& home) {
  const uint64_t index = (offset - start_of(slab.first_page)) / class_bytes(slab.size_class);
  slab.free_bits[index / 64] |= 1ULL << (index % 64);
  if (slab.free_blocks++ == 0) link(slab, home);
  if (slab.free_blocks < slab.blocks) return;
  unlink(slab, home);
  const uint32_t first = slab.first_page;
  slabs_[first] = nullptr;
  delete &slab;
  give_run(first, home);
}

void Heap::link(Slab& slab, Home& home) {
  Slab*& head = home.partial_[slab.size_class];
  slab.prev = nullptr;
  slab.next = head;
  if (head != nullptr) head->prev = &slab;
  head = &slab;
}

void Heap::unlink(Slab& slab, Home& home) {
  if (slab.next != nullptr) slab.next->prev = slab.prev;
  (slab.prev != nullptr ? slab.prev->next : home.partial_[slab.size_class]) = slab.next;
}

void Heap::adopt(Home& from) {
  const std::lock_guard lock(mutex_);
  for (Slab*& head : from.partial_) {
    while (head != nullptr) {
      Slab& slab = *head;
      unlink(slab, from);
      link(slab, own_);
    }
  }
  runs_.for_each_taken([&](uint32_t first) {
    const uint64_t word = index_word(start_of(first));
    if (spot_of(start_of(first)).home != from.id()) return;
    write_index(first, (word & ~(0xFFFFULL << 32)) | uint64_t{own_.id()} << 32);
  });
}

void Heap::for_each_live(const std::function<void(const Entry&)>& visit) const {
  const std::lock_guard lock(mutex_);
  runs_.for_each_taken([&](uint32_t first) {
    const Spot spot = spot_of(start_of(first));
    if (slabs_[first] == nullptr) {
      const uint64_t word = run_rows_[first].word.load(kRelaxed);
      const Block block{start_of(first), RunWord::bytes(word), run_rows_[first].slack};
      if (RunWord::is_live(word)) visit({block, spot.home, spot.tag});
      return;
    }
    const uint64_t size = class_bytes(slabs_[first]->size_class);
    for (uint32_t block = 0; block < slabs_[first]->blocks; ++block) {
      const uint64_t offset = start_of(first) + block * size;
      const uint32_t word = block_words_[offset >> kUnitShift].load(kRelaxed);
      if (!SmallWord::is_live(word)) continue;
      const uint32_t slack = small_slack(offset, slabs_[first]->size_class);
      visit({{offset, SmallWord::bytes(word), slack}, spot.home, spot.tag});
    }
  });
}

Found Heap::find(uint64_t offset) const {
  const Spot spot = spot_of(offset);
  if (!spot.known) return {};
  const uint32_t first = spot.first;
  if (spot.size_class != 0) return find_small(first, spot.size_class - 1, offset);
  const uint64_t word = run_rows_[first].word.load(kRelaxed);
  const Block block{uint64_t{first} << page_shift_, RunWord::bytes(word), run_rows_[first].slack};
  if (offset - block.offset >= block.bytes) return {};
  return {RunWord::is_live(word) ? BlockState::kLive : BlockState::kFreed, block};
}

Found Heap::find_small(uint32_t first, uint32_t size_class, uint64_t offset) const {
  const uint64_t start = uint64_t{first} << page_shift_;
  const ClassRow& row = kClassTable[size_class];
  const uint64_t at = start + ((offset - start) * row.reciprocal >> 32) * row.bytes;
  const uint32_t word = block_words_[at >> kUnitShift].load(kRelaxed);
  const Block block{at, SmallWord::bytes(word), small_slack(at, size_class)};
  if (offset - at >= block.bytes) return {};
  return {SmallWord::is_live(word) ? BlockState::kLive : BlockState::kFreed, block};
}

void Heap::note_slack(uint64_t offset, uint64_t slack) {
  const Spot spot = spot_of(offset);
  if (spot.size_class != 0) return note_small_slack(offset, spot.size_class - 1, slack);
  note_run_slack(spot.first, slack);
}

uint32_t Heap::small_slack(uint64_t offset, uint32_t size_class) const {
  if (size_class == 0) return Block::kUnknown;
  return SmallWord::stamp(block_words_[(offset >> kUnitShift) + 1].load(kRelaxed));
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
