"""Effects of `acl.rt`: notifies, in one process and between two."""

from __future__ import annotations

import os
import subprocess
import sys

from aclchild import ok
from acleffects import Recorder, shows
from devicebytes import read

KEY_BYTES = 65
NO_PID_CHECK = 2
PEER = """
import acl, sys
acl.init(); acl.rt.set_device(0)
notify, code = acl.rt.notify_import_by_key(sys.argv[1], int(sys.argv[2]))
print(code, flush=True)
if code == 0:
    print(acl.rt.record_notify(notify, 0), acl.rt.synchronize_stream(0), flush=True)
"""


@shows("rt.create_notify", "rt.destroy_notify", "rt.record_notify", "rt.wait_and_reset_notify",
       "rt.get_notify_id")  # fmt: skip
def test_a_stream_waits_for_a_notify(acl: Recorder, stream: int, block: int) -> None:
    notify, second, other = (ok(acl.rt.create_notify(0)), ok(acl.rt.create_notify(0)),
                             ok(acl.rt.create_stream()))  # fmt: skip
    assert ok(acl.rt.get_notify_id(notify)) != ok(acl.rt.get_notify_id(second))
    for byte in (0x41, 0x42):  # the wait takes the notify back
        assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
        assert acl.rt.memset_async(block, 64, byte, 4, stream) == 0
        assert acl.rt.synchronize_stream_with_timeout(stream, 20) != 0
        assert acl.rt.record_notify(notify, other) == 0
        assert acl.rt.synchronize_stream_with_timeout(stream, 20000) == 0
        assert read(acl, block, 4) == bytes([byte]) * 4
    assert [acl.rt.destroy_notify(each) for each in (notify, second)] == [0, 0]
    assert acl.rt.destroy_notify(notify) != 0


@shows("rt.notify_batch_reset")
def test_reset_of_several(acl: Recorder, stream: int) -> None:
    notifies = [ok(acl.rt.create_notify(0)) for _ in range(2)]
    for notify in notifies:
        assert acl.rt.record_notify(notify, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.notify_batch_reset(notifies) == 0
    for notify in notifies:
        assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
        assert acl.rt.synchronize_stream_with_timeout(stream, 20) != 0
        assert acl.rt.record_notify(notify, 0) == 0
        assert acl.rt.synchronize_stream_with_timeout(stream, 20000) == 0
        assert acl.rt.destroy_notify(notify) == 0


def peer(*words: str) -> list[str]:
    """What another process of the same machine says of a key."""
    done = subprocess.run(
        [sys.executable, "-c", PEER, *words],
        env={**os.environ}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@shows("rt.notify_get_export_key", "rt.notify_set_import_pid")
def test_another_process_records(acl: Recorder, stream: int) -> None:
    notify = ok(acl.rt.create_notify(0))
    key = ok(acl.rt.notify_get_export_key(notify, KEY_BYTES, NO_PID_CHECK))
    assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
    assert acl.rt.synchronize_stream_with_timeout(stream, 20) != 0
    assert peer(key, "0") == ["0", "0", "0"]
    assert acl.rt.synchronize_stream_with_timeout(stream, 20000) == 0
    closed = ok(acl.rt.create_notify(0))
    key = ok(acl.rt.notify_get_export_key(closed, KEY_BYTES, 0))
    assert acl.rt.notify_set_import_pid(closed, [1]) == 0
    assert peer(key, "0")[0] != "0"  # not on the list
    assert acl.rt.notify_get_export_key(closed, 5, 0)[1] != 0


@shows("rt.notify_import_by_key")
def test_import_of_a_key(acl: Recorder, stream: int) -> None:
    code = f"""
import acl, sys
acl.init(); acl.rt.set_device(0)
notify = acl.rt.create_notify(0)[0]
print(acl.rt.notify_get_export_key(notify, {KEY_BYTES}, {NO_PID_CHECK})[0], flush=True)
stream = acl.rt.create_stream()[0]
acl.rt.wait_and_reset_notify(notify, stream, 0)
print(acl.rt.synchronize_stream_with_timeout(stream, 20000), flush=True)
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        notify = ok(acl.rt.notify_import_by_key(owner.stdout.readline().strip(), 0))
        assert acl.rt.record_notify(notify, stream) == 0
        assert owner.stdout.readline() == "0\n"
        assert acl.rt.notify_import_by_key("ascendrt-notify-none", 0)[1] != 0
    finally:
        owner.kill()
        owner.communicate(timeout=60)
