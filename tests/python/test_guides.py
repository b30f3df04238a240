"""The programs of examples/guides do what they say, and what they say of the usual guides is so."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from command import REPOSITORY, ascendrt, run
from test_examples import EXAMPLES, build, sdk, succeed

__all__ = ["sdk"]  # a fixture
GUIDES = EXAMPLES / "guides"
PROGRAMS = sorted(path.stem for path in GUIDES.glob("*.py") if path.stem != "acltools")
NOTE = "What the usual guide gets wrong:\n"
# Milliseconds of a stage, for the modelled clock: the sums of the pipelines are then known.
STAGES = "h2d.latency_us=4000,d2h.latency_us=4000,op.conv1.us=5000,op.conv2.us=0"
IN_MS, COMPUTE_MS, OUT_MS = 4, 5, 4
COSTS_MS = 0.6  # calls, and the operators that were given no time


def shown(name: str, *words: object, **changes: str) -> str:
    """Run a guide with warnings as errors and return what it prints; nothing else is printed."""
    done = run(sys.executable, "-W", "error", GUIDES / f"{name}.py", *words, **changes)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if name != "contexts":  # which leaks on purpose and is told so
        assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", [*GUIDES.glob("*.py"), EXAMPLES / "c" / "template.c"], ids=str)
def test_each_has_its_note(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    assert path.stem == "acltools" or NOTE.strip() in text


def test_the_page_lists_all_programs() -> None:
    page = (REPOSITORY / "docs" / "guides.md").read_text()
    assert set(re.findall(r"`examples/guides/(\w+)\.py`", page)) == set(PROGRAMS)


def test_init_to_finalize() -> None:
    text = shown("init_to_finalize", ASCENDRT_DEVICES="2")
    assert text.splitlines() == [
        "2 device(s), chip Ascend910B1",
        "the new context is current on this thread: True",
        "closed: context, device, runtime",
    ]


def test_device_pool_deals_evenly() -> None:
    text = shown("device_pool", ASCENDRT_DEVICES="4")
    assert text == "jobs per device: {0: 4, 1: 4, 2: 4, 3: 4}\n"


def test_copies() -> None:
    lines = shown("copies").splitlines()
    assert len(lines) == 4
    assert all(line.endswith(": True") for line in lines)


def test_memory_pool() -> None:
    first, last = shown("memory_pool").splitlines()
    assert re.fullmatch(r"1000 requests, [3-9] allocations", first)
    assert last == "all device memory is back: True"


POOL = """
import sys
sys.path.insert(0, sys.argv[1])
import acl
from acltools import check, valued
from memory_pool import DeviceMemoryPool
acl.init(); acl.rt.set_device(0)
pool = DeviceMemoryPool(keep=1)
small, large = pool.alloc(5000), pool.alloc(9000)
pool.free(small)
assert pool.alloc(8192) == small, "8 KiB are the class of 5000 bytes"
try:
    pool.close()
except RuntimeError as error:
    assert "2 block(s)" in str(error)
pool.free(small)
try:
    pool.free(small)
except ValueError as error:
    assert "freed twice" in str(error)
other = pool.alloc(8000)
assert other == small
third = pool.alloc(8000)
for block in (other, third, large):
    pool.free(block)  # one more than it keeps: the older one goes
pool.close()
print(pool.misses)
"""


def test_memory_pool_refuses_what_would_corrupt() -> None:
    done = run(sys.executable, "-c", POOL, GUIDES)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_model_executor(digits_om: Path) -> None:
    text = shown("model_executor", digits_om)
    assert text.splitlines() == [
        "digits.om, one after the other: 10 of 10 right",
        "in a stream: [0, 0, 1], the labels are [0, 0, 1]",
        "all device memory is back: True",
    ]


def test_pipelines_overlap_as_far_as_their_streams_allow(digits_om: Path) -> None:
    text = shown("pipeline", digits_om, ASCENDRT_CLOCK="virtual", ASCENDRT_TIMING=STAGES)
    told = [float(word) for word in re.findall(r": (\d+\.\d+) ms per request", text)]
    sums = [
        IN_MS + COMPUTE_MS + OUT_MS,
        max(IN_MS + OUT_MS, COMPUTE_MS),
        max(IN_MS, COMPUTE_MS, OUT_MS),
    ]
    assert len(told) == len(sums), text
    for milliseconds, least in zip(told, sums, strict=True):
        assert least <= milliseconds <= least + COSTS_MS


def test_pipeline_in_real_time(digits_om: Path) -> None:
    assert shown("pipeline", digits_om).count("ms per request") == 3


def test_contexts() -> None:
    assert shown("contexts").splitlines() == [
        "a destroyed context kept 64 MiB of the device",
        "100 failing blocks, all device memory is back: True",
        "the thread has the context it had before: True",
    ]


def test_load_from_memory(digits_om: Path) -> None:
    needs, says, broken = shown("load_from_memory", digits_om).splitlines()
    assert re.fullmatch(r"needs \d+ bytes to work in and \d+ bytes of weights", needs)
    assert says == "says 0, the label is 0; equal: True"
    assert re.fullmatch(r"what is no model: code [1-9]\d+, id 0", broken)


def test_multi_model(digits_om: Path) -> None:
    assert shown("multi_model", digits_om).splitlines() == [
        "right of 20 each: 20 and 20",
        "memory of one context was used in the other",
        "a stream of the other context: code 107003",
        "all device memory is back: True",
    ]


@pytest.fixture(scope="module")
def batched_om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo network for 1, 2, 4 and 8 pictures, converted as the guide says."""
    target = tmp_path_factory.mktemp("batched") / "batched.om"
    text = (GUIDES / "batch_service.py").read_text()
    words = re.search(r"ascendrt om convert (\S+) -o batched.om \\+\n\s+(.*)", text)
    assert words, text
    options = words[2].replace('"', "").split()
    done = ascendrt("om", "convert", REPOSITORY / words[1], "-o", target, *options)
    assert done.returncode == 0, done.stderr
    return target


def test_batch_service(batched_om: Path) -> None:
    refused, right, batches = shown("batch_service", batched_om).splitlines()
    assert refused.startswith("refused: ") and "(3, 3)" in refused
    assert right == "196 of 200 answers are right"  # the network's, in any batch
    counts = re.fullmatch(r"200 answered in (\d+) batches", batches)
    assert counts and int(counts[1]) < 200


def test_batch_service_in_virtual_time(batched_om: Path) -> None:
    first, second = (shown("batch_service", batched_om, ASCENDRT_CLOCK="virtual") for _ in "ab")
    assert first == second
    assert "196 of 200 answers are right" in first


def test_template_in_c(sdk: Path, digits_om: Path, tmp_path: Path) -> None:
    program = build(sdk, "c", tmp_path / "template", name="template")
    text = succeed(sys.executable, "-m", "ascendrt", "run", "--", program, digits_om)
    assert re.fullmatch(r"output 0: 40 bytes, first value 0\.\d{6}\ndone\n", text)
    for arguments, code in ((["absent.om"], 1), ([], 2)):
        done = ascendrt("run", "--", program, *arguments)
        assert done.returncode == code
    assert "usage:" in done.stderr


# Calls as the usual guide writes them, and what the module answers.
WRONG = [
    ("acl.ACL_MEM_MALLOC_NORMAL", "AttributeError", "ascendrt.constants"),
    ("acl.ACL_MEMCPY_HOST_TO_DEVICE", "AttributeError", "ascendrt.constants"),
    ("acl.rt.get_ptr_addr(1)", "AttributeError", "acl.util.ptr_to_bytes"),
    ("acl.rt.memcopy(1, 1, 1, 1, 1)", "AttributeError", "acl.rt.memcpy"),
    ("acl.mdl.get_output_shape(1, 0)", "AttributeError", "acl.mdl.get_output_dims"),
    ("acl.mdl.add_input_buffer(1, 1)", "AttributeError", "acl.mdl.add_dataset_buffer"),
    ("acl.mdl.add_output_buffer(1, 1)", "AttributeError", "acl.mdl.add_dataset_buffer"),
    ("acl.mdl.load_from_mem(b'model')", "TypeError", "acl.mdl.load_from_mem args parse failed"),
    ("desc, code = acl.mdl.create_desc()", "TypeError", "cannot unpack"),
    ("acl.rt.synchronize_stream()", "TypeError", "acl.rt.synchronize_stream args parse failed"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_what_the_usual_guide_calls_does_not_exist(call: str, kind: str, text: str) -> None:
    done = run(sys.executable, "-c", f"import acl\nacl.init()\n{call}")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{kind}: ") and text in last, last
