// The capacity ledger: one device seen by several processes, and files that are not to be trusted.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "clock/clock.hpp"
#include "memory/ledger.hpp"
#include "memory/ledger_file.hpp"
#include "process.hpp"
#include "test.hpp"

namespace {

using ascendrt::base::Error;
using ascendrt::memory::Ledger;
using ascendrt::memory::ledger_files;
using ascendrt::memory::LedgerEntry;
using ascendrt::memory::Pages;
using ascendrt::test::Worker;

constexpr int kRefused = 507899;

// A machine of this test alone; its file goes at the end.
struct Machine {
  explicit Machine(const char* purpose)
      : name(std::string("test-") + purpose + "-" + std::to_string(getpid())),
        file("/ascendrt" + std::to_string(ascendrt::memory::kLedgerVersion) + suffix()),
        older("/ascendrt" + suffix()) {}
  ~Machine() {
    shm_unlink(file.c_str());
    shm_unlink(older.c_str());
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The file as somebody else might have left it.
  void write(const std::string& content, mode_t mode) const { write(file, content, mode); }
  static void write(const std::string& file, const std::string& content, mode_t mode) {
    const int made = shm_open(file.c_str(), O_RDWR | O_CREAT, 0600);
    CHECK_EQ(::write(made, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    fchmod(made, mode);
    close(made);
  }

  std::string suffix() const { return "-" + std::to_string(geteuid()) + "-" + name; }

  const std::string name;
  const std::string file;
  const std::string older;  // as versions named it that had no number in the name
};

std::string refusal(const std::string& machine) {
  try {
    const Ledger ledger(machine);
  } catch (const Error& error) {
    CHECK_EQ(error.code, kRefused);
    return error.text;
  }
  return "accepted";
}

TEST(memory_ledger_shares_one_capacity) {
  const Machine machine("share");
  Ledger first(machine.name);
  Ledger second(machine.name);
  CHECK(first.charge(0, Pages::kHuge, 600, 1000));
  CHECK(!second.charge(0, Pages::kNormal, 500, 1000));
  CHECK(second.charge(0, Pages::kNormal, 400, 1000));
  CHECK_EQ(first.used(0).normal_bytes, uint64_t{400});
  CHECK_EQ(second.used(0).huge_bytes, uint64_t{600});
  CHECK_EQ(first.used(1).total(), uint64_t{0});
  first.release(0, Pages::kHuge, 600);
  CHECK(second.charge(0, Pages::kNormal, 600, 1000));
  CHECK(!first.charge(0, Pages::kHuge, 1, 1000));
  CHECK(first.other_holders(0).find("by process " + std::to_string(getpid())) != std::string::npos);
}

TEST(memory_ledger_end_of_a_process_frees_its_share) {
  const Machine machine("end");
  Ledger mine(machine.name);
  {
    Ledger other(machine.name);
    CHECK(other.charge(3, Pages::kHuge, 70, 100));
    CHECK_EQ(mine.used(3).total(), uint64_t{70});
  }
  CHECK_EQ(mine.used(3).total(), uint64_t{0});
}

TEST(memory_ledger_sweeps_a_killed_process) {
  const Machine machine("kill");
  Ledger mine(machine.name);
  CHECK(mine.charge(0, Pages::kHuge, 10, 100));
  Worker worker([&] {
    auto* theirs = new Ledger(machine.name);
    if (!theirs->charge(0, Pages::kNormal, 80, 100)) _exit(1);
  });
  CHECK(worker.ready());
  CHECK_EQ(mine.used(0).total(), uint64_t{90});
  CHECK(!mine.charge(0, Pages::kHuge, 20, 100));
  CHECK(mine.other_holders(0).find(std::to_string(worker.id())) != std::string::npos);
  worker.kill_now();
  CHECK(mine.charge(0, Pages::kHuge, 90, 100));
  CHECK_EQ(mine.used(0).total(), uint64_t{100});
  CHECK_EQ(mine.other_holders(0), std::string());
}

TEST(memory_ledger_forked_child_does_not_keep_a_share_alive) {
  const Machine machine("fork");
  Ledger mine(machine.name);
  auto theirs = std::make_unique<Worker>([&] {
    auto* ledger = new Ledger(machine.name);
    if (!ledger->charge(0, Pages::kHuge, 50, 100)) _exit(1);
    if (fork() == 0) {  // outlives its parent for a moment, as a data loader does
      usleep(2'000'000);
      _exit(0);
    }
  });
  CHECK_EQ(mine.used(0).total(), uint64_t{50});
  theirs->kill_now();
  // The child may not have let go of the file yet; it lives for two seconds.
  for (int wait = 0; wait < 100 && mine.used(0).total() != 0; ++wait) usleep(10'000);
  CHECK_EQ(mine.used(0).total(), uint64_t{0});
}

// In a process whose parent is gone and that inherited no files: this one has private ledgers of
// its own, from other tests.
void check_process_tree() {
  const pid_t parent = getpid();
  if (fork() != 0) _exit(0);
  while (getppid() == parent) usleep(1000);
  close_range(3, ~0U, 0);
  Ledger mine("private");
  const bool charged = mine.charge(0, Pages::kHuge, 10, 100);
  const Worker child([] {
    auto* theirs = new Ledger("private");
    if (!theirs->charge(0, Pages::kHuge, 30, 100)) _exit(1);
  });
  const bool shared = charged && mine.used(0).total() == 40;
  const std::string_view said = shared ? "shared" : "separate";
  [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, said.data(), said.size());
}

TEST(memory_ledger_private_machine_is_the_process_tree) {
  CHECK_EQ(ascendrt::test::run_child(check_process_tree).errors, std::string("shared"));
}

TEST(memory_ledger_processes_at_once) {
  const Machine machine("race");
  Ledger mine(machine.name);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.push_back(std::make_unique<Worker>([&] {
      auto* theirs = new Ledger(machine.name);
      uint64_t held = 0;
      for (int step = 0; step < 2000; ++step) {
        if (theirs->charge(0, Pages::kHuge, 7, 100)) ++held;
        if (theirs->used(0).total() > 100) _exit(1);
        if (held > 3) theirs->release(0, Pages::kHuge, 7 * std::exchange(held, 0));
      }
      theirs->release(0, Pages::kHuge, 7 * held);
    }));
  }
  for (const auto& worker : workers) CHECK(worker->ready());
  CHECK_EQ(mine.used(0).total(), uint64_t{0});
}

TEST(memory_ledger_has_room_for_256_processes) {
  const Machine machine("full");
  std::vector<std::unique_ptr<Ledger>> all;
  for (uint32_t i = 0; i < ascendrt::memory::kLedgerProcesses; ++i) {
    all.push_back(std::make_unique<Ledger>(machine.name));
  }
  CHECK(refusal(machine.name).find("no place left") != std::string::npos);
  all.pop_back();
  CHECK_EQ(refusal(machine.name), std::string("accepted"));
}

TEST(memory_ledger_refuses_what_it_cannot_trust) {
  const Machine machine("bad");
  machine.write("not a ledger", 0600);
  CHECK(refusal(machine.name).find("damaged, or of another version") != std::string::npos);
  shm_unlink(machine.file.c_str());

  {
    const Ledger proper(machine.name);
  }
  const int file = shm_open(machine.file.c_str(), O_RDWR, 0);
  struct stat status{};
  fstat(file, &status);
  const uint32_t version = 999;
  CHECK_EQ(pwrite(file, &version, sizeof version, 8), static_cast<ssize_t>(sizeof version));
  CHECK(refusal(machine.name).find("another version") != std::string::npos);
  const uint64_t magic = 0;
  CHECK_EQ(pwrite(file, &magic, sizeof magic, 0), static_cast<ssize_t>(sizeof magic));
  const std::string text = refusal(machine.name);
  CHECK(text.find("does not begin") != std::string::npos);
  CHECK(text.find("ASCENDRT_MACHINE") != std::string::npos);
  CHECK(text.find(machine.file) != std::string::npos);
  fchmod(file, 0644);
  CHECK(refusal(machine.name).find("open to other users") != std::string::npos);
  close(file);
}

TEST(memory_ledger_refuses_links_and_foreign_files) {
  const Machine machine("link");
  CHECK_EQ(symlink("/dev/null", ("/dev/shm" + machine.file).c_str()), 0);
  CHECK(refusal(machine.name).find("cannot open the ledger") != std::string::npos);
  shm_unlink(machine.file.c_str());
  if (geteuid() != 0) return;  // only root can make a file of somebody else
  machine.write("", 0600);
  CHECK_EQ(chown(("/dev/shm" + machine.file).c_str(), 12345, 12345), 0);
  CHECK(refusal(machine.name).find("belongs to user 12345") != std::string::npos);
}

// A process of the same user that has gone mad: it writes noise anywhere into the file and cuts it.
TEST(memory_ledger_survives_a_hostile_peer) {
  const Machine machine("hostile");
  Ledger mine(machine.name);
  const pid_t peer = fork();
  if (peer == 0) {
    const int file = shm_open(machine.file.c_str(), O_RDWR, 0);
    std::mt19937_64 random(7);
    std::array<uint64_t, 64> noise{};
    while (true) {
      for (uint64_t& word : noise) word = random();
      const auto at = static_cast<off_t>(random() % 800'000);
      if (random() % 8 == 0 && ftruncate(file, at) != 0) _exit(1);
      if (pwrite(file, noise.data(), sizeof noise, at) < 0) _exit(1);
    }
  }
  for (int step = 0; step < 150; ++step) {
    const auto device = static_cast<uint32_t>(step % 64);
    mine.charge(device, Pages::kHuge, 100, 1ULL << 40);  // may be refused: sums are noise
    mine.release(device, Pages::kHuge, 100);
    mine.used(device);
    const auto drawn = mine.draw_ids(device, ascendrt::memory::IdKind::kEvent, 64, 1000);
    mine.return_ids(device, ascendrt::memory::IdKind::kEvent, drawn);
    mine.ids_of_others(device, ascendrt::memory::IdKind::kEvent);
    mine.cached_by_others(device);
    mine.other_holders(device);
    if (step % 50 != 0) continue;
    mine.ask_others(device);
    mine.ask_others_for_ids(device, ascendrt::memory::IdKind::kEvent);
    if (const auto question = mine.wait_for_question()) mine.answer(*question, {{1, 2}});
  }
  kill(peer, SIGKILL);
  waitpid(peer, nullptr, 0);
  // When the noise is over, what is ours is told right again, whatever stands for others.
  CHECK(mine.charge(0, Pages::kHuge, 5, UINT64_MAX));
  bool found = false;
  for (const auto& holder : mine.holders(0)) found = found || (holder.own && holder.used.huge == 5);
  CHECK(found);
}

TEST(memory_ledger_asks_and_is_answered) {
  const Machine machine("ask");
  Ledger mine(machine.name);
  CHECK(mine.charge(0, Pages::kHuge, 10, 1000));
  Ledger* theirs = nullptr;  // of the child
  Worker worker(
      [&] {
        theirs = new Ledger(machine.name);
        if (!theirs->charge(0, Pages::kHuge, 500, 1000)) _exit(1);
      },
      [&] {
        const auto question = theirs->wait_for_question();
        if (!question) return;
        theirs->release(0, Pages::kHuge, 300);
        theirs->answer(*question, {{0, 50}});
      });
  CHECK_EQ(mine.used(0).total(), uint64_t{510});
  mine.ask_others(0);
  // The asker waits for a bounded time only; on a busy machine the answer may come after it.
  for (int i = 0; i < 1000 && mine.cached_by_others(0).huge_bytes == 0; ++i) {
    ascendrt::clock::sleep_ns(10'000'000);
  }
  CHECK_EQ(mine.used(0).total(), uint64_t{210});
  CHECK_EQ(mine.cached_by_others(0).huge_bytes, uint64_t{50});
  CHECK_EQ(mine.cached_by_others(0).normal_bytes, uint64_t{0});
}

TEST(memory_ledger_shares_ids) {
  using ascendrt::memory::IdKind;
  const Machine machine("ids");
  Ledger first(machine.name);
  Ledger second(machine.name);
  CHECK_EQ(first.draw_ids(0, IdKind::kStream, 64, 100), 64U);
  CHECK_EQ(second.draw_ids(0, IdKind::kStream, 64, 100), 36U);  // what is left
  CHECK_EQ(second.draw_ids(0, IdKind::kStream, 1, 100), 0U);
  CHECK_EQ(second.draw_ids(0, IdKind::kEvent, 64, 100), 64U);  // kinds and devices apart
  CHECK_EQ(second.draw_ids(1, IdKind::kStream, 100, 100), 100U);
  CHECK_EQ(first.ids_of_others(0, IdKind::kStream), uint64_t{36});
  CHECK_EQ(second.ids_of_others(0, IdKind::kStream), uint64_t{64});
  first.return_ids(0, IdKind::kStream, 1000);  // more than it has: stops at 0
  CHECK_EQ(second.ids_of_others(0, IdKind::kStream), uint64_t{0});
  CHECK_EQ(second.draw_ids(0, IdKind::kStream, 64, 100), 64U);
}

TEST(memory_ledger_takes_ids_of_a_killed_process_back) {
  using ascendrt::memory::IdKind;
  const Machine machine("idkill");
  Ledger mine(machine.name);
  Worker worker([&] {
    auto* theirs = new Ledger(machine.name);
    if (theirs->draw_ids(0, IdKind::kNotify, 90, 100) != 90) _exit(1);
  });
  CHECK(worker.ready());
  CHECK_EQ(mine.draw_ids(0, IdKind::kNotify, 64, 100), 10U);
  worker.kill_now();
  CHECK_EQ(mine.draw_ids(0, IdKind::kNotify, 90, 100), 90U);
  CHECK_EQ(mine.ids_of_others(0, IdKind::kNotify), uint64_t{0});
}

TEST(memory_ledger_is_made_new_only_when_nobody_uses_it) {
  const Machine machine("reset");
  machine.write("damaged", 0644);
  CHECK(refusal(machine.name) != "accepted");
  CHECK(Ledger::reset(machine.name).find("is new") != std::string::npos);
  CHECK_EQ(refusal(machine.name), std::string("accepted"));
  const Ledger user(machine.name);
  CHECK_THROWS_CODE(Ledger::reset(machine.name), kRefused);
  CHECK_THROWS_CODE(Ledger::reset("private"), kRefused);
}

std::optional<LedgerEntry> entry_of(const std::string& file) {
  for (const LedgerEntry& entry : ledger_files()) {
    if (entry.path == "/dev/shm" + file) return entry;
  }
  return std::nullopt;
}

TEST(memory_ledger_of_another_version_is_not_met) {
  const Machine machine("versions");
  Machine::write(machine.older, "the ledger of an older version", 0600);
  CHECK_EQ(refusal(machine.name), std::string("accepted"));
  CHECK_EQ(entry_of(machine.older)->version, 0U);
  CHECK_EQ(entry_of(machine.file)->version, ascendrt::memory::kLedgerVersion);
  CHECK_EQ(entry_of(machine.older)->machine, machine.name);
}

// The other files of the user are left alone while processes use them; that holds for this one.
TEST(memory_ledger_unused_files_are_found) {
  const Machine machine("unused");
  {
    const Ledger user(machine.name);
    CHECK(entry_of(machine.file)->in_use);
  }
  CHECK(!entry_of(machine.file)->in_use);
  const int file = shm_open(machine.file.c_str(), O_RDWR, 0);
  const ascendrt::memory::LedgerFile opened{file, "/dev/shm" + machine.file};
  CHECK(!ascendrt::memory::is_removed(opened));
  shm_unlink(machine.file.c_str());
  CHECK(ascendrt::memory::is_removed(opened));
  close(file);
  CHECK(!entry_of(machine.file));
  for (const char* stranger : {"/ascendrt-x-default", "/ascendrtx-0-default"}) {
    Machine::write(stranger, "", 0600);
    CHECK(!entry_of(stranger));
    shm_unlink(stranger);
  }
}

TEST(memory_ledger_machine_names) {
  for (const char* bad : {"", "a/b", "..\n", "name with space", "\xc3\xa4"}) {
    CHECK_THROWS_CODE(Ledger(std::string(bad)), 100000);
  }
  CHECK_THROWS_CODE(Ledger(std::string(65, 'x')), 100000);
}

TEST(memory_ledger_wild_sums_do_not_wrap) {
  const Machine machine("wild");
  Ledger mine(machine.name);
  Ledger other(machine.name);
  CHECK(other.charge(0, Pages::kHuge, UINT64_MAX - 5, UINT64_MAX));
  CHECK(mine.charge(0, Pages::kNormal, 5, UINT64_MAX));
  CHECK(!mine.charge(0, Pages::kNormal, 1, 1000));
  CHECK(mine.used(0).total() == UINT64_MAX);
  other.release(0, Pages::kHuge, UINT64_MAX);  // more than it has: stops at 0
  CHECK_EQ(mine.used(0).total(), uint64_t{5});
}

}  // namespace
