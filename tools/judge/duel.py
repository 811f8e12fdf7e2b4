"""Which of two kernels is faster: measured interleaved on one GPU, or as the model says."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import Outcome, TimeSource
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.sizes import weights_of
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, Session, Site, TimeClass
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.steps import compile_baseline, time_calls_there
from cuda_llm.tools.measure.blocks import (
    ComparedSessions,
    MeasurementFault,
    require_baseline,
    require_timed,
)
from cuda_llm.tools.measure.comparison import SMALLEST_FLOOR, decide_outcome
from cuda_llm.tools.measure.failures import FailedCase, hidden_by_noise
from cuda_llm.tools.measure.interleave import ExpectedSpeedups, MeasuredSize, expect_speedups
from cuda_llm.tools.measure.measure import time_size, with_timed_case
from cuda_llm.tools.measure.measurement import open_measurement, reserve_all, shuffled
from cuda_llm.tools.measure.options import MeasureOptions, Tier
from cuda_llm.tools.measure.times import KernelTimes, mean_ratio

DUEL_RUNNERS = 3
"""Those of two candidates, and the baseline's for what is not `solve`."""
DUEL_LIMIT_S = 60.0
"""For a duel, from when it has the device: all kernels and sizes together."""
MODELLED_TIE = 0.001
"""Relative difference that modelled times must exceed to count."""
SEPARATE_TIE = 0.05
"""The same for times measured one after the other: equal kernels differ by about as much."""


@dataclass(frozen=True, kw_only=True)
class DuelSize:
    """One size of a duel."""

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
class Duel:
    """The outcome for the first of two kernels."""

    sizes: tuple[DuelSize, ...]
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
    failed: FailedCase | None = None
    """Of the one at fault, where a GPU said no more than an error code."""


async def duel(
    task: Task,
    device: Device,
    first: Compiled,
    second: Compiled,
    *,
    nonce: bytes | None = None,
    options: MeasureOptions | None = None,
    fresh: bool = False,
    limit_s: float = DUEL_LIMIT_S,
) -> Duel | InfraFailed:
    """Time two compiled kernels against each other, every timed output verified.

    An InfraFailed where the machine is too noisy to tell, or where it took longer than `limit_s` on
    the device. A modelled device follows from the times it models. `fresh`: the baseline's runner
    is a new one. Raises TaskError where the task's baseline or reference is broken.
    """
    baseline = await compile_baseline(task, device.target)
    options = options or MeasureOptions(tier=Tier.CONFIRM)
    return await device.carry_out(
        duel_there, task, first, second, baseline, nonce, options, fresh, limit_s
    )


async def duel_there(
    site: Site,
    task: Task,
    first: Compiled,
    second: Compiled,
    baseline: Compiled,
    nonce: bytes | None,
    options: MeasureOptions,
    fresh: bool = False,
    limit_s: float = DUEL_LIMIT_S,
) -> Duel | InfraFailed:
    """See `duel`. The baseline's runner times what is not `solve`."""
    if site.capabilities.duels:
        try:
            async with asyncio.timeout(limit_s) as limit:
                found = await duel_sizes(
                    site, task, first, second, baseline, options, fresh=fresh, limit_s=limit_s
                )
        except TimeoutError:
            if not limit.expired():
                raise
            return hidden_by_noise(
                f"neither of two kernels was found the faster within {limit_s:.3g} s"
            )
        if isinstance(found, MeasurementFault):
            return lost_or_undecided(found)
        return measured_duel(task, found)
    source = site.capabilities.time_source
    one = await time_calls_there(site, task, first, baseline, nonce)
    if not isinstance(one, KernelTimes):
        return lost_by_fault("first", one, source)
    other = await time_calls_there(site, task, second, baseline, nonce)
    if not isinstance(other, KernelTimes):
        return lost_by_fault("second", other, source)
    return modelled_duel(task, one, other, source)


def measured_duel(task: Task, found: Sequence[tuple[Dims, MeasuredSize]]) -> Duel:
    """Decide over all sizes. Their noise is independent, so it adds up by squares."""
    sizes = tuple(duel_size(dims, measured) for dims, measured in found)
    weights = weights_of(task, [size.dims for size in sizes])
    ratio = mean_ratio([size.ratio for size in sizes], weights)
    low = ratio / math.exp(
        mean_half_width([math.log(one.ratio / one.low) for one in sizes], weights)
    )
    high = ratio * math.exp(
        mean_half_width([math.log(one.high / one.ratio) for one in sizes], weights)
    )
    floor = max(SMALLEST_FLOOR, mean_half_width([size.floor for size in sizes], weights))
    return Duel(
        sizes=sizes,
        ratio=ratio,
        low=low,
        high=high,
        outcome=decide_outcome(ratio, low, high, floor),
        source="measured",
        faults={},
    )


def mean_half_width(half_widths: Sequence[float], weights: Sequence[float]) -> float:
    """Return the half-width of a weighted mean of independent figures with these `half_widths`."""
    shares = list(weights) if len(weights) == len(half_widths) else [1.0] * len(half_widths)
    return math.hypot(*(w * r for w, r in zip(shares, half_widths, strict=True))) / sum(shares)


def duel_size(dims: Dims, measured: MeasuredSize) -> DuelSize:
    """Return a measured size as one of a duel."""
    comparison = measured.comparison
    host = TimeClass.HOST_INCLUSIVE
    either = host if host in (measured.first_class, measured.second_class) else TimeClass.DEVICE
    return DuelSize(
        dims=dict(dims),
        first_us=comparison.first_us.value,
        second_us=comparison.second_us.value,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        floor=comparison.floor,
        blocks=comparison.blocks,
        time_class=str(either),
    )


def modelled_duel(
    task: Task, first: KernelTimes, second: KernelTimes, source: TimeSource = "modelled"
) -> Duel:
    """Decide by times that were obtained one kernel after the other."""
    floor = MODELLED_TIE if source == "modelled" else SEPARATE_TIE
    sizes = tuple(
        DuelSize(
            dims=dims,
            first_us=first_us,
            second_us=second_us,
            ratio=first_us / second_us,
            low=first_us / second_us,
            high=first_us / second_us,
            floor=floor,
        )
        for (dims, first_us), (_, second_us) in zip(first.times, second.times, strict=True)
    )
    ratio = mean_ratio([size.ratio for size in sizes], task.weights)
    return Duel(
        sizes=sizes,
        ratio=ratio,
        low=ratio,
        high=ratio,
        outcome=decide_outcome(ratio, ratio, ratio, floor),
        source=source,
        faults={},
    )


def lost_or_undecided(found: MeasurementFault) -> Duel | InfraFailed:
    """Return the duel that a fault decides, or the InfraFailed where neither kernel is at fault."""
    if isinstance(found.verdict, InfraFailed):
        return found.verdict
    return replace(lost_by_fault(found.which, found.verdict, "measured"), failed=found.failed)


def lost_by_fault(which: str, verdict: Verdict, source: TimeSource) -> Duel:
    """Return the duel that `which` lost by the verdict that being timed gave it."""
    return Duel(
        sizes=(),
        ratio=math.inf if which == "first" else 0.0,
        low=0.0,
        high=math.inf,
        outcome="slower" if which == "first" else "faster",
        source=source,
        faults={which: verdict},
    )


async def duel_sizes(
    site: Site,
    task: Task,
    first: Compiled,
    second: Compiled,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    fresh: bool = False,
    limit_s: float = math.inf,
) -> tuple[tuple[Dims, MeasuredSize], ...] | MeasurementFault:
    """Time two candidates in turn at each size that fits, or return which of them is at fault.

    `fresh`: the baseline's runner is a new one. `limit_s`: figures that are still vague well before
    that are returned as they are.
    """
    open_baseline = site.open if fresh else site.open_cached
    async with (
        open_measurement(
            site, task, baseline, options, runners=DUEL_RUNNERS, limit_s=limit_s
        ) as measurement,
        site.open(first) as one,
        site.open(second) as other,
        open_baseline(baseline) as opened,
    ):
        if not isinstance(one, Session):
            return MeasurementFault(which="first", verdict=one)
        if not isinstance(other, Session):
            return MeasurementFault(which="second", verdict=other)
        sessions = ComparedSessions(
            first=require_timed(one),
            second=require_timed(other),
            baseline=require_baseline(task, opened),
        )
        await reserve_all(measurement, sessions)
        found: dict[int, MeasuredSize] = {}
        expected = ExpectedSpeedups()
        for number, size in shuffled(measurement.plan.sizes):
            measured, baseline_time = await time_size(measurement, sessions, size, expected)
            if isinstance(measured, MeasurementFault):
                return with_timed_case(measurement, measured, measurement.input_plan(size))
            expected = expect_speedups(measured.comparison, baseline_time)
            found[number] = measured
        return tuple((size.dims, found[k]) for k, size in enumerate(measurement.plan.sizes))
