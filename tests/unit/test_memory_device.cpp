// Device and pinned memory through the layer's own functions, and whole machines made for a test.
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/handle.hpp"
#include "memory/machine.hpp"
#include "memory/memory.hpp"
#include "process.hpp"
#include "test.hpp"

namespace {

using ascendrt::base::Error;
using ascendrt::memory::Arena;
using ascendrt::memory::Fill;
using ascendrt::memory::Machine;
using ascendrt::memory::Pages;
using ascendrt::memory::Place;
using ascendrt::memory::Usage;
namespace memory = ascendrt::memory;

constexpr uint64_t kMiB = 1ULL << 20;
constexpr auto kNormal = ACL_MEM_MALLOC_NORMAL_ONLY;
constexpr auto kHuge = ACL_MEM_MALLOC_HUGE_FIRST;

char* allocate(uint64_t bytes, int32_t device = 0,
               aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST) {
  memory::configure(2, 1ULL << 30);
  return static_cast<char*>(memory::allocate_device(device, bytes, policy));
}

// What a call raises; empty when it raises nothing.
template <class F>
std::string text_of(int code, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK_EQ(error.code, code);
    return error.text;
  }
  return "";
}

struct Thing : ascendrt::base::Object {
  static constexpr auto kKind = ascendrt::base::Kind::kMemoryPool;
};

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

Machine::Setup small_machine(uint64_t bytes) {
  Machine::Setup setup;
  setup.devices = 2;
  setup.device_bytes = bytes;
  setup.name = "private";
  return setup;
}

// Machines are never destroyed, as the one of the product.
Machine& make(const Machine::Setup& setup) {
  static auto* const all = new std::vector<Machine*>;
  all->push_back(new Machine(setup));
  return *all->back();
}

TEST(memory_places) {
  char* block = allocate(4096);
  char* second = allocate(4096, 1);
  void* pinned = memory::allocate_pinned(100);
  int local = 0;
  CHECK(memory::locate(block).place == Place::kDevice);
  CHECK_EQ(memory::locate(block + 100).device, 0);
  CHECK_EQ(memory::locate(second).device, 1);
  CHECK(memory::locate(pinned).place == Place::kPinned);
  CHECK(memory::locate(&local).place == Place::kPageable);
  CHECK(memory::locate(nullptr).place == Place::kPageable);
  memory::free_device(block);
  CHECK(memory::locate(block).place == Place::kDevice);  // the address still is no host address
  memory::free_device(second);
  memory::free_pinned(pinned);
  CHECK(memory::locate(pinned).place == Place::kPageable);
}

TEST(memory_view_is_the_bounds_check) {
  char* block = allocate(4128);
  CHECK(memory::view(block, 4128) != nullptr);
  CHECK(memory::view(block + 4127, 1) != nullptr);
  CHECK(memory::view(block, 1) != block);  // an alias, the client's own view has no access
  const std::string text = text_of(107000, [&] { memory::view(block + 4000, 1000); });
  CHECK(has(text, "lies 3.906 KiB (4000 bytes) into the allocation of 4.031 KiB (4128 bytes)"));
  CHECK(has(text, ", reach 872 bytes past its end"));
  CHECK_THROWS_CODE(memory::view(block, UINT64_MAX), 107000);
  CHECK_EQ(memory::view(block + 4128, 0), static_cast<void*>(block + 4128));
  memory::free_device(block);
  const std::string gone = text_of(107000, [&] { memory::view(block, 1); });
  CHECK(has(gone, "that was freed, are no longer allocated; free memory only after the streams"));
  CHECK(has(text_of(107000, [&] { memory::view(block + 800 * kMiB, 1); }),
            "nothing is allocated at"));
  int local = 0;
  CHECK_EQ(memory::view(&local, sizeof local), static_cast<void*>(&local));
}

TEST(memory_view_refuses_handles) {
  void* handle = ascendrt::base::handles().insert(ascendrt::base::make_ref<Thing>());
  char* block = allocate(64);
  CHECK(has(text_of(107000, [&] { memory::copy(block, handle, 8); }), "is a handle"));
  ascendrt::base::handles().remove<Thing>(handle);
  memory::free_device(block);
}

TEST(memory_view_stays_usable_after_free) {
  // A task that got its view before the client freed the memory must not end the process.
  char* block = allocate(8 * kMiB);
  auto* view = static_cast<char*>(memory::view(block, 8 * kMiB));
  std::memset(view, 1, 8 * kMiB);
  memory::free_device(block);
  for (int round = 0; round < 20; ++round) memory::free_device(allocate(8 * kMiB));  // trims
  std::memset(view, 2, 8 * kMiB);
  CHECK_EQ(view[8 * kMiB - 1], 2);
}

TEST(memory_copies_between_all_places) {
  char* first = allocate(1000);
  char* other = allocate(1000, 1);
  auto* pinned = static_cast<char*>(memory::allocate_pinned(1000));
  const std::string text = "the quick brown fox";
  memory::copy(first, text.data(), text.size());
  memory::copy(other + 100, first, text.size());  // across devices
  memory::copy(pinned + 5, other + 100, text.size());
  CHECK_EQ(std::string(pinned + 5, text.size()), text);
  memory::copy(first + 4, first, text.size());  // overlapping
  std::string back(text.size() + 4, ' ');
  memory::copy(back.data(), first, back.size());
  CHECK_EQ(back, "the " + text);
  memory::fill(first, 0x141, 3);
  memory::copy(back.data(), first, 4);
  CHECK_EQ(back.substr(0, 4), std::string("AAA "));
  CHECK_THROWS_CODE(memory::copy(first + 1010, text.data(), 19), 107000);
  CHECK_THROWS_CODE(memory::copy(back.data(), other + 1000, 33), 107000);
  memory::free_device(first);
  memory::free_device(other);
  memory::free_pinned(pinned);
}

TEST(memory_copies_rows) {
  char* block = allocate(64);
  memory::fill(block, '.', 64);
  const std::string rows = "ab..cd..ef..";
  memory::copy_rows(block, rows.data(), {2, 3, 5, 4});
  std::string back(12, ' ');
  memory::copy(back.data(), block, 12);
  CHECK_EQ(back, std::string("ab...cd...ef"));
  // The last row may end with the block, the pitch behind it does not count.
  memory::copy_rows(block + 62, rows.data(), {2, 1, 1000, 1000});
  CHECK_THROWS_CODE(memory::copy_rows(block, rows.data(), {2, 3, 32, 4}), 107000);
  CHECK_THROWS_CODE(memory::copy_rows(block, rows.data(), {2, 3, UINT64_MAX / 2, 4}), 107000);
  memory::free_device(block);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers look at host addresses themselves.
TEST(memory_copy_survives_bad_host_addresses) {
  char* block = allocate(8192);
  for (int round = 0; round < 3; ++round) {
    CHECK(has(text_of(107000, [&] { memory::copy(block, reinterpret_cast<void*>(16), 8); }),
              "host address 0x10 cannot be read or written"));
  }
  // A buffer that ends before the size that was given.
  auto* page = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(page + 4096, 4096, PROT_NONE);
  CHECK_THROWS_CODE(memory::copy(page + 4000, block, 200), 107000);
  CHECK_THROWS_CODE(memory::fill(page + 4000, 1, 200), 107000);
  memory::copy(page + 4000, block, 96);
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        try {
          memory::copy(block, page, 8192);
        } catch (const Error& error) {
          refused += error.code == 107000 ? 1 : 0;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_EQ(refused.load(), 200);
  munmap(page, 8192);
  memory::free_device(block);
}
#endif

TEST(memory_free_takes_each_block_once) {
  char* block = allocate(500);
  CHECK(has(text_of(107000, [&] { memory::free_device(block + 32); }),
            "32 bytes into the allocation"));
  memory::free_device(block);
  CHECK(has(text_of(107000, [&] { memory::free_device(block); }), "that was freed"));
  int local = 0;
  CHECK(has(text_of(107000, [&] { memory::free_device(&local); }), "is no device memory"));
  CHECK_THROWS_CODE(memory::free_pinned(&local), 107000);
  void* pinned = memory::allocate_pinned(64);
  CHECK_THROWS_CODE(memory::free_device(pinned), 107000);
  memory::free_pinned(pinned);
  CHECK(has(text_of(107000, [&] { memory::free_pinned(pinned); }), "cannot free"));
}

TEST(memory_fresh_blocks_are_not_zero) {
  for (const uint64_t bytes : {32, 4096, 65536}) {
    char* block = allocate(bytes);
    const auto* words = static_cast<const uint16_t*>(memory::view(block, bytes));
    CHECK_EQ(words[0], 0x7FCD);
    CHECK_EQ(words[bytes / 2 - 1], 0x7FCD);
    memory::free_device(block);
  }
}

TEST(memory_fill_on_marks_fresh_and_freed_memory) {
  Machine::Setup setup = small_machine(64 * kMiB);
  setup.fill = Fill::kOn;
  Arena& arena = make(setup).arena(0);
  std::byte* block = arena.allocate(3 * kMiB, kHuge);
  const auto* words = reinterpret_cast<const uint16_t*>(arena.view(block, 3 * kMiB));
  CHECK_EQ(words[3 * kMiB / 2 - 1], 0x7FCD);
  arena.free(block);
  CHECK_EQ(words[3 * kMiB / 2 - 1], 0x7FDD);
}

TEST(memory_capacity_is_exact_and_comes_back) {
  Machine& machine = make(small_machine(64 * kMiB));
  Arena& arena = machine.arena(0);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(arena.allocate(kMiB, kNormal));
  const std::string text = text_of(207001, [&] { arena.allocate(32, kNormal); });
  for (const char* words :
       {"device 0 has no room for 32 bytes", "0 bytes of 64 MiB", "ASCENDRT_HBM_SIZE"}) {
    CHECK(has(text, words));
  }
  CHECK_EQ(machine.ledger().used(0).total(), 64 * kMiB);
  CHECK_EQ(machine.ledger().used(1).total(), uint64_t{0});
  arena.free(blocks[40]);
  blocks[40] = arena.allocate(kMiB, kNormal);
  for (std::byte* block : blocks) arena.free(block);
  CHECK_EQ(machine.ledger().used(0).total(), uint64_t{0});
  std::byte* all = arena.allocate(64 * kMiB, kHuge);
  arena.free(all);
  CHECK_THROWS_CODE(arena.allocate(64 * kMiB + 1, kHuge), 207001);
  CHECK_THROWS_CODE(arena.allocate(UINT64_MAX - 100, kNormal), 207001);
}

TEST(memory_huge_pages_are_whole_and_fall_back) {
  Machine& machine = make(small_machine(8 * kMiB));
  Arena& arena = machine.arena(0);
  const auto used = [&] { return machine.ledger().used(0); };
  std::byte* first = arena.allocate(3 * kMiB, kHuge);
  CHECK_EQ(used().huge_bytes, 2 * kMiB);  // what is behind the last whole page is normal
  CHECK_EQ(used().normal_bytes, kMiB);
  CHECK(arena.pages_at(0) == Pages::kHuge);
  CHECK_THROWS_CODE(arena.view(first, 3 * kMiB + 1), 107000);  // bounds are not those of the pages
  std::byte* second = arena.allocate(kMiB, kNormal);
  CHECK_EQ(used().normal_bytes, 2 * kMiB);
  arena.allocate(kMiB + 32, kHuge);
  std::byte* third = arena.allocate(100, ACL_MEM_MALLOC_HUGE_ONLY);
  CHECK_EQ(used().huge_bytes, 6 * kMiB);
  CHECK_THROWS_CODE(arena.allocate(32, kNormal), 207001);
  arena.free(first);
  arena.allocate(2 * kMiB, kHuge);
  arena.free(second);
  arena.allocate(32, kNormal);
  // Not quite 2 MiB are left: no whole huge page, normal ones do.
  CHECK_THROWS_CODE(arena.allocate(kMiB + 32, ACL_MEM_MALLOC_HUGE_ONLY), 207001);
  std::byte* last = arena.allocate(kMiB + 32, kHuge);
  CHECK(arena.pages_at(static_cast<uint64_t>(last - arena.setup().client)) == Pages::kNormal);
  arena.free(third);
}

TEST(memory_usage_by_kind_of_page) {
  char* warm = allocate(64);
  const Usage all = memory::usage(0);
  const Usage huge = memory::usage(0, Pages::kHuge);
  const Usage normal = memory::usage(0, Pages::kNormal);
  CHECK_EQ(all.total_bytes, huge.total_bytes + normal.total_bytes);
  CHECK_EQ(all.free_bytes, huge.free_bytes + normal.free_bytes);
  char* large = allocate(kMiB + 32);
  CHECK_EQ(memory::usage(0, Pages::kHuge).free_bytes, huge.free_bytes - 2 * kMiB);
  CHECK_EQ(memory::find_device(large).page_bytes, 2 * kMiB);
  char* small = allocate(kMiB + 32, 0, ACL_MEM_MALLOC_NORMAL_ONLY);
  CHECK_EQ(memory::usage(0, Pages::kHuge).free_bytes, huge.free_bytes - 2 * kMiB);
  CHECK_EQ(memory::find_device(small + 5).page_bytes, uint64_t{4096});
  CHECK_EQ(memory::find_device(small + 5).start, static_cast<void*>(small));
  memory::free_device(large);
  memory::free_device(small);
  CHECK_EQ(memory::usage(0).free_bytes, all.free_bytes);
  memory::free_device(warm);
}

TEST(memory_giant_pages_round_to_a_gigabyte) {
  Machine& machine = make(small_machine(3ULL << 30));
  Arena& arena = machine.arena(0);
  const auto giant = ACL_MEM_MALLOC_HUGE1G_ONLY;
  std::byte* block = arena.allocate(100, giant);
  CHECK_EQ(machine.ledger().used(0).huge_bytes, 1ULL << 30);
  CHECK_THROWS_CODE(arena.view(block, 200), 107000);
  arena.free(block);
  CHECK_EQ(machine.ledger().used(0).total(), uint64_t{0});
}

TEST(memory_host_budget_stops_before_the_host_is_full) {
  Machine::Setup setup = small_machine(256 * kMiB);
  setup.host_limit = 32 * kMiB;
  Arena& arena = make(setup).arena(0);
  CHECK(has(text_of(207001, [&] { arena.allocate(40 * kMiB, kHuge); }), "host memory"));
  std::byte* first = arena.allocate(24 * kMiB, kHuge);
  std::byte* second = arena.allocate(24 * kMiB, kHuge);  // nothing is touched yet
  std::memset(arena.view(first, 24 * kMiB), 1, 24 * kMiB);
  const std::string text = text_of(207001, [&] { arena.view(second, 24 * kMiB); });
  CHECK(has(text, "ASCENDRT_HOST_MEMORY"));
  std::memset(arena.view(first, 24 * kMiB), 2, 24 * kMiB);  // its pages are there
  CHECK_THROWS_CODE(arena.allocate(24 * kMiB, kHuge), 207001);
  arena.free(first);
  std::memset(arena.view(second, 24 * kMiB), 3, 24 * kMiB);
  CHECK(arena.touched_bytes() <= 32 * kMiB);
}

TEST(memory_freed_pages_go_back_to_the_host) {
  Arena& arena = make(small_machine(512 * kMiB)).arena(0);
  std::byte* block = arena.allocate(100 * kMiB, kHuge);
  std::memset(arena.view(block, 100 * kMiB), 1, 100 * kMiB);
  CHECK(arena.touched_bytes() >= 100 * kMiB);
  arena.free(block);
  CHECK(arena.touched_bytes() < 8 * kMiB);
}

TEST(memory_open_mode_lets_the_host_in) {
  Machine::Setup setup = small_machine(64 * kMiB);
  setup.open = true;
  Arena& arena = make(setup).arena(1);
  std::byte* block = arena.allocate(1000, kNormal);
  block[999] = std::byte{42};
  CHECK(arena.view(block, 1000)[999] == std::byte{42});
  CHECK_THROWS_CODE(arena.view(block, 5000), 107000);
}

TEST(memory_pinned_blocks) {
  std::set<void*> all;
  for (const uint64_t bytes : {1, 64, 513, 5000, 100000, 3000000}) {
    void* block = memory::allocate_pinned(bytes);
    CHECK_EQ(reinterpret_cast<uintptr_t>(block) % 512, uintptr_t{0});
    std::memset(block, 7, bytes);
    CHECK(all.insert(block).second);
  }
  for (void* block : all) memory::free_pinned(block);
  CHECK_THROWS_CODE(memory::allocate_pinned(UINT64_MAX - 5), 207001);
}

TEST(memory_registers_only_what_is_mapped) {
  auto* gap = static_cast<char*>(
      mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(gap + 8192, 4096);
  CHECK_THROWS_CODE(memory::register_host(gap, 16384), 107000);
  CHECK_THROWS_CODE(memory::register_host(gap, UINT64_MAX - 4095), 107000);
  memory::register_host(gap, 8192);
  memory::unregister_host(gap);
  munmap(gap, 16384);
}

TEST(memory_registered_ranges) {
  alignas(4096) static char range[16384];
  CHECK(memory::locate(range).place == Place::kPageable);
  memory::register_host(range, 8192);
  CHECK(memory::locate(range + 8191).place == Place::kPinned);
  CHECK(memory::locate(range + 8192).place == Place::kPageable);
  CHECK_THROWS_CODE(memory::register_host(range, 4096), 507910);
  CHECK_THROWS_CODE(memory::register_host(range + 4096, 8192), 507910);
  memory::register_host(range + 8192, 4096);
  CHECK_THROWS_CODE(memory::unregister_host(range + 4096), 507911);
  memory::unregister_host(range);
  CHECK(memory::locate(range).place == Place::kPageable);
  CHECK(memory::locate(range + 8192).place == Place::kPinned);
  memory::unregister_host(range + 8192);
  CHECK_THROWS_CODE(memory::unregister_host(range), 507911);
}

TEST(memory_peer_access_is_remembered) {
  memory::configure(2, 1ULL << 30);
  CHECK(!memory::peer_access(0, 1));
  memory::set_peer_access(0, 1, true);
  CHECK(memory::peer_access(0, 1));
  CHECK(!memory::peer_access(1, 0));
  memory::set_peer_access(0, 1, false);
  CHECK(!memory::peer_access(0, 1));
  CHECK_THROWS_CODE(memory::peer_access(0, 63), 107001);
}

// Sets variables for one test.
struct Environment {
  explicit Environment(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name);
      before.emplace(name, old == nullptr ? "" : old);
      setenv(name, value, 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  std::map<std::string, std::string> before;
};

TEST(memory_settings_from_the_environment) {
  {
    const Environment values{{"ASCENDRT_HBM_SIZE", "512M"},
                             {"ASCENDRT_DEVICE_MEMORY", "open"},
                             {"ASCENDRT_FILL", "off"},
                             {"ASCENDRT_HOST_MEMORY", "3G"},
                             {"ASCENDRT_MACHINE", "job-7"}};
    const Machine::Setup setup = Machine::setup_from_environment(4, 64ULL << 30);
    CHECK_EQ(setup.device_bytes, 512 * kMiB);
    CHECK_EQ(setup.devices, 4U);
    CHECK(setup.open);
    CHECK(setup.fill == Fill::kOff);
    CHECK_EQ(setup.host_limit.value_or(0), 3ULL << 30);
    CHECK_EQ(setup.name, std::string("job-7"));
  }
  const Environment values{{"ASCENDRT_HBM_SIZE", ""}, {"ASCENDRT_MACHINE", ""}};
  const Machine::Setup setup = Machine::setup_from_environment(1, 64ULL << 30);
  CHECK_EQ(setup.device_bytes, 64ULL << 30);
  CHECK(!setup.open);
  CHECK_EQ(setup.name, std::string("default"));
}

TEST(memory_wrong_settings_are_named) {
  const std::map<const char*, std::vector<const char*>> wrong = {
      {"ASCENDRT_HBM_SIZE", {"big", "1M", "2000G", "-5"}},
      {"ASCENDRT_DEVICE_MEMORY", {"closed"}},
      {"ASCENDRT_FILL", {"yes"}},
      {"ASCENDRT_HOST_MEMORY", {"lots"}}};
  for (const auto& [name, values] : wrong) {
    for (const char* value : values) {
      const Environment one{{name, value}};
      const std::string text =
          text_of(100000, [] { Machine::setup_from_environment(1, 64ULL << 30); });
      CHECK(has(text, name));
      CHECK(has(text, value));
    }
  }
}

TEST(memory_of_a_forked_child_leaves_the_parent_alone) {
  char* block = allocate(4 * kMiB);
  memory::fill(block, 5, 4 * kMiB);
  const uint64_t before = memory::usage(0).free_bytes;
  const auto ended = ascendrt::test::run_child([] {});
  CHECK_EQ(ended.exit_code, 0);
  CHECK_EQ(memory::usage(0).free_bytes, before);
  char byte = 0;
  memory::copy(&byte, block + 4 * kMiB - 1, 1);
  CHECK_EQ(byte, 5);
  memory::free_device(block);
}

TEST(memory_threads_and_devices) {
  allocate(64);
  std::atomic<int> wrong{0};
  const auto work = [&](int seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    struct Held {
      char* block;
      uint64_t bytes;
      char mark;
    };
    std::vector<Held> held;
    for (int step = 0; step < 400; ++step) {
      if (held.size() < 16) {
        const uint64_t bytes = 1 + random() % (1ULL << (6 + random() % 13));
        const auto mark = static_cast<char>(random());
        char* block = allocate(bytes, seed % 2);
        memory::fill(block, mark, bytes);
        held.push_back({block, bytes, mark});
        continue;
      }
      std::swap(held[random() % held.size()], held.back());
      const Held last = held.back();
      held.pop_back();
      std::string back(last.bytes, static_cast<char>(~last.mark));
      memory::copy(back.data(), last.block, last.bytes);
      if (back.find_first_not_of(last.mark) != std::string::npos) ++wrong;
      memory::free_device(last.block);
    }
    for (const Held& each : held) memory::free_device(each.block);
  };
  std::vector<std::thread> threads;
  for (int seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

}  // namespace
