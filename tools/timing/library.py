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
from cuda_llm.tools.timing.blocks import (
    ComparedSessions,
    MeasurementFault,
    TimedBlock,
    prepare_kernels,
    run_block,
)
from cuda_llm.tools.timing.comparison import compare_blocks
from cuda_llm.tools.timing.estimate import Estimate
from cuda_llm.tools.timing.interleave import count_blocks, equal_lengths, lengths_after
from cuda_llm.tools.timing.measurement import Measurement, open_measurement, rules_for
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.room import within_memory
from cuda_llm.tools.timing.stopping import is_enough, rule_for
from cuda_llm.tools.validator.budget import SizePlan
from cuda_llm.verdict_wording import describe

Call = TypeVar("Call", contravariant=True)
FIRST_SLOTS = 4


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
    """Do so with the memory that is planned with now."""
    async with open_measurement(site, task, baseline, options, libraries=1) as measurement:
        names: list[str] = []
        times: dict[SizeKey, Estimate] = {}
        for size in measurement.plan.sizes:
            # New ones for each size: what a library keeps of another size is not its time.
            async with (
                calls.open_library(library) as (name, first),
                calls.open_library(library) as (_, idle),
            ):
                sessions = ComparedSessions(candidate=first, baseline=idle)
                found = await _time_size(measurement, sessions, size)
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
    measurement: Measurement, sessions: ComparedSessions, size: SizePlan
) -> Estimate | Verdict:
    """Time one size in blocks of batches; batches without calls have a session of their own."""
    rules = rules_for(measurement, size, None)
    rule = rule_for(measurement.options.tier, len(measurement.plan.sizes))
    input_plan, room = measurement.input_plan(size), measurement.room(size)
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    slots = min(FIRST_SLOTS, room.calls)
    kernels = await prepare_kernels(sessions, input_plan, slots, alone=True)
    timed: list[TimedBlock] = []
    lengths = equal_lengths(slots)
    while not isinstance(kernels, MeasurementFault):
        block = await run_block(kernels, lengths, rules)
        if isinstance(block, MeasurementFault):
            return block.verdict
        timed.append(block)
        wanted = lengths_after(block, rule, room.calls)
        if len(timed) == 1 and wanted.longest.slots > kernels.slots:
            lengths, timed = wanted, []
            kernels = await prepare_kernels(sessions, input_plan, wanted.longest.slots, alone=True)
            continue
        counted = count_blocks([one.block for one in timed], discard=min(1, len(timed) - 1))
        compared = compare_blocks(counted.blocks)
        if len(timed) > rule.fewest and is_enough(rule, compared, now_s() - begun_s):
            return compared.first_us
    return kernels.verdict
