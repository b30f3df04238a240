// Numbers of a limited hardware resource: stream ids and event ids of one device.
// Owns: which numbers are taken. Must never: block; who waits for a number asks again.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/mutex.hpp"

namespace ascendrt::core {

class IdPool {
 public:
  explicit IdPool(uint32_t limit) : limit_(limit) { publish(); }

  // -1 when all are taken.
  int32_t take() {
    const std::lock_guard lock(mutex_);
    const int32_t id = first_.load(std::memory_order_relaxed);
    if (!free_.empty()) {
      free_.pop_back();
    } else if (next_ < limit_) {
      ++next_;
    }
    publish();
    return id;
  }
  void give(int32_t id) {
    const std::lock_guard lock(mutex_);
    free_.push_back(id);
    publish();
  }
  // What take() would give, for who gives it back at once.
  int32_t glance() const { return first_.load(std::memory_order_relaxed); }
  uint32_t limit() const { return limit_; }
  uint32_t available() const {
    const std::lock_guard lock(mutex_);
    return limit_ - next_ + static_cast<uint32_t>(free_.size());
  }

 private:
  void publish() {
    int32_t first = next_ < limit_ ? static_cast<int32_t>(next_) : -1;
    if (!free_.empty()) first = free_.back();
    first_.store(first, std::memory_order_relaxed);
  }

  const uint32_t limit_;
  std::atomic<int32_t> first_{0};
  mutable base::RankedMutex mutex_{base::Rank::kLeaf};
  uint32_t next_ = 0;
  std::vector<int32_t> free_;
};

// A taken number; given back when it goes.
class IdLease {
 public:
  IdLease() = default;
  // Empty when the pool has none left.
  explicit IdLease(IdPool& pool) : pool_(&pool), id_(pool.take()) {
    if (id_ < 0) pool_ = nullptr;
  }
  IdLease(IdLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, -1)) {}
  IdLease& operator=(IdLease&& other) noexcept {
    if (this != &other) {
      reset();
      pool_ = std::exchange(other.pool_, nullptr);
      id_ = std::exchange(other.id_, -1);
    }
    return *this;
  }
  ~IdLease() { reset(); }

  explicit operator bool() const { return pool_ != nullptr; }
  int32_t id() const { return id_; }
  void reset() {
    if (pool_ != nullptr) std::exchange(pool_, nullptr)->give(id_);
    id_ = -1;
  }

 private:
  IdPool* pool_ = nullptr;
  int32_t id_ = -1;
};

// The pools of a device, by its physical index. Made at first use with the limits of the SoC.
IdPool& stream_ids(int32_t device);
IdPool& event_ids(int32_t device);
IdPool& notify_ids(int32_t device);

}  // namespace ascendrt::core
