"""What the referee puts around and into shared buffers, and what it finds there afterwards.

Everything stays where the buffers are; a question about all of them costs one transfer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cuda_llm.outcomes import GuardOverwritten, InputMutated
from cuda_llm.tools.arrays import HOST, Array, Arrays, Random
from cuda_llm.tools.buffers import PlacedBuffer, Role
from cuda_llm.tools.validator.fused import differ_there


@dataclass(frozen=True)
class Filled:
    """Buffers ready for a call, and the referee's private copies to hold them against."""

    placed: Mapping[str, PlacedBuffer]
    contents: Mapping[str, Array]
    """What inputs were given."""
    guards: Mapping[str, tuple[Array, Array]]
    poison: int


def fill(
    placed: Mapping[str, PlacedBuffer], contents: Mapping[str, Array], poison: int, rng: Random
) -> Filled:
    """Write inputs, poison outputs, put random bytes at both ends of every buffer."""
    sides = [side for one in placed.values() for side in (one.guard_before, one.guard_after)]
    ends = np.cumsum([0, *(side.size for side in sides)]).tolist()
    noise = rng.integers(0, 256, ends[-1], dtype=np.uint8)
    kept = [noise[begin:end] for begin, end in pairwise(ends)]
    for side, noisy in zip(sides, kept, strict=True):
        side[...] = noisy
    for name, buffer in placed.items():
        if buffer.spec.role is Role.OUT:
            bytes_of(buffer.data)[...] = poison
        else:
            buffer.data[...] = contents[name]
    guards = {name: (kept[2 * i], kept[2 * i + 1]) for i, name in enumerate(placed)}
    return Filled(placed=placed, contents=contents, guards=guards, poison=poison)


def find_damage(filled: Filled, arrays: Arrays = HOST) -> GuardOverwritten | InputMutated | None:
    """The first guard or input that is not as it was left."""
    watched: list[tuple[Array, Array]] = []
    for name, buffer in filled.placed.items():
        before, after = filled.guards[name]
        watched += [(buffer.guard_after, after), (buffer.guard_before, before)]
    inputs = [name for name, one in filled.placed.items() if one.spec.role is Role.IN]
    watched += [(words(filled.placed[name].data), words(filled.contents[name])) for name in inputs]
    at = first_difference(watched, arrays)
    if at is None:
        return None
    guarded = 2 * len(filled.placed)
    if at >= guarded:
        return InputMutated(buffer=inputs[at - guarded])
    found, left = (arrays.to_host(one) for one in watched[at])
    changed = np.flatnonzero(found != left)
    name = list(filled.placed)[at // 2]
    if at % 2 == 0:
        return GuardOverwritten(buffer=name, side="after", offset_bytes=int(changed[0]))
    distance = left.size - 1 - int(changed[-1])
    return GuardOverwritten(buffer=name, side="before", offset_bytes=distance)


def take_outputs(filled: Filled) -> dict[str, Array]:
    """Private copies of the outputs: what is judged cannot change any more."""
    return {
        name: buffer.data.copy()
        for name, buffer in filled.placed.items()
        if buffer.spec.role is not Role.IN
    }


def find_late_write(
    filled: Filled, taken: Mapping[str, Array], arrays: Arrays = HOST
) -> str | None:
    """Name of an output that changed since `taken` was copied."""
    pairs = [(words(filled.placed[name].data), words(copy)) for name, copy in taken.items()]
    at = first_difference(pairs, arrays)
    return None if at is None else list(taken)[at]


def same_bytes(one: Array, other: Array, arrays: Arrays = HOST) -> bool:
    """Whether two arrays of one type and shape hold the same bits, NaNs included."""
    return first_difference([(words(one), words(other))], arrays) is None


def first_difference(pairs: Sequence[tuple[Array, Array]], arrays: Arrays) -> int | None:
    """Number of the first pair of flat arrays of whole numbers that differ.

    Where there are kernels of our own for it, CuPy's reduction is not used: without CUB it has one
    block for all of an array.
    """
    flags = differ_there(pairs, arrays)
    if flags is None:
        flags = arrays.xp.empty(len(pairs), np.bool_)
        for number, (one, other) in enumerate(pairs):
            flags[number] = (one != other).any()
    return first_set(flags, arrays)


def first_set(flags: Array, arrays: Arrays) -> int | None:
    """Number of the first flag that is set, for one transfer from the device."""
    found = np.flatnonzero(arrays.to_host(flags))
    return int(found[0]) if found.size else None


def words(array: Array) -> Array:
    """The bits of a buffer, which is aligned as guards are not, as the widest words they fill."""
    flat = array.reshape(-1)
    return flat.view(np.uint64 if flat.nbytes % 8 == 0 else np.uint8)


def bytes_of(array: Array) -> Array:
    """A flat view of a contiguous array's bytes."""
    return array.reshape(-1).view(np.uint8)
