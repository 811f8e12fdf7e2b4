"""Estimates from blocks how much slower one kernel is than another, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cuda_llm.tools.timing.estimate import RESAMPLES, Estimate, estimate_median
from cuda_llm.tools.timing.slope import BatchBlock, BatchPair, mean_us, quickest_batches, slope_us

SMALLEST_FLOOR = 0.01
"""Loading the same kernel in another process alone may change its time by this much."""
FLOOR_FACTOR = 2.0
"""The floor over what the same kernel was seen to differ by from itself."""
SAFE_QUANTILE = 0.25
"""Quantile of trusted figures that is taken where less is on the safe side."""
QUICK_RESAMPLES = 200
"""Bootstrap samples of an interval that decides only whether more blocks follow."""
RESOLUTION_US = 0.02
"""No call takes less: smaller figures of noisy blocks are read as this."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two kernels over the same blocks."""

    first_us: Estimate
    """Microseconds of one call of the first kernel."""
    second_us: Estimate
    most_us: float
    """The most that a call of the first can have taken. See `most_call_us`."""
    ratio: float
    """First over second: the median over blocks, not the ratio of the medians."""
    low: float
    high: float
    """Interval of `ratio`, 95 %."""
    floor: float
    """Relative difference that equal kernels may show."""
    blocks: int
    empty: Estimate
    """Microseconds of a step without its call. An error of this figure is an error of both times.
    """

    @property
    def half_width(self) -> float:
        """Return half the width of the interval of the logarithm of `ratio`: a relative figure."""
        return math.log(self.high / self.low) / 2

    @property
    def outcome(self) -> Literal["faster", "slower", "tie"]:
        """Return the outcome of the first. See `decide_outcome`."""
        return decide_outcome(self.ratio, self.low, self.high, self.floor)


def decide_outcome(
    ratio: float, low: float, high: float, floor: float
) -> Literal["faster", "slower", "tie"]:
    """Decide for the first: a difference counts beyond the floor, if the interval leaves 1 out."""
    if abs(math.log(ratio)) <= math.log1p(floor) or low <= 1 <= high:
        return "tie"
    return "faster" if ratio < 1 else "slower"


def compare_blocks(
    blocks: Sequence[BatchBlock],
    *,
    least_floor: float = SMALLEST_FLOOR,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two kernels block by block, so that what drifts slowly cancels.

    The order of the blocks does not matter.

    `least_floor` is what is known of the noise besides what the blocks themselves show.
    """
    empties = [slope_us(block.empty) for block in blocks]
    empty = estimate_median(empties, seed=seed, resamples=resamples)
    first = [call_us(block.first, empty.value) for block in blocks]
    own = [slope_us(block.second_empty or block.empty) for block in blocks]
    other = estimate_median(own, seed=seed, resamples=resamples)
    second = [call_us(block.second, other.value) for block in blocks]
    again = [
        math.log(call_us(block.again, other.value) / call_us(block.second, other.value))
        for block in blocks
        if block.again is not None
    ]
    logs = [math.log(one / two) for one, two in zip(first, second, strict=True)]
    effect = estimate_median(logs, seed=seed, resamples=resamples)
    return Comparison(
        first_us=_above_zero(estimate_median(first, seed=seed, resamples=resamples)),
        second_us=_above_zero(estimate_median(second, seed=seed, resamples=resamples)),
        most_us=most_call_us(blocks),
        ratio=math.exp(effect.value),
        low=math.exp(effect.low),
        high=math.exp(effect.high),
        floor=max(least_floor, noise_floor(again, seed=seed, resamples=resamples)),
        blocks=len(blocks),
        empty=empty,
    )


def _above_zero(taken_us: Estimate) -> Estimate:
    """Return the estimate of a call's time with its interval where times can be: an interval that
    is widened for few values may reach below zero."""
    return replace(taken_us, low=max(taken_us.low, RESOLUTION_US))


def call_us(pair: BatchPair, empty_us: float) -> float:
    """Return the microseconds of one call, given those of the rest of a step."""
    return max(slope_us(pair) - empty_us, RESOLUTION_US)


def most_call_us(blocks: Sequence[BatchBlock]) -> float:
    """Return an upper bound of a call of the first, however many batches were held up.

    Other work on the machine makes a batch longer, never shorter. So the quickest long batch, less
    what its steps take at least, is an upper bound, while a slope goes astray where a short batch
    was held up.
    """
    empties = [block.empty for block in blocks]
    slopes = [slope_us(pair) for pair in empties]
    step_us = min(slope_us(quickest_batches(empties)), float(np.quantile(slopes, SAFE_QUANTILE)))
    return max(min(mean_us(block.first) for block in blocks) - step_us, RESOLUTION_US)


def noise_floor(logs: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Return the ratio by which equal kernels may differ, from log ratios of a kernel to itself:
    twice the farther end of the interval of their median, and at least 1 %."""
    if not logs:
        return SMALLEST_FLOOR
    same = estimate_median(logs, seed=seed, resamples=resamples)
    return max(SMALLEST_FLOOR, FLOOR_FACTOR * max(abs(same.low), abs(same.high)))
