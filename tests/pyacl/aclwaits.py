"""Who sleeps with the GIL in hand: a library to preload, which counts.

Owns: the C source of it, and its build. Every way to sleep is led through a counter: sleeps of the
main thread with the GIL in hand, and without it. `open_later` records an event
from a thread of C, so that something can be waited for that needs no Python.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aclcalls import nothing

_HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
volatile int held, given_up, base, hurry;
const char *held_in = "";
static pthread_t main_thread;
__attribute__((constructor)) static void start(void) { main_thread = pthread_self(); }
static void note(const char *way) {
  static int (*check)(void);
  if (check == NULL) check = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
  if (!pthread_equal(pthread_self(), main_thread)) return;
  if (check != NULL && check()) ++held, held_in = way;
  else ++given_up;
}
"""
# Arguments are words on every machine that the tests run on, whatever the declarations say.
_WAY = """
long way_{name}(long a, long b, long c, long d, long e) __asm__("{name}");
long way_{name}(long a, long b, long c, long d, long e) {{
  static long (*next)(long, long, long, long, long);
  if (next == NULL) next = (void *)dlsym(RTLD_NEXT, "{name}");
  {at_once}
  note("{name}");
  return next(a, b, c, d, e);
}}
"""
# Python takes its own free locks so.
_AT_ONCE = "if (sem_trywait((sem_t *)a) == 0) return 0;"
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
  if (number == SYS_futex && (what == 0 || what == 9)) note("futex");
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
static int (*functions[2])(void *, void *);
static void *handles[3];
static void *open_it(void *unused) {
  for (int ms = 0; ms < 5000 && !hurry && held + given_up == base; ++ms) usleep(1000);
  functions[0](handles[0], NULL);
  functions[1](handles[1], handles[2]);
  return unused;
}
void open_later(void *set_context, void *record, void *context, void *event, void *stream) {
  pthread_t thread;
  base = held + given_up, hurry = 0;
  functions[0] = set_context, functions[1] = record;
  handles[0] = context, handles[1] = event, handles[2] = stream;
  pthread_create(&thread, NULL, open_it, NULL);
  pthread_detach(thread);
}
"""


def build(folder: Path) -> Path:
    """Compile the library; returns its path."""
    source, library = folder / "waits.c", folder / "libwaits.so"
    ways = [_WAY.format(name=n, at_once=_AT_ONCE * n.startswith("sem_")) for n in _WAYS]
    source.write_text(_HEAD + "".join(ways) + _TAIL)
    command = [os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC", "-fno-builtin"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True, timeout=60)
    return library


class Waits:
    """The counters of the preloaded library, and a gate that C opens."""

    def __init__(self, acl: Any) -> None:
        own = ctypes.CDLL(None)
        self.held, self._base, self._hurry = (
            ctypes.c_int.in_dll(own, name) for name in ("held", "base", "hurry")
        )
        self.held_in = ctypes.c_char_p.in_dll(own, "held_in")
        self.given_up = ctypes.c_int.in_dll(own, "given_up")
        maps = Path("/proc/self/maps").read_text()
        path = next(word for word in maps.split() if word.endswith("/libascendcl.so"))
        library = ctypes.CDLL(path)
        names = ("aclrtSetCurrentContext", "aclrtRecordEvent")
        self._functions = [ctypes.cast(getattr(library, n), ctypes.c_void_p) for n in names]
        self._open = own.open_later
        self._rt = acl.rt

    def gate(self, *streams: int, closed: Callable[[], object] = nothing) -> None:
        """What comes next on the streams waits until a thread of C opens the gate.

        It does so when this thread sleeps, or the call of `during` has come back. `closed` is
        called before there is that thread.
        """
        context, event, opener = (
            self._rt.get_context()[0],
            self._rt.create_event_with_flag(1)[0],
            self._rt.create_stream()[0],
        )
        for stream in streams:
            assert self._rt.stream_wait_event(stream, event) == 0
        closed()
        self._open(*self._functions, *(ctypes.c_void_p(h) for h in (context, event, opener)))

    def during(self, call: Callable[..., object], *arguments: Any) -> dict[str, Any]:
        """{held, given_up: how often this thread slept so; held_in: where it did last}"""
        held, given_up = self.held.value, self.given_up.value
        self._base.value = held + given_up
        call(*arguments)
        self._hurry.value = 1
        return {
            "held": self.held.value - held,
            "given_up": self.given_up.value - given_up,
            "held_in": str(self.held_in.value),
        }
