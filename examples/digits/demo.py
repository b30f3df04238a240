"""The demo: a trained network as an OM file, run through AscendCL on 360 digits it never saw.

Owns the whole path and its bars: convert, load, execute, compare. Never imports onnx or
onnxruntime: the reference runs in a second process (reference.py), so the two share no code.

    python examples/digits/demo.py              # exits 1 when a bar is missed
    python examples/digits/demo.py --om my.om   # a model converted elsewhere, by ATC for a card
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import ascendrt

HERE = Path(__file__).resolve().parent
ONNX = HERE / "digits.onnx"
HELD_OUT = HERE / "heldout.npz"
MIN_ACCURACY = 0.97
MAX_DIFFERENCE = 1e-5
TIMEOUT_S = 300
FOREIGN = ("onnx", "onnxruntime")

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """What the device answered: probabilities [n, 10] and the time of each call in ms."""

    probabilities: npt.NDArray[np.float32]
    latency_ms: list[float]


@dataclass(frozen=True)
class Report:
    """The figures of one demo run."""

    images: int
    accuracy: float
    latency_ms_median: float
    agreement: int
    max_difference: float
    foreign_code: list[str]


def load_held_out() -> tuple[Images, Labels]:
    """Images as float32 [n, 1, 1, 8, 8] in 0..1 and their digits."""
    with np.load(HELD_OUT) as held_out:
        images = held_out["pixels"].astype(np.float32) / np.float32(16.0)
        return images[:, None, None], held_out["labels"].astype(np.int64)


def convert(onnx_path: Path, om_path: Path) -> None:
    """`ascendrt om convert`, the way a user does it."""
    command = [
        sys.executable,
        "-m",
        "ascendrt",
        "om",
        "convert",
        str(onnx_path),
        "-o",
        str(om_path),
    ]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)


def backend() -> str:
    """Which kind is in use, emu or real, as `ascendrt info` says."""
    command = [sys.executable, "-m", "ascendrt", "info", "--json"]
    done = subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE)
    return str(json.loads(done.stdout)["backend"])


def execute(om_path: Path, images: Images) -> Run:
    """Every image once: copy in, aclmdlExecute, copy out. The first call is not timed."""
    answers, latency_ms = [], []
    with ascendrt.Device(0), ascendrt.Model(om_path) as model:
        model(images[0])
        for image in images:
            start = time.perf_counter()
            (answer,) = model(image)
            latency_ms.append((time.perf_counter() - start) * 1e3)
            answers.append(answer[0])
    return Run(np.stack(answers), latency_ms)


def reference(images: Images) -> npt.NDArray[np.float32]:
    """The same images through onnxruntime, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, wanted = Path(folder) / "images.npy", Path(folder) / "reference.npy"
        np.save(given, images)
        command = [sys.executable, str(HERE / "reference.py"), str(ONNX), str(given), str(wanted)]
        subprocess.run(command, check=True, timeout=TIMEOUT_S)
        answers: npt.NDArray[np.float32] = np.load(wanted)
        return answers


def foreign_code() -> list[str]:
    """Names of frameworks that are in this process, as a Python module or a mapped library."""
    modules = {name.partition(".")[0] for name in sys.modules}
    maps = Path("/proc/self/maps")
    mapped = maps.read_text() if maps.exists() else ""
    return [name for name in FOREIGN if name in modules or f"lib{name}" in mapped]


def report_of(run: Run, expected: npt.NDArray[np.float32], labels: Labels) -> Report:
    predicted = run.probabilities.argmax(axis=1)
    return Report(
        images=len(labels),
        accuracy=float((predicted == labels).mean()),
        latency_ms_median=statistics.median(run.latency_ms),
        agreement=int((predicted == expected.argmax(axis=1)).sum()),
        max_difference=float(np.abs(run.probabilities - expected).max()),
        foreign_code=foreign_code(),
    )


def missed_bars(report: Report) -> list[str]:
    """One sentence for each bar that is missed; a NaN misses its bar."""
    checks = [
        (report.accuracy >= MIN_ACCURACY, f"accuracy is below {MIN_ACCURACY:.0%}"),
        (report.agreement == report.images, "not every image agrees with onnxruntime"),
        (report.max_difference <= MAX_DIFFERENCE, f"a difference exceeds {MAX_DIFFERENCE:g}"),
        (not report.foreign_code, f"the executing process holds {report.foreign_code}"),
    ]
    return [text for met, text in checks if not met]


def print_report(report: Report) -> None:
    print(f"accuracy    {report.accuracy:.2%} of {report.images} held-out digits")
    print(f"latency     {report.latency_ms_median:.3f} ms median, copies included")
    print(f"agreement   {report.agreement}/{report.images} with onnxruntime (a second process)")
    print(f"difference  {report.max_difference:.2e} at most between two probabilities")
    print(f"isolation   onnx and onnxruntime in this process: {report.foreign_code or 'none'}")


EMULATED = """
real        the network and its weights, the OM file and its parser, every AscendCL call,
            every number of the result (float32 arithmetic on this machine's CPU)
emulated    the device: there is no NPU here. Chip name, memory size and handles are made up;
            the latency is this CPU's and says nothing about a card"""
HARDWARE = """
real        everything: the vendor's libraries run the model on a device"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the digits network through AscendCL.")
    parser.add_argument("--om", type=Path, help="use this OM file instead of converting the ONNX")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    images, labels = load_held_out()
    with tempfile.TemporaryDirectory() as folder:
        om_path = options.om or Path(folder) / "digits.om"
        if not options.om:
            convert(ONNX, om_path)
        run = execute(om_path, images)
    report = report_of(run, reference(images), labels)
    missed = missed_bars(report)
    if options.json:
        print(json.dumps({**asdict(report), "missed": missed}))
    else:
        print_report(report)
        print(EMULATED if backend() == "emu" else HARDWARE)
    for text in missed:
        print(f"FAILED: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (subprocess.SubprocessError, ascendrt.AscendrtError, OSError) as problem:
        sys.exit(f"FAILED: {problem}")
