#include "memory/runs.hpp"

#include <algorithm>
#include <bit>

#include "memory/os.hpp"

namespace ascendrt::memory {

Runs::Runs(uint32_t pages)
    : pages_(pages),
      records_(static_cast<Record*>(os::reserve_table(uint64_t{pages} * sizeof(Record)))) {
  heads_.fill(kNone);
  if (pages == 0) return;
  shape(0, pages, true, false);
  insert(0);
}

Runs::~Runs() { os::unmap(records_, uint64_t{pages_} * sizeof(Record)); }

// Row 0 holds runs below 16 pages, one column each; above, a row is a power of two cut in 16.
uint32_t Runs::bin_of(uint32_t pages) {
  if (pages < kColumns) return pages;
  const auto top = static_cast<uint32_t>(std::bit_width(pages)) - 1;
  return (top - 3) * kColumns + ((pages >> (top - 4)) & (kColumns - 1));
}

uint32_t Runs::find(uint32_t pages) const {
  uint64_t rounded = pages;
  if (pages >= kColumns) rounded += (1ULL << (std::bit_width(pages) - 5)) - 1;
  if (rounded <= pages_) {
    const uint32_t bin = bin_of(static_cast<uint32_t>(rounded));
    const uint32_t row = bin / kColumns;
    const uint32_t here = columns_[row] & (~0U << (bin % kColumns));
    if (here != 0) return heads_[row * kColumns + static_cast<uint32_t>(std::countr_zero(here))];
    const uint32_t above = rows_ & ~((2U << row) - 1);
    if (above != 0) {
      const auto up = static_cast<uint32_t>(std::countr_zero(above));
      return heads_[up * kColumns + static_cast<uint32_t>(std::countr_zero(columns_[up]))];
    }
  }
  uint32_t run = heads_[bin_of(pages)];
  while (run != kNone && records_[run].pages < pages) run = records_[run].next;
  return run;
}

uint32_t Runs::take(uint32_t pages) {
  if (pages == 0 || pages > pages_) return kNone;
  const uint32_t run = find(pages);
  if (run == kNone) return kNone;
  remove(run);
  const uint32_t rest = records_[run].pages - pages;
  const bool dirty = records_[run].dirty;
  shape(run, pages, false, dirty);
  if (rest > 0) {
    shape(run + pages, rest, true, dirty);
    insert(run + pages);
  }
  return run;
}

void Runs::give(uint32_t first, bool dirty) {
  uint32_t pages = records_[first].pages;
  dirty = dirty || records_[first].dirty;
  if (const uint32_t after = first + pages; after < pages_ && records_[after].free) {
    remove(after);
    pages += records_[after].pages;
    dirty = dirty || records_[after].dirty;
  }
  if (first > 0) {
    const uint32_t before = records_[first - 1].first;
    if (records_[before].free) {
      remove(before);
      pages += records_[before].pages;
      dirty = dirty || records_[before].dirty;
      first = before;
    }
  }
  shape(first, pages, true, dirty);
  insert(first);
}

uint32_t Runs::largest() const {
  if (rows_ == 0) return 0;
  const auto row = static_cast<uint32_t>(std::bit_width(rows_)) - 1;
  const auto column = static_cast<uint32_t>(std::bit_width(columns_[row])) - 1;
  uint32_t most = 0;
  for (uint32_t run = heads_[row * kColumns + column]; run != kNone; run = records_[run].next) {
    most = std::max(most, records_[run].pages);
  }
  return most;
}

void Runs::shape(uint32_t first, uint32_t pages, bool free, bool dirty) {
  records_[first].pages = pages;
  records_[first].free = free;
  records_[first].dirty = dirty;
  records_[first + pages - 1].first = first;
}

void Runs::insert(uint32_t run) {
  const uint32_t bin = bin_of(records_[run].pages);
  records_[run].prev = kNone;
  records_[run].next = heads_[bin];
  if (heads_[bin] != kNone) records_[heads_[bin]].prev = run;
  heads_[bin] = run;
  columns_[bin / kColumns] |= static_cast<uint16_t>(1U << (bin % kColumns));
  rows_ |= 1U << (bin / kColumns);
}

void Runs::remove(uint32_t run) {
  const Record& record = records_[run];
  if (record.next != kNone) records_[record.next].prev = record.prev;
  if (record.prev != kNone) {
    records_[record.prev].next = record.next;
    return;
  }
  const uint32_t bin = bin_of(record.pages);
  heads_[bin] = record.next;
  if (record.next != kNone) return;
  columns_[bin / kColumns] &= static_cast<uint16_t>(~(1U << (bin % kColumns)));
  if (columns_[bin / kColumns] == 0) rows_ &= ~(1U << (bin / kColumns));
}

}  // namespace ascendrt::memory
