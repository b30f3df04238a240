// Handles, functions, JSON, environment.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/config.hpp"
#include "base/function.hpp"
#include "base/handle.hpp"
#include "base/json.hpp"
#include "base/mutex.hpp"
#include "base/similar.hpp"
#include "test.hpp"

namespace {

using ascendrt::base::handles;
using ascendrt::base::Kind;
using ascendrt::base::make_ref;
using ascendrt::base::Ref;

struct Thing : ascendrt::base::Object {
  static constexpr Kind kKind = Kind::kMemoryPool;
  explicit Thing(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Thing() override { --alive_; }
  std::atomic<int>& alive_;
};

struct Stranger : ascendrt::base::Object {
  static constexpr Kind kKind = Kind::kLoadConfig;
};

TEST(base_nearest_names) {
  const auto meant = [](std::string_view word) {
    return ascendrt::base::did_you_mean(word, {"Ascend910B1", "Ascend910B2", "Ascend310P3"}, "",
                                        "; none");
  };
  CHECK_EQ(meant("Ascend910b1"), std::string("; did you mean Ascend910B1?"));
  CHECK_EQ(meant("ascend310p3"), std::string("; did you mean Ascend310P3?"));
  CHECK_EQ(meant("Ascend910B"), std::string("; did you mean Ascend910B1 or Ascend910B2?"));
  for (const char* far : {"", "foo", "a100"}) CHECK_EQ(meant(far), std::string("; none"));
  CHECK_EQ(meant(std::string(100000, 'A')), std::string("; none"));
}

}  // namespace

TEST(handle_finds_only_its_live_object) {
  std::atomic<int> alive{0};
  void* handle = handles().insert(make_ref<Thing>(alive));
  CHECK(handles().in_window(handle));
  CHECK(static_cast<bool>(handles().get<Thing>(handle)));
  CHECK(!handles().get<Stranger>(handle));
  CHECK(!handles().get<Thing>(nullptr));
  CHECK(!handles().get<Thing>(&alive));
  CHECK(!handles().get<Thing>(static_cast<char*>(handle) + 1));
  CHECK_EQ(alive.load(), 1);
  CHECK(static_cast<bool>(handles().remove<Thing>(handle)));
  CHECK_EQ(alive.load(), 0);
  CHECK(!handles().get<Thing>(handle));
  CHECK(!handles().remove<Thing>(handle));
}

TEST(handle_object_lives_until_its_last_reference) {
  std::atomic<int> alive{0};
  void* handle = handles().insert(make_ref<Thing>(alive));
  Ref<Thing> kept = handles().get<Thing>(handle);
  handles().remove<Thing>(handle);
  CHECK_EQ(alive.load(), 1);
  kept = nullptr;
  CHECK_EQ(alive.load(), 0);
}

TEST(handle_of_a_dead_object_is_not_found_again_soon) {
  std::atomic<int> alive{0};
  void* dead = handles().insert(make_ref<Thing>(alive));
  handles().remove<Thing>(dead);
  for (int i = 0; i < 5000; ++i) {
    void* handle = handles().insert(make_ref<Thing>(alive));
    CHECK(handle != dead);
    handles().remove<Thing>(handle);
  }
  CHECK(!handles().get<Thing>(dead));
}

TEST(handle_lookup_and_removal_race_without_losing_objects) {
  std::atomic<int> alive{0};
  std::atomic<void*> shared{handles().insert(make_ref<Thing>(alive))};
  std::atomic<bool> stop{false};
  std::atomic<int> found{0};
  std::thread reader([&] {
    while (!stop) {
      if (handles().get<Thing>(shared.load())) ++found;
    }
  });
  for (int i = 0; i < 20000; ++i) {
    void* next = handles().insert(make_ref<Thing>(alive));
    handles().remove<Thing>(shared.exchange(next));
  }
  while (found == 0) std::this_thread::yield();
  stop = true;
  reader.join();
  handles().remove<Thing>(shared.load());
  CHECK_EQ(alive.load(), 0);
}

// Some hold the lock long enough that others sleep for it; a wake that got lost would never end.
TEST(mutex_wakes_who_sleeps_for_it) {
  ascendrt::base::RankedMutex mutex(ascendrt::base::Rank::kLeaf);
  constexpr int kThreads = 4;
  constexpr int kTurns = 20'000;
  int turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::lock_guard lock(mutex);
        ++turns;
        if (turns % 64 == 0) std::this_thread::yield();
        if (turns % 4096 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQ(turns, kThreads * kTurns);
  CHECK(mutex.try_lock());
  CHECK(!std::async(std::launch::async, [&] { return mutex.try_lock(); }).get());
  mutex.unlock();
}

TEST(function_runs_inline_and_heap_bodies) {
  using ascendrt::base::Function;
  std::string long_text(100, 'x');
  struct Large {
    char bytes[200] = {7};
  };
  Function<int()> small = [n = 3] { return n; };
  Function<int()> large = [l = Large{}] { return l.bytes[0]; };
  Function<size_t()> owner = [t = std::move(long_text)] { return t.size(); };
  Function<size_t()> moved = std::move(owner);
  CHECK_EQ(small(), 3);
  CHECK_EQ(large(), 7);
  CHECK_EQ(moved(), size_t{100});
  CHECK(!owner);  // NOLINT(bugprone-use-after-move): moved-from is empty by contract
}

TEST(json_accepts_and_refuses) {
  using ascendrt::base::parse_json;
  const auto json = parse_json(R"({"a": {"b": "7\u00e9"}, "c": [1, -2.5e3, true, null]})", 10);
  CHECK(json.has_value());
  CHECK_EQ(*json->find("a")->find("b")->string(), std::string("7\u00e9"));
  for (const char* bad :
       {"{", "{\"a\":}", "[1,]", "{\"a\" 1}", "tru", "1 2", "\"\\x\"", "+1", "inf"}) {
    CHECK(!parse_json(bad, 10).has_value());
  }
  CHECK(parse_json(std::string(10, '[') + std::string(10, ']'), 10).has_value());
  CHECK(!parse_json(std::string(11, '[') + std::string(11, ']'), 10).has_value());
  CHECK(parse_json("\xEF\xBB\xBF[1]", 10).has_value());
  CHECK(!parse_json("\xEF\xBB[1]", 10).has_value());
}

TEST(environment_sizes_and_numbers) {
  using ascendrt::base::env_int;
  using ascendrt::base::env_size_bytes;
  setenv("ASCENDRT_TEST_VALUE", "512MiB", 1);
  CHECK_EQ(env_size_bytes("ASCENDRT_TEST_VALUE", 1), uint64_t{512} << 20);
  setenv("ASCENDRT_TEST_VALUE", "64G", 1);
  CHECK_EQ(env_size_bytes("ASCENDRT_TEST_VALUE", 1), uint64_t{64} << 30);
  for (const char* bad : {"x", "-1", "0", "12Q", "99999999999T", "1 G"}) {
    setenv("ASCENDRT_TEST_VALUE", bad, 1);
    CHECK_THROWS_CODE(env_size_bytes("ASCENDRT_TEST_VALUE", 1), 100000);
  }
  setenv("ASCENDRT_TEST_VALUE", "65", 1);
  CHECK_THROWS_CODE(env_int("ASCENDRT_TEST_VALUE", 1, 0, 64), 100000);
  unsetenv("ASCENDRT_TEST_VALUE");
  CHECK_EQ(env_int("ASCENDRT_TEST_VALUE", 5, 0, 64), 5);
}
