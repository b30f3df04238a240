"""Models whose shapes only a run tells: the second executor (section 9)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from modelrun import NO_MODEL, Run
from models import COUNT, OmFiles
from rawabi import NULL, acl, ffi, malloc, new_stream, ok, read, recent, write

rule = pytest.mark.rule
pytestmark = pytest.mark.usefixtures("initialised")

FLOAT, ND = 0, 2
ROW_BYTES = 16  # of a network x[n, 4] -> -x


class Rows:
    """One loaded network, and datasets with room for eight rows."""

    def __init__(self, data: bytes) -> None:
        made = ffi.new("uint32_t *")
        ok(acl.aclmdlLoadFromMem(ffi.from_buffer(data), len(data), made))
        self.id = int(made[0])
        self.memory = [malloc(8 * ROW_BYTES) for _ in range(2)]
        self.buffers = [acl.aclCreateDataBuffer(each, 8 * ROW_BYTES) for each in self.memory]
        self.feed, self.fetch = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
        ok(acl.aclmdlAddDatasetBuffer(self.feed, self.buffers[0]))
        ok(acl.aclmdlAddDatasetBuffer(self.fetch, self.buffers[1]))
        write(self.memory[0], struct.pack("<32f", *range(32)))

    def shape(self, *dims: int) -> int:
        desc = acl.aclCreateTensorDesc(FLOAT, len(dims), ffi.new("int64_t[]", [*dims, 0]), ND)
        code = acl.aclmdlSetDatasetTensorDesc(self.feed, desc, 0)
        acl.aclDestroyTensorDesc(desc)
        return int(code)

    def execute(self) -> int:
        return int(acl.aclmdlExecute(self.id, self.feed, self.fetch))

    def result(self, rows: int, at: Any = None) -> bool:
        got = read(self.memory[1] if at is None else at, rows * ROW_BYTES)
        return got == struct.pack(f"<{rows * 4}f", *(-float(i) for i in range(rows * 4)))

    def described(self) -> tuple[int, ...]:
        desc = acl.aclmdlGetDatasetTensorDesc(self.fetch, 0)
        if desc == NULL:
            return ()
        assert (acl.aclGetTensorDescType(desc), acl.aclGetTensorDescFormat(desc)) == (FLOAT, ND)
        size, dims = ffi.new("int64_t *"), []
        for index in range(acl.aclGetTensorDescNumDims(desc)):
            ok(acl.aclGetTensorDescDimV2(desc, index, size))
            dims.append(int(size[0]))
        return tuple(dims)

    def close(self) -> None:
        acl.aclmdlUnload(self.id)
        for each in (self.feed, self.fetch):
            acl.aclmdlDestroyDataset(each)
        for buffer in self.buffers:
            acl.aclDestroyDataBuffer(buffer)


@pytest.fixture
def bounded(device: int, om: OmFiles) -> Iterator[Rows]:
    """The network for one to five rows."""
    rows = Rows(om.open_rows("1~5"))
    yield rows
    rows.close()


@pytest.fixture
def unbounded(device: int, om: OmFiles) -> Iterator[Rows]:
    """The network for any number of rows."""
    rows = Rows(om.open_rows("-1"))
    yield rows
    rows.close()


@rule("S9.22")
def test_open_shapes_run_through_the_same_calls(bounded: Rows, unbounded: Rows) -> None:
    for each in (bounded, unbounded):
        for rows in (3, 5, 1, 3):
            write(each.memory[1], bytes(8 * ROW_BYTES))
            ok(each.shape(rows, 4))
            ok(each.execute())
            assert each.result(rows)
            assert (
                read(each.memory[1], 8 * ROW_BYTES)[rows * ROW_BYTES :].count(0)
                == (8 - rows) * ROW_BYTES
            )


@rule("S9.60")
def test_fewer_inputs_than_the_model(bounded: Rows) -> None:
    empty = acl.aclmdlCreateDataset()
    assert acl.aclmdlExecute(bounded.id, empty, bounded.fetch) == 100000
    ok(acl.aclmdlDestroyDataset(empty))


@rule("S9.60")
@pytest.mark.parametrize("dims", [(6, 4), (0, 4), (-1, 4), (3, 5), (12,), (3, 4, 1)])
def test_a_shape_outside_the_range(bounded: Rows, dims: tuple[int, ...]) -> None:
    write(bounded.memory[1], bytes(8 * ROW_BYTES))
    assert bounded.execute() == 100000, "nobody gave the open dim"
    ok(bounded.shape(*dims))
    assert bounded.execute() == 100000
    assert read(bounded.memory[1], 8 * ROW_BYTES) == bytes(8 * ROW_BYTES)
    ok(bounded.shape(5, 4))
    ok(bounded.execute())
    assert bounded.result(5)


@pytest.mark.emulator
def test_a_refused_shape_is_named(bounded: Rows) -> None:
    """The text says input, dim, what was given and what is allowed (supports S9.60)."""
    ok(bounded.shape(6, 4))
    assert bounded.execute() == 100000
    text = recent()
    assert all(part in text for part in ("'x'", "dim 0", " 6 ", "from 1 to 5")), text


@rule("S9.64")
def test_output_descs_get_the_real_shape(unbounded: Rows, run: Run, model: int) -> None:
    for rows in (2, 4):
        ok(unbounded.shape(rows, 4))
        ok(unbounded.execute())
        assert unbounded.described() == (rows, 4)
    ok(run.execute(model))
    assert acl.aclmdlGetDatasetTensorDesc(run.outputs, 0) == NULL
    dims = ffi.new("int64_t[]", [1, COUNT])
    desc = acl.aclCreateTensorDesc(FLOAT, 2, dims, ND)
    ok(acl.aclmdlSetDatasetTensorDesc(run.inputs, desc, 0))
    ok(run.execute(model))
    assert acl.aclGetTensorDescNumDims(acl.aclmdlGetDatasetTensorDesc(run.outputs, 0)) == 2
    acl.aclDestroyTensorDesc(desc)


def test_outputs_without_memory_get_it(bounded: Rows, unbounded: Rows) -> None:
    """With a bound as much as the largest shape takes, else what the run needs (S9.61)."""
    for each, room in ((bounded, 5 * ROW_BYTES), (unbounded, 3 * ROW_BYTES)):
        ok(acl.aclUpdateDataBuffer(each.buffers[1], NULL, 0))
        ok(each.shape(3, 4))
        ok(each.execute())
        made = acl.aclGetDataBufferAddr(each.buffers[1])
        assert acl.aclGetDataBufferSizeV2(each.buffers[1]) == room
        assert each.result(3, made) and each.described() == (3, 4)
        ok(acl.aclrtFree(made))


def test_the_description_of_open_shapes(bounded: Rows, unbounded: Rows) -> None:
    """Dims of -1, ranges, sizes by the upper bounds; dims of a run are not told (S9.42, S9.79)."""
    for each, high, size in ((bounded, 5, 5 * ROW_BYTES), (unbounded, -1, 0)):
        desc, dims = acl.aclmdlCreateDesc(), ffi.new("aclmdlIODims *")
        ok(acl.aclmdlGetDesc(desc, each.id))
        for get in (acl.aclmdlGetInputDims, acl.aclmdlGetOutputDims):
            ok(get(desc, 0, dims))
            assert list(dims.dims[0 : dims.dimCount]) == [-1, 4]
        assert acl.aclmdlGetInputSizeByIndex(desc, 0) == size
        assert acl.aclmdlGetOutputSizeByIndex(desc, 0) == size
        ranges = ffi.new("aclmdlIODimsRange *")
        ok(acl.aclmdlGetInputDimsRange(desc, 0, ranges))
        pairs = [tuple(ranges.range[i]) for i in range(ranges.rangeCount)]
        assert pairs == [(1, high), (4, 4)]
        assert acl.aclmdlGetCurOutputDims(desc, 0, dims) == 200001
        ok(acl.aclmdlDestroyDesc(desc))


def test_short_buffers_of_open_shapes(unbounded: Rows) -> None:
    ok(unbounded.shape(3, 4))
    for index in range(2):
        ok(acl.aclUpdateDataBuffer(unbounded.buffers[index], unbounded.memory[index], 47))
        assert unbounded.execute() == 500002
        ok(acl.aclUpdateDataBuffer(unbounded.buffers[index], unbounded.memory[index], 48))
    ok(unbounded.execute())
    assert unbounded.result(3)


def test_open_shapes_in_a_stream(unbounded: Rows) -> None:
    """Shapes are taken when the run is queued, and the outputs are described then."""
    stream = new_stream()
    assert acl.aclmdlExecuteAsync(NO_MODEL, unbounded.feed, unbounded.fetch, stream) == 145003
    ok(unbounded.shape(2, 4))
    ok(acl.aclmdlExecuteAsync(unbounded.id, unbounded.feed, unbounded.fetch, stream))
    assert unbounded.described() == (2, 4)
    ok(acl.aclrtSynchronizeStream(stream))
    assert unbounded.result(2)
    ok(acl.aclUpdateDataBuffer(unbounded.buffers[1], NULL, 0))
    assert acl.aclmdlExecuteAsync(unbounded.id, unbounded.feed, unbounded.fetch, stream) != 0
    assert acl.aclGetDataBufferAddr(unbounded.buffers[1]) == NULL


@rule("S9.118")
def test_ranges_of_no_input(desc: Any) -> None:
    ranges = ffi.new("aclmdlIODimsRange *")
    assert acl.aclmdlGetInputDimsRange(NULL, 0, ranges) == 100000
    assert acl.aclmdlGetInputDimsRange(desc, 0, NULL) == 100000
    assert acl.aclmdlGetInputDimsRange(desc, 2, ranges) == 100000
    ok(acl.aclmdlGetInputDimsRange(desc, 0, ranges))
    assert ranges.rangeCount == 0, "fixed dims have no range"
