// Child processes for tests: run a body in a forked child, collect how it ended and what it said.
// Must never: be used by bodies that need threads of the parent.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>

namespace ascendrt::test {

struct Ended {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string errors;  // what it wrote to stderr
};

inline Ended run_child(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;) {
    ended.errors.append(part.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

// A child that works, then repeats a step (or only waits) until it is killed. Without threads: a
// forked child cannot count on making any under sanitizers and processor emulation.
class Worker {
 public:
  explicit Worker(
      const std::function<void()>& body, const std::function<void()>& step = [] { pause(); }) {
    int ends[2];
    if (pipe(ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      body();
      [[maybe_unused]] const ssize_t told = write(ends[1], "!", 1);
      while (true) step();
    }
    close(ends[1]);
    char byte = 0;
    ready_ = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
  }
  ~Worker() { kill_now(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool ready() const { return ready_; }
  pid_t id() const { return child_; }
  void kill_now() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  bool ready_ = false;
};

}  // namespace ascendrt::test
