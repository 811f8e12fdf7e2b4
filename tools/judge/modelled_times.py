"""Modelled times at a task's `bench` sizes, from launches of which some blocks stand for all.

Results are verified at small sizes alone. The stores and the arithmetic of a kernel at `bench`
sizes are compared with those at the small sizes, so that no kernel leaves work out where no result
is verified.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from cuda_llm.outcomes import DependentLaunch, Quarantined, TimedOut, Verdict
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, SamplingSession, Session, Site
from cuda_llm.tools.device.buffers import BufferSpec
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.timing.failures import ModelledCall, least_size_us, modelled_floor_us
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.timing.times import (
    KernelTimes,
    find_unseen_stores,
    profiles_below,
    time_sizes,
)
from cuda_llm.tools.validator.buffers import buffer_specs, call_arguments, call_options
from cuda_llm.tools.validator.cases import NONCE_BYTES, generator, timed_case, work
from cuda_llm.tools.validator.distributions import draw

POOL_BYTES = 4 << 20
"""Bytes up to which an input is drawn whole; the pages of a larger input repeat as many bytes."""
WHOLE_BYTES = 1 << 30
"""Most bytes of all buffers of a call that is executed whole where it cannot be sampled."""
MOST_BACK_EDGES = {Level.SAMPLE: 1_500_000, Level.ACCOUNT: 6_000_000}
"""Most iterations of loops of a launch, of all warps, which take seconds. They are counted, since a
clock would make it depend on the machine's load which sizes are extrapolated."""
LIMIT_S = 30.0
"""Longest seconds of one call."""
LEAST_STORED = 0.9
"""Least share of the outputs' bytes that a kernel has to store, as some blocks show for all."""
LEAST_ARITHMETIC = 0.7
"""Least arithmetic for each operation of the task, relative to the sizes where results were
verified."""
MOST_SAMPLES = 8
"""Most samples whose work is averaged before a kernel is found to leave work out: where few blocks
can be executed, and blocks do unlike work, one sample may show half of the work."""


async def time_calls_there(
    site: Site,
    task: Task,
    compiled: Baseline,
    baseline: Baseline,
    nonce: bytes | None,
    *,
    begins_small: bool = True,
) -> KernelTimes | Verdict:
    """Model the time of every size from the report of each call, outputs verified.

    A candidate, but not the baseline itself, is called on other inputs, too: with `begins_small`
    first at a small size. Where the site samples, sizes that are too large to be executed whole
    come afterwards, their outputs unverified.
    """
    samples = site.capabilities.samples
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        times = await time_sizes(
            task,
            session,
            oracle,
            nonce=nonce,
            bench=site.capabilities.bench_sizes and not samples,
            checks=compiled.key != baseline.key,
            begins_small=begins_small,
        )
    if not samples or not isinstance(times, KernelTimes):
        return times
    return await model_sizes(task, site, compiled, times)


async def model_sizes(
    task: Task, site: Site, compiled: Baseline, verified: KernelTimes
) -> KernelTimes | Verdict:
    """Model the task's `bench` sizes; `verified` are the times of small ones.

    Inputs and executed blocks follow from the source: the same source has the same times, and a
    source that was to know them would have to contain its own hash. A size that can be executed
    neither in part nor whole within a few seconds is extrapolated from smaller sizes. Each size's
    note names the number of executed blocks, or why the size is extrapolated.
    """
    modeller = _Modeller(task, site, compiled, verified)
    sizes = task.sizes.bench
    by_work = sorted(range(len(sizes)), key=lambda number: modeller.work(sizes[number]))
    reports: dict[int, CallReport] = {}
    for number in by_work:
        outcome = await modeller.model(sizes[number])
        if outcome is None:
            break
        if not isinstance(outcome, CallReport):
            return outcome
        reports[number] = outcome
    known = [*verified.times, *((sizes[number], reports[number].time_us) for number in reports)]
    points = sorted((modeller.work(dims), time_us) for dims, time_us in known)
    calls = [
        ModelledCall(dims=sizes[number], launches=reports[number].launches) for number in reports
    ] or [ModelledCall(dims=verified.times[-1][0], launches=verified.launches)]

    def extrapolated_us(dims: Dims) -> float:
        # Small sizes spend their time otherwise than large ones, so a line may lead below what the
        # units need that the kernel works on.
        least_us = modelled_floor_us(task, site.hardware, dims, calls)
        return max(least_us, extrapolate(points, modeller.work(dims)))

    times = tuple(
        (dims, reports[number].time_us if number in reports else extrapolated_us(dims))
        for number, dims in enumerate(sizes)
    )
    largest = by_work[len(reports) - 1] if reports else None
    last = None if largest is None else reports[largest]
    return replace(
        verified,
        times=times,
        spreads=tuple(_spread(reports.get(number)) for number in range(len(sizes))),
        size_notes=tuple(
            _blocks_note(reports[number]) if number in reports else modeller.why_not
            for number in range(len(sizes))
        ),
        launches=last.launches if last else verified.launches,
        bottlenecks=last.bottlenecks if last else verified.bottlenecks,
        launched=verified.times[-1][0] if largest is None else sizes[largest],
        smaller=() if largest is None else profiles_below(largest, reports),
    )


class _Modeller:
    """One candidate's calls at large sizes, each in a fresh runner."""

    def __init__(self, task: Task, site: Site, compiled: Baseline, verified: KernelTimes) -> None:
        self._task = task
        self._site = site
        self._compiled = compiled
        self._verified = verified
        self._nonce = hashlib.blake2b(compiled.source.encode(), digest_size=NONCE_BYTES).digest()
        self.dependent: DependentLaunch | None = None

    @property
    def why_not(self) -> str:
        """Return why a size was extrapolated."""
        if self.dependent is None:
            return "extrapolated from smaller sizes: a single block takes seconds here"
        return (
            f"extrapolated from smaller sizes: {self.dependent.kernel} decides by what other "
            "blocks have done, and all of them take too long here"
        )

    def work(self, dims: Dims) -> float:
        """Return the least microseconds of a size, above 0, by which sizes are ordered."""
        least_us = least_size_us(self._task, self._site.hardware, dims, l2_warm=False)
        return least_us or work(self._task, dims)

    async def model(self, dims: Dims) -> CallReport | Verdict | None:
        """Return the call at a size; None where the call takes too long, Quarantined where the
        kernel leaves work out."""
        reports: list[CallReport] = []
        while len(reports) < MOST_SAMPLES:
            outcome = await self._model(dims, len(reports))
            if not isinstance(outcome, CallReport):
                return outcome
            reports.append(outcome)
            doubt = find_left_out(self._task, dims, _averaged(reports), self._verified)
            if doubt is None:
                return reports[0]
            if not _is_sampled(outcome):
                return doubt
        return doubt

    async def _model(self, dims: Dims, sample: int) -> CallReport | Verdict | None:
        """Return the call at a size, executed in part or whole; None where neither ends in time."""
        if self.dependent is None:
            outcome = await self._call(dims, Level.SAMPLE, sample)
            if isinstance(outcome, TimedOut):
                return None
            if not isinstance(outcome, DependentLaunch):
                return outcome
            self.dependent = outcome
        if sum(spec.nbytes for spec in buffer_specs(self._task, dims)) > WHOLE_BYTES:
            return None
        whole = await self._call(dims, Level.ACCOUNT)
        assert not isinstance(whole, DependentLaunch), "only samples depend on what they leave out"
        return None if isinstance(whole, TimedOut) else whole

    async def _call(
        self, dims: Dims, level: Level, sample: int = 0
    ) -> CallReport | DependentLaunch | Verdict:
        async with self._site.open(self._compiled) as session:
            if not isinstance(session, Session):
                return session
            assert isinstance(session, SamplingSession)
            return await call_unfilled(
                self._task, session, dims, nonce=self._nonce, level=level, sample=sample
            )


async def call_unfilled(
    task: Task,
    session: SamplingSession,
    dims: Dims,
    *,
    nonce: bytes,
    level: Level,
    sample: int = 0,
) -> CallReport | DependentLaunch | Verdict:
    """Call `solve` once, pages of large inputs filled when they are touched; outputs are not
    verified."""
    specs = {spec.name: spec for spec in buffer_specs(task, dims)}
    rng = generator(nonce, task.name, "sampled", sample)
    drawn = {
        name: draw(spelling, rng, _drawn_shape(specs[name]), specs[name].dtype, dims)
        for name, spelling in timed_case(task, dims, level).distributions.items()
    }
    is_part = {name: specs[name].nbytes > POOL_BYTES for name in drawn}
    pools = {name: values.tobytes() for name, values in drawn.items() if is_part[name]}
    placed = session.place_unfilled(tuple(specs.values()), pools)
    for name, values in drawn.items():
        if not is_part[name]:
            placed[name].data[...] = values
    # Who knew which blocks are executed could work in those alone.
    seed = int(rng.integers(2, 1 << 32)) if level is Level.SAMPLE else 0
    options = call_options(task, dims, level=level, schedule_seed=seed)
    limited = replace(options, limit_s=LIMIT_S, most_back_edges=MOST_BACK_EDGES[level])
    return await session.sample(call_arguments(task, dims), limited)


def _drawn_shape(spec: BufferSpec) -> tuple[int, ...]:
    if spec.nbytes <= POOL_BYTES:
        return spec.shape
    return (POOL_BYTES // np.dtype(spec.dtype).itemsize,)


def find_left_out(
    task: Task, dims: Dims, report: CallReport, verified: KernelTimes
) -> Quarantined | None:
    """Return a Quarantined where a kernel stores or computes less at `dims` than where its results
    were verified; None where it does not."""
    unseen = find_unseen_stores(task, dims, report, least=LEAST_STORED)
    if unseen is not None:
        return unseen
    if not verified.arithmetic or report.arithmetic is None:
        return None
    small = verified.times[-1][0]
    wanted, proved = (float(evaluate(task.roofline.flops, one)) for one in (dims, small))
    if not proved or not wanted:
        return None
    # Small sizes need more besides the work itself; of that, one instruction an operation suffices.
    proved_share = min(1.0, verified.arithmetic / proved)
    if report.arithmetic / wanted < LEAST_ARITHMETIC * proved_share:
        return Quarantined(kind="less-work")
    return None


def extrapolate(points: Sequence[tuple[float, float]], work: float) -> float:
    """Return the time at `work` along the line through the two largest points of work and time."""
    (less, less_us), (most, most_us) = points[-2:] if len(points) > 1 else (points[0], points[0])
    if most <= less or most_us <= less_us:
        return most_us * max(1.0, work / most)
    return most_us + (work - most) * (most_us - less_us) / (most - less)


def _averaged(reports: Sequence[CallReport]) -> CallReport:
    """Return the last report, with the means of stored bytes and arithmetic of all reports."""
    stored = [one.stored_bytes for one in reports if one.stored_bytes is not None]
    arithmetic = [one.arithmetic for one in reports if one.arithmetic is not None]
    return replace(
        reports[-1],
        stored_bytes=round(fmean(stored)) if stored else None,
        arithmetic=fmean(arithmetic) if arithmetic else None,
    )


def _is_sampled(report: CallReport) -> bool:
    return any(one.figures.get("sampled_blocks") for one in report.launches)


def _spread(report: CallReport | None) -> float:
    if report is None or not report.time_us:
        return 0.0
    wide_us = sum(one.time_us * one.figures.get("sample_spread", 0.0) for one in report.launches)
    return wide_us / report.time_us


def _blocks_note(report: CallReport) -> str:
    """Return how many blocks stand for how many, of the launch that takes longest; or nothing."""
    sampled = [one for one in report.launches if one.figures.get("sampled_blocks")]
    if not sampled:
        return ""
    longest = max(sampled, key=lambda one: one.time_us)
    executed = longest.figures["sampled_blocks"]
    return f"from {executed:,.0f} of {math.prod(longest.grid):,} blocks"
