"""Who sleeps with the GIL in hand: a library to preload, which counts.

Owns: the C source of it, and its build. Every way to sleep is led through a counter: sleeps of a
thread that holds the GIL, and sleeps of the main thread without it. `open_later` records an event
from a thread of C, so that something can be waited for that needs no Python.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
volatile int held, given_up;
static pthread_t main_thread;
__attribute__((constructor)) static void start(void) { main_thread = pthread_self(); }
static void note(void) {
  static int (*check)(void);
  if (check == NULL) check = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
  if (check != NULL && check()) __atomic_add_fetch(&held, 1, __ATOMIC_SEQ_CST);
  else if (pthread_equal(pthread_self(), main_thread)) ++given_up;
}
"""
# Arguments are words on every machine that the tests run on, whatever the declarations say.
_WAY = """
long way_{name}(long a, long b, long c, long d, long e) __asm__("{name}");
long way_{name}(long a, long b, long c, long d, long e) {{
  static long (*next)(long, long, long, long, long);
  if (next == NULL) next = (void *)dlsym(RTLD_NEXT, "{name}");
  note();
  return next(a, b, c, d, e);
}}
"""
_WAYS = (
    "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "sem_wait",
    "sem_timedwait", "sem_clockwait", "nanosleep", "clock_nanosleep", "usleep", "poll", "ppoll",
    "select", "epoll_wait", "pthread_join", "pthread_clockjoin_np",
)  # fmt: skip
_TAIL = """
long syscall(long number, ...) {
  static long (*next)(long, ...);
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (next == NULL) next = (void *)dlsym(RTLD_NEXT, "syscall");
  const long what = a[1] & 127; /* FUTEX_WAIT 0, FUTEX_WAIT_BITSET 9 */
  if (number == SYS_futex && (what == 0 || what == 9)) note();
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
static int (*functions[2])(void *, void *);
static void *handles[3];
static void *open_it(void *unused) {
  syscall(SYS_nanosleep, &(struct timespec){0, 5000000}, NULL, 0L, 0L, 0L, 0L);
  functions[0](handles[0], NULL);
  functions[1](handles[1], handles[2]);
  return unused;
}
void open_later(void *set_context, void *record, void *context, void *event, void *stream) {
  pthread_t thread;
  functions[0] = set_context, functions[1] = record;
  handles[0] = context, handles[1] = event, handles[2] = stream;
  pthread_create(&thread, NULL, open_it, NULL);
  pthread_detach(thread);
}
"""


def build(folder: Path) -> Path:
    """Compile the library; returns its path."""
    source, library = folder / "waits.c", folder / "libwaits.so"
    source.write_text(_HEAD + "".join(_WAY.format(name=name) for name in _WAYS) + _TAIL)
    command = [os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC", "-fno-builtin"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True, timeout=60)
    return library


class Waits:
    """The counters of the preloaded library, and a gate that C opens."""

    def __init__(self, acl: Any) -> None:
        own = ctypes.CDLL(None)
        self.held = ctypes.c_int.in_dll(own, "held")
        self.given_up = ctypes.c_int.in_dll(own, "given_up")
        maps = Path("/proc/self/maps").read_text()
        path = next(word for word in maps.split() if word.endswith("/libascendcl.so"))
        library = ctypes.CDLL(path)
        names = ("aclrtSetCurrentContext", "aclrtRecordEvent")
        self._functions = [ctypes.cast(getattr(library, n), ctypes.c_void_p) for n in names]
        self._open = own.open_later
        self._rt = acl.rt

    def gate(self, *streams: int) -> None:
        """What comes next on the streams waits until a thread of C opens the gate, in 5 ms."""
        context, event, opener = (
            self._rt.get_context()[0],
            self._rt.create_event_with_flag(1)[0],
            self._rt.create_stream()[0],
        )
        for stream in streams:
            assert self._rt.stream_wait_event(stream, event) == 0
        self._open(*self._functions, *(ctypes.c_void_p(h) for h in (context, event, opener)))

    def during(self, call: Callable[..., object], *arguments: Any) -> dict[str, int]:
        """{held, given_up: how often threads slept so}"""
        before = self.held.value, self.given_up.value
        call(*arguments)
        return {
            "held": self.held.value - before[0],
            "given_up": self.given_up.value - before[1],
        }
