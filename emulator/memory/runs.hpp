// Runs of pages: which are free, and the best one for a request, in constant time.
// Owns: the records of all runs of one range. Must never: know what a page holds. Not thread-safe:
// the heap's lock guards it.
#pragma once

#include <array>
#include <cstdint>

namespace ascendrt::memory {

// Note [Page runs]
// Two-level segregated fit: free runs hang in bins, one row per power of two and 16 columns in
// each, with one bitmap word per row and one over the rows. A request is rounded up to the next
// bin, where any run fits, so taking and giving are a few instructions whatever the number of runs;
// only when that fails is the request's own bin searched run by run, so a request that fits
// somewhere never fails. A run's record stands at its first page and its first page is noted at its
// last one, so both neighbours of a run that comes back are found without a search. The table has
// one record per page of the range but only the pages where runs begin or end are ever touched.
class Runs {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Runs(uint32_t pages);
  ~Runs();
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  // First page of a run of exactly so many pages, or kNone.
  uint32_t take(uint32_t pages);
  // Gives a taken run back and joins it with its free neighbours. dirty: its pages may hold data.
  void give(uint32_t first, bool dirty);
  uint32_t pages_of(uint32_t first) const { return records_[first].pages; }
  // Pages of the largest free run.
  uint32_t largest() const;

  // Calls f(first) for each taken run in the order of addresses.
  template <class F>
  void for_each_taken(F&& f) const {
    for (uint32_t first = 0; first < pages_; first += records_[first].pages) {
      if (!records_[first].free) f(first);
    }
  }

  // Calls f(first, pages) for each free run that may hold data, and marks it clean.
  template <class F>
  void clean(F&& f) {
    for (uint32_t bin = 0; bin < heads_.size(); ++bin) {
      for (uint32_t run = heads_[bin]; run != kNone; run = records_[run].next) {
        if (!records_[run].dirty) continue;
        f(run, records_[run].pages);
        records_[run].dirty = false;
      }
    }
  }

 private:
  struct Record {
    uint32_t pages;  // at the first page
    uint32_t first;  // at the last page: where the run begins
    uint32_t next;   // neighbours in the bin
    uint32_t prev;
    bool free;
    bool dirty;
  };
  static constexpr uint32_t kColumns = 16;
  static constexpr uint32_t kRows = 29;  // up to 2^31 pages

  static uint32_t bin_of(uint32_t pages);
  uint32_t find(uint32_t pages) const;
  void shape(uint32_t first, uint32_t pages, bool free, bool dirty);
  void insert(uint32_t run);
  void remove(uint32_t run);

  const uint32_t pages_;
  Record* const records_;
  uint32_t rows_ = 0;
  std::array<uint16_t, kRows> columns_{};
  std::array<uint32_t, kRows * kColumns> heads_;
};

}  // namespace ascendrt::memory
