"""What all sizes of one measurement share, and one size of it."""

import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cuda_llm.tasks.reference import Reference, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Site
from cuda_llm.tools.judge.measured.baseline_time import BaselineTime, baseline_time
from cuda_llm.tools.judge.measured.batches import Rules, secret_rng
from cuda_llm.tools.judge.measured.clocks import ReadClocks, clocks_of
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault
from cuda_llm.tools.judge.measured.measure import Measured, measure_size
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.measured.paces import Paces
from cuda_llm.tools.judge.measured.sizes import (
    most_slots,
    plan_timing,
    reserve,
    scratch_of_lane,
)
from cuda_llm.tools.judge.measured.slow import measure_slow
from cuda_llm.tools.judge.oracle import open_oracle
from cuda_llm.tools.timing.stopping import rule_for
from cuda_llm.tools.validator.budget import Plan, SizePlan
from cuda_llm.tools.validator.oracle import Oracle

LIMIT_FACTOR = 50.0
"""A batch may take this many times what the baseline needs for it."""
OVERHEAD_US = 200.0
"""Of a step, where many are run: inputs, flush, tag."""
MOST_LIMIT_S = 60.0
"""Slow baselines are timed on so few calls that nothing honest takes longer."""
_ALLOCATION = re.compile(r"alloc|thrust", re.IGNORECASE)
"""In the source of a baseline that may allocate: room that it does not use could be kept for it in
vain, and its runner not be kept for the size of it."""


@dataclass(frozen=True, kw_only=True)
class Bout:
    """What all sizes of one measurement share."""

    site: Site
    task: Task
    oracle: Oracle
    options: MeasureOptions
    plan: Plan
    reference: Reference | None
    """None: the baseline is the oracle."""
    kept_as: tuple[str, ...]
    """What the baseline's kept times depend on."""
    read_clocks: ReadClocks
    baseline_allocates: bool
    """Whether the baseline holds memory of its own."""
    limit_s: float = math.inf
    """Of the whole measurement. See `rule_for`."""

    def recipe(self, size: SizePlan) -> Recipe:
        """How the inputs of a size are drawn."""
        return Recipe(
            task=self.task,
            dims=size.dims,
            arrays=self.site.arrays,
            reference=self.reference,
            method=size.method,
            scratch_bytes=scratch_of_lane(size, allocates=True),
            trusted_scratch_bytes=scratch_of_lane(size, allocates=self.baseline_allocates),
        )

    def most_slots(self, size: SizePlan) -> int:
        """Of a kernel at this size."""
        return most_slots(self.task, size, self.options.tier)


async def reserve_all(measurement: Bout, sessions: Entrants) -> None:
    """Have every entrant lay out once what takes the most memory."""
    compared = [sessions.first]
    if not sessions.against_baseline:
        compared.append(sessions.second)
    plan, tier = measurement.plan, measurement.options.tier
    await reserve(compared, measurement.task, plan, tier)
    await reserve(
        [sessions.baseline], measurement.task, plan, tier, allocates=measurement.baseline_allocates
    )


@asynccontextmanager
async def open_bout(
    site: Site,
    task: Task,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    runners: int = 2,
    limit_s: float = math.inf,
) -> AsyncIterator[Bout]:
    """What a measurement needs besides its sessions."""
    async with open_oracle(task, site, baseline) as oracle:
        yield Bout(
            site=site,
            task=task,
            oracle=oracle,
            options=options,
            plan=plan_timing(site, task, runners=runners),
            reference=None if task.reference is None else load_reference(task),
            kept_as=(site.name, site.hardware.name, baseline.key, repr(task.capabilities)),
            read_clocks=clocks_of(site),
            baseline_allocates=_ALLOCATION.search(baseline.source) is not None,
            limit_s=limit_s,
        )


async def time_one(
    measurement: Bout, sessions: Entrants, size: SizePlan, expected: Paces
) -> tuple[Measured | Fault, BaselineTime]:
    """One size: beside the baseline, or against its kept time where it is slow."""
    recipe = measurement.recipe(size)
    kept = await baseline_of(measurement, sessions, size)
    rules = rules_for(measurement, size, kept)
    rule = rule_for(measurement.options.tier, len(measurement.plan.sizes), measurement.limit_s)
    if kept.slow and sessions.against_baseline:
        slowly = await measure_slow(
            sessions,
            recipe,
            rules,
            rule,
            kept,
            most=measurement.most_slots(size),
        )
        return slowly, kept
    measured = await measure_size(
        sessions,
        recipe,
        rules,
        rule,
        kept,
        expected,
        most=measurement.most_slots(size),
    )
    return measured, kept


async def baseline_of(measurement: Bout, sessions: Entrants, size: SizePlan) -> BaselineTime:
    """What the baseline takes, measured now or kept."""
    return await baseline_time(
        sessions.baseline,
        measurement.recipe(size),
        rules_for(measurement, size, None),
        kept_as=measurement.kept_as,
        most=measurement.most_slots(size),
    )


def rules_for(measurement: Bout, size: SizePlan, kept: BaselineTime | None) -> Rules:
    """Limits from the baseline's time; generous where that is not known yet."""
    from cuda_llm.settings import settings

    limit_s = MOST_LIMIT_S
    if kept is not None:
        limit_s = LIMIT_FACTOR * measurement.most_slots(size) * (kept.call_us + OVERHEAD_US) / 1e6
    return Rules(
        oracle=measurement.oracle,
        rng=secret_rng(),
        l2=measurement.options.l2,
        limit_s=max(settings().gpu_call_least_s, min(limit_s, MOST_LIMIT_S)),
        read_clocks=measurement.read_clocks,
    )
