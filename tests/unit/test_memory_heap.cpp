// The heap: placement, bounds and index of blocks in one range.
#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "memory/heap.hpp"
#include "memory/os.hpp"
#include "test.hpp"

namespace {

using ascendrt::memory::Block;
using ascendrt::memory::BlockState;
using ascendrt::memory::Found;
using ascendrt::memory::Heap;
using ascendrt::memory::Runs;
using Outcome = Heap::Outcome;

constexpr uint64_t kMiB = 1ULL << 20;

// Counts what the heap asks of it, and can refuse.
struct CountingBacking : Heap::Backing {
  bool acquire(Block run, uint8_t tag, Heap::Home& /*home*/) override {
    last_tag = tag;
    if (used + run.bytes > limit) return false;
    used += run.bytes;
    return true;
  }
  void release(Block run, uint8_t tag, Heap::Home& /*home*/) override {
    last_tag = tag;
    used -= run.bytes;
  }
  void discard(Block free_run) override { discarded += free_run.bytes; }

  uint64_t limit = UINT64_MAX;
  uint64_t used = 0;
  uint64_t discarded = 0;
  int last_tag = -1;
};

TEST(memory_heap_rounds_and_aligns) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  for (const uint64_t bytes : {1, 31, 32, 33, 64, 100, 511, 512, 513, 4096, 16384, 16385, 100000}) {
    const auto block = heap.allocate(bytes);
    CHECK(block.outcome == Outcome::kOk);
    CHECK_EQ(block.offset % 64, uint64_t{0});
    const Found found = heap.find(block.offset);
    CHECK(found.state == BlockState::kLive);
    CHECK_EQ(found.block.offset, block.offset);
    CHECK_EQ(found.block.bytes, (bytes + 31) / 32 * 32);
  }
}

TEST(memory_heap_knows_what_was_asked) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  for (const uint64_t bytes : {96, 128, 1056, 16384, 20000, 100000}) {
    const auto block = heap.allocate(bytes);
    CHECK_EQ(heap.find(block.offset).block.asked(), bytes);
    heap.note_slack(block.offset, 31);
    CHECK_EQ(heap.find(block.offset + 64).block.asked(), bytes - 31);
    CHECK_EQ(heap.find(block.offset).block.bytes, bytes);
    CHECK(!heap.free(block.offset + 64));  // the word of a second unit is no block
    uint64_t seen = 0;
    heap.for_each_live([&](const Heap::Entry& entry) { seen = entry.block.asked(); });
    CHECK_EQ(seen, bytes - 31);
    CHECK(heap.free(block.offset));
    CHECK_EQ(heap.find(block.offset).block.asked(), bytes - 31);  // also of a freed one
    const auto again = heap.allocate(bytes);
    CHECK_EQ(heap.find(again.offset).block.asked(), bytes);  // nothing stays of the one before
    CHECK(heap.free(again.offset));
  }
  const auto unit = heap.allocate(64);
  const auto next = heap.allocate(64);
  heap.note_slack(unit.offset, 31);  // has no place for it, and takes no other's
  CHECK_EQ(heap.find(unit.offset).block.slack, Block::kUnknown);
  CHECK_EQ(heap.find(unit.offset).block.asked(), uint64_t{64});
  CHECK(heap.find(next.offset).state == BlockState::kLive);
  CHECK(heap.free(next.offset));
  CHECK(heap.free(unit.offset));
}

TEST(memory_heap_spans_more_than_the_bounds) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  const auto block = heap.allocate(100, 2 * kMiB, 9);
  CHECK_EQ(backing.used, 2 * kMiB);
  CHECK_EQ(backing.last_tag, 9);
  CHECK_EQ(heap.find(block.offset).block.bytes, uint64_t{128});
  CHECK_EQ(int{heap.tag_of(block.offset + kMiB)}, 9);
  CHECK(heap.find(block.offset + 128).state == BlockState::kNever);
  heap.allocate(100);
  CHECK_EQ(backing.last_tag, 0);
  CHECK(heap.free(block.offset));
  CHECK_EQ(backing.last_tag, 9);
  CHECK(heap.allocate(32, 65 * kMiB).outcome == Outcome::kNoRange);
}

TEST(memory_heap_keeps_alignment_of_the_size) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  for (uint64_t bytes = 512; bytes <= 40000; bytes += 512) {
    CHECK_EQ(heap.allocate(bytes).offset % 512, uint64_t{0});
  }
}

TEST(memory_heap_finds_inner_addresses_only) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  for (const uint64_t bytes : {uint64_t{96}, uint64_t{5000}, uint64_t{70000}, 9 * kMiB + 4096}) {
    const uint64_t start = heap.allocate(bytes).offset;
    const uint64_t real = heap.find(start).block.bytes;
    for (const uint64_t inside : {uint64_t{1}, real / 2, real - 1}) {
      CHECK(heap.find(start + inside).state == BlockState::kLive);
      CHECK_EQ(heap.find(start + inside).block.offset, start);
    }
    const Found beyond = heap.find(start + real);
    CHECK(beyond.state != BlockState::kLive || beyond.block.offset != start);
  }
  CHECK(heap.find(64 * kMiB).state == BlockState::kNever);
  CHECK(heap.find(UINT64_MAX).state == BlockState::kNever);
}

TEST(memory_heap_tells_freed_from_never) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  for (const uint64_t bytes : {uint64_t{256}, 3 * kMiB}) {
    const uint64_t keep = heap.allocate(bytes).offset;  // keeps the slab of the small size
    const uint64_t start = heap.allocate(bytes).offset;
    CHECK(heap.free(start));
    CHECK(!heap.free(start));
    CHECK(!heap.free(keep + 32));
    CHECK(heap.find(start + 5).state == BlockState::kFreed);
    CHECK_EQ(heap.find(start + 5).block.bytes, bytes);
    CHECK(heap.free(keep));
  }
  CHECK(heap.find(60 * kMiB).state == BlockState::kNever);
}

TEST(memory_heap_gives_everything_back) {
  CountingBacking backing;
  Heap heap(64 * kMiB, backing);
  std::vector<uint64_t> blocks;
  for (uint64_t bytes = 32; bytes < 2 * kMiB; bytes = bytes * 5 / 4 + 32) {
    blocks.push_back(heap.allocate(bytes).offset);
  }
  for (const uint64_t block : blocks) CHECK(heap.free(block));
  CHECK_EQ(backing.used, uint64_t{0});
  CHECK_EQ(heap.largest_free_bytes(), 64 * kMiB);
  const auto all = heap.allocate(64 * kMiB);
  CHECK(all.outcome == Outcome::kOk);
  CHECK_EQ(all.offset, uint64_t{0});
  CHECK(heap.allocate(32).outcome == Outcome::kNoRange);
  CHECK(heap.free(0));
}

TEST(memory_heap_uses_the_last_fitting_run) {
  // A run that fits exactly must be found even when the bin above it is empty.
  CountingBacking backing;
  const uint64_t page = ascendrt::memory::os::page_bytes();
  Heap heap(1000 * page, backing);
  for (const uint64_t pages : {999, 601, 333, 37, 17}) {
    const auto block = heap.allocate(pages * page);
    CHECK(block.outcome == Outcome::kOk);
    const auto rest = heap.allocate((1000 - pages) * page);
    CHECK(rest.outcome == Outcome::kOk);
    CHECK(heap.free(block.offset));
    CHECK(heap.allocate(pages * page).offset == block.offset);
    CHECK(heap.free(block.offset));
    CHECK(heap.free(rest.offset));
  }
}

TEST(memory_heap_refusal_changes_nothing) {
  CountingBacking backing;
  backing.limit = 4 * kMiB;
  Heap heap(64 * kMiB, backing);
  const auto first = heap.allocate(3 * kMiB);
  CHECK(first.outcome == Outcome::kOk);
  CHECK(heap.allocate(2 * kMiB).outcome == Outcome::kRefused);
  CHECK_EQ(heap.largest_free_bytes(), 61 * kMiB);
  CHECK(heap.allocate(512 * 1024).outcome == Outcome::kOk);
  CHECK(heap.free(first.offset));
  CHECK(heap.allocate(2 * kMiB).outcome == Outcome::kOk);
}

TEST(memory_heap_trims_after_enough_was_freed) {
  CountingBacking backing;
  Heap heap(512 * kMiB, backing);
  for (int round = 0; round < 7; ++round) CHECK(heap.free(heap.allocate(8 * kMiB).offset));
  CHECK_EQ(backing.discarded, uint64_t{0});
  CHECK(heap.free(heap.allocate(8 * kMiB).offset));
  CHECK(backing.discarded >= 8 * kMiB);
  const uint64_t before = backing.discarded;
  heap.trim();  // everything is clean now
  CHECK_EQ(backing.discarded, before);
}

// Random work against a plain model: no two live blocks overlap, every inner address is found.
TEST(memory_heap_random_against_model) {
  CountingBacking backing;
  Heap heap(96 * kMiB, backing);
  std::mt19937_64 random(20240607);
  std::map<uint64_t, uint64_t> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() > 300 || (!live.empty() && random() % 5 < 2)) {
      const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      CHECK(heap.free(victim->first));
      live.erase(victim);
      continue;
    }
    const uint64_t bytes = 1 + random() % (1ULL << (5 + random() % 17));
    const auto block = heap.allocate(bytes);
    if (block.outcome != Outcome::kOk) continue;
    const uint64_t real = (bytes + 31) / 32 * 32;
    const auto next = live.lower_bound(block.offset);
    CHECK(next == live.end() || block.offset + real <= next->first);
    CHECK(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= block.offset);
    live[block.offset] = real;
    const uint64_t inside = block.offset + random() % real;
    CHECK_EQ(heap.find(inside).block.offset, block.offset);
  }
  for (const auto& [offset, bytes] : live) {
    CHECK_EQ(heap.find(offset + bytes - 1).block.offset, offset);
    CHECK(heap.free(offset));
  }
  CHECK_EQ(backing.used, uint64_t{0});
  CHECK_EQ(heap.largest_free_bytes(), 96 * kMiB);
}

TEST(memory_heap_threads) {
  CountingBacking backing;
  Heap heap(256 * kMiB, backing);
  std::atomic<int> wrong{0};
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Block> mine;
    for (int step = 0; step < 3000; ++step) {
      if (mine.size() < 40) {
        const uint64_t bytes = 1 + random() % 60000;
        const auto block = heap.allocate(bytes);
        if (block.outcome != Outcome::kOk) ++wrong;
        mine.push_back({block.offset, bytes});
      } else {
        std::swap(mine[random() % mine.size()], mine.back());
        if (!heap.free(mine.back().offset)) ++wrong;
        mine.pop_back();
      }
      const Block& any = mine[random() % mine.size()];
      if (heap.find(any.offset + random() % any.bytes).block.offset != any.offset) ++wrong;
      heap.find(random() % (256 * kMiB));  // racing with other threads' work: must only be harmless
    }
    for (const Block& block : mine) wrong += heap.free(block.offset) ? 0 : 1;
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(backing.used, uint64_t{0});
}

}  // namespace
