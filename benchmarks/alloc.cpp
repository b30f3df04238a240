// One allocator under the loads of benchmarks/alloc.py; prints "name value" lines.
//   alloc ours LIBRARY | malloc | set | mmap | mmap_touched      [mix OPERATIONS SEED]
// "malloc" is whatever the process was started with (LD_PRELOAD brings the rivals). Must never
// measure two allocators in one process.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Every allocator behind the same two pointers, so that each pays one indirect call.
int (*g_take)(void**, size_t, int);
int (*g_give)(void*);
int (*g_set_device)(int);
void* (*g_malloc)(size_t);
void (*g_free)(void*);

int take_malloc(void** out, size_t bytes, int) {
  *out = g_malloc(bytes);
  return *out == nullptr;
}
int give_malloc(void* block) {
  g_free(block);
  return 0;
}

int take_mmap(void** out, size_t bytes, int) {
  *out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return *out == MAP_FAILED;
}
// A mapping has no memory before it is touched; the first page is what the smallest use costs.
int take_mmap_touched(void** out, size_t bytes, int) {
  const int code = take_mmap(out, bytes, 0);
  if (code == 0) *static_cast<volatile char*>(*out) = 1;
  return code;
}
size_t g_bytes = 0;
int give_mmap(void* block) { return munmap(block, g_bytes); }

// The pool of the guides: free blocks in a set ordered by size, the smallest that fits is cut.
class BestFit {
 public:
  explicit BestFit(uint64_t bytes) { insert(0, bytes); }
  uint64_t take(uint64_t bytes) {
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end()) std::abort();
    const auto [size, offset] = *found;
    by_size_.erase(found);
    by_offset_.erase(offset);
    if (size > bytes) insert(offset + bytes, size - bytes);
    live_.emplace(offset, bytes);
    return offset;
  }
  void give(uint64_t offset) {
    const auto block = live_.find(offset);
    uint64_t bytes = block->second;
    live_.erase(block);
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

 private:
  using Offsets = std::map<uint64_t, uint64_t>;
  void insert(uint64_t offset, uint64_t bytes) {
    by_size_.emplace(bytes, offset);
    by_offset_.emplace(offset, bytes);
  }
  Offsets::iterator erase(Offsets::iterator run) {
    by_size_.erase({run->second, run->first});
    return by_offset_.erase(run);
  }
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
  Offsets by_offset_;
  std::unordered_map<uint64_t, uint64_t> live_;
};
BestFit g_best_fit(64ULL << 30);

int take_set(void** out, size_t bytes, int) {
  *out = reinterpret_cast<void*>(g_best_fit.take((bytes + 63) / 64 * 64) + 64);
  return 0;
}
int give_set(void* block) {
  g_best_fit.give(reinterpret_cast<uintptr_t>(block) - 64);
  return 0;
}

void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "%s answered %d\n", what, code);
  std::exit(1);
}

constexpr int kRounds = 25;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void report(const char* what, size_t bytes, const std::vector<double>& values) {
  std::printf("%s_%zu %.2f\n", what, bytes, median(values));
  std::printf("%s_best_%zu %.2f\n", what, bytes, *std::min_element(values.begin(), values.end()));
}

double pairs(size_t bytes, int count) {
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    void* block = nullptr;
    check(g_take(&block, bytes, 0), "malloc");
    check(g_give(block), "free");
  }
  return ns_since(start) / count;
}

double replaces(std::vector<void*>& live, size_t bytes, int count, uint32_t& random) {
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    random = random * 1664525U + 1013904223U;
    void*& block = live[random >> 26];
    check(g_give(block), "free");
    check(g_take(&block, bytes, 0), "malloc");
  }
  return ns_since(start) / count;
}

void one_thread(size_t bytes, int count) {
  std::vector<double> pair;
  std::vector<double> replace;
  std::vector<void*> live(64);
  uint32_t random = 1;
  for (int round = 0; round < kRounds; ++round) pair.push_back(pairs(bytes, count));
  for (void*& block : live) check(g_take(&block, bytes, 0), "malloc");
  for (int round = 0; round < kRounds; ++round) {
    replace.push_back(replaces(live, bytes, count, random));
  }
  for (void* block : live) check(g_give(block), "free");
  report("pair", bytes, pair);
  report("replace", bytes, replace);
}

// Both threads work at once; the figure is the mean of their times per pair.
void two_threads(size_t bytes, int count) {
  std::vector<double> figures;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> ready{0};
    double times[2] = {};
    const auto work = [&](int index) {
      if (g_set_device != nullptr) check(g_set_device(0), "aclrtSetDevice");
      pairs(bytes, 100);
      ready.fetch_add(1);
      while (ready.load() < 2) {
      }
      times[index] = pairs(bytes, count);
    };
    std::thread first(work, 0);
    std::thread second(work, 1);
    first.join();
    second.join();
    figures.push_back((times[0] + times[1]) / 2);
  }
  report("two", bytes, figures);
}

// One thread takes a batch, another one frees it; the frees alone are timed.
void freed_elsewhere(size_t bytes) {
  const size_t batch = std::clamp<size_t>((256ULL << 20) / bytes, 1, 1000);
  const int batches = static_cast<int>(std::clamp<size_t>(20000 / batch, 20, 400));
  std::vector<void*> blocks(batch);
  std::vector<double> figures;
  std::atomic<int> turn{0};
  std::thread freer([&] {
    if (g_set_device != nullptr) check(g_set_device(0), "aclrtSetDevice");
    for (int i = 0; i < batches; ++i) {
      while (turn.load(std::memory_order_acquire) != 1) {
      }
      const auto start = Clock::now();
      for (void* block : blocks) check(g_give(block), "free");
      figures.push_back(ns_since(start) / static_cast<double>(batch));
      turn.store(0, std::memory_order_release);
    }
  });
  for (int i = 0; i < batches; ++i) {
    for (void*& block : blocks) check(g_take(&block, bytes, 0), "malloc");
    turn.store(1, std::memory_order_release);
    while (turn.load(std::memory_order_acquire) != 0) {
    }
  }
  freer.join();
  report("elsewhere", bytes, figures);
}

struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  uint64_t below(uint64_t limit) { return next() % limit; }
};

// Sizes of a server that runs ResNet-50 and BERT-base in float32 at batches of 1 to 8.
size_t service_size(Random& random) {
  static constexpr uint64_t kElements[] = {
      3 * 224 * 224, 64 * 112 * 112, 256 * 56 * 56,  512 * 28 * 28, 1024 * 14 * 14, 2048 * 7 * 7,
      128 * 768,     128 * 3072,     12 * 128 * 128, 384 * 768,     384 * 3072,     12 * 384 * 384};
  static constexpr uint64_t kWeights[] = {64 * 3 * 49, 512 * 512 * 9, 1024 * 2048, 768 * 768,
                                          768 * 3072,  2048 * 1000,   30522 * 768};
  const uint64_t kind = random.below(100);
  if (kind < 45) return 32 + random.below(4096);          // scalars, shapes, tiling
  if (kind < 60) return (1 + random.below(8)) * 128 * 4;  // token ids, masks
  if (kind < 90) return (1ULL << random.below(4)) * 4 * kElements[random.below(12)];
  if (kind < 97) return 4 * kWeights[random.below(7)];
  return (1 << 20) + random.below(24 << 20);  // workspaces
}

void service_mix(uint64_t operations, uint64_t seed, const char* library) {
  const std::string folder = std::string(library).substr(0, std::string(library).rfind('/') + 1);
  void* core = dlopen((folder + "libascendrt_emu.so").c_str(), RTLD_NOW);
  if (core == nullptr) check(1, dlerror());
  const auto figures = reinterpret_cast<int32_t (*)(int32_t, int64_t*, size_t)>(
      dlsym(core, "art_ctl_memory_figures"));
  if (figures == nullptr) check(1, "art_ctl_memory_figures");
  Random random{seed * 2 + 1};
  constexpr size_t kSlots = 4096;
  std::vector<void*> slots(kSlots);
  double worst = 0;
  uint64_t samples = 0;
  int64_t most = 0;
  const auto start = Clock::now();
  for (uint64_t i = 0; i < operations; ++i) {
    // The load swings: between 10 and 70 % of the slots are meant to be in use.
    const double wave = 0.4 - 0.3 * std::cos(static_cast<double>(i) * 2e-5);
    void*& block = slots[random.below(kSlots)];
    const bool wanted = static_cast<double>(random.below(1000)) < wave * 1000;
    if (block != nullptr && !wanted) {
      check(g_give(block), "free");
      block = nullptr;
    } else if (block == nullptr && wanted) {
      check(g_take(&block, service_size(random), 0), "malloc");
    } else if (block != nullptr) {
      check(g_give(block), "free");
      check(g_take(&block, service_size(random), 0), "malloc");
    }
    if (i % 10'000 != 0) continue;
    int64_t now[4] = {};  // live, reserved, cached, blocks
    check(figures(0, now, 4), "figures");
    most = std::max(most, now[0]);
    if (now[0] <= 1LL << 30) continue;
    ++samples;
    worst = std::max(worst, 1.0 - static_cast<double>(now[0]) / static_cast<double>(now[1]));
  }
  const double elapsed = ns_since(start);
  for (void* block : slots) {
    if (block != nullptr) check(g_give(block), "free");
  }
  int64_t end[4] = {};
  check(figures(0, end, 4), "figures");
  std::printf("mix_operations %llu\nmix_ns_per_operation %.2f\n",
              static_cast<unsigned long long>(operations),
              elapsed / static_cast<double>(operations));
  std::printf("mix_live_at_end %lld\nmix_blocks_at_end %lld\n", static_cast<long long>(end[0]),
              static_cast<long long>(end[3]));
  std::printf("mix_most_live %lld\nmix_samples %llu\nmix_worst_fragmentation %.5f\n",
              static_cast<long long>(most), static_cast<unsigned long long>(samples), worst);
}

void choose(const std::string& name, const char* library) {
  if (name == "ours") {
    void* opened = dlopen(library, RTLD_NOW);
    if (opened == nullptr) check(1, dlerror());
    g_take = reinterpret_cast<decltype(g_take)>(dlsym(opened, "aclrtMalloc"));
    g_give = reinterpret_cast<decltype(g_give)>(dlsym(opened, "aclrtFree"));
    g_set_device = reinterpret_cast<decltype(g_set_device)>(dlsym(opened, "aclrtSetDevice"));
    check(g_set_device(0), "aclrtSetDevice");
  } else if (name == "malloc") {
    g_malloc = reinterpret_cast<decltype(g_malloc)>(dlsym(RTLD_DEFAULT, "malloc"));
    g_free = reinterpret_cast<decltype(g_free)>(dlsym(RTLD_DEFAULT, "free"));
    g_take = take_malloc;
    g_give = give_malloc;
  } else if (name == "set") {
    g_take = take_set;
    g_give = give_set;
  } else {
    g_take = name == "mmap" ? take_mmap : take_mmap_touched;
    g_give = give_mmap;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "malloc";
  const char* library = argc > 2 ? argv[2] : "";
  choose(name, library);
  if (argc > 4 && std::string(argv[3]) == "mix") {
    service_mix(std::strtoull(argv[4], nullptr, 10),
                argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 1, library);
    return 0;
  }
  for (const size_t bytes : {256UL, 4096UL, 65536UL, 1UL << 20, 2UL << 20, 64UL << 20}) {
    g_bytes = bytes;
    const int count = name.starts_with("mmap") || (name == "malloc" && bytes > 65536) ? 500 : 5000;
    one_thread(bytes, count);
    if (name != "ours") continue;
    two_threads(bytes, 20000);
    freed_elsewhere(bytes);
  }
  return 0;
}
