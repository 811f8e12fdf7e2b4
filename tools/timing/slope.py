"""The time of one call from the times of whole batches of two lengths.

A batch of k calls takes W(k) = a + k (o + t): a constant for starting and ending it, an overhead o
of bringing in inputs and flushing, and the time t of a call. The slope over two lengths cancels a,
and the slope of batches without calls is o.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MICROSECONDS = 1e6


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two batches of different lengths, each timed as a whole."""

    short: int
    """Calls in the shorter one."""
    short_s: float
    long: int
    long_s: float

    def __post_init__(self) -> None:
        if not 0 < self.short < self.long:
            raise ValueError(f"a slope needs two lengths, got {self.short} and {self.long}")


def slope_us(pair: Pair) -> float:
    """What one more call adds to a batch; below zero only by noise."""
    return (pair.long_s - pair.short_s) / (pair.long - pair.short) * MICROSECONDS


def mean_us(pair: Pair) -> float:
    """Time of the longer batch by its calls: at least the slope, unless short ones are slowed."""
    return pair.long_s / pair.long * MICROSECONDS


def start_us(pair: Pair) -> float:
    """What a batch of no calls would take: the constant a."""
    return pair.short_s * MICROSECONDS - pair.short * slope_us(pair)


def usual_slope_us(pairs: Sequence[Pair]) -> float:
    """The median; of batches without calls, everything in a step but its call."""
    return statistics.median(slope_us(pair) for pair in pairs)


def quickest(pairs: Sequence[Pair]) -> Pair:
    """The shorter and the longer batch that were held up least."""
    short = min(pairs, key=lambda pair: pair.short_s / pair.short)
    longer = [pair for pair in pairs if pair.long > short.short]
    long = min(longer, key=lambda pair: pair.long_s / pair.long)
    return Pair(short=short.short, short_s=short.short_s, long=long.long, long_s=long.long_s)
