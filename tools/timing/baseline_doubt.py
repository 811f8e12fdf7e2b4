"""Decides what follows when a baseline takes another time than its reference."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from cuda_llm.outcomes import BaselineDoubt, DoubtOutcome
from cuda_llm.tools.timing.baseline_time import BaselineReading
from cuda_llm.tools.timing.stopping import VAGUE_US
from cuda_llm.tools.timing.times import KernelTimes

SAME_FACTOR = 1.25
"""Two times of one baseline count as equal within this factor. Beside 12 kernels each, on two
H200s, times of six tasks' baselines lay up to 1.066 apart (`h200_corpus.json`); an odd process was
off by a factor of 3.1 and more."""

SAME_US = 2 * VAGUE_US
"""So are those of a few microseconds: each may be as vague as that."""

MOST_BY_CLOCKS = 1.5
"""Clocks explain no larger factor: they are read now and then, also while the chip is idle."""

SizeKey: TypeAlias = tuple[tuple[str, int], ...]
"""Dims in order of their names."""

Readings: TypeAlias = Mapping[SizeKey, BaselineReading]


def size_key(dims: Mapping[str, int]) -> SizeKey:
    """Return the dims as a key."""
    return tuple(sorted(dims.items()))


def readings_beside(timing: KernelTimes) -> Readings:
    """Return what the baseline took beside the kernel at each size."""
    return {
        size_key(one.dims): BaselineReading(
            call_us=one.baseline_us,
            spread=one.baseline_spread,
            sm_mhz=one.clocks.get("sm_mhz_low", 0.0),
        )
        for one in timing.sizes
        if one.baseline_us is not None
    }


def unexplained(one: BaselineReading, other: BaselineReading) -> float:
    """Return the logarithm of the factor between two times that noise and clocks do not explain.

    A chip whose clock is lower may be slower by as much: what is timed beside is so too, and the
    speed-up stays. What is memory-bound need not be slower.
    """
    if abs(one.call_us - other.call_us) <= SAME_US:
        return 0.0
    apart, most = math.log(one.call_us / other.call_us), math.log(MOST_BY_CLOCKS)
    known = one.sm_mhz > 0 and other.sm_mhz > 0
    by_clocks = math.log(other.sm_mhz / one.sm_mhz) if known else 0.0
    low, high = sorted((0.0, min(most, max(-most, by_clocks))))
    noise = math.log(SAME_FACTOR) + one.spread + other.spread
    return max(0.0, low - apart - noise, apart - high - noise)


def sizes_apart(one: Readings, other: Readings) -> frozenset[SizeKey]:
    """Return the sizes of both at which the two differ."""
    return frozenset(key for key in one.keys() & other.keys() if unexplained(one[key], other[key]))


def slower_sizes(one: Readings, other: Readings) -> frozenset[SizeKey]:
    """Return those at which the first takes longer."""
    return frozenset(k for k in sizes_apart(one, other) if one[k].call_us > other[k].call_us)


def judge_processes(first: Readings, second: Readings, reference: Readings) -> DoubtOutcome:
    """Decide from the times of two processes of the baseline which of them, or the reference, is
    wrong."""
    if not sizes_apart(second, reference):
        return "odd-process"
    return "unsettled" if sizes_apart(second, first) else "stale-reference"


def describe_apart(
    outcome: DoubtOutcome,
    first: Readings,
    second: Readings,
    reference: Readings,
    alone: Readings,
) -> BaselineDoubt:
    """Return the doubt, at the size where first and reference differ most."""
    key = max(sizes_apart(first, reference), key=lambda k: (unexplained(first[k], reference[k]), k))
    return BaselineDoubt(
        outcome=outcome,
        dims=dict(key),
        beside_us=first[key].call_us,
        reference_us=reference[key].call_us,
        again_us=second[key].call_us,
        alone_us=alone[key].call_us if key in alone else None,
    )
