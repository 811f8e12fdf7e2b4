"""Our side of the sealing kernels computes what NumPy does, for any choice of slots."""

from pathlib import Path

import numpy as np
import pytest
from seal_on_host import host_cupy, pointed, seal_library

from cuda_llm.tools.cuda.layout import SessionMemory
from cuda_llm.tools.cuda.memory import HostMemory
from cuda_llm.tools.cuda.protocol import TAG_WORDS
from cuda_llm.tools.cuda.sealing import GpuSealing, HostSealing, SealedColumn
from cuda_llm.tools.device.buffers import BufferSpec, Role

MOST_BYTES = 3 << 30


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal_library(tmp_path_factory.mktemp("seal"))


def placed(size: int, slots: int) -> SessionMemory:
    """An input and two outputs of this size in every slot."""
    roles = {"x": Role.IN, "y": Role.OUT, "z": Role.INOUT}
    specs = [BufferSpec(name=n, role=r, dtype="uint8", shape=(size,)) for n, r in roles.items()]
    arena = SessionMemory(HostMemory(MOST_BYTES), lambda memory, _: memory)
    arena.place_slots(specs, slots)
    return arena


def keys_of(order: list[int]) -> list[bytes]:
    """A key of its own for each slot."""
    return [bytes((slot + byte) % 256 for byte in range(16)) for slot in order]


def orders() -> list[tuple[int, int, list[int]]]:
    """Bytes, slots, and those asked about."""
    everyone = [int(slot) for slot in np.random.default_rng(3).permutation(256)]
    sizes = [(1, 1, [0]), (16, 5, [3, 1]), (4801, 7, [6, 0, 3]), (1001, 256, everyone)]
    return [*sizes, (TAG_WORDS * 4 + 5, 3, [2, 0])]


@pytest.mark.parametrize(("size", "slots", "order"), orders())
def test_sealed_and_tagged_as_numpy_says(
    library: Path, size: int, slots: int, order: list[int]
) -> None:
    arena, other = placed(size, slots), placed(size, slots)
    there, here = GpuSealing(host_cupy(), library), HostSealing()
    contents = np.random.default_rng(size).integers(0, 256, (len(order), size), np.uint8)
    there.seal(
        SealedColumn(rows=pointed(arena.sealed("x")), index=0),
        order,
        pointed(contents),
        keys_of(order),
    )
    here.seal(SealedColumn(rows=other.sealed("x"), index=0), order, contents, keys_of(order))
    end = arena.layout.tags
    assert (arena.memory.view(0, end) == other.memory.view(0, end)).all()
    assert arena.memory.view(0, end).any()

    for number, name in enumerate(("y", "z")):
        arena.output(name)[order] = contents ^ number
    outputs = [
        SealedColumn(rows=arena.output(name), index=index) for index, name in ((1, "y"), (2, "z"))
    ]
    seen = [SealedColumn(rows=pointed(one.rows), index=one.index) for one in outputs]
    tags = here.tags(outputs, order, keys_of(order))
    assert there.tags(seen, order, keys_of(order)) == tags
    arena.output("z")[order[-1], -1] ^= 1
    changed = there.tags(seen, order, keys_of(order))
    if size <= TAG_WORDS * 4:
        assert [at for at, tag in enumerate(tags) if changed[at] != tag] == [2 * len(order) - 1]
    arena.memory.close()
    other.memory.close()


def test_contents_may_begin_anywhere(library: Path) -> None:
    arena, other = placed(37, 3), placed(37, 3)
    spread = np.random.default_rng(0).integers(0, 256, 1 + 3 * 37, np.uint8)
    for begin in (0, 1):
        rows = spread[begin : begin + 3 * 37].reshape(3, 37)
        column = SealedColumn(rows=pointed(arena.sealed("x")), index=0)
        order = [2, 1, 0]
        keys = keys_of(order)
        GpuSealing(host_cupy(), library).seal(column, order, pointed(rows), keys)
        HostSealing().seal(SealedColumn(rows=other.sealed("x"), index=0), order, rows, keys)
        assert (arena.sealed("x") == other.sealed("x")).all()


def test_columns_and_slots_are_the_same_memory() -> None:
    arena = SessionMemory(HostMemory(MOST_BYTES), lambda memory, _: memory)
    spec = BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(3, 7))
    slots = arena.place_slots([spec], 4)
    for number, slot in enumerate(slots):
        slot.buffers["x"].data[...] = number
        slot.buffers["x"].guard_after[0] = slot.sealed["x"][-1] = number
    assert (slots.buffers["x"].data.transpose(1, 2, 0) == np.arange(4)).all()
    assert (slots.buffers["x"].guard_after[:, 0] == np.arange(4)).all()
    assert (arena.sealed("x")[:, -1] == np.arange(4)).all()
    assert (arena.output("x").view("float32")[:, 0] == np.arange(4)).all()
    with pytest.raises(IndexError, match="slot 4 of 4"):
        slots[4]
