// Owns: mapping and giving back.
#include "model/file_bytes.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace ascendrt::model {

FileBytes::FileBytes(size_t size) : size_(size), mapped_(size) {
  if (size == 0) return;
  void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  ::madvise(block, size, MADV_HUGEPAGE);  // a refusal costs time, nothing else
  data_ = static_cast<uint8_t*>(block);
}

FileBytes::~FileBytes() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
}

void FileBytes::forget(std::span<const uint8_t> part) const noexcept {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = (static_cast<size_t>(part.data() - data_) + page - 1) / page * page;
  const size_t end = (static_cast<size_t>(part.data() - data_) + part.size()) / page * page;
  if (first < end) ::madvise(data_ + first, end - first, MADV_DONTNEED);
}

}  // namespace ascendrt::model
