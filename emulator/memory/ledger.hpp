// The capacity ledger: how much memory and how many ids of each device every process of the
// emulated machine uses. Owns: a small shared file, its locks and this process's place in it. Must
// never: trust what another process wrote beyond adding it up, or wait on anything but the file's
// lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "memory/shape.hpp"

namespace ascendrt::memory {

inline constexpr uint32_t kLedgerDevices = 64;
inline constexpr uint32_t kLedgerProcesses = 256;

// What a device has a limited number of, beside memory.
enum class IdKind : uint8_t { kStream, kEvent, kNotify };
inline constexpr size_t kIdKinds = 3;

// Note [Ledger]
// Processes with the same machine name (ASCENDRT_MACHINE) and the same user share one file of plain
// counters: bytes used per device, kind of page and process, ids per device, kind and process. It
// is read and written with pread(2) and pwrite(2), never through a mapping, and holds no pointers
// and no mutex objects: a process that scribbles over it or cuts it short gives others wrong sums
// for a moment, no crash and no hang. What this process uses stands in its own memory; the file
// only tells others, and is written again as a whole when it was cut. Exclusion is a file lock on
// byte 0; a process keeps a lock on its own byte as long as it lives. The kernel drops both when a
// process dies, however it dies, in any pid namespace: that is how the share of a killed process is
// recognised and swept.
//   default, NAME   /dev/shm/ascendrt<version>-<uid>-<name>, mode 0600: another version of the
//                   program has another file, and other devices
//   private         a memory file of the first process of the tree; descendants find it among the
//                   open files of their ancestors
// Note [Asking others]
// A process that finds no room, or wants exact figures, raises the `wanted` word of the others and
// wakes the futex on it; each process that keeps memory ready has a thread that waits there, gives
// back what is not live, publishes its figures and raises `answered`. The asker waits for a bounded
// time. The words are mapped for the kernel alone: a futex on a page that was cut off answers
// EFAULT, where a load would end the process.
class Ledger {
 public:
  // Opens or makes the ledger of a machine. Raises 507899 when it belongs to somebody else, is
  // damaged or of another version, or when all places are taken.
  explicit Ledger(const std::string& machine);
  ~Ledger();
  // Makes the file of a machine new, whatever is in it. Raises 507899 when a process uses it, or
  // it belongs to somebody else. Gives what was done, in words.
  static std::string reset(const std::string& machine);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Adds bytes to this process's use of the device. False when all processes together would exceed
  // the capacity; then nothing has changed.
  bool charge(uint32_t device, Parts parts, uint64_t capacity_bytes);
  void release(uint32_t device, Parts parts);
  bool charge(uint32_t device, Pages kind, uint64_t bytes, uint64_t capacity_bytes) {
    return charge(device, parts_of(kind, bytes), capacity_bytes);
  }
  void release(uint32_t device, Pages kind, uint64_t bytes) {
    release(device, parts_of(kind, bytes));
  }

  // What all living processes use; sweeps dead ones.
  struct Used {
    uint64_t normal_bytes = 0;
    uint64_t huge_bytes = 0;
    uint64_t total() const;  // saturates
  };
  Used used(uint32_t device);
  // What the other processes keep ready of it, as they published it last.
  Used cached_by_others(uint32_t device);
  // Lets all other processes that use the device give back what is not live and publish their
  // figures; waits for them for at most 50 ms. Nothing when there are none.
  void ask_others(uint32_t device);
  // The other side, by one thread: waits until this process is asked, or half a second; gives the
  // question. After the work follows answer() with what is still kept ready per device.
  std::optional<uint32_t> wait_for_question();
  void answer(uint32_t question, const std::vector<Parts>& cached);

  // Adds up to `wanted` ids to what this process has drawn, as far as all processes together stay
  // within the limit; how many that were. They have no numbers here: each process counts its own.
  uint32_t draw_ids(uint32_t device, IdKind kind, uint32_t wanted, uint32_t limit);
  void return_ids(uint32_t device, IdKind kind, uint32_t count);
  // What the other living processes have drawn.
  uint64_t ids_of_others(uint32_t device, IdKind kind);
  // As ask_others(), to the processes that have drawn such ids.
  void ask_others_for_ids(uint32_t device, IdKind kind);

  struct Holder {
    uint32_t process = 0;
    Parts used;
    bool own = false;
  };
  // The processes that use the device, this one too.
  std::vector<Holder> holders(uint32_t device);
  // "3 GiB by process 4711, ..." without this process; empty when nobody else uses the device.
  std::string other_holders(uint32_t device);
  const std::string& machine() const { return machine_; }

 private:
  static constexpr size_t kKinds = 2;
  using Row = std::array<uint64_t, kLedgerProcesses>;
  using Rows = std::array<Row, kKinds>;
  using Ids = std::array<uint32_t, kIdKinds>;
  using IdRow = std::array<Ids, kLedgerProcesses>;
  struct Place {
    uint32_t process;
    uint32_t wanted;    // raised by who asks; a futex
    uint32_t answered;  // the last wanted that was served; a futex
    uint32_t reserved;
  };
  struct Header {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t devices;
    uint32_t processes;
  };
  struct Sheet {
    Header header;
    std::array<Place, kLedgerProcesses> places;
    std::array<Rows, kLedgerDevices> used;
    std::array<Rows, kLedgerDevices> cached;
    std::array<IdRow, kLedgerDevices> ids;
  };
  static const Header kHeader;
  static size_t place_at(uint32_t place);
  static size_t ids_at(uint32_t device, uint32_t place);
  static Parts parts_of(Pages kind, uint64_t bytes) {
    return kind == Pages::kNormal ? Parts{bytes, 0} : Parts{0, bytes};
  }

  bool prepare();
  void check_owner() const;
  void check_sheet();
  void take_place();
  void read_bytes(size_t at, void* out, size_t size);
  void write_bytes(size_t at, const void* bytes, size_t size);
  template <class T>
  void read(size_t at, T& out) {
    read_bytes(at, &out, sizeof out);
  }
  template <class T>
  void write(size_t at, const T& value) {
    write_bytes(at, &value, sizeof value);
  }
  uint32_t peek(size_t at) const;
  void mend();
  void publish(uint32_t device);
  void publish_ids(uint32_t device);
  bool alive(uint32_t place) const;
  Used sum(uint32_t device, const Rows& rows) const;
  Rows used_of(uint32_t device);
  IdRow ids_of(uint32_t device);
  uint64_t drawn_by_others(const IdRow& row, IdKind kind) const;
  void ask(const std::vector<uint32_t>& asked);
  void forget(uint32_t place);
  void forget(uint32_t device, uint32_t place);
  void sweep(uint32_t device);
  uint32_t* word(size_t at) const;
  std::string where() const;

  const std::string machine_;
  std::string path_;
  int file_ = -1;
  std::byte* words_ = nullptr;  // the places as mapped for futexes; never read or written
  uint32_t place_ = 0;
  uint32_t answered_ = 0;                         // of the answering thread
  std::array<Parts, kLedgerDevices> mine_{};      // guarded by mutex_
  std::array<Parts, kLedgerDevices> cached_{};    // as published last
  std::array<Ids, kLedgerDevices> my_ids_{};      // guarded by mutex_
  base::RankedMutex mutex_{base::Rank::kLedger};  // file locks do not tell threads apart
};

}  // namespace ascendrt::memory
