"""What stands around a library's call is what a runner puts around a candidate's."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from seal_on_host import host_cupy, pointed, seal_library

from cuda_llm.tools.cuda.layout import SessionMemory
from cuda_llm.tools.cuda.memory import HostMemory
from cuda_llm.tools.cuda.sealing import SealedColumn, tag_of, tagging_key
from cuda_llm.tools.cuda.step_kernels import StepKernels
from cuda_llm.tools.device.buffers import BufferSpec, Role

KEY = bytes(range(1, 17))
SIZES = {"x": 4801, "y": 96}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal_library(tmp_path_factory.mktemp("seal"))


def placed(slots: int) -> SessionMemory:
    """Two inputs of different sizes, and an output."""
    specs = [
        BufferSpec(name=name, role=Role.IN, dtype="uint8", shape=(size,))
        for name, size in SIZES.items()
    ]
    specs.append(BufferSpec(name="z", role=Role.OUT, dtype="uint8", shape=(70_000,)))
    arena = SessionMemory(HostMemory(1 << 30), lambda memory, _: memory)
    arena.place_slots(specs, slots)
    return arena


def column(arena: SessionMemory, name: str, index: int) -> SealedColumn:
    """The sealed contents of an input."""
    return SealedColumn(rows=pointed(arena.sealed(name)), index=index)


def test_what_was_sealed_is_opened_in_its_own_slot_alone(library: Path) -> None:
    arena, kernels = placed(3), StepKernels(host_cupy(), library, sm_count=2, flush_bytes=64)
    generator = np.random.default_rng(5)
    contents = {
        name: generator.integers(0, 256, (3, size), np.uint8) for name, size in SIZES.items()
    }
    sealed = [column(arena, name, index) for index, name in enumerate(SIZES)]
    for one, rows in zip(sealed, contents.values(), strict=True):
        kernels.sealing.seal(one, [0, 1, 2], pointed(rows), [KEY] * 3)
    opened = [pointed(arena.output(name)) for name in SIZES]
    before = [rows.copy() for rows in opened]
    kernels.open(sealed, opened, 1, KEY)
    for rows, untouched, wanted in zip(opened, before, contents.values(), strict=True):
        assert (rows[1] == wanted[1]).all()
        assert (rows[[0, 2]] == untouched[[0, 2]]).all()


def test_an_output_is_read_for_its_tag_as_a_candidate_s_is(library: Path) -> None:
    arena, kernels = placed(2), StepKernels(host_cupy(), library, sm_count=2, flush_bytes=64)
    output = SealedColumn(rows=pointed(arena.output("z")), index=2)
    output.rows[1] = np.random.default_rng(6).integers(0, 256, 70_000, np.uint8)
    kernels.tag([output], 1, KEY)
    tagged = ctypes.CDLL(str(library)).last_tag
    tagged.restype = ctypes.c_uint64
    assert tagged() == tag_of(np.asarray(output.rows[1]), 1, 2, tagging_key(KEY))


def test_a_flush_writes_all_of_its_memory(library: Path) -> None:
    kernels = StepKernels(host_cupy(), library, sm_count=1, flush_bytes=160_000)
    kernels.flush(7)
    assert (np.asarray(kernels.flushed).view(np.uint32) == 7).all()


def test_a_call_without_buffers_launches_nothing_around_it() -> None:
    launched: list[tuple[object, ...]] = []
    module = SimpleNamespace(get_function=lambda _name: lambda *given: launched.append(given))
    arrays = host_cupy()
    arrays.xp.RawModule = lambda *, path: module
    kernels = StepKernels(arrays, Path("any.cubin"), sm_count=1, flush_bytes=64)
    kernels.open([], [], 0, KEY)
    kernels.tag([], 0, KEY)
    assert launched == []
    kernels.flush(1)
    assert len(launched) == 1
