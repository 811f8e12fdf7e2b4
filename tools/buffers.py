"""The memory that `solve` works on: what a buffer is, and where it lies between its guards."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from cuda_llm.tools.arrays import Array


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
    """All slots of a layout: every array has one more axis in front, one index a slot.

    What concerns many slots is done with these; each slot's own views are made when asked for.
    """

    buffers: Mapping[str, PlacedBuffer]
    sealed: Mapping[str, Array]
    count: int

    def __len__(self) -> int:
        """How many there are."""
        return self.count

    def __getitem__(self, number: int) -> Slot:
        """One of them. The ellipsis keeps what has no axis left a view."""
        if not 0 <= number < self.count:
            raise IndexError(f"slot {number} of {self.count}")
        return Slot(
            buffers={
                name: PlacedBuffer(
                    spec=one.spec,
                    data=one.data[number, ...],
                    guard_before=one.guard_before[number, ...],
                    guard_after=one.guard_after[number, ...],
                )
                for name, one in self.buffers.items()
            },
            sealed={name: one[number, ...] for name, one in self.sealed.items()},
        )

    def __iter__(self) -> Iterator[Slot]:
        """One after the other."""
        return (self[number] for number in range(self.count))
