// Work sharing: every item once, from several callers at the same time.
#include <atomic>
#include <thread>

#include "ops/parallel.hpp"
#include "test.hpp"

using namespace ascendrt;

TEST(workers_run_every_item_once) {
  ops::Workers workers(4);
  for (const int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
    ops::parallel_for({workers, nullptr}, count,
                      [&](int64_t i) { ++hits[static_cast<size_t>(i)]; });
    for (const auto& hit : hits) CHECK_EQ(hit.load(), 1);
  }
}

TEST(workers_serve_callers_that_meet) {
  ops::Workers workers(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        ops::parallel_for({workers, nullptr}, 50, [&](int64_t i) { sum += i; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(sum.load(), 4 * 200 * 1225);
}

// Items at the end take long: threads that are done take them over one by one.
TEST(workers_share_uneven_items) {
  ops::Workers workers(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> hits(37);
    ops::parallel_for({workers, nullptr}, 37, [&](int64_t i) {
      for (int64_t k = 0; k < i * i * 20; ++k) asm volatile("");
      ++hits[static_cast<size_t>(i)];
    });
    for (const auto& hit : hits) CHECK_EQ(hit.load(), 1);
  }
}
