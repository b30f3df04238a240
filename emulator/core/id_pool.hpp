// Numbers of a limited hardware resource: ids of the streams, events and notifies of one device.
// Owns: which numbers this process has taken. Must never: wait until one is free; who waits for a
// number asks again.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "memory/ledger.hpp"

namespace ascendrt::core {

// Note [Shared ids]
// The limit is the device's, so all processes of the emulated machine share it: a process draws the
// right to a few ids from the ledger (memory/ledger.hpp) and gives out its own numbers for them.
// Rights that are not in use stay with the process until another one finds none; those of a process
// that ended are free.
class IdPool {
 public:
  struct Account {
    int32_t device = 0;
    memory::IdKind kind = memory::IdKind::kStream;
  };
  // Without an account all are this process's.
  explicit IdPool(uint32_t limit, std::optional<Account> account = std::nullopt)
      : limit_(limit), account_(account), drawn_(account ? 0 : limit) {
    publish();
  }

  // -1 when all are taken, here or in other processes.
  int32_t take() {
    {
      const std::lock_guard lock(mutex_);
      if (const int32_t id = take_drawn(); id >= 0) return id;
    }
    return account_ ? draw_and_take() : -1;
  }
  void give(int32_t id) {
    const std::lock_guard lock(mutex_);
    free_.push_back(id);
    publish();
  }
  // What take() would give at once, for who gives it back at once.
  int32_t glance() const { return first_.load(std::memory_order_relaxed); }
  // "all 1984 are taken, 12 of them by other processes"
  std::string all_taken() const;
  uint32_t available() const;
  // Gives what was drawn and is not used back to the device.
  void give_back();

 private:
  static constexpr uint32_t kDraw = 64;

  uint32_t used() const { return next_ - static_cast<uint32_t>(free_.size()); }
  int32_t take_drawn() {
    const int32_t id = first_.load(std::memory_order_relaxed);
    if (id < 0) return id;
    if (!free_.empty()) {
      free_.pop_back();
    } else {
      ++next_;
    }
    publish();
    return id;
  }
  void publish() {
    int32_t first = -1;
    if (used() < drawn_) first = free_.empty() ? static_cast<int32_t>(next_) : free_.back();
    first_.store(first, std::memory_order_relaxed);
  }
  int32_t draw_and_take();

  const uint32_t limit_;
  const std::optional<Account> account_;
  std::atomic<int32_t> first_{0};
  base::RankedMutex drawing_{base::Rank::kEvent};  // one thread asks the ledger
  mutable base::RankedMutex mutex_{base::Rank::kLeaf};
  uint32_t drawn_;     // how many this process may use
  uint32_t next_ = 0;  // numbers below it are in use or in free_
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
