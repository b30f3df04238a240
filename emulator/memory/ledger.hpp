// The capacity ledger: how much of each device every process of the emulated machine uses.
// Owns: a small shared file, its locks and this process's place in it.
// Must never: trust what another process wrote beyond adding it up, or wait on anything but the
// file's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.hpp"
#include "memory/memory.hpp"

namespace ascendrt::memory {

inline constexpr uint32_t kLedgerDevices = 64;
inline constexpr uint32_t kLedgerProcesses = 256;

// Note [Ledger]
// Processes with the same machine name (ASCENDRT_MACHINE) and the same user share one file of plain
// counters: bytes used, per device, kind of page and process. It holds no pointers and no mutex
// objects, so damage done by another process can give wrong sums but cannot crash this one.
// Exclusion is a file lock on byte 0; a process keeps a lock on its own byte as long as it lives.
// The kernel drops both when a process dies, however it dies, in any pid namespace: that is how the
// share of a killed process is recognised and swept.
//   default, NAME   /dev/shm/ascendrt-<uid>-<name>, mode 0600
//   private         a memory file of the first process of the tree; descendants find it among the
//   open
//                   files of their ancestors
class Ledger {
 public:
  // Opens or makes the ledger of a machine. Raises 507899 when it belongs to somebody else, is
  // damaged or of another version, or when all places are taken.
  explicit Ledger(const std::string& machine);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Adds bytes to this process's use of the device. False when all processes together would exceed
  // the capacity; then nothing has changed.
  bool charge(uint32_t device, Pages kind, uint64_t bytes, uint64_t capacity_bytes);
  void release(uint32_t device, Pages kind, uint64_t bytes);

  // What all living processes use; sweeps dead ones.
  struct Used {
    uint64_t normal_bytes = 0;
    uint64_t huge_bytes = 0;
    uint64_t total() const;  // saturates
  };
  Used used(uint32_t device);
  // "3 GiB by process 4711, ..." without this process; empty when nobody else uses the device.
  std::string other_holders(uint32_t device);
  const std::string& machine() const { return machine_; }

 private:
  struct Place {
    std::atomic<uint32_t> process;
  };
  struct Sheet {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t devices;
    uint32_t processes;
    Place places[kLedgerProcesses];
    std::atomic<uint64_t> used[kLedgerDevices][2][kLedgerProcesses];  // by Pages
  };
  class FileLock;

  void prepare();
  void check_owner() const;
  void check_sheet() const;
  void take_place();
  Used sum(uint32_t device) const;
  void forget(uint32_t place);
  void sweep();
  std::string where() const;

  const std::string machine_;
  std::string path_;
  int file_ = -1;
  Sheet* sheet_ = nullptr;
  uint32_t place_ = 0;
  base::RankedMutex mutex_{base::Rank::kLedger};  // file locks do not tell threads apart
};

}  // namespace ascendrt::memory
