"""The memory that `solve` works on: the arrays of a site, and buffers between their guards."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.element_types import ElementType, element_type

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array with the same methods."""

Random: TypeAlias = Any
"""A `numpy.random.Generator`, or a generator with the same methods on a GPU."""


@dataclass(frozen=True)
class KernelProgram:
    """CUDA source whose threads never wait for each other, and its kernels.

    A C++ compiler accepts the source too, given definitions of CUDA's words: tests run the kernels
    thread by thread.
    """

    source: str
    kernels: tuple[str, ...]


LaunchKernel: TypeAlias = Callable[[KernelProgram, str, int, tuple[Any, ...]], None]
"""`launch(program, kernel, threads, arguments)`: contiguous arrays are passed by address, NumPy
scalars by value. At least `threads` threads run."""


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """The module that makes arrays, and what NumPy and CuPy name differently."""

    xp: Any
    """`numpy` or `cupy`."""
    generator: Callable[[int], Random]
    """Makes a generator of random numbers from a 128-bit seed; equal seeds give equal numbers."""
    to_host: Callable[[Array], npt.NDArray[Any]]
    """Returns a copy of an array in host memory; the array itself where it lies in host memory."""
    at_once: int = 1 << 16
    """Elements that are compared at once: on a host they stay in the cache."""
    part_bytes: int = 1 << 28
    """Most bytes of working memory of one part of a float64 reference."""
    launch: LaunchKernel | None = None
    """Runs a kernel of this package where the arrays lie; None where NumPy does its work."""

    def number(self, value: Array) -> float:
        """Return an array of one element as a number on the host."""
        return float(self.to_host(value))


HOST = Arrays(xp=np, generator=np.random.default_rng, to_host=np.asarray)
"""Arrays of NumPy in host memory."""


class Role(StrEnum):
    """Whether a candidate reads a buffer, writes a buffer, or both, or keeps its own work there."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    WORKSPACE = "workspace"


@dataclass(frozen=True, kw_only=True)
class BufferSpec:
    """One device buffer of a call."""

    name: str
    role: Role
    dtype: str
    """NumPy's name of the type that holds the elements: `float32`, `int32`; `uint16` for the bits
    of a `bfloat16`."""
    shape: tuple[int, ...]
    shift_bytes: int = 0
    """Bytes by which the buffer begins later, after a longer guard: a multiple of 256."""
    element: str = ""
    """Name of the elements' type (`tasks.element_types`); empty: that of `dtype`."""

    @property
    def element_type(self) -> ElementType:
        """Return the type of the elements, which says what numbers the bits in `dtype` are."""
        return element_type(self.element or self.dtype)

    @property
    def is_filled(self) -> bool:
        """Return whether the buffer has contents before a call, not poison."""
        return self.role in (Role.IN, Role.INOUT)

    @property
    def is_output(self) -> bool:
        """Return whether the buffer's contents are compared after a call."""
        return self.role in (Role.OUT, Role.INOUT)

    @cached_property
    def nbytes(self) -> int:
        """Size of the buffer in bytes, without its guards."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer in memory that the runner shares. All arrays are views: the runner sees what is
    written to them."""

    spec: BufferSpec
    data: Array
    """Elements, with shape and dtype of the spec."""
    guard_before: Array
    """Bytes in front of the elements."""
    guard_after: Array
    """Bytes behind the elements."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The buffers of one timed call, and the sealed contents of its inputs."""

    buffers: Mapping[str, PlacedBuffer]
    sealed: Mapping[str, Array]
    """Encrypted bytes of each `in` and `inout` buffer: the runner decrypts them into `buffers`
    right before the call, with a key that it is given while no code of the candidate runs."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """All slots of a layout: the first axis of every array has one index a slot."""

    buffers: Mapping[str, PlacedBuffer]
    sealed: Mapping[str, Array]
    count: int

    def __len__(self) -> int:
        """Return the number of slots."""
        return self.count

    def __getitem__(self, number: int) -> Slot:
        """Return one slot, whose arrays are views, also those without an axis. Raises
        IndexError."""
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
        """Yield the slots in order."""
        return (self[number] for number in range(self.count))
