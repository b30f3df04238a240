"""Pool size over time of a server with dynamic batches: a workspace per shape against one plan.

The sizes are those of a real network, the text-angle classifier, as its own memory plan gives them
for each batch. Requests of a random batch come one after the other. The naive server keeps a
workspace and buffers for every batch it has met; the planned one has one workspace, planned for the
largest batch, and takes its buffers from the pool per request. The plot goes to
build/poolgrowth.svg. Must never count anything but what is reserved of the device.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

REQUESTS = 5000
SETTLED = 1000
SEED = 2024
SMALL, LARGE = 8, 32
PLOT = Path(__file__).resolve().parents[1] / "build" / "poolgrowth.svg"


def measure() -> dict[str, object]:
    """Return the growth of both servers and where the plot is."""
    plans = _plans()
    series = {
        f"{kind}_{largest}": _serve_apart(kind, largest, plans)
        for kind in ("naive", "planned")
        for largest in (SMALL, LARGE)
    }
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(_plot(series), encoding="utf-8")
    figures: dict[str, object] = {"requests": REQUESTS, "plot": str(PLOT)}
    for name, sizes in series.items():
        figures[f"{name}_end_mib"] = sizes[-1] / 2**20
    naive, planned = series[f"naive_{LARGE}"], series[f"planned_{LARGE}"][SETTLED:]
    return figures | {
        "naive_growth": naive[-1] / naive[0],
        "naive_growth_over_small": naive[-1] / series[f"naive_{SMALL}"][-1],
        "planned_spread": max(planned) / min(planned),
        "planned_spread_small": max(series[f"planned_{SMALL}"][SETTLED:])
        / min(series[f"planned_{SMALL}"][SETTLED:]),
    }


def _plans() -> list[dict[str, int]]:
    """Work, input and output bytes of the network for each batch from 1."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise RuntimeError("poolgrowth needs the package rapidocr-onnxruntime (extra 'test')")
    network = Path(spec.origin).parent / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as workers:
        return list(workers.map(lambda b: _plan(network, Path(folder), b), range(1, LARGE + 1)))


def _plan(network: Path, folder: Path, batch: int) -> dict[str, int]:
    target = folder / f"{batch}.om"
    ascendrt = [sys.executable, "-m", "ascendrt", "om"]
    shape = f"x:{batch},3,48,192"
    convert = [*ascendrt, "convert", str(network), "-o", str(target), "--input-shape", shape]
    subprocess.run(convert, check=True, stdout=subprocess.DEVNULL, timeout=120)
    info = [*ascendrt, "info", str(target), "--json"]
    told = json.loads(subprocess.run(info, check=True, capture_output=True, timeout=120).stdout)
    return {
        "work": told["work_bytes"],
        "input": told["inputs"][0]["size_bytes"],
        "output": told["outputs"][0]["size_bytes"],
    }


def _serve_apart(kind: str, largest: int, plans: list[dict[str, int]]) -> list[int]:
    """Each server has a process of its own."""
    code = (
        "import json, sys; from benchmarks import poolgrowth as p; p.serve(*json.load(sys.stdin))"
    )
    environment = {**os.environ, "ASCENDRT_MACHINE": "private", "ASCENDRT_BACKEND": "emu"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([kind, largest, plans]),
        stdout=subprocess.PIPE, env=environment, check=True, text=True, timeout=600,
    )  # fmt: skip
    sizes: list[int] = json.loads(done.stdout)
    return sizes


def serve(kind: str, largest: int, plans: list[dict[str, int]]) -> None:
    """Serve all requests and print the pool size after each, in bytes."""
    import ascendrt

    choice = random.Random(SEED)
    sizes = []
    with ascendrt.Device(0):
        reserved = _reserved_bytes()
        kept: dict[int, list[Any]] = {}
        work = ascendrt.Memory(plans[largest - 1]["work"]) if kind == "planned" else None
        for _ in range(REQUESTS):
            plan = plans[choice.randrange(largest)]
            if work is None:
                if plan["work"] not in kept:
                    kept[plan["work"]] = [ascendrt.Memory(size) for size in plan.values()]
                sizes.append(reserved())
                continue
            with ascendrt.Memory(plan["input"]), ascendrt.Memory(plan["output"]):
                sizes.append(reserved())
        for memories in kept.values():
            for memory in memories:
                memory.close()
        if work is not None:
            work.close()
    print(json.dumps(sizes))


def _reserved_bytes() -> Any:
    from ascendrt import _ctl

    figures = _ctl._core().art_ctl_memory_figures
    out = (ctypes.c_int64 * 2)()

    def reserved() -> int:
        if figures(0, out, ctypes.c_size_t(2)) != 0:
            raise RuntimeError("the emulator does not tell its figures")
        return int(out[1])

    return reserved


def _plot(series: dict[str, list[int]]) -> str:
    width, height, left, top = 860, 380, 60, 20
    most = max(max(sizes) for sizes in series.values())
    colours = ("#ee6677", "#aa3377", "#228833", "#4477aa")
    parts = []
    for row, ((name, sizes), colour) in enumerate(zip(series.items(), colours, strict=True)):
        points = " ".join(
            f"{left + width * i / len(sizes):.1f},{top + height * (1 - size / most):.1f}"
            for i, size in enumerate(sizes)
            if i % 10 == 0
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        label = f"{name.replace('_', ', batch 1 to ')}: {sizes[-1] / 2**20:.0f} MiB at the end"
        parts.append(f'<text x="{left + 430}" y="{220 + 20 * row}" fill="{colour}">{label}</text>')
    axes = f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" stroke="black"/>'
    names = (
        f'<text x="4" y="{top + 10}">{most / 2**20:.0f} MiB</text>'
        f'<text x="{left + width - 90}" y="{top + height + 18}">{REQUESTS} requests</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" '
        f'height="{top + height + 30}" font-family="sans-serif" font-size="13">'
        f"{axes}{names}{''.join(parts)}</svg>\n"
    )
