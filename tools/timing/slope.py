"""The time of a call as the slope over batches of two lengths, and blocks of such pairs.

A batch of k calls takes W(k) = a + k (o + t): a constant for starting and ending it, an overhead o
of bringing in inputs and flushing, and the time t of a call. The slope over two lengths cancels a,
and the slope of batches without calls is o.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MICROSECONDS = 1e6

MOST_CALLS = 64
MOST_OF_SHORT_CALLS = 256
"""In batches of short calls: fewer would be lost in the jitter."""
SHORT_CALL_US = 10.0
JITTER_US = 5.0
"""Two equal batches usually differ by this on a quiet machine, by a host clock."""
LONGEST_BATCH_US = 12_000.0
"""Longest batch in microseconds: longer batches heat the chip, and a disturbance spoils more calls.
"""


@dataclass(frozen=True, kw_only=True)
class BatchPair:
    """Two batches of different lengths, each timed as a whole."""

    short: int
    """Calls of the shorter batch."""
    short_s: float
    long: int
    long_s: float

    def __post_init__(self) -> None:
        if not 0 < self.short < self.long:
            raise ValueError(f"a slope needs two lengths, got {self.short} and {self.long}")


def slope_us(pair: BatchPair) -> float:
    """Return the microseconds that one more call adds to a batch; noise can make it negative."""
    return (pair.long_s - pair.short_s) / (pair.long - pair.short) * MICROSECONDS


def mean_us(pair: BatchPair) -> float:
    """Return the longer batch over its calls: at least the slope of undisturbed batches."""
    return pair.long_s / pair.long * MICROSECONDS


def start_us(pair: BatchPair) -> float:
    """Return what a batch of no calls would take: the constant a, in microseconds."""
    return pair.short_s * MICROSECONDS - pair.short * slope_us(pair)


def usual_slope_us(pairs: Sequence[BatchPair]) -> float:
    """Return the median slope; of batches without calls, the time of a step but for its call."""
    return statistics.median(slope_us(pair) for pair in pairs)


def quickest_batches(pairs: Sequence[BatchPair]) -> BatchPair:
    """Return the shorter and the longer batch that were held up least."""
    short = min(pairs, key=lambda pair: pair.short_s / pair.short)
    longer = [pair for pair in pairs if pair.long > short.short]
    long = min(longer, key=lambda pair: pair.long_s / pair.long)
    return BatchPair(short=short.short, short_s=short.short_s, long=long.long, long_s=long.long_s)


@dataclass(frozen=True, kw_only=True)
class BatchLengths:
    """Ranges that the two lengths are drawn from, both ends included."""

    short: tuple[int, int]
    long: tuple[int, int]

    @property
    def slots(self) -> int:
        """Calls of the longest batch."""
        return self.long[1]

    def within(self, slots: int) -> "BatchLengths":
        """Return these lengths, or the longest for so many slots."""
        return self if self.slots <= slots else lengths_up_to(slots)


def choose_lengths(*, call_us: float, overhead_us: float, aim: float, most: int) -> BatchLengths:
    """Return lengths by which one slope has a relative error of `aim`, within `most` slots and
    LONGEST_BATCH_US. Raises ValueError where `most` leaves no two lengths."""
    if most < 2:
        raise ValueError(f"a slope needs at least two slots, there are {most}")
    wanted = math.sqrt(2) * JITTER_US / (aim * max(call_us, 1e-3))
    in_time = LONGEST_BATCH_US / (call_us + overhead_us)
    cap = MOST_OF_SHORT_CALLS if call_us <= SHORT_CALL_US else MOST_CALLS
    top = max(2, min(math.ceil(wanted * 1.2), int(max(in_time, 4)), cap, most))
    return lengths_up_to(top)


def lengths_up_to(top: int) -> BatchLengths:
    """Return ranges for a longest batch of `top` calls, with both parities where possible."""
    if top < 4:
        return BatchLengths(short=(1, 1), long=(2, top))
    highest_short = max(2, top // 8)
    lowest_long = min(top - 1, math.ceil(top * 0.85))
    return BatchLengths(short=(max(1, highest_short // 2), highest_short), long=(lowest_long, top))


def draw_lengths(lengths: BatchLengths, rng: np.random.Generator) -> tuple[int, int]:
    """Draw one shorter and one longer length at random, so that no candidate knows where a batch
    ends."""
    short = int(rng.integers(*lengths.short, endpoint=True))
    long = int(rng.integers(*lengths.long, endpoint=True))
    return short, long


@dataclass(frozen=True, kw_only=True)
class BatchBlock:
    """One pair of batches of each kernel, and one pair without calls, in random order."""

    first: BatchPair
    """The kernel that is judged."""
    second: BatchPair
    """Seconds of the kernel that the first is compared with."""
    empty: BatchPair
    """Seconds of batches without calls: inputs, flush and tags."""
    second_empty: BatchPair | None = None
    """Seconds of batches without calls of the second kernel, where its session is of another kind.
    """
    again: BatchPair | None = None
    """The second kernel once more: how much equal kernels differ."""
    throttled: bool = False
    """The clocks were held down for heat or power while it ran."""


def counted_blocks(blocks: Sequence[BatchBlock]) -> Sequence[BatchBlock]:
    """Return the blocks that were not throttled, or all where every block was."""
    return [block for block in blocks if not block.throttled] or blocks
