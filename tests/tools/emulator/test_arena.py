"""Buffers lie apart, aligned, guarded, and give their memory back."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tools.device.buffers import BufferSpec, PlacedBuffer, Role
from cuda_llm.tools.device.channel import SharedMemory
from cuda_llm.tools.emulator.session import GUARD_BYTES, ArenaLayout

ARENA_BYTES = 16 << 20


@pytest.fixture(scope="module")
def arena() -> Iterator[SharedMemory]:
    memory = SharedMemory("test", ARENA_BYTES)
    yield memory
    memory.close()


def resident_bytes(memory: SharedMemory) -> int:
    return os.fstat(memory.descriptor).st_blocks * 512


def spec(name: str, dtype: str, shape: tuple[int, ...]) -> BufferSpec:
    return BufferSpec(name=name, role=Role.OUT, dtype=dtype, shape=shape)


shapes = st.lists(st.integers(0, 70), min_size=1, max_size=3).map(tuple)
dtypes = st.sampled_from(["float32", "float64", "float16", "int32", "uint8", "int64"])
buffers = st.lists(st.tuples(dtypes, shapes), max_size=8).map(
    lambda drawn: [spec(f"b{i}", dtype, shape) for i, (dtype, shape) in enumerate(drawn)]
)


def extents(arena: SharedMemory, placed: PlacedBuffer) -> list[tuple[int, int]]:
    start = np.frombuffer(arena.map, np.uint8).ctypes.data
    parts = [placed.guard_before, placed.data, placed.guard_after]
    return [(part.ctypes.data - start, part.ctypes.data - start + part.nbytes) for part in parts]


@settings(max_examples=examples(60))
@given(specs=buffers)
def test_buffers_are_aligned_guarded_and_disjoint(
    arena: SharedMemory, specs: list[BufferSpec]
) -> None:
    layout = ArenaLayout(arena)
    placed = layout.place(specs)
    last = 0
    for one in specs:
        view = placed[one.name]
        assert (view.data.shape, view.data.dtype) == (one.shape, np.dtype(one.dtype))
        before, data, after = extents(arena, view)
        assert last <= before[0]
        assert data[0] % 256 == 0
        if one.nbytes:
            assert data[0] == layout.offsets[one.name]
            assert (before[1], after[0]) == data
        assert before[1] - before[0] >= GUARD_BYTES
        assert after[1] - after[0] >= GUARD_BYTES
        last = after[1]
    assert last <= ARENA_BYTES


def test_a_new_layout_starts_from_zero_and_frees_the_old_one(arena: SharedMemory) -> None:
    layout = ArenaLayout(arena)
    large = layout.place([spec("large", "uint8", (8 << 20,))])["large"]
    large.data[:] = 7
    large.guard_after[:] = 7
    assert resident_bytes(arena) >= 8 << 20
    small = layout.place([spec("small", "uint8", (100,))])["small"]
    assert not small.data.any()
    assert not small.guard_after.any()
    assert resident_bytes(arena) <= 64 << 10


def test_a_closed_memory_holds_no_page_and_its_views_read_zero() -> None:
    memory = SharedMemory("test", ARENA_BYTES)
    view = ArenaLayout(memory).place([spec("x", "uint8", (1 << 20,))])["x"]
    view.data[:] = 1
    copy = os.dup(memory.descriptor)
    memory.close()
    assert os.fstat(copy).st_blocks == 0
    os.close(copy)
    assert not view.data.any()


@pytest.mark.parametrize(
    ("specs", "complaint"),
    [
        ([spec("a", "uint8", (1,)), spec("a", "uint8", (1,))], "two buffers are called a"),
        ([spec("a", "uint8", (ARENA_BYTES,))], "a does not fit into"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(
    arena: SharedMemory, specs: list[BufferSpec], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        ArenaLayout(arena).place(specs)
