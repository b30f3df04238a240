#include "memory/os.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>

#include "base/error.hpp"
#include "gen/abi.h"
#include "memory/text.hpp"
#include "probe/faults.hpp"

namespace ascendrt::memory::os {
namespace {

[[noreturn]] void refuse(const std::string& what, uint64_t bytes, const char* advice) {
  base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host refused to " + what + " of " +
                                                 size_text(bytes) + ": " + last_reason() + "; " +
                                                 advice);
}

int protection(Access access) {
  if (access == Access::kNone) return PROT_NONE;
  return access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
}

// A test lets this call fail, as the kernel would.
bool fails() {
  if (!probe::fails("memory.os")) return false;
  errno = ENOMEM;
  return true;
}

constexpr const char* kSmaller =
    "set ASCENDRT_HBM_SIZE to a smaller device, or lift the limit (ulimit -v, container)";

}  // namespace

int32_t current_node() {
  unsigned node = 0;
  return getcpu(nullptr, &node) == 0 ? static_cast<int32_t>(node) : 0;
}

std::string last_reason() {
  const int code = errno;
  return std::string(std::strerror(code)) + " (errno " + std::to_string(code) + ")";
}

unsigned page_shift() {
  static const unsigned shift = [] {
    const auto bytes = static_cast<uint64_t>(std::max(sysconf(_SC_PAGESIZE), 4096L));
    return static_cast<unsigned>(std::bit_width(bytes) - 1);
  }();
  return shift;
}

uint64_t host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))
                   : 1ULL << 32;
}

std::byte* reserve(uint64_t bytes, uint64_t alignment) {
  // The kernel chooses the place, so sanitizers and valgrind keep their own ranges; the surplus
  // that alignment needs is given back.
  const uint64_t mapped = bytes + alignment;
  if (fails()) refuse("reserve an address range", bytes, kSmaller);
  void* raw = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) refuse("reserve an address range", bytes, kSmaller);
  auto* start = static_cast<std::byte*>(raw);
  const uint64_t skip = -reinterpret_cast<uintptr_t>(raw) & (alignment - 1);
  if (skip > 0) munmap(start, skip);
  if (alignment > skip) munmap(start + skip + bytes, alignment - skip);
  return start + skip;
}

std::byte* reserve_at(void* place, uint64_t bytes) {
  void* raw = mmap(place, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (raw == place) return static_cast<std::byte*>(raw);
  if (raw != MAP_FAILED) munmap(raw, bytes);  // a kernel that does not know the flag
  return nullptr;
}

void unmap(void* start, uint64_t bytes) { munmap(start, bytes); }

void* reserve_table(uint64_t bytes) {
  if (fails()) refuse("reserve the block tables", bytes, kSmaller);
  void* table = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) refuse("reserve the block tables", bytes, kSmaller);
  return table;
}

int make_memory_file(const char* name, uint64_t bytes) {
  // Beyond this limit the kernel would not only refuse: its signal ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    refuse("make a memory file", bytes, "lift the limit of file sizes (ulimit -f)");
  }
  if (fails()) refuse("make a memory file", bytes, kSmaller);
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) refuse("make a memory file", bytes, "memfd_create(2) is needed");
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    close(file);
    errno = code;
    refuse("size a memory file", bytes, kSmaller);
  }
  fchmod(file, 0600);
  // A peer that is given the file later cannot shrink it under our feet. Old kernels lack seals.
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return file;
}

void map_file(int file, std::byte* at, uint64_t bytes) {
  if (fails()) refuse("map device memory", bytes, kSmaller);
  void* mapped =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) refuse("map device memory", bytes, kSmaller);
  madvise(at, bytes, MADV_DONTDUMP);
}

void map_file_part(int file, uint64_t offset, std::byte* at, uint64_t bytes, Access access) {
  if (fails()) refuse("map physical memory", bytes, kSmaller);
  const uint64_t size = file_bytes(file);
  const uint64_t part = std::min(bytes, size - std::min(size, offset));
  const void* mapped = mmap(at, part, protection(access), MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                            file, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) refuse("map physical memory", bytes, kSmaller);
  madvise(at, part, MADV_DONTDUMP);
}

void map_nothing(std::byte* at, uint64_t bytes, Access access) {
  [[maybe_unused]] const void* same_place =
      mmap(at, bytes, protection(access), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0);
}

uint64_t file_bytes(int file) {
  struct stat status{};
  return fstat(file, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

uint64_t touched_bytes(int file) {
  struct stat status{};
  if (fstat(file, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

void punch_hole(int file, uint64_t offset, uint64_t bytes) {
  const uint64_t page = page_bytes();
  const uint64_t first = (offset + page - 1) / page * page;
  const uint64_t end = (offset + bytes) / page * page;
  if (end <= first) return;
  // A failure costs host memory, not correctness: the pages are still usable.
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
            static_cast<off_t>(end - first));
}

namespace {

// Calls visit(flags of the pages) for a range, some thousand pages at a time. False when a page
// belongs to no mapping.
template <class Visit>
bool for_each_page(const void* start, uint64_t bytes, Visit visit) {
  const uint64_t page = page_bytes();
  const auto address = reinterpret_cast<uintptr_t>(start);
  uintptr_t at = address & ~(page - 1);
  const uintptr_t end = (address + bytes + page - 1) & ~(page - 1);
  if (end < address) return false;  // past the end of all addresses
  std::array<unsigned char, 4096> flags{};
  while (at < end) {
    const uint64_t part = std::min<uint64_t>(end - at, flags.size() * page);
    if (mincore(reinterpret_cast<void*>(at), part, flags.data()) != 0) return false;
    visit(std::span(flags.data(), part / page));
    at += part;
  }
  return true;
}

}  // namespace

uint64_t untouched_bytes(const std::byte* start, uint64_t bytes) {
  uint64_t untouched = 0;
  const bool known = for_each_page(start, bytes, [&](std::span<const unsigned char> pages) {
    untouched += static_cast<uint64_t>(std::ranges::count_if(
                     pages, [](unsigned char flags) { return (flags & 1) == 0; })) *
                 page_bytes();
  });
  return known ? std::min(untouched, bytes) : bytes;
}

bool mapped(const void* start, uint64_t bytes) {
  return for_each_page(start, bytes, [](auto) {});
}

void want_huge_pages(std::byte* start, uint64_t bytes) { madvise(start, bytes, MADV_HUGEPAGE); }

bool collapse_huge_page(std::byte* start) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE; older headers lack the name
  // A range without any page is refused. Reading makes one and changes nothing.
  static_cast<void>(*static_cast<volatile std::byte*>(start));
  return madvise(start, 2ULL << 20, kCollapse) == 0;
}

bool can_collapse_huge_pages() {
  static const bool works = [] {
    constexpr uint64_t kHuge = 2ULL << 20;
    const int file = memfd_create("ascendrt-probe", MFD_CLOEXEC);
    if (file < 0) return false;
    std::byte* place = reserve(kHuge, kHuge);
    bool done = ftruncate(file, kHuge) == 0;
    void* mapped = mmap(place, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    done = done && mapped != MAP_FAILED && collapse_huge_page(place);
    munmap(place, kHuge);
    close(file);
    return done;
  }();
  return works;
}

bool huge_pages_allowed() {
  // The setting in force stands in brackets: "always within_size advise [never] deny force".
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string word;
  while (file >> word) {
    if (word == "[always]" || word == "[within_size]" || word == "[advise]" || word == "[force]") {
      return true;
    }
  }
  return false;
}

bool commit(std::byte* start, uint64_t bytes) {
  return !fails() && mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
}

void decommit(std::byte* start, uint64_t bytes) {
  // One call drops the pages, their locks and the access.
  [[maybe_unused]] const void* same_place =
      mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool lock_on_touch(std::byte* start, uint64_t bytes) {
  return mlock2(start, bytes, MLOCK_ONFAULT) == 0;
}

}  // namespace ascendrt::memory::os
