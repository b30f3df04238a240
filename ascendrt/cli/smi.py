"""`ascendrt smi`: devices, the processes that use them, and memory, in words, as JSON or a picture.

Must never: open a device (looking must not change what is seen), or need matplotlib for an SVG.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from ascendrt import _backend, _ctl
from ascendrt.cli.parsing import (
    CommandError,
    Parser,
    WrongUsage,
    cannot_write,
    printable,
    require_file,
)
from ascendrt.device import device_count, soc_name

_GIB = 1 << 30
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_IDLE = "#dddddd"


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_json()
    parser.add_argument("--memory", action="store_true", help="draw who holds the memory")
    parser.add_argument(
        "-o", "--output", type=Path, help="picture to write, .svg or .png (with --memory)"
    )
    parser.add_argument(
        "--snapshot", type=Path, help="draw the blocks of a memory_snapshot() kept as JSON"
    )
    parser.add_argument(
        "--reset", action="store_true", help="make the ledger of the emulated machine new"
    )
    parser.add_argument(
        "--clean",
        action="store_true",
        help="remove the ledgers that no process uses, of any version",
    )
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Do what was asked."""
    if options.reset or options.clean:
        return _tidy(options)
    _check_words(options)
    facts = collect()
    rows = _block_rows(options.snapshot) if options.snapshot else _holder_rows(facts)
    if options.output is not None:
        _draw(rows, options.output)
        print(f"wrote {options.output}")
    elif options.json:
        print(json.dumps(facts, indent=1))
    else:
        print("\n".join(report(facts)))
    return 0


def _check_words(options: argparse.Namespace) -> None:
    if options.output is None:
        if options.snapshot is not None:
            raise WrongUsage("--snapshot needs -o PICTURE: it is drawn, not printed")
        return
    if not (options.memory or options.snapshot):
        raise WrongUsage("--output needs --memory or --snapshot: there is no other picture")
    if options.output.suffix not in _PICTURES:
        raise WrongUsage(f"{options.output} is neither .svg nor .png")


def _tidy(options: argparse.Namespace) -> int:
    """--reset and --clean; neither opens a device."""
    told: dict[str, Any] = {}
    if options.reset:
        told["reset"] = _ctl.reset_ledger(os.environ.get("ASCENDRT_MACHINE") or "default")
    if options.clean:
        told["removed"] = _ctl.clean_ledgers()
    if options.json:
        print(json.dumps(told, indent=1))
        return 0
    removed = [f"removed {path}" for path in told.get("removed", ())]
    if options.clean and not removed:
        removed = ["no unused ledger lies there"]
    print(*filter(None, (told.get("reset"), *removed)), sep="\n")
    return 0


def collect() -> dict[str, Any]:
    """Return the devices of the machine and who holds how much of each."""
    backend = _backend.load()
    told = backend.machine()
    if told is None:
        raise CommandError("real cards are shown by the vendor's npu-smi")
    ledgers = _ctl.ledgers()
    for row in ledgers["files"]:
        row["other_version"] = row["version"] != ledgers["version"]
    facts = {"backend": backend.kind, "soc": soc_name(), "visible": device_count(), **told}
    return facts | {"ledgers": ledgers["files"]}


def report(facts: dict[str, Any]) -> list[str]:
    """Return what collect() found, in words."""
    lines = [f"machine {facts['machine']}, {facts['soc']}, {len(facts['devices'])} device(s)"]
    for device in facts["devices"]:
        used = device["total_bytes"] - device["free_bytes"]
        lines.append(
            f"device {device['device']}: {used / _GIB:.2f} of {device['total_bytes'] / _GIB:.2f} "
            "GiB in use"
        )
        lines += [
            f"  process {row['process']:>8}  {_held(row) / _GIB:8.3f} GiB reserved  {_name(row)}"
            for row in device["processes"]
        ] or ["  no process holds memory"]
    return lines + _other_versions(facts["ledgers"])


def _other_versions(ledgers: list[dict[str, Any]]) -> list[str]:
    """One line for all of them: machines of tests leave many; --json lists each."""
    used = [row["in_use"] for row in ledgers if row["other_version"]]
    if not used:
        return []
    ledger = "1 ledger" if len(used) == 1 else f"{len(used)} ledgers"
    if all(used):
        return [f"{ledger} of another version, in use"]
    in_use = f", {sum(used)} in use" if any(used) else ""
    return [f"{ledger} of another version{in_use}; `ascendrt smi --clean` removes what is unused"]


def _held(row: dict[str, Any]) -> int:
    return int(row["normal_bytes"]) + int(row["huge_bytes"])


def _name(row: dict[str, Any]) -> str:
    """Return the command of a process; empty in another pid namespace or once it ended."""
    try:
        words = Path(f"/proc/{row['process']}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return printable(" ".join(word.decode(errors="replace") for word in words[:3]))[:60]


Row = tuple[str, int, list[tuple[str, int]]]  # name, capacity, parts by name


def _holder_rows(facts: dict[str, Any]) -> list[Row]:
    return [
        (
            f"device {device['device']}",
            int(device["total_bytes"]),
            [(f"process {row['process']}", _held(row)) for row in device["processes"]],
        )
        for device in facts["devices"]
    ]


def _block_rows(path: Path) -> list[Row]:
    """Rows of a snapshot: its blocks, largest first, and what is kept ready."""
    require_file(path, "--snapshot")
    try:
        devices = json.loads(path.read_text(encoding="utf-8"))["devices"]
        return [
            (
                f"device {device['device']}",
                int(device["total_bytes"]),
                [(str(b["owner"]), int(b["bytes"])) for b in device["allocations"]],
            )
            for device in devices
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is no memory_snapshot() kept as JSON: {error!r}") from error


def _draw(rows: list[Row], path: Path) -> None:
    try:
        _PICTURES[path.suffix](rows, path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _draw_svg(rows: list[Row], path: Path) -> None:
    path.write_text(svg(rows), encoding="utf-8")


def svg(rows: list[Row]) -> str:
    """Return a picture with one bar per device, as wide as its share in use."""
    width, height, left = 900, 46, 90
    parts = []
    for index, (name, capacity, held) in enumerate(rows):
        top = 30 + index * height
        parts.append(f'<text x="4" y="{top + 18}">{escape(name)}</text>')
        parts.append(_box(left, top, width, _IDLE, f"{capacity / _GIB:.2f} GiB"))
        x = float(left)
        for number, (owner, size) in enumerate(held):
            share = width * size / max(capacity, 1)
            label = f"{owner}: {size / _GIB:.3f} GiB"
            parts.append(_box(x, top, share, _COLOURS[number % len(_COLOURS)], label))
            x += share
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" '
        f'height="{40 + height * len(rows)}" font-family="sans-serif" font-size="13">'
        f'<text x="4" y="18">memory by holder (grey: free)</text>{"".join(parts)}</svg>\n'
    )


def _box(x: float, y: float, width: float, colour: str, label: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.2):.2f}" height="26" fill="{colour}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _draw_png(rows: list[Row], path: Path) -> None:
    try:
        figure_type = import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise CommandError(
            "a PNG needs matplotlib (pip install matplotlib); SVG needs nothing"
        ) from error
    figure = figure_type(figsize=(10, 1 + len(rows) / 2))
    axes = figure.subplots()
    for index, (name, capacity, held) in enumerate(rows):
        axes.barh(name, capacity / _GIB, color=_IDLE)
        start = 0.0
        for number, (_, size) in enumerate(held):
            colour = _COLOURS[number % len(_COLOURS)]
            axes.barh(index, size / _GIB, left=start, color=colour)
            start += size / _GIB
    axes.set_xlabel("GiB")
    figure.savefig(path)


_PICTURES = {".svg": _draw_svg, ".png": _draw_png}
