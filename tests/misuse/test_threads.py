"""What a C++ program does to threads, its own and ours: it is told, or it works; never a crash."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ascendrt._backend import package_include_dir, package_lib_dir

TIMEOUT_S = 120

PRELUDE = """
#include <acl/acl.h>
#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
void ok(aclError code, int line) {
  if (code == 0) return;
  const char* text = aclGetRecentErrMsg();
  std::printf("line %d: code %d: %s\\n", line, code, text ? text : "");
  std::exit(1);
}
#define OK(call) ok(call, __LINE__)
void nothing(void*) {}
void pause_ms(void* ms) { usleep((useconds_t)(size_t)ms * 1000); }
aclrtStream stream = nullptr;
// The code of a synchronize that must not hang, and the text of a failure.
aclError finish() {
  const aclError code = aclrtSynchronizeStreamWithTimeout(stream, 20000);
  const char* text = code == 0 ? nullptr : aclGetRecentErrMsg();
  std::printf("%d %s\\n", code, text ? text : "");
  return code;
}
"""

Runner = Callable[[str], tuple[int, str]]


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    """Compile and run the body of a main that has device 0 and a stream."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    assert compiler, "a compiler is needed: apt-get install -y g++"
    libraries = package_lib_dir()

    def run(code: str) -> tuple[int, str]:
        functions, _, body = code.rpartition("---")
        main = f"int main() {{ OK(aclrtSetDevice(0)); OK(aclrtCreateStream(&stream));\n{body}\n}}"
        source, target = tmp_path / "program.cpp", tmp_path / "program"
        source.write_text(f"{PRELUDE}\n{functions}\n{main}\n")
        words = [compiler, "-std=c++17", "-O1", "-I", package_include_dir(), source, "-o", target]
        subprocess.run([*words, f"-L{libraries}", "-lascendcl", "-pthread"], check=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")}
        settings = {"LD_LIBRARY_PATH": str(libraries), "ASCENDRT_MACHINE": "private"}
        done = subprocess.run(
            [target],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**kept, **settings},
        )
        assert done.returncode != -signal.SIGABRT, done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_exception_in_a_host_function(program: Runner) -> None:
    """The program has a C++ library of its own; its exceptions unwind through ours."""
    code, text = program("""
        void thrower(void*) { throw std::runtime_error("out of cheese"); }
        void thrower_of_int(void*) { throw 3; }
        ---
        OK(aclrtLaunchHostFunc(stream, thrower, nullptr)); finish();
        OK(aclrtLaunchHostFunc(stream, thrower_of_int, nullptr)); finish();
        OK(aclrtLaunchHostFunc(stream, nothing, nullptr)); finish();
    """)
    assert code == 0, text
    first, second, third = text.splitlines()
    assert first.startswith("507000") and "out of cheese" in first
    assert second.startswith("507000") and "unknown kind" in second
    assert third.strip() == "0"


def test_host_function_ends_its_thread(program: Runner) -> None:
    code, text = program("""
        void leave(void*) { pthread_exit(nullptr); }
        ---
        OK(aclrtLaunchHostFunc(stream, leave, nullptr)); finish();
        OK(aclrtLaunchHostFunc(stream, nothing, nullptr)); finish();
    """)
    assert code == 0, text
    first, second = text.splitlines()
    assert first.startswith("507000") and "pthread_exit" in first
    assert second.strip() == "0", "the next host function has a thread again"


def test_cancelled_thread_in_process_report(program: Runner) -> None:
    """Threads that serve callbacks are often ended with pthread_cancel."""
    code, text = program("""
        void* serve(void*) { for (;;) aclrtProcessReport(-1); }
        ---
        pthread_t server;
        pthread_create(&server, nullptr, serve, nullptr);
        OK(aclrtSubscribeReport((uint64_t)server, stream));
        OK(aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, stream)); finish();
        usleep(50000);
        pthread_cancel(server);
        void* end = nullptr;
        pthread_join(server, &end);
        std::printf("%d\\n", end == PTHREAD_CANCELED);
        OK(aclrtUnSubscribeReport((uint64_t)server, stream));
        OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
        OK(aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, stream));
        OK(aclrtProcessReport(5000)); finish();
    """)
    assert code == 0, text
    assert [line.strip() for line in text.splitlines()] == ["0", "1", "0"]


def test_cancelled_thread_in_synchronize(program: Runner) -> None:
    """It ends after the call: what the call waits for may use its memory."""
    code, text = program("""
        void* wait(void*) { aclrtSetDevice(0); aclrtSynchronizeStream(stream); for (;;) pause(); }
        ---
        OK(aclrtLaunchHostFunc(stream, pause_ms, (void*)300));
        pthread_t waiter;
        pthread_create(&waiter, nullptr, wait, nullptr);
        usleep(100000);
        pthread_cancel(waiter);
        void* end = nullptr;
        pthread_join(waiter, &end);
        std::printf("%d\\n", end == PTHREAD_CANCELED);
        finish();
    """)
    assert code == 0, text
    assert [line.strip() for line in text.splitlines()] == ["1", "0"]


def test_hundreds_of_threads_that_synchronize(program: Runner) -> None:
    """Each wakes for its own stream alone, not at every task of every stream."""
    code, text = program(
        """
        void work() {
          aclrtStream own = nullptr;
          OK(aclrtSetDevice(0)); OK(aclrtCreateStream(&own));
          for (int i = 0; i < 40; ++i) OK(aclrtLaunchHostFunc(own, nothing, nullptr));
          OK(aclrtSynchronizeStream(own)); OK(aclrtDestroyStream(own));
        }
        ---
        OK(aclrtLaunchHostFunc(stream, pause_ms, (void*)500));
        std::vector<std::thread> all;
        for (int i = 0; i < 300; ++i) all.emplace_back(work);
        for (auto& thread : all) thread.join();
        rusage_seconds();
    """.replace("rusage_seconds();", 'std::printf("%.3f\\n", (double)clock() / CLOCKS_PER_SEC);')
    )
    assert code == 0, text
    assert float(text) < 20, "processor seconds; a wake of every waiter per task takes minutes"


def test_a_function_that_waits_for_its_own_stream(program: Runner) -> None:
    """On a card that never ends; here the function is told, and all go on."""
    code, out = program("""
std::atomic<int> calls{0};
void waits(void*) {
  const aclError one = aclrtSynchronizeStream(stream);
  std::printf("%d %s\\n", one, one == 0 ? "" : aclGetRecentErrMsg());
  std::printf("%d\\n", aclrtSynchronizeDevice());
  ++calls;
}
aclrtContext context = nullptr;
std::atomic<bool> ready{false}, over{false};
void* serve(void*) {
  OK(aclrtSetCurrentContext(context));
  while (!ready) usleep(1000);
  while (!over) aclrtProcessReport(100);
  return nullptr;
}
---
OK(aclrtGetCurrentContext(&context));
pthread_t thread;
pthread_create(&thread, nullptr, serve, nullptr);
OK(aclrtSubscribeReport(thread, stream));
ready = true;
OK(aclrtLaunchCallback(waits, nullptr, ACL_CALLBACK_BLOCK, stream));
finish();
OK(aclrtLaunchCallback(waits, nullptr, ACL_CALLBACK_NO_BLOCK, stream));
finish();
while (calls < 2) usleep(1000);
over = true;
pthread_join(thread, nullptr);
OK(aclrtUnSubscribeReport(thread, stream));
OK(aclrtDestroyStream(stream));
OK(aclrtCreateStream(&stream));
OK(aclrtLaunchHostFunc(stream, [](void*) {
  OK(aclrtSetCurrentContext(context));
  waits(nullptr);
}, nullptr));
finish();
""")
    assert code == 0, out
    told = [line for line in out.splitlines() if "waits for its own stream" in line]
    assert len(told) == 2 and all(line.startswith("507000") for line in told), out
    codes = sorted(line.split()[0] for line in out.splitlines())  # that of NO_BLOCK comes late
    assert codes == ["0"] * 5 + ["507000"] * 4, out
