"""`ascendrt info`: which libraries are in use and what they say of the devices."""

from __future__ import annotations

import argparse
import json
import platform
import sys

from ascendrt import __version__, _backend, _lib
from ascendrt._gen.enums import aclCANNPackageName
from ascendrt.cli.parsing import Parser
from ascendrt.device import Device, device_count, soc_name
from ascendrt.errors import AclError, MissingSymbolError

_NOT_REPORTED = "not reported by this backend"


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_json()
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the facts; 1 when there is no device, or one cannot be used."""
    facts = collect()
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        print("\n".join(_lines(facts)))
    broken = any("problem" in device for device in _rows(facts["devices"]))
    return 1 if broken or not facts["device_count"] else 0


def collect() -> dict[str, object]:
    """Gather everything; loads the backend and opens each device once."""
    backend = _backend.load()
    try:
        count, problem = device_count(), ""
    except AclError as error:
        count, problem = 0, str(error)
    return {
        "backend": backend.kind,
        "chosen_because": backend.origin,
        "library_dir": str(backend.directory),
        "libraries": list(backend.libraries),
        "unloaded": list(backend.unloaded),
        "tried": [_attempt(attempt) for attempt in backend.attempts],
        "versions": _versions(),
        "soc": soc_name(),
        "device_count": count,
        "device_problem": problem,
        "devices": [_device(index) for index in range(count)],
        "page_kind": _page_kind(backend),
    }


def _attempt(attempt: _backend.Attempt) -> dict[str, object]:
    return {
        "directory": str(attempt.place.directory),
        "found_by": attempt.place.origin,
        "library": attempt.library,
        "reason": attempt.reason,
        "text": str(attempt),
    }


def _versions() -> dict[str, str]:
    return {
        "ascendrt": __version__,
        "interface": _interface_version(),
        "cann": _cann_version(),
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
    }


def _interface_version() -> str:
    parts = [_lib.new("int32_t *") for _ in range(3)]
    try:
        _lib.call("aclrtGetVersion", *parts)
    except MissingSymbolError:
        return _NOT_REPORTED
    return ".".join(str(int(part[0])) for part in parts)


def _cann_version() -> str:
    """Return the version of the installed toolkit; the library reads it below ASCEND_HOME_PATH."""
    version = _lib.new("aclCANNPackageVersion *")
    try:
        _lib.call("aclsysGetCANNVersion", int(aclCANNPackageName.ACL_PKG_NAME_CANN), version)
    except AclError:
        return _NOT_REPORTED
    return _lib.text(version.version)


def _device(index: int) -> dict[str, object]:
    try:
        with Device(index) as device:
            memory = device.memory()
    except AclError as error:
        return {"index": index, "problem": str(error)}
    return {
        "index": index,
        "memory_total_bytes": memory.total_bytes,
        "memory_free_bytes": memory.free_bytes,
    }


def _page_kind(backend: _backend.Backend) -> str:
    return backend.page_kind() or _NOT_REPORTED


def _lines(facts: dict[str, object]) -> list[str]:
    versions = facts["versions"]
    devices, attempts = _rows(facts["devices"]), _rows(facts["tried"])
    assert isinstance(versions, dict)
    lines = [
        f"backend      {facts['backend']} ({facts['chosen_because']})",
        f"libraries    {facts['library_dir']}",
        *(f"not loaded   {text}" for text in _texts(facts["unloaded"])),
        *(f"tried        {tried['text']}" for tried in attempts if tried["library"]),
        "versions     " + ", ".join(f"{name} {value}" for name, value in versions.items()),
        f"chip         {facts['soc'] or 'unknown'}",
        f"pages        {facts['page_kind']}",
        f"devices      {facts['device_count']}",
    ]
    if facts["device_problem"]:
        lines.append(f"problem      {facts['device_problem']}")
    for device in devices:
        lines.append(_device_line(device))
    return lines


def _device_line(device: dict[str, object]) -> str:
    if "problem" in device:
        return f"  device {device['index']}   {device['problem']}"
    total = int(str(device["memory_total_bytes"])) / 2**30
    free = int(str(device["memory_free_bytes"])) / 2**30
    return f"  device {device['index']}   {total:.1f} GiB, {free:.1f} GiB free"


def _texts(value: object) -> list[str]:
    return value if isinstance(value, list) else []


def _rows(value: object) -> list[dict[str, object]]:
    return value if isinstance(value, list) else []
