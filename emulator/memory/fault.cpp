#include "memory/fault.hpp"

#include <setjmp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include "base/handle.hpp"
#include "memory/machine.hpp"
#include "memory/virtual.hpp"

namespace ascendrt::memory {
namespace {

struct Guard {
  sigjmp_buf jump;
  const void* address = nullptr;
};
// Initial-exec: reading it in the handler must not make the loader allocate.
thread_local Guard* t_guard __attribute__((tls_model("initial-exec"))) = nullptr;

struct sigaction g_previous{};

// A line of text made without allocating; cut when it is too long.
class Line {
 public:
  Line& text(const char* part) {
    while (*part != '\0') put(*part++);
    return *this;
  }
  Line& number(uint64_t value, unsigned base = 10) {
    std::array<char, 24> digits{};
    size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count > 0) put(digits[--count]);
    return *this;
  }
  Line& address(uint64_t value) { return text("0x").number(value, 16); }
  void print() {
    put('\n');
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, letters_.data(), length_);
  }

 private:
  void put(char letter) {
    if (length_ < letters_.size()) letters_[length_++] = letter;
  }
  std::array<char, 1024> letters_{};
  size_t length_ = 0;
};

void print_block(Line& line, const Found& found, uint64_t client, uint64_t address) {
  if (found.state == BlockState::kNever) {
    line.text(", where nothing is allocated");
    return;
  }
  line.text(", ")
      .number(address - client - found.block.offset)
      .text(" bytes into the allocation of ");
  line.number(found.block.asked()).text(" bytes");
  if (found.block.asked() != found.block.bytes)
    line.text(", ").number(found.block.bytes).text(" with padding,");
  line.text(" at ").address(client + found.block.offset);
  if (found.state == BlockState::kFreed) line.text(" that was freed");
}

void report_device(const Machine& machine, int32_t device, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Line line;
  line.text("ascendrt: the host touched device memory at ").address(address);
  if (const Arena* arena = machine.arena_or_null(device)) {
    const std::byte* client = arena->setup().client;
    print_block(line, arena->find(static_cast<const std::byte*>(pointer)),
                reinterpret_cast<uintptr_t>(client), address);
  }
  line.text(", device ").number(static_cast<uint64_t>(device));
  line.text(
      ". A host program cannot dereference device pointers: copy with aclrtMemcpy or "
      "aclrtMemcpyAsync, fill with aclrtMemset. (ASCENDRT_DEVICE_MEMORY=open emulates a board "
      "where it can.)");
  line.print();
}

void report_pinned(const Pinned& pinned, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Line line;
  line.text("ascendrt: the program touched host memory of aclrtMallocHost at ").address(address);
  print_block(line, pinned.find(pointer), reinterpret_cast<uintptr_t>(pinned.start()), address);
  line.text(".");
  line.print();
}

void report_reserved(const void* pointer) {
  Line line;
  line.text("ascendrt: the host touched reserved addresses (aclrtReserveMemAddress) at ");
  line.address(reinterpret_cast<uintptr_t>(pointer));
  line.text(
      ". Device memory that is mapped there cannot be dereferenced: copy with aclrtMemcpy, or "
      "allow "
      "the host with aclrtMemSetAccess.");
  line.print();
}

void report_handle(const void* pointer) {
  Line line;
  line.text("ascendrt: the program dereferenced ").address(reinterpret_cast<uintptr_t>(pointer));
  line.text(
      ", which is a handle (context, stream, event, buffer, description ...), not memory: pass it "
      "to "
      "the functions of its kind.");
  line.print();
}

void report(const void* address) {
  if (const Machine* machine = machine_or_null()) {
    if (const int32_t device = machine->device_of(address); device >= 0) {
      return report_device(*machine, device, address);
    }
    const Pinned* pinned = machine->pinned_or_null();
    if (pinned != nullptr && pinned->in_range(address)) return report_pinned(*pinned, address);
  }
  if (const Virtual* reserved = virtual_memory_or_null(); reserved && reserved->holds(address)) {
    return report_reserved(address);
  }
  if (base::handles().in_window(address)) report_handle(address);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0)
    return g_previous.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;  // by kill or raise: no instruction will fault again
  if (g_previous.sa_handler == SIG_IGN && sent) return;
  if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    return g_previous.sa_handler(signal);
  }
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &standard, nullptr);
  if (sent) raise(SIGSEGV);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (info->si_code > 0) {
    if (Guard* guard = t_guard) {
      guard->address = info->si_addr;
      siglongjmp(guard->jump, 1);
    }
    report(info->si_addr);
  }
  errno = saved;
  pass_on(signal, info, context);
}

}  // namespace

void install_fault_handler() {
  [[maybe_unused]] static const int installed = [] {
    sigaction(SIGSEGV, nullptr, &g_previous);
    struct sigaction ours{};
    ours.sa_sigaction = on_fault;
    ours.sa_mask = g_previous.sa_mask;
    // On the alternate stack if there is one (for the handler before us); not blocked inside, since
    // survive_fault() leaves by a jump that restores no mask.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return sigaction(SIGSEGV, &ours, nullptr);
  }();
}

bool survive_fault(void (*body)(void*), void* argument, const void** address) {
  install_fault_handler();
  Guard guard;
  if (sigsetjmp(guard.jump, 0) != 0) {
    t_guard = nullptr;
    *address = guard.address;
    return false;
  }
  t_guard = &guard;
  // The fences keep the copy between the two writes for a handler on this thread.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  body(argument);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_guard = nullptr;
  return true;
}

}  // namespace ascendrt::memory
