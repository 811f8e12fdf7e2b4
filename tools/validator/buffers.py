"""What the referee puts around and into shared buffers, and what it finds there afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import GuardOverwritten, InputMutated
from cuda_llm.tools.device import PlacedBuffer, Role

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Filled:
    """Buffers ready for a call, and the referee's private copies to hold them against."""

    placed: Mapping[str, PlacedBuffer]
    contents: Mapping[str, Array]
    """What inputs were given."""
    guards: Mapping[str, tuple[Bytes, Bytes]]
    poison: int


def fill(
    placed: Mapping[str, PlacedBuffer],
    contents: Mapping[str, Array],
    poison: int,
    rng: np.random.Generator,
) -> Filled:
    """Write inputs, poison outputs, put random bytes at both ends of every buffer."""
    guards = {}
    for name, buffer in placed.items():
        if buffer.spec.role is Role.OUT:
            bytes_of(buffer.data)[...] = poison
        else:
            buffer.data[...] = contents[name]
        before = np.frombuffer(rng.bytes(buffer.guard_before.size), np.uint8)
        after = np.frombuffer(rng.bytes(buffer.guard_after.size), np.uint8)
        buffer.guard_before[...] = before
        buffer.guard_after[...] = after
        guards[name] = (before, after)
    return Filled(placed=placed, contents=contents, guards=guards, poison=poison)


def find_damage(filled: Filled) -> GuardOverwritten | InputMutated | None:
    """The first guard or input that is not as it was left."""
    for name, buffer in filled.placed.items():
        before, after = filled.guards[name]
        changed = np.flatnonzero(buffer.guard_after != after)
        if changed.size:
            return GuardOverwritten(buffer=name, side="after", offset_bytes=int(changed[0]))
        changed = np.flatnonzero(buffer.guard_before != before)
        if changed.size:
            distance = before.size - 1 - int(changed[-1])
            return GuardOverwritten(buffer=name, side="before", offset_bytes=distance)
    for name, buffer in filled.placed.items():
        if buffer.spec.role is Role.IN and not same_bytes(buffer.data, filled.contents[name]):
            return InputMutated(buffer=name)
    return None


def take_outputs(filled: Filled) -> dict[str, Array]:
    """Private copies of the outputs: what is judged cannot change any more."""
    return {
        name: buffer.data.copy()
        for name, buffer in filled.placed.items()
        if buffer.spec.role is not Role.IN
    }


def find_late_write(filled: Filled, taken: Mapping[str, Array]) -> str | None:
    """Name of an output that changed since `taken` was copied."""
    for name, copy in taken.items():
        if not same_bytes(filled.placed[name].data, copy):
            return name
    return None


def same_bytes(one: Array, other: Array) -> bool:
    """Whether two arrays of one type and shape hold the same bits, NaNs included."""
    return bool(np.array_equal(bytes_of(one), bytes_of(other)))


def bytes_of(array: Array) -> Bytes:
    """A flat view of a contiguous array's bytes."""
    return array.reshape(-1).view(np.uint8)
