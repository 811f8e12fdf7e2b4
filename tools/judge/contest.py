"""Which of two kernels is faster: measured interleaved on one GPU, or as the model says."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import Outcome, TimeSource
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Device, Site
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.on_site import time_there
from cuda_llm.tools.judge.oracle import compile_baseline
from cuda_llm.tools.judge.timing import Timing, mean_ratio
from cuda_llm.tools.timing.tier import Tier

MODELLED_TIE = 0.001
"""The model gives the same figure for the same kernel, but not the truth to its last digit."""


@dataclass(frozen=True, kw_only=True)
class ContestSize:
    """One size of a contest."""

    dims: Mapping[str, int]
    first_us: float
    second_us: float
    ratio: float
    """First over second, from the blocks in which both were timed."""
    low: float
    high: float
    floor: float
    """Relative difference that equal kernels may show."""
    blocks: int = 0
    time_class: str = ""
    """`host-inclusive` where either was timed so."""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The outcome for the first of two kernels."""

    sizes: tuple[ContestSize, ...]
    ratio: float
    """Time of the first over the second's, weighted geometric mean over the sizes."""
    low: float
    high: float
    """Interval of `ratio`, 95 %."""
    outcome: Outcome
    """Of the first: `faster` where `ratio` is below 1 by more than the noise."""
    source: TimeSource
    faults: Mapping[str, Verdict]
    """`first` or `second` to its verdict, where being timed found it wrong; no times then."""


async def contest(
    task: Task,
    device: Device,
    first: Compiled,
    second: Compiled,
    *,
    nonce: bytes | None = None,
    options: MeasureOptions | None = None,
) -> Contest:
    """Time two compiled kernels against each other, every timed output verified.

    A modelled device follows from the times it models. Raises TaskError where the task's baseline
    or reference is broken.
    """
    baseline = await compile_baseline(task, device.target)
    options = options or MeasureOptions(tier=Tier.CONFIRM)
    return await device.carry_out(contest_there, task, first, second, baseline, nonce, options)


async def contest_there(
    site: Site,
    task: Task,
    first: Compiled,
    second: Compiled,
    baseline: Compiled,
    nonce: bytes | None,
    options: MeasureOptions,
) -> Contest:
    """The same where the device is. The baseline's runner times what is not `solve`."""
    one = await time_there(site, task, first, baseline, nonce)
    if not isinstance(one, Timing):
        return fault("first", one, site.time_source)
    other = await time_there(site, task, second, baseline, nonce)
    if not isinstance(other, Timing):
        return fault("second", other, site.time_source)
    return modelled_contest(task, one, other)


def modelled_contest(task: Task, first: Timing, second: Timing) -> Contest:
    """What follows from modelled times."""
    sizes = tuple(
        ContestSize(
            dims=dims,
            first_us=first_us,
            second_us=second_us,
            ratio=first_us / second_us,
            low=first_us / second_us,
            high=first_us / second_us,
            floor=MODELLED_TIE,
        )
        for (dims, first_us), (_, second_us) in zip(first.times, second.times, strict=True)
    )
    ratio = mean_ratio([size.ratio for size in sizes], task.weights)
    return Contest(
        sizes=sizes,
        ratio=ratio,
        low=ratio,
        high=ratio,
        outcome=outcome_of(ratio, ratio, ratio, MODELLED_TIE),
        source="modelled",
        faults={},
    )


def outcome_of(ratio: float, low: float, high: float, floor: float) -> Outcome:
    """Beyond the floor, and with an interval that leaves 1 out."""
    if abs(math.log(ratio)) <= math.log1p(floor) or low <= 1 <= high:
        return "tie"
    return "faster" if ratio < 1 else "slower"


def fault(which: str, verdict: Verdict, source: TimeSource) -> Contest:
    """A contest that one of the two left with a verdict: the other has won it."""
    return Contest(
        sizes=(),
        ratio=math.inf if which == "first" else 0.0,
        low=0.0,
        high=math.inf,
        outcome="slower" if which == "first" else "faster",
        source=source,
        faults={which: verdict},
    )
