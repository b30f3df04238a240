// What the host can give: cgroup files of both versions, and the allowance in use.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "memory/budget.hpp"
#include "test.hpp"

namespace {

using ascendrt::base::Error;
using ascendrt::memory::Budget;
using ascendrt::memory::HostRoom;
using ascendrt::memory::measure_host;

constexpr uint64_t kMiB = 1ULL << 20;

// A root folder with files as the kernel shows them.
struct FakeHost {
  FakeHost() {
    // mkdtemp() replaces the six X.
    std::string pattern = (std::filesystem::temp_directory_path() / "ascendrt-XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~FakeHost() { std::filesystem::remove_all(root); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root;
};

TEST(memory_budget_reads_mem_available) {
  const FakeHost host;
  host.put("/proc/meminfo", "MemTotal:  999999 kB\nMemAvailable:   2048 kB\n");
  const HostRoom room = measure_host(host.root);
  CHECK_EQ(room.bytes, 2 * kMiB);
  CHECK(room.limit.find("MemAvailable") != std::string::npos);
}

TEST(memory_budget_takes_the_tightest_group_of_version_2) {
  const FakeHost host;
  host.put("/proc/meminfo", "MemAvailable: 9000000 kB\n");
  host.put("/proc/self/cgroup", "0::/job/step\n");
  host.put("/sys/fs/cgroup/job/memory.max", "104857600\n");
  host.put("/sys/fs/cgroup/job/memory.current", "73400320\n");
  host.put("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 20971520\nactive_file 5\n");
  host.put("/sys/fs/cgroup/job/step/memory.max", "max\n");
  host.put("/sys/fs/cgroup/job/step/memory.current", "1\n");
  const HostRoom room = measure_host(host.root);
  CHECK_EQ(room.bytes, 50 * kMiB);  // 100 - 70 + 20 that is only cache
  CHECK(room.limit.find("/job/memory.max") != std::string::npos);
  host.put("/sys/fs/cgroup/job/memory.current", "204857600\n");
  CHECK_EQ(measure_host(host.root).bytes, uint64_t{0});
}

TEST(memory_budget_reads_version_1_also_inside_a_container) {
  const FakeHost host;
  host.put("/proc/meminfo", "MemAvailable: 9000000 kB\n");
  // The path of the host is not visible inside: the mount itself is the group.
  host.put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n3:hugetlb,memory:/docker/x\n");
  host.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "10485760\n");
  host.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4194304\n");
  host.put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 0\n");
  CHECK_EQ(measure_host(host.root).bytes, 6 * kMiB);
}

TEST(memory_budget_without_any_limit) {
  const FakeHost host;
  CHECK_EQ(measure_host(host.root).bytes, UINT64_MAX);
  CHECK(measure_host().bytes > kMiB);  // the machine the test runs on
}

TEST(memory_budget_admits_what_fits_alone) {
  uint64_t touched = 0;
  int trims = 0;
  Budget budget(100 * kMiB, [&] { return touched; }, [&] { ++trims; });
  for (int i = 0; i < 5; ++i) budget.admit(90 * kMiB);  // untouched memory costs nothing
  CHECK_EQ(trims, 0);
  CHECK_THROWS_CODE(budget.admit(101 * kMiB), 207001);
  CHECK_EQ(trims, 1);
  touched = 60 * kMiB;
  budget.admit(30 * kMiB);
  try {
    budget.admit(50 * kMiB);
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQ(error.code, 207001);
    for (const char* word :
         {"host memory", "ASCENDRT_HOST_MEMORY", "ASCENDRT_HBM_SIZE", "50 MiB"}) {
      CHECK(error.text.find(word) != std::string::npos);
    }
  }
}

TEST(memory_budget_meters_what_is_touched) {
  uint64_t touched = 90 * kMiB;
  Budget budget(100 * kMiB, [&] { return touched; }, [&] { touched -= 5 * kMiB; });
  CHECK(!budget.spend(1));
  budget.meter(8 * kMiB, [] { return 8 * kMiB; });
  CHECK(budget.spend(2 * kMiB));
  CHECK(!budget.spend(2 * kMiB));  // the credit is a quarter of the 10 MiB that were left
  budget.meter(20 * kMiB, [] { return uint64_t{0}; });  // all of it has pages already
  CHECK_EQ(touched, 85 * kMiB);
  CHECK_THROWS_CODE(budget.meter(50 * kMiB, [] { return 30 * kMiB; }), 207001);
}

}  // namespace
