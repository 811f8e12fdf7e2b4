"""The memory that `solve` works on: the arrays of a site, and buffers between their guards."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array with the same methods."""

Random: TypeAlias = Any
"""A numpy.random.Generator, or what does the same on a GPU."""


@dataclass(frozen=True)
class KernelProgram:
    """CUDA source whose threads never wait for each other, and its kernels.

    A C++ compiler takes it too, given definitions of CUDA's words: tests run it thread by thread.
    """

    source: str
    kernels: tuple[str, ...]


LaunchKernel: TypeAlias = Callable[[KernelProgram, str, int, tuple[Any, ...]], None]
"""`launch(program, kernel, threads, arguments)`: contiguous arrays are passed by address, NumPy
scalars by value. There may be more threads than asked for."""


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """The module that makes arrays, and what NumPy and CuPy name differently."""

    xp: Any
    """`numpy` or `cupy`."""
    generator: Callable[[int], Random]
    """Random numbers from a 128-bit seed; the same seed gives the same numbers."""
    to_host: Callable[[Array], npt.NDArray[Any]]
    """A copy in the memory of the host; the array itself where it lies there."""
    at_once: int = 1 << 16
    """Elements compared at once: on a host the working set stays in the cache."""
    part_bytes: int = 1 << 28
    """Working memory that a float64 reference computed part by part may take at once."""
    launch: LaunchKernel | None = None
    """Runs kernels of our own where these arrays lie."""

    def number(self, value: Array) -> float:
        """Return one element, brought to the host."""
        return float(self.to_host(value))


HOST = Arrays(xp=np, generator=np.random.default_rng, to_host=np.asarray)
"""NumPy."""


class Role(StrEnum):
    """What a buffer is to the candidate."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, kw_only=True)
class BufferSpec:
    """One device buffer of a call."""

    name: str
    role: Role
    dtype: str
    """NumPy name: `float32`, `int32`, `float16`, `uint8` ..."""
    shape: tuple[int, ...]
    shift_bytes: int = 0
    """How much later it begins, after a longer guard: a multiple of 256."""

    @cached_property
    def nbytes(self) -> int:
        """Payload size, without guards."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer in memory the runner shares. All arrays are views; writing is sharing."""

    spec: BufferSpec
    data: Array
    """Shape and dtype of the spec."""
    guard_before: Array
    """Bytes."""
    guard_after: Array


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The buffers of one timed call, and the sealed contents of its inputs."""

    buffers: Mapping[str, PlacedBuffer]
    sealed: Mapping[str, Array]
    """Bytes of each `in` and `inout` buffer, encrypted: the runner opens them into `buffers` right
    before the call, with a key that it is given when nothing of the candidate's runs."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """All slots of a layout, one index of every array's first axis each."""

    buffers: Mapping[str, PlacedBuffer]
    sealed: Mapping[str, Array]
    count: int

    def __len__(self) -> int:
        """Return how many slots there are."""
        return self.count

    def __getitem__(self, number: int) -> Slot:
        """Return one slot. The ellipsis keeps what has no axis left a view."""
        if not 0 <= number < self.count:
            raise IndexError(f"slot {number} of {self.count}")
        return Slot(
            buffers={
                name: PlacedBuffer(
                    one.spec,
                    *(part[number, ...] for part in (one.data, one.guard_before, one.guard_after)),
                )
                for name, one in self.buffers.items()
            },
            sealed={name: one[number, ...] for name, one in self.sealed.items()},
        )

    def __iter__(self) -> Iterator[Slot]:
        """Yield one slot after the other."""
        return (self[number] for number in range(self.count))
