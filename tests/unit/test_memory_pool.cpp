// The memory tiers: one contract over all of them, and what each adds.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "memory/cache.hpp"
#include "memory/machine.hpp"
#include "memory/memory.hpp"
#include "memory/owners.hpp"
#include "memory/pool.hpp"
#include "probe/faults.hpp"
#include "process.hpp"
#include "test.hpp"

namespace {

using ascendrt::base::Error;
using ascendrt::memory::Arena;
using ascendrt::memory::Cache;
using ascendrt::memory::Machine;
using ascendrt::memory::Pool;
using ascendrt::memory::t_lanes;
namespace memory = ascendrt::memory;
namespace probe = ascendrt::probe;

constexpr uint64_t kMiB = 1ULL << 20;
constexpr auto kDefault = ACL_MEM_MALLOC_HUGE_FIRST;
constexpr uint64_t kPadding = 31;

Arena& new_arena(uint64_t bytes, const memory::MemorySettings& settings = {}) {
  static auto* const all = new std::vector<Machine*>;  // machines are never destroyed
  Machine::Setup setup;
  setup.device_bytes = bytes;
  setup.name = "private";
  setup.memory = settings;
  all->push_back(new Machine(setup));
  return all->back()->arena(0);
}

// A tier or an adaptor, as the contract sees it.
struct Tier {
  const char* name;
  Arena& arena;
  std::function<std::byte*(uint64_t)> take;
  std::function<void(std::byte*)> give;
  std::function<void()> end = [] {};
};

// What aclrtMalloc and aclrtFree do: the lane first, the pool where it has nothing.
std::byte* take_by_lane(Arena& arena, Pool& pool, uint64_t bytes) {
  if (t_lanes.take != nullptr) {
    if (void* block = t_lanes.take->take(bytes)) return static_cast<std::byte*>(block);
  }
  std::byte* block = arena.allocate(bytes, kDefault, &pool);
  pool.arm();
  return block;
}

bool given_to_lane(const void* block) {
  Cache* lane = t_lanes.give;
  return lane != nullptr && (lane->give(block) == Cache::Given::kDone ||
                             lane->give_shared(block) == Cache::Given::kDone);
}

void give_by_lane(Arena& arena, std::byte* block) {
  if (!given_to_lane(block)) arena.free(block);
}

std::vector<Tier> tiers(uint64_t bytes) {
  std::vector<Tier> all;
  Arena& driver = new_arena(bytes);
  all.push_back({"driver", driver, [&](uint64_t n) { return driver.allocate(n, kDefault); },
                 [&](std::byte* block) { driver.free(block); }});
  Arena& pooled = new_arena(bytes);
  Pool& pool = pooled.open_pool(1, kPadding);
  all.push_back({"pool", pooled, [&](uint64_t n) { return pooled.allocate(n, kDefault, &pool); },
                 [&](std::byte* block) { pooled.free(block); }, [&] { pool.close(false); }});
  Arena& cached = new_arena(bytes);
  Pool& below = cached.open_pool(2, kPadding);
  all.push_back({"cache", cached, [&](uint64_t n) { return take_by_lane(cached, below, n); },
                 [&](std::byte* block) { give_by_lane(cached, block); },
                 [&] { below.close(false); }});
  memory::MemorySettings traced;
  traced.trace = true;
  Arena& seen = new_arena(bytes, traced);
  Pool& watched = seen.open_pool(3, kPadding);
  all.push_back({"traced", seen, [&](uint64_t n) { return seen.allocate(n, kDefault, &watched); },
                 [&](std::byte* block) { seen.free(block); }, [&] { watched.close(false); }});
  return all;
}

void on_each_tier(uint64_t bytes, const std::function<void(Tier&)>& contract) {
  for (Tier& tier : tiers(bytes)) {
    memory::forget_pool();
    t_lanes = {};
    const int before = ascendrt::test::failures();
    contract(tier);
    tier.end();
    if (ascendrt::test::failures() != before) {
      ascendrt::test::report(__FILE__, __LINE__, std::string("by the tier ") + tier.name);
    }
    CHECK_EQ(tier.arena.total().live_bytes, int64_t{0});
    CHECK_EQ(tier.arena.total().reserved.total(), uint64_t{0});
  }
  t_lanes = {};
}

constexpr uint64_t kSizes[] = {32,    64,   480,       4096,     16384,    16416,
                               65536, kMiB, kMiB + 32, 2 * kMiB, 3 * kMiB, 8 * kMiB + 4096};

TEST(memory_tiers_give_usable_distinct_blocks) {
  on_each_tier(256 * kMiB, [](Tier& tier) {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte*> blocks;
      for (const uint64_t bytes : kSizes) {
        for (int copy = 0; copy < 4; ++copy) {
          std::byte* block = tier.take(bytes);
          CHECK_EQ(reinterpret_cast<uintptr_t>(block) % 64, uintptr_t{0});
          std::byte* view = tier.arena.view(block, bytes);
          view[0] = view[bytes - 1] = static_cast<std::byte>(blocks.size());
          CHECK_THROWS_CODE(tier.arena.view(block, bytes + 1), 107000);
          blocks.push_back(block);
        }
      }
      CHECK_EQ(std::set<std::byte*>(blocks.begin(), blocks.end()).size(), blocks.size());
      for (size_t i = 0; i < blocks.size(); ++i) {
        CHECK(tier.arena.view(blocks[i], 1)[0] == static_cast<std::byte>(i));
        tier.give(blocks[i]);
      }
      CHECK_EQ(tier.arena.total().live_bytes, int64_t{0});
      CHECK_EQ(tier.arena.total().blocks, int64_t{0});
    }
  });
}

TEST(memory_tiers_take_each_block_once) {
  on_each_tier(64 * kMiB, [](Tier& tier) {
    for (const uint64_t bytes : kSizes) {
      std::byte* block = tier.take(bytes);
      CHECK_THROWS_CODE(tier.give(block + 32), 107000);
      CHECK_THROWS_CODE(tier.give(block + 64), 107000);
      tier.give(block);
      CHECK_THROWS_CODE(tier.give(block), 107000);
      CHECK_THROWS_CODE(tier.arena.view(block, 1), 107000);  // also while it is kept ready
    }
    CHECK_THROWS_CODE(tier.give(tier.arena.setup().client + 60 * kMiB), 107000);
  });
}

TEST(memory_tiers_race_for_a_block_and_one_wins) {
  on_each_tier(64 * kMiB, [](Tier& tier) {
    std::byte* block = nullptr;
    std::atomic<int> turn{0};
    std::atomic<int> done{0};
    std::atomic<int> freed{0};
    constexpr int kRaces = 300;
    const auto racer = [&] {
      for (int race = 1; race <= kRaces; ++race) {
        while (turn.load() < race) std::this_thread::yield();
        try {
          tier.give(block);
          ++freed;
        } catch (const Error& error) {
          CHECK_EQ(error.code, 107000);
        }
        ++done;
      }
    };
    std::thread first(racer);
    std::thread second(racer);
    for (int race = 1; race <= kRaces; ++race) {
      block = tier.take(race % 2 == 0 ? 256 : 65536);
      turn = race;
      while (done.load() < 2 * race) std::this_thread::yield();
    }
    first.join();
    second.join();
    CHECK_EQ(freed.load(), kRaces);
  });
}

TEST(memory_tiers_run_out_and_recover) {
  on_each_tier(64 * kMiB, [](Tier& tier) {
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(tier.take(4 * kMiB));
    CHECK_THROWS_CODE(tier.take(32), 207001);
    for (std::byte* block : blocks) tier.give(block);
    std::byte* all = tier.take(64 * kMiB);  // what was kept ready is no obstacle
    tier.give(all);
    CHECK_THROWS_CODE(tier.take(64 * kMiB + 32), 207001);
  });
}

// Fails the n-th way to the driver, n = 1, 2, 3 ..., until the scenario passes untouched.
TEST(memory_tiers_survive_any_failed_driver_allocation) {
  on_each_tier(64 * kMiB, [](Tier& tier) {
    const auto scenario = [&] {
      std::vector<std::byte*> blocks;
      try {
        for (const uint64_t bytes : kSizes) blocks.push_back(tier.take(bytes));
      } catch (...) {
        for (std::byte* block : blocks) tier.give(block);
        throw;
      }
      for (std::byte* block : blocks) tier.give(block);
    };
    int refused = 0;
    for (uint64_t pass = 1;; ++pass) {
      tier.arena.trim_pools();
      probe::fail_from("memory.driver", pass, 3);
      try {
        scenario();
      } catch (const Error& error) {
        CHECK_EQ(error.code, 207001);
        ++refused;
      }
      const uint64_t passed = probe::passes();
      probe::fail_from("", 0, 0);
      CHECK_EQ(tier.arena.total().live_bytes, int64_t{0});
      scenario();
      if (passed < pass) break;
    }
    CHECK(refused >= 10);
  });
}

// Threads take and give, and hand blocks to each other.
TEST(memory_tiers_threads) {
  on_each_tier(512 * kMiB, [](Tier& tier) {
    std::array<std::atomic<std::byte*>, 32> table{};
    std::atomic<int> wrong{0};
    const auto work = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      for (int step = 0; step < 3000; ++step) {
        const uint64_t bytes = std::min<uint64_t>(kSizes[random() % std::size(kSizes)], 2 * kMiB);
        std::byte* block = tier.take(bytes);
        std::byte* view = tier.arena.view(block, bytes);
        view[bytes - 1] = std::byte{1};
        std::byte* other = table[random() % table.size()].exchange(block);
        try {
          if (other != nullptr) tier.give(other);
        } catch (const Error&) {
          ++wrong;
        }
      }
    };
    std::vector<std::thread> threads;
    for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
    for (int trim = 0; trim < 20; ++trim) {
      tier.arena.trim_pools();
      std::this_thread::yield();
    }
    for (auto& thread : threads) thread.join();
    for (auto& slot : table) {
      if (std::byte* block = slot.load()) tier.give(block);
    }
    CHECK_EQ(wrong.load(), 0);
    CHECK_EQ(tier.arena.total().blocks, int64_t{0});
  });
}

TEST(memory_cache_serves_without_the_pool) {
  Arena& arena = new_arena(256 * kMiB);
  Pool& pool = arena.open_pool(1, kPadding);
  for (const uint64_t bytes : kSizes) {
    std::byte* block = take_by_lane(arena, pool, bytes);
    give_by_lane(arena, block);
    std::byte* again = static_cast<std::byte*>(t_lanes.take->take(bytes));
    CHECK_EQ(static_cast<void*>(again), static_cast<void*>(block));
    CHECK(given_to_lane(again));
    CHECK(!given_to_lane(again));
  }
  CHECK(t_lanes.take->take(100 * kMiB) == nullptr);
  CHECK(!given_to_lane(&arena));
  pool.close(false);
  CHECK(t_lanes.take->take(4096) == nullptr);  // a closed cache gives nothing
  t_lanes = {};
}

// Two threads free each block at once, one of them its owner: exactly one of them may succeed,
// whether the owner's stamp is in force, was just taken away or came back.
TEST(memory_of_two_frees_at_once_one_succeeds) {
  Arena& arena = new_arena(256 * kMiB);
  Pool& pool = arena.open_pool(1, kPadding);
  constexpr int kTurns = 20'000;
  std::atomic<std::byte*> offered{nullptr};
  std::atomic<int> turn{0};
  std::atomic<int> freed{0};
  const auto try_free = [&](std::byte* block) {
    try {
      give_by_lane(arena, block);
      freed.fetch_add(1);
    } catch (const Error&) {
    }
  };
  std::thread other([&] {
    std::byte* mine = take_by_lane(arena, pool, 4096);
    arena.free(mine);
    for (int i = 0; i < kTurns; ++i) {
      std::byte* block = nullptr;
      while ((block = offered.exchange(nullptr)) == nullptr) {
      }
      try_free(block);
      turn.fetch_add(1);
    }
    t_lanes = {};
  });
  for (int i = 0; i < kTurns; ++i) {
    const uint64_t bytes = i % 3 == 0 ? 2 * kMiB : 256;
    // Enough frees of its own that the stamp comes back from time to time.
    for (int own = 0; own < 8; ++own) give_by_lane(arena, take_by_lane(arena, pool, bytes));
    std::byte* block = take_by_lane(arena, pool, bytes);
    offered.store(block);
    try_free(block);
    while (turn.load() <= i) {
    }
    CHECK_EQ(freed.exchange(0), 1);
  }
  other.join();
  CHECK_EQ(arena.total().blocks, int64_t{0});
  CHECK_EQ(pool.close(false), uint64_t{0});
  t_lanes = {};
}

TEST(memory_pool_that_closes_leaves_blocks_valid) {
  Arena& arena = new_arena(64 * kMiB);
  Pool& pool = arena.open_pool(7, kPadding);
  std::vector<std::byte*> kept;
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{64}, 3 * kMiB}) {
    kept.push_back(take_by_lane(arena, pool, bytes));
  }
  give_by_lane(arena, kept[1]);
  CHECK_EQ(pool.close(false), uint64_t{2});
  CHECK_EQ(arena.total().live_bytes, static_cast<int64_t>(64 + 3 * kMiB));
  arena.view(kept[0], 64);
  Pool& next = arena.open_pool(8, kPadding);  // the same place, another owner
  CHECK_EQ(&next, &pool);
  give_by_lane(arena, kept[0]);
  give_by_lane(arena, kept[2]);
  CHECK_THROWS_CODE(give_by_lane(arena, kept[1]), 107000);
  CHECK_EQ(arena.total().live_bytes, int64_t{0});
  CHECK_EQ(next.close(false), uint64_t{0});
  std::byte* lost = arena.allocate(4096, kDefault, &arena.open_pool(9, kPadding));
  pool.close(true);
  CHECK_THROWS_CODE(arena.free(lost), 107000);
  CHECK_EQ(arena.total().reserved.total(), uint64_t{0});
  t_lanes = {};
}

TEST(memory_pool_takes_over_from_threads_that_end) {
  Arena& arena = new_arena(64 * kMiB);
  Pool& pool = arena.open_pool(1, kPadding);
  std::byte* block = nullptr;
  std::thread([&] {
    block = take_by_lane(arena, pool, 65536);
    give_by_lane(arena, take_by_lane(arena, pool, 65536));
  }).join();
  CHECK_EQ(pool.figures().blocks, int64_t{1});
  CHECK_EQ(pool.figures().thread_cached, int64_t{0});
  CHECK(pool.figures().pool_cached >= 65536);
  give_by_lane(arena, block);
  CHECK_EQ(pool.figures().live_bytes, int64_t{0});
  pool.close(false);
  t_lanes = {};
}

TEST(memory_pool_keeps_to_the_fragmentation_policy) {
  Arena& arena = new_arena(8ULL << 30);
  Pool& pool = arena.open_pool(1, kPadding);
  std::mt19937_64 random(5);
  std::vector<std::byte*> live;
  double worst = 0;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() < 700 && (live.size() < 300 || random() % 2 == 0)) {
      live.push_back(take_by_lane(arena, pool, (2 * kMiB + random() % (6 * kMiB)) / 32 * 32));
    } else {
      std::swap(live[random() % live.size()], live.back());
      give_by_lane(arena, live.back());
      live.pop_back();
    }
    const Pool::Figures now = pool.figures();
    if (now.live_bytes <= 1LL << 30) continue;
    worst = std::max(
        worst, 1 - static_cast<double>(now.live_bytes) / static_cast<double>(now.reserved.total()));
  }
  CHECK(worst > 0);
  CHECK(worst <= 0.05);
  for (std::byte* block : live) give_by_lane(arena, block);
  pool.close(false);
  t_lanes = {};
}

TEST(memory_pool_reserves_what_it_was_told) {
  memory::MemorySettings settings;
  settings.pool_bytes = 20 * kMiB;
  Arena& arena = new_arena(64 * kMiB, settings);
  Pool& first = arena.open_pool(1, kPadding);
  CHECK_EQ(first.figures().reserved.total(), 20 * kMiB);
  std::byte* block = take_by_lane(arena, first, 10 * kMiB);
  CHECK_EQ(first.figures().reserved.total(), 20 * kMiB);
  give_by_lane(arena, block);
  first.trim();
  CHECK_EQ(first.figures().reserved.total(), 20 * kMiB);
  arena.open_pool(2, kPadding);
  arena.open_pool(3, kPadding);
  try {
    arena.open_pool(4, kPadding);
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQ(error.code, 207001);
    CHECK(error.text.find("mem pool init failed") != std::string::npos);
  }
  t_lanes = {};
}

TEST(memory_owners_are_named_and_forgotten) {
  Arena& arena = new_arena(64 * kMiB);
  std::byte* block = nullptr;
  {
    const memory::Owner model(memory::OwnerKind::kModel, "resnet50");
    const memory::Owner same(memory::OwnerKind::kModel, "resnet50");
    CHECK_EQ(model.number(), same.number());
    block = arena.allocate(30 * kMiB, kDefault, nullptr, model.number());
    CHECK_EQ(arena.held_by(memory::OwnerKind::kModel).bytes, static_cast<int64_t>(30 * kMiB));
    try {
      arena.allocate(50 * kMiB, kDefault);
      CHECK(false);
    } catch (const Error& error) {
      CHECK(error.text.find("(model resnet50)") != std::string::npos);
    }
    arena.free(block);
  }
  CHECK_EQ(arena.held_by(memory::OwnerKind::kModel).bytes, int64_t{0});
  CHECK_EQ(arena.held_by(memory::OwnerKind::kModel).peak, static_cast<int64_t>(30 * kMiB));
  const memory::Owner next(memory::OwnerKind::kOperator, "MatMul");
  CHECK_EQ(memory::owner_text(next.number()), std::string("operator MatMul"));
}

// Takes and gives until it is killed.
[[noreturn]] void work_for_ever(const std::string& name) {
  Machine::Setup setup;
  setup.device_bytes = 64 * kMiB;
  setup.name = name;
  Arena& arena = (new Machine(setup))->arena(0);
  for (uint64_t step = 0;; ++step) {
    try {
      arena.free(arena.allocate((1 + step % 30) * kMiB, kDefault));
    } catch (const Error& error) {
      if (error.code != 207001) _exit(1);
    }
  }
}

TEST(memory_killed_processes_leave_the_ledger_whole) {
  const std::string name = "test-kill-" + std::to_string(getpid());
  memory::Ledger ledger(name);
  for (int round = 0; round < 5; ++round) {
    std::array<pid_t, 3> workers{};
    for (pid_t& worker : workers) {
      worker = fork();
      if (worker == 0) work_for_ever(name);
    }
    usleep(40'000);
    for (const pid_t worker : workers) {
      kill(worker, SIGKILL);  // in the middle of whatever it does
      int status = 0;
      waitpid(worker, &status, 0);
      CHECK(WIFSIGNALED(status));
    }
    CHECK_EQ(ledger.used(0).total(), uint64_t{0});
  }
  CHECK(ledger.charge(0, memory::Pages::kHuge, 64 * kMiB, 64 * kMiB));
  shm_unlink(("/ascendrt-" + std::to_string(geteuid()) + "-" + name).c_str());
}

}  // namespace
