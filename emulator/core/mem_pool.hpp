// Stream-ordered memory pools: blocks whose freeing takes its turn in a stream.
// Owns: the blocks of the pools. Must never: give a block to a stream before the work that was
// queued ahead of its freeing is done, unless it is the same stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/handle.hpp"
#include "base/mutex.hpp"
#include "core/stream.hpp"

namespace ascendrt::core {

// Note [Stream-ordered pools]
// A freed block stays in its pool. The stream that freed it may have it back at once, its own order
// protects it; any other stream only after the freeing had its turn. Memory goes back to the device
// when a stream is synchronized and more than the threshold is held, or by trim().
class MemPool final : public base::Object {
 public:
  static constexpr base::Kind kKind = base::Kind::kMemoryPool;
  static base::Ref<MemPool> create(int32_t device, uint64_t most_bytes);
  ~MemPool() override;
  // The handle dies; blocks in use stay valid until they are freed. Raises 107000.
  static void destroy(void* handle);
  static base::Ref<MemPool> of_handle(void* handle);  // raises 107000
  // The pool of a block in use; null when no pool has it.
  static base::Ref<MemPool> of_block(void* address);

  void* allocate(uint64_t bytes, const base::Ref<Stream>& stream);  // raises 207001
  void free(void* address, const base::Ref<Stream>& stream);        // raises 107000
  void trim(uint64_t keep_bytes);

  uint64_t attribute(int32_t attr) const;            // raises 107000
  void set_attribute(int32_t attr, uint64_t value);  // raises 107000
  static bool attribute_is_switch(int32_t attr) { return attr >= 1 && attr <= 3; }

 private:
  struct Free {
    void* address;
    uint64_t bytes;
    void* stream;                // that freed it
    std::weak_ptr<int> pending;  // expires when the freeing had its turn
  };
  MemPool(int32_t device, uint64_t most_bytes) : device_(device), most_(most_bytes) {}

  const int32_t device_;
  const uint64_t most_;
  mutable base::RankedMutex mutex_{base::Rank::kEvent};
  std::map<void*, uint64_t> used_;
  std::vector<Free> free_;
  uint64_t reserved_ = 0;
  uint64_t in_use_ = 0;
  uint64_t values_[9] = {0, 1, 1, 1, 0, 0, 0, 0, 0};  // by aclrtMemPoolAttr
};

// Gives surplus memory of all pools back: a stream was synchronized.
void trim_pools();

}  // namespace ascendrt::core
