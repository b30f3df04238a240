// The operating system as this layer needs it: address ranges, memory files, pages.
// Owns: every mmap, memfd, madvise, mincore and mlock of the emulator's memory.
// Must never: decide a policy, or fail silently (failures raise with the system's reason).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ascendrt::memory::os {

enum class Access : uint8_t { kNone, kRead, kReadWrite };

// Pages of this layer: the host's page size, at least 4 KiB (16 and 64 KiB exist on aarch64).
unsigned page_shift();
// The same where the processor knows one size only, for hot paths; 0 where it must be asked.
#if defined(__x86_64__)
inline constexpr unsigned kFixedPageShift = 12;
#else
inline constexpr unsigned kFixedPageShift = 0;
#endif
inline uint64_t page_bytes() { return 1ULL << page_shift(); }

// Physical memory of the host.
uint64_t host_memory_bytes();

// Reserves an address range without access; nothing is committed. alignment is a power of two.
std::byte* reserve(uint64_t bytes, uint64_t alignment);
// The same at a place; null when something is there already.
std::byte* reserve_at(void* place, uint64_t bytes);
void unmap(void* start, uint64_t bytes);

// Zeroed memory of the process for tables that are mostly never touched.
void* reserve_table(uint64_t bytes);

// A file that lives in memory only and has no name; closed on exec. The size cannot change later.
int make_memory_file(const char* name, uint64_t bytes);
// Maps a memory file over a reserved range. A core dump leaves it out.
void map_file(int file, std::byte* at, uint64_t bytes);
// Maps a part of a memory file over a reserved range; the offset is a multiple of the page. Pages
// past the end of the file stay as they were.
void map_file_part(int file, uint64_t offset, std::byte* at, uint64_t bytes, Access access);
// Puts private zero pages over a part of a reserved range.
void map_nothing(std::byte* at, uint64_t bytes, Access access);
uint64_t file_bytes(int file);
// Bytes of the file that occupy host memory.
uint64_t touched_bytes(int file);
// Gives the whole pages inside [offset, offset + bytes) back; they read as zero afterwards.
void punch_hole(int file, uint64_t offset, uint64_t bytes);
// Bytes of a mapped range that no page backs yet.
uint64_t untouched_bytes(const std::byte* start, uint64_t bytes);
// Whether every page of a range belongs to some mapping of this process.
bool mapped(const void* start, uint64_t bytes);

// Asks for 2 MiB pages for a range of a memory file; the kernel may not give them.
void want_huge_pages(std::byte* start, uint64_t bytes);
// Whether collapse_huge_pages() works here (MADV_COLLAPSE, Linux 6.1); tried once.
bool can_collapse_huge_pages();
// Makes 2 MiB at an address that is a multiple of them one huge page, keeping its contents.
bool collapse_huge_page(std::byte* start);
// Whether the kernel's settings let memory files have 2 MiB pages.
bool huge_pages_allowed();

// Makes part of a reserved range ordinary memory, and back to nothing (contents and locks go).
bool commit(std::byte* start, uint64_t bytes);
void decommit(std::byte* start, uint64_t bytes);
// Keeps pages resident from their first touch on. False when the limit does not allow it.
bool lock_on_touch(std::byte* start, uint64_t bytes);

// NUMA node of the calling thread.
int32_t current_node();

// "reason (errno 12)" of the last failed call.
std::string last_reason();

}  // namespace ascendrt::memory::os
