// The part of the ledger that counts ids: streams, events and notifies of a device.
#include <algorithm>
#include <cstddef>
#include <mutex>

#include "memory/ledger.hpp"
#include "memory/ledger_file.hpp"

namespace ascendrt::memory {

size_t Ledger::ids_at(uint32_t device, uint32_t place) {
  return offsetof(Sheet, ids) + device * sizeof(IdRow) + place * sizeof(Ids);
}

Ledger::IdRow Ledger::ids_of(uint32_t device) {
  IdRow row;
  read(ids_at(device, 0), row);
  return row;
}

void Ledger::publish_ids(uint32_t device) { write(ids_at(device, place_), my_ids_[device]); }

uint64_t Ledger::drawn_by_others(const IdRow& row, IdKind kind) const {
  uint64_t drawn = 0;
  for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
    if (place != place_) drawn += row[place][static_cast<size_t>(kind)];
  }
  return drawn;
}

uint32_t Ledger::draw_ids(uint32_t device, IdKind kind, uint32_t wanted, uint32_t limit) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  uint32_t& mine = my_ids_[device][static_cast<size_t>(kind)];
  const auto room = [&] {
    const uint64_t drawn = mine + drawn_by_others(ids_of(device), kind);
    return drawn < limit ? static_cast<uint32_t>(limit - drawn) : 0;
  };
  uint32_t free = room();
  if (free < wanted) {
    sweep(device);
    free = room();
  }
  const uint32_t count = std::min(wanted, free);
  mine += count;
  publish_ids(device);
  return count;
}

void Ledger::return_ids(uint32_t device, IdKind kind, uint32_t count) {
  const std::lock_guard threads(mutex_);
  uint32_t& mine = my_ids_[device][static_cast<size_t>(kind)];
  mine -= std::min(mine, count);
  publish_ids(device);  // no file lock, as in release()
}

uint64_t Ledger::ids_of_others(uint32_t device, IdKind kind) {
  const std::lock_guard threads(mutex_);
  const FileLock processes(file_);
  sweep(device);
  return drawn_by_others(ids_of(device), kind);
}

void Ledger::ask_others_for_ids(uint32_t device, IdKind kind) {
  std::vector<uint32_t> asked;
  {
    const std::lock_guard threads(mutex_);
    const IdRow row = ids_of(device);
    for (uint32_t place = 0; place < kLedgerProcesses; ++place) {
      if (row[place][static_cast<size_t>(kind)] != 0) asked.push_back(place);
    }
  }
  ask(asked);
}

}  // namespace ascendrt::memory
