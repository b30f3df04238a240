#include "memory/shared_words.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "memory/os.hpp"

namespace ascendrt::memory {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr const char* kFileName = "ascendrt-words";

}  // namespace

void SharedWords::map(int file) {
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    base::fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
               "cannot map a page that processes share: " + os::last_reason());
  }
  words_ = static_cast<uint64_t*>(mapped);
}

base::Ref<SharedWords> SharedWords::make(Pids pids) {
  base::Ref<SharedWords> made(new SharedWords);
  made->file_ = os::make_memory_file(kFileName, kBytes);
  made->map(made->file_);
  Part part;
  part.file = made->file_;
  part.bytes = kBytes;
  part.device = kHostMemory;
  made->token_ = share(part, pids);
  return made;
}

base::Ref<SharedWords> SharedWords::open(uint64_t token) {
  base::Ref<SharedWords> opened(new SharedWords);
  opened->held_ = open_shared(token);
  if (opened->held_->bytes() != kBytes || opened->held_->file_offset() != 0) {
    base::fail(ACL_ERROR_RT_PARAM_INVALID, "what is shared under this key is memory, no notify");
  }
  opened->map(opened->held_->file());
  opened->token_ = token;
  return opened;
}

SharedWords::~SharedWords() {
  if (words_ != nullptr) munmap(words_, kBytes);
  if (file_ < 0) return;
  withdraw(token_);
  close(file_);
}

}  // namespace ascendrt::memory
