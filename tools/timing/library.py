"""A library's call at all bench sizes, timed by the same batches as a kernel, results compared."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import LibraryTimes
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Site, TimedSession
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.timing.baseline_doubt import SizeKey, size_key
from cuda_llm.tools.timing.batches import CANDIDATE, EMPTY
from cuda_llm.tools.timing.blocks import TimedGroup, TimedSize, time_blocks
from cuda_llm.tools.timing.comparison import compare_blocks
from cuda_llm.tools.timing.estimate import Estimate
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.measurement import Measurement, open_measurement, rules_for
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.room import within_memory
from cuda_llm.tools.timing.stopping import has_enough, rule_for
from cuda_llm.tools.validator.budget import SizePlan
from cuda_llm.verdict_wording import describe

Call = TypeVar("Call", contravariant=True)


@runtime_checkable
class LibrarySite(Protocol[Call]):
    """A site that can call libraries beside the candidates that it runs."""

    def open_library(self, library: Call) -> AbstractAsyncContextManager[tuple[str, TimedSession]]:
        """Open a session of a library's call, with the call's name."""
        ...


async def measure_library(
    site: Site, task: Task, library: Call, baseline: Baseline, options: MeasureOptions
) -> LibraryTimes:
    """Time the call at each bench size that fits, all results compared with the reference.

    Raises TaskError where the reference or the library's file is broken, MissingError without the
    library, and InfrastructureError where the site calls none.
    """
    if not isinstance(site, LibrarySite):
        raise InfrastructureError("device", f"{site.name} calls no libraries")
    work = partial(_measure_within, site, site, task, library, baseline, options)
    return await within_memory(site, task, work)


async def _measure_within(
    site: Site,
    calls: LibrarySite[Call],
    task: Task,
    library: Call,
    baseline: Baseline,
    options: MeasureOptions,
) -> LibraryTimes:
    """Time the call at each size with the share of memory that the site plans with now."""
    async with open_measurement(site, task, baseline, options, libraries=1) as measurement:
        names: list[str] = []
        times: dict[SizeKey, Estimate] = {}
        for size in measurement.plan.sizes:
            # New ones for each size: what a library keeps of another size is not its time.
            async with (
                calls.open_library(library) as (name, first),
                calls.open_library(library) as (_, idle),
            ):
                found = await _time_size(measurement, size, first, idle)
            if not isinstance(found, Estimate):
                fault = f"{dict(size.dims)}: {'; '.join(describe(found))}"
                return LibraryTimes(name=name, fault=fault)
            names.append(name)
            times[size_key(size.dims)] = found
    estimates = [times.get(size_key(dims)) for dims in task.sizes.bench]
    return LibraryTimes(
        name=names[0] if names else "",
        times=tuple(None if one is None else one.value for one in estimates),
        spreads=tuple(None if one is None else one.half_width / one.value for one in estimates),
    )


async def _time_size(
    measurement: Measurement, size: SizePlan, session: TimedSession, idle: TimedSession
) -> Estimate | Verdict:
    """Time one size in blocks of batches; batches without calls have a session of their own."""
    rule = rule_for(measurement.options.tier, len(measurement.plan.sizes))
    group = TimedGroup(
        measurement=measurement,
        sessions={CANDIDATE: session, EMPTY: idle},
        trusted=frozenset({EMPTY}),
        aim=rule.aim,
        most_calls=rule.slots,
        active=[CANDIDATE],
    )
    rules = rules_for(measurement, size, None)
    timed = TimedSize(number=0, size=size, rules=rules, baseline_time=None, discard=1)
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    await time_blocks(
        group, timed, lambda: has_enough(rule, timed.blocks_of(CANDIDATE), now_s() - begun_s)
    )
    if CANDIDATE in group.faults:
        return without_case(group.faults[CANDIDATE])
    return compare_blocks(timed.blocks_of(CANDIDATE)).first_us
