"""Values that all sizes of one measurement share: oracle, memory, limits, baseline times."""

import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import Verdict
from cuda_llm.settings import settings
from cuda_llm.tasks.reference import Dims, Reference, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Session, Site, TimedSession
from cuda_llm.tools.device.candidate import Baseline, ground_of
from cuda_llm.tools.timing.baseline_doubt import SizeKey, size_key, unexplained
from cuda_llm.tools.timing.baseline_time import (
    BASELINE_TIME_FORMAT,
    SLOW_US,
    BaselineTime,
    find_time,
    keep_time,
    measure_baseline_time,
    times_file,
)
from cuda_llm.tools.timing.batch_room import (
    BatchRoom,
    reserve,
    room_for,
    scratch_of_runner,
)
from cuda_llm.tools.timing.batches import BatchRules, secret_rng, settle_s_for
from cuda_llm.tools.timing.clocks import ReadClocks, clock_reader
from cuda_llm.tools.timing.failures import baseline_refused
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.room import memory_bytes, plan_timing
from cuda_llm.tools.timing.slots import InputPlan
from cuda_llm.tools.validator.budget import MemoryPlan, SizePlan
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Inputs,
    Oracle,
    baseline_oracle,
    reference_oracle,
)

KEPT_SHARE = 0.015
"""Share of the GPU's memory for a batch's inputs until its outputs are verified."""
LIMIT_FACTOR = 50.0
"""A batch may take this many times what the baseline needs for it."""
OVERHEAD_US = 200.0
"""Assumed microseconds of a step besides its call (inputs, flush, tag), for limits."""
MOST_LIMIT_S = 60.0
"""Slow baselines are timed on so few calls that nothing honest takes longer."""
_ALLOCATION = re.compile(r"alloc|thrust", re.IGNORECASE)
"""In the source of a baseline that may allocate: others would have memory reserved for nothing, and
so much that their runners could not be used again."""
MOST_TIMED_TWICE_US = 10 * SLOW_US
"""More would take longer than it is worth."""


@asynccontextmanager
async def open_oracle(task: Task, site: Site, baseline: Baseline) -> AsyncIterator[Oracle]:
    """Open the task's reference, or its baseline in a runner of its own where it has none.

    Raises TaskError where the reference is broken or the baseline is refused.
    """
    if task.reference is not None:
        yield reference_oracle(task, site.arrays)
        return
    async with site.open(baseline) as session:
        if not isinstance(session, Session):
            raise baseline_refused(task, session)
        from_baseline = baseline_oracle(task, session, site.arrays)

        async def or_refuse(inputs: Inputs, dims: Dims) -> Expectation:
            expectation = await from_baseline(inputs, dims)
            if isinstance(expectation, Expectation):
                return expectation
            raise baseline_refused(task, expectation)

        yield or_refuse


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Values that all sizes of one measurement share."""

    site: Site
    task: Task
    oracle: Oracle
    options: MeasureOptions
    plan: MemoryPlan
    reference: Reference | None
    """None: the baseline is the oracle."""
    cache_key: tuple[str, ...]
    """Everything that the baseline's cached times depend on."""
    read_clocks: ReadClocks
    baseline_allocates: bool
    """Whether the baseline may allocate memory."""
    limit_s: float = math.inf
    """For the whole measurement. See `rule_for`."""
    begins_small: bool = True
    """Whether a small case comes before the first size too."""

    def input_plan(self, size: SizePlan) -> InputPlan:
        """Return how the inputs of a size are drawn."""
        return InputPlan(
            task=self.task,
            dims=size.dims,
            arrays=self.site.arrays,
            reference=self.reference,
            method=size.method,
            scratch_bytes=scratch_of_runner(size, allocates=True),
            trusted_scratch_bytes=scratch_of_runner(size, allocates=self.baseline_allocates),
            kept_bytes=int(KEPT_SHARE * memory_bytes(self.site)),
        )

    def room(self, size: SizePlan) -> BatchRoom:
        """Return how many calls and slots of a kernel there may be at this size."""
        return room_for(self.task, size, self.options.tier)


def require_timed(session: object) -> TimedSession:
    """Return the session; raise InfrastructureError where it cannot time."""
    if isinstance(session, TimedSession):
        return session
    raise InfrastructureError("device", "this site says it measures, but its sessions cannot")


def require_baseline(task: Task, opened: Session | Verdict) -> TimedSession:
    """Return the baseline's session. Raises TaskError, InfrastructureError where there is none."""
    if not isinstance(opened, Session):
        raise baseline_refused(task, opened)
    return require_timed(opened)


@asynccontextmanager
async def open_ground(
    measurement: Measurement, baseline: Baseline
) -> AsyncIterator[TimedSession | None]:
    """Open a runner of the program that does nothing, where the baseline is a library's call."""
    ground = ground_of(baseline)
    if ground is None:
        yield None
        return
    async with measurement.site.open(ground) as opened:
        yield require_baseline(measurement.task, opened)


async def reserve_for_baseline(
    measurement: Measurement, session: TimedSession, plan: MemoryPlan
) -> None:
    """Have the baseline's session lay out once what takes the most memory at these sizes."""
    tier, allocates = measurement.options.tier, measurement.baseline_allocates
    await reserve([session], measurement.task, plan, tier, allocates=allocates)


@asynccontextmanager
async def open_measurement(
    site: Site,
    task: Task,
    baseline: Baseline,
    options: MeasureOptions,
    *,
    runners: int = 2,
    libraries: int = 0,
    limit_s: float = math.inf,
    begins_small: bool = True,
) -> AsyncIterator[Measurement]:
    """Open what a measurement needs besides its sessions; see `plan_timing` for `libraries`."""
    called = ground_of(baseline) is not None
    async with open_oracle(task, site, baseline) as oracle:
        yield Measurement(
            site=site,
            task=task,
            oracle=oracle,
            options=options,
            plan=plan_timing(site, task, runners=runners + called, libraries=libraries + called),
            reference=None if task.reference is None else load_reference(task),
            cache_key=(site.name, site.hardware.name, baseline.key, repr(task.capabilities)),
            read_clocks=clock_reader(site),
            baseline_allocates=_ALLOCATION.search(baseline.source) is not None,
            limit_s=limit_s,
            begins_small=begins_small,
        )


def time_file(measurement: Measurement, size: SizePlan) -> Path:
    """Return where the baseline's time of a size is cached."""
    dims, l2 = size_key(size.dims), str(measurement.options.l2)
    return times_file("alone", BASELINE_TIME_FORMAT, *measurement.cache_key, dims, l2)


async def time_baseline_at(
    measurement: Measurement, session: TimedSession, size: SizePlan
) -> BaselineTime:
    """Return the baseline's time of a size, cached or measured now in its `session`."""
    known = find_time(time_file(measurement, size))
    if known is None:
        known = await time_alone(measurement, session, size)
        keep_time(time_file(measurement, size), known)
    return known


async def time_alone(
    measurement: Measurement, session: TimedSession, size: SizePlan
) -> BaselineTime:
    """Time the baseline of a size now, whatever is cached. Raises TaskError where it is refused."""
    rules, most = rules_for(measurement, size, None), measurement.room(size).calls
    return await measure_baseline_time(session, measurement.input_plan(size), rules, most)


async def time_in_new_process(
    measurement: Measurement, baseline: Baseline, sizes: Sequence[SizePlan]
) -> Mapping[SizeKey, BaselineTime]:
    """Time the baseline of these sizes in a process of its own. Raises TaskError."""
    async with measurement.site.open(baseline) as opened:
        session = require_baseline(measurement.task, opened)
        plan = replace(measurement.plan, sizes=tuple(sizes))
        await reserve_for_baseline(measurement, session, plan)
        return {size_key(one.dims): await time_alone(measurement, session, one) for one in sizes}


async def know_baseline(
    measurement: Measurement, baseline: Baseline, session: TimedSession | None = None
) -> dict[SizeKey, BaselineTime]:
    """Return the baseline's reference time of each size; what is not cached is measured.

    That is done in a new process while `session`, the cached one unless it is given, holds its
    memory: whatever makes that one slow, its process or its memory, would be in both, and never be
    found. Raises TaskError where the baseline is refused.
    """
    files = {size_key(one.dims): time_file(measurement, one) for one in measurement.plan.sizes}
    known = {key: found for key, file in files.items() if (found := find_time(file)) is not None}
    missing = [one for one in measurement.plan.sizes if size_key(one.dims) not in known]
    if missing and session is None:
        async with measurement.site.open_cached(baseline) as opened:
            cached = require_baseline(measurement.task, opened)
            return await know_baseline(measurement, baseline, cached)
    if missing and session is not None:
        await reserve_for_baseline(measurement, session, measurement.plan)
        timed = await time_in_new_process(measurement, baseline, missing)
        for size in missing:
            key = size_key(size.dims)
            known[key] = await less_of_two(measurement, session, size, timed[key])
            keep_time(files[key], known[key])
    return known


async def less_of_two(
    measurement: Measurement, session: TimedSession, size: SizePlan, found: BaselineTime
) -> BaselineTime:
    """Time what nothing will be timed beside once more in this session, and take what is less.

    Trusted code is slowed down by what is odd, never sped up.
    """
    if not found.is_slow or found.call_us > MOST_TIMED_TWICE_US:
        return found
    again = await time_alone(measurement, session, size)
    return again if again.call_us < found.call_us and unexplained(again, found) else found


def rules_for(
    measurement: Measurement, size: SizePlan, baseline: BaselineTime | None
) -> BatchRules:
    """Return the rules of a size; limits are generous where the baseline's time is unknown."""
    limit_s = MOST_LIMIT_S
    if baseline is not None:
        limit_s = (
            LIMIT_FACTOR * measurement.room(size).slots * (baseline.call_us + OVERHEAD_US) / 1e6
        )
    return BatchRules(
        oracle=measurement.oracle,
        rng=secret_rng(),
        l2=measurement.options.l2,
        limit_s=max(settings().gpu_call_least_s, min(limit_s, MOST_LIMIT_S)),
        read_clocks=measurement.read_clocks,
        settle_s=settle_s_for(measurement.task, size.dims),
    )


def shuffled(sizes: Sequence[SizePlan]) -> tuple[tuple[int, SizePlan], ...]:
    """Return the sizes in a secret order, each with its position."""
    return tuple((int(k), sizes[int(k)]) for k in secret_rng().permutation(len(sizes)))
