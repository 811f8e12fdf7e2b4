"""A block: everything that is compared, timed within a few milliseconds of each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.timing.slope import Pair


@dataclass(frozen=True, kw_only=True)
class Block:
    """One pair of batches of each kernel, and one without calls, in random order."""

    first: Pair
    """The kernel in question."""
    second: Pair
    """What it is held against."""
    empty: Pair
    """The same without calls: inputs, flush and tags."""
    again: Pair | None = None
    """The second kernel once more: what equal kernels differ by."""
    throttled: bool = False
    """The clocks were held down for heat or power while it ran."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The blocks that count."""

    blocks: tuple[Block, ...]
    throttled: int = 0
    """Dropped, unless nothing else was left."""


def keep(blocks: Sequence[Block], *, discard: int = 0) -> Kept:
    """Leave out the first `discard` blocks, in which clocks rise, and those under throttle."""
    settled = tuple(blocks[discard:])
    calm = tuple(block for block in settled if not block.throttled)
    return Kept(blocks=calm or settled, throttled=len(settled) - len(calm))


def pairs_of(blocks: Sequence[Block], which: str) -> list[Pair]:
    """The batches of `first` or `second`."""
    return [block.first if which == "first" else block.second for block in blocks]
