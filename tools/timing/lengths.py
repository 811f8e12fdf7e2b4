"""How many calls the two batches of a slope have."""

import math
from dataclasses import dataclass

import numpy as np

MOST = 64
MOST_OF_SHORT_CALLS = 256
"""Calls this short are lost in the jitter of a batch of fewer."""
SHORT_CALL_US = 10.0
JITTER_US = 5.0
"""By which two equal batches usually differ on a quiet machine, as a host clock sees them."""
LONGEST_BATCH_US = 12_000.0
"""Longer ones heat the chip, and a disturbance spoils more."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Ranges that the two lengths are drawn from, both ends included."""

    short: tuple[int, int]
    long: tuple[int, int]

    @property
    def slots(self) -> int:
        """Calls of the longest batch."""
        return self.long[1]


@dataclass(frozen=True, kw_only=True)
class Apiece:
    """Of two kernels that are compared: a slow one needs fewer calls to be timed as surely."""

    first: Lengths
    second: Lengths

    @property
    def longest(self) -> Lengths:
        """Of the quicker kernel, and of batches without calls: their error adds to its."""
        return max(self.first, self.second, key=lambda one: one.slots)


def choose_lengths(*, call_us: float, overhead_us: float, aim: float, most: int) -> Lengths:
    """Long enough for one slope to be off by a part `aim` of the call, as far as `most` slots and
    `LONGEST_BATCH_US` allow. Raises ValueError where `most` leaves no two lengths.
    """
    if most < 2:
        raise ValueError(f"a slope needs at least two slots, there are {most}")
    wanted = math.sqrt(2) * JITTER_US / (aim * max(call_us, 1e-3))
    in_time = LONGEST_BATCH_US / (call_us + overhead_us)
    cap = MOST_OF_SHORT_CALLS if call_us <= SHORT_CALL_US else MOST
    top = max(2, min(math.ceil(wanted * 1.2), int(max(in_time, 4)), cap, most))
    return lengths_up_to(top)


def lengths_up_to(top: int) -> Lengths:
    """Ranges for a longest batch of `top` calls: each of both parities where there is room."""
    if top < 4:
        return Lengths(short=(1, 1), long=(2, top))
    highest_short = max(2, top // 8)
    lowest_long = min(top - 1, math.ceil(top * 0.85))
    return Lengths(short=(max(1, highest_short // 2), highest_short), long=(lowest_long, top))


def draw_lengths(lengths: Lengths, rng: np.random.Generator) -> tuple[int, int]:
    """One shorter and one longer: nobody knows beforehand where a batch ends."""
    short = int(rng.integers(*lengths.short, endpoint=True))
    long = int(rng.integers(*lengths.long, endpoint=True))
    return short, long
