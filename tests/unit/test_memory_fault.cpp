// The fault handler: what is said when the host dereferences what it must not, and who comes after
// it.
#include <sys/mman.h>

#include <csignal>
#include <cstring>

#include "base/handle.hpp"
#include "memory/fault.hpp"
#include "memory/memory.hpp"
#include "process.hpp"
#include "test.hpp"

namespace {

using ascendrt::test::Ended;
using ascendrt::test::run_child;
namespace memory = ascendrt::memory;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // its own handler ends the process
#else
constexpr bool kSanitized = false;
#endif

constexpr int kEarlierHandlerRan = 77;
bool g_earlier_handler_exits = false;
struct sigaction g_before_all{};

// A handler that is there before the product's, as a language runtime's would be.
void earlier_handler(int signal, siginfo_t* info, void* context) {
  if (g_earlier_handler_exits) _exit(kEarlierHandlerRan);
  if ((g_before_all.sa_flags & SA_SIGINFO) != 0)
    return g_before_all.sa_sigaction(signal, info, context);
  std::signal(SIGSEGV, SIG_DFL);
  if (info->si_code <= 0) raise(SIGSEGV);  // pending until this handler returns
}

const bool kInstalled = [] {
  struct sigaction action{};
  action.sa_sigaction = earlier_handler;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGSEGV, &action, &g_before_all) == 0;
}();

struct Thing : ascendrt::base::Object {
  static constexpr auto kKind = ascendrt::base::Kind::kMemoryPool;
};

void dereference(const void* address) {
  [[maybe_unused]] const char byte = *static_cast<const volatile char*>(address);
}

void check_died(const Ended& ended) {
  if (kSanitized) {
    CHECK(ended.signal != 0 || ended.exit_code != 0);
  } else {
    CHECK_EQ(ended.signal, SIGSEGV);
  }
}

bool says(const Ended& ended, const std::string& words) {
  return ended.errors.find(words) != std::string::npos;
}

char* device_block(uint64_t bytes) {
  memory::configure(2, 1ULL << 30);
  return static_cast<char*>(memory::allocate_device(0, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
}

TEST(memory_fault_names_the_allocation) {
  char* block = device_block(100000);
  const Ended ended = run_child([&] { dereference(block + 48); });
  check_died(ended);
  CHECK(says(ended, "the host touched device memory"));
  CHECK(says(ended, "48 bytes into the allocation of 100000 bytes"));
  CHECK(says(ended, "device 0"));
  CHECK(says(ended, "aclrtMemcpy"));
  memory::free_device(block);
}

TEST(memory_fault_on_a_write_and_on_freed_memory) {
  char* block = device_block(200000);
  memory::free_device(block);
  const Ended ended = run_child([&] { *static_cast<volatile char*>(block) = 1; });
  check_died(ended);
  CHECK(says(ended, "0 bytes into the allocation of 200000 bytes"));
  CHECK(says(ended, "that was freed"));
}

TEST(memory_fault_where_nothing_is_allocated) {
  char* block = device_block(64);
  const Ended ended = run_child([&] { dereference(block + (900ULL << 20)); });
  check_died(ended);
  CHECK(says(ended, "where nothing is allocated"));
  memory::free_device(block);
}

TEST(memory_fault_on_a_handle) {
  memory::free_device(device_block(64));  // installs the handler
  const auto thing = ascendrt::base::make_ref<Thing>();
  void* handle = ascendrt::base::handles().insert(thing);
  const Ended ended = run_child([&] { dereference(handle); });
  check_died(ended);
  CHECK(says(ended, "which is a handle"));
  ascendrt::base::handles().remove<Thing>(handle);
}

TEST(memory_fault_on_freed_pinned_memory) {
  memory::configure(2, 1ULL << 30);
  void* block = memory::allocate_pinned(1 << 20);
  std::memset(block, 1, 1 << 20);
  memory::free_pinned(block);
  memory::free_device(device_block(64));
  const Ended ended = run_child([&] { dereference(block); });
  check_died(ended);
  CHECK(says(ended, "aclrtMallocHost"));
  CHECK(says(ended, "that was freed"));
}

TEST(memory_fault_elsewhere_is_not_ours) {
  memory::free_device(device_block(64));
  const Ended ended = run_child([] { dereference(reinterpret_cast<void*>(16)); });
  check_died(ended);
  CHECK(!says(ended, "ascendrt: the"));
}

TEST(memory_fault_sent_signals_pass_through) {
  memory::free_device(device_block(64));
  const Ended ended = run_child([] { raise(SIGSEGV); });
  check_died(ended);
  CHECK(!says(ended, "ascendrt: the"));
}

TEST(memory_fault_reaches_the_handler_before) {
  char* block = device_block(64);
  CHECK(kInstalled);
  const auto with_earlier = [](auto body) {
    return run_child([&] {
      g_earlier_handler_exits = true;
      body();
    });
  };
  const Ended ours = with_earlier([&] { dereference(block); });
  CHECK_EQ(ours.exit_code, kEarlierHandlerRan);
  CHECK(says(ours, "the host touched device memory"));
  const Ended theirs = with_earlier([] { dereference(reinterpret_cast<void*>(16)); });
  CHECK_EQ(theirs.exit_code, kEarlierHandlerRan);
  CHECK(!says(theirs, "ascendrt: the"));
  memory::free_device(block);
}

TEST(memory_fault_on_an_alternate_stack) {
  char* block = device_block(64);
  const Ended ended = run_child([&] {
    stack_t stack{};
    stack.ss_size = 65536;
    stack.ss_sp =
        mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&stack, nullptr);
    dereference(block);
  });
  check_died(ended);
  CHECK(says(ended, "the host touched device memory"));
  memory::free_device(block);
}

}  // namespace
