"""Paired comparisons: what one value of a swept option gains over another, with an interval."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log1p, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuda_llm.agents.strategies.acceptance import tie_margin
from cuda_llm.graph.benchmark.aggregates import SOURCES, own_speedup
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.sweep import SEED, Setting, spell_setting, spell_value, values_of
from cuda_llm.profile import TimeSource

RESAMPLES = 2000
"""Number of bootstrap samples."""
BOOTSTRAP_SEED = 0
LEVEL = 0.95
"""Part of the bootstrap samples that lies inside the interval, before it is widened."""
FEWEST_PAIRS = 5
"""Below so many pairs chance alone often gives all of them one sign: nothing is called faster."""

Finding = Literal["faster", "slower", "tie", "too few pairs"]
"""`tie`: the interval holds 1, or the ratio is below what measuring tells."""


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Speed-ups with one value of an option over those with a reference value, from pairs of runs
    that are equal in task, seed and every other swept option."""

    option: str
    value: Any
    reference: Any
    time_source: TimeSource
    ratio: float
    """Geometric mean over the pairs of the speed-up with `value` over that with `reference`; a run
    without a winner counts as the baseline, 1x."""
    low: float
    """Lower end of the 95 % interval of `ratio`: bootstrap over tasks, and over the pairs of a
    task, widened for few of them."""
    high: float
    pairs: int
    tasks: int
    unpaired: int
    """Runs with `value` or `reference` whose other half is not done."""
    floor: float
    """Relative difference of two runs below which equal kernels may differ: the largest of the
    pairs."""
    finding: Finding


Pair = tuple[TaskRow, TaskRow]
"""The run with the value, and the run with the reference."""


def compare_pairs(rows: Sequence[TaskRow]) -> tuple[PairedComparison, ...]:
    """Compare each value of each swept option with the first value of that option.

    The seed is no option to be compared. Modelled and measured times are never in one comparison.
    """
    values = values_of(row.setting for row in rows)
    return tuple(
        found
        for source in SOURCES
        for option, (reference, *others) in values.items()
        if option != SEED
        for value in others
        for found in _compare(rows, source, option, value, reference)
    )


def _compare(
    rows: Sequence[TaskRow], source: TimeSource, option: str, value: Any, reference: Any
) -> Iterator[PairedComparison]:
    """Yield the comparison of two values; nothing without a pair."""
    done = [row for row in rows if row.is_timed and row.time_source == source]
    ours, theirs = _with(done, option, value), _with(done, option, reference)
    pairs = [(ours[key], theirs[key]) for key in ours if key in theirs]
    if not pairs:
        return
    ratio, low, high = bootstrap(list(_logs_by_task(pairs)))
    floor = max(map(floor_of, pairs))
    yield PairedComparison(
        option=option,
        value=value,
        reference=reference,
        time_source=source,
        ratio=ratio,
        low=low,
        high=high,
        pairs=len(pairs),
        tasks=len({own.task for own, _ in pairs}),
        unpaired=len(ours.keys() ^ theirs.keys()),
        floor=floor,
        finding=find(ratio, low, high, len(pairs), floor),
    )


def _with(rows: Iterable[TaskRow], option: str, value: Any) -> dict[tuple[str, str], TaskRow]:
    """Return the runs that have the value, by their task and their other options."""
    wanted = spell_value(value)
    return {
        (row.task, spell_setting(_others(row.setting, option))): row
        for row in rows
        if option in row.setting and spell_value(row.setting[option]) == wanted
    }


def _others(setting: Setting, option: str) -> Setting:
    """Return a setting without one of its options."""
    return {name: value for name, value in setting.items() if name != option}


def floor_of(pair: Pair) -> float:
    """Return the relative difference below which the two winners tie, as an incumbent is chosen."""
    own, other = pair
    return tie_margin(own.spread, other.spread)


def find(ratio: float, low: float, high: float, pairs: int, floor: float) -> Finding:
    """Return what a comparison says."""
    if low <= 1 <= high or abs(np.log(ratio)) <= log1p(floor):
        return "tie"
    if pairs < FEWEST_PAIRS:
        return "too few pairs"
    return "faster" if ratio > 1 else "slower"


def _logs_by_task(pairs: Iterable[Pair]) -> Iterator[NDArray[np.float64]]:
    """Yield the logarithms of the ratios of each task's pairs."""
    found: dict[str, list[float]] = {}
    for own, other in pairs:
        found.setdefault(own.task, []).append(own_speedup(own) / own_speedup(other))
    yield from (np.log(ratios) for ratios in found.values())


def bootstrap(by_task: Sequence[NDArray[np.float64]]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios, given as logarithms by task, and its interval.

    A sample draws as many tasks as there are, and of each drawn task as many pairs as it has, both
    with replacement; draws depend on the counts alone, so that scaling every ratio scales the
    interval. The interval is the middle 95 % of the samples' geometric means, its distance from the
    ratio widened for few tasks, or for few pairs of one task.
    """
    draw = np.random.default_rng(BOOTSTRAP_SEED)
    sizes = np.array([len(one) for one in by_task])
    chosen = draw.integers(len(by_task), size=(len(by_task), RESAMPLES))
    sums, counts = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for tasks in chosen:
        places = [draw.integers(len(one), size=(RESAMPLES, len(one))) for one in by_task]
        drawn = [one[place].sum(axis=1) for one, place in zip(by_task, places, strict=True)]
        sums += np.stack(drawn)[tasks, np.arange(RESAMPLES)]
        counts += sizes[tasks]
    mean, tail = np.concatenate(by_task).mean(), (1 - LEVEL) / 2
    ends = np.quantile(sums / counts, (tail, 1 - tail))
    independent = len(by_task) if len(by_task) > 1 else int(sizes[0])
    low, high = np.exp(mean + widening(independent) * (ends - mean))
    return float(np.exp(mean)), float(low), float(high)


def widening(count: int) -> float:
    """Return by how much a bootstrap interval of a mean of so many figures is too narrow.

    The samples' variance is the figures' over `count`, not over `count - 1`, and its tails are a
    normal law's, not Student's t's, whose quantile is expanded in powers of 1 / (count - 1).
    """
    if count < 2:
        return 1.0
    z, degrees = NormalDist().inv_cdf((1 + LEVEL) / 2), count - 1
    student = (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
    return student / z * sqrt(count / degrees)
