"""What a kernel that passed on a GPU goes through before it becomes the incumbent.

Too slow for every candidate: Nvidia's tools at small sizes, results at sizes that nobody times, and
the emulated device of the chip, which executes it with every access watched.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from cuda_llm.errors import MissingError, describe_error, lacks_memory
from cuda_llm.outcomes import InfraFailed, OutOfMemory, TimedOut, Verdict
from cuda_llm.tasks.reference import Dims, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import (
    CallReport,
    Device,
    Level,
    Session,
    Site,
    TimedSession,
    Work,
    opening_bytes,
)
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.device.inspection import InspectingSite, Inspection, InspectionOptions
from cuda_llm.tools.judge.compile import compile_baseline
from cuda_llm.tools.judge.watched_check import WatchedCheck
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.timing.room import SPARE_SHARE, memory_bytes, planned_bytes
from cuda_llm.tools.timing.slots import InputPlan
from cuda_llm.tools.timing.verify import explain_call_once
from cuda_llm.tools.validator.budget import SizePlan, format_dims, plan_sizes
from cuda_llm.tools.validator.cases import timed_case
from cuda_llm.verdict_wording import describe

LARGE = "large"
"""The group of sizes that are checked here alone."""
NOT_CHECKED = "not checked"
TRIES = 2
"""Calls of a kernel at a large size for which the judge's own memory lacked."""
ROOMY_BYTES = 40 << 30
"""Memory of a GPU, in bytes, that has room for calls at large sizes while sanitizers run."""
SHARE_BESIDE_TOOLS = 0.6
"""Part of the memory that calls at large sizes may use while sanitizers run: each sanitizer keeps a
copy of the state of all memory that the kernel may access."""


async def inspect_there(
    site: Site,
    task: Task,
    compiled: Compiled,
    dims: Dims,
    options: InspectionOptions,
) -> Inspection:
    """Inspect a candidate in the process that holds the device, with the tools that the site has.

    The tools run in processes of their own and need the memory that the host process keeps for
    later sessions. They come with a CUDA toolkit: a machine without a toolkit, as a worker of a
    cluster may be, reports that in a note.
    """
    await site.release_unused()
    able = site.capabilities
    if not isinstance(site, InspectingSite) or not (able.sanitizers or able.counters):
        return Inspection(notes=(f"{site.name} has neither profiler nor sanitizers",))
    wanted = replace(
        options,
        counters=options.counters and able.counters,
        sanitizers=options.sanitizers if able.sanitizers else (),
    )
    try:
        return await site.inspect(task, compiled, dims, wanted)
    except MissingError as error:
        return Inspection(not_inspected=str(error))


@dataclass(frozen=True, kw_only=True)
class LargeCheck:
    """What calls at the task's large sizes have shown."""

    fault: Verdict | None = None
    notes: tuple[str, ...] = ()
    """What was checked, or why it could not be: lines for a person."""
    lacked_memory: bool = False
    """With more of it, a size might be checked that was not."""


async def check_large_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, *, share: float = 1.0
) -> LargeCheck:
    """Call the candidate once at each large size that fits, and compare what it wrote.

    What takes too long there, or finds no memory, is a note: nobody is asked to be fast at them.
    `share`: of the memory that a measurement could plan with, where other programs work meanwhile.
    Raises TaskError where the task's reference is broken.
    """
    plan = plan_sizes(
        task,
        task.sizes.large,
        free_bytes=int(share * planned_bytes(site, task)),
        spare_bytes=int(SPARE_SHARE * memory_bytes(site)),
        hardware=site.hardware,
        arrays=site.arrays,
        lanes=1,
        lane_bytes=opening_bytes(memory_bytes(site)),
        fewest_slots=1,
        most_slots=1,
    )
    notes = [f"{NOT_CHECKED}: {line}" for line in plan.left_out]
    lacked = bool(notes)
    for size in plan.sizes:
        check = await _check_size_or_note(site, task, compiled, baseline, size)
        notes += check.notes
        lacked = lacked or check.lacked_memory
        if check.fault is not None:
            return LargeCheck(fault=check.fault, notes=tuple(notes))
    return LargeCheck(notes=tuple(notes), lacked_memory=lacked)


async def _check_size_or_note(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, size: SizePlan
) -> LargeCheck:
    """Check one size; where our own memory lacks, once more when all is given back, then note it.

    What an exception held is free by then: it is over.
    """
    why = ""
    for _ in range(TRIES):
        try:
            return await _check_size(site, task, compiled, baseline, size)
        except Exception as error:
            if not lacks_memory(error):
                raise
            why = describe_error(error)
        await site.release_unused()
    note = f"{format_dims(size.dims)}: {NOT_CHECKED}: {why}"
    return LargeCheck(notes=(note,), lacked_memory=True)


async def _check_size(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, size: SizePlan
) -> LargeCheck:
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return conclude_large(session, size.dims)
        inputs = _inputs_of(site, task, size)
        if isinstance(session, TimedSession):
            await session.place_slots(inputs.specs, 1, scratch_bytes=size.scratch_bytes)
        return conclude_large(await explain_call_once(session, inputs, oracle), size.dims)


def conclude_large(found: CallReport | Verdict, dims: Dims) -> LargeCheck:
    """Read how a call at a large size ended."""
    where = format_dims(dims)
    match found:
        case CallReport():
            return LargeCheck(notes=(f"{where}: results are right there, too",))
        case TimedOut() | OutOfMemory() | InfraFailed():
            why = describe(found)[0]
            lacked = isinstance(found, OutOfMemory) or (
                isinstance(found, InfraFailed) and found.lacked_memory
            )
            return LargeCheck(notes=(f"{where}: {NOT_CHECKED}: {why}",), lacked_memory=lacked)
        case _:
            return LargeCheck(fault=found, notes=(f"{where}: {found.code}",))


def _inputs_of(site: Site, task: Task, size: SizePlan) -> InputPlan:
    return InputPlan(
        task=task,
        dims=size.dims,
        arrays=site.arrays,
        reference=None if task.reference is None else load_reference(task),
        method=size.method,
        scratch_bytes=size.scratch_bytes,
        drawn=timed_case(task, size.dims, Level.CHECK, LARGE),
    )


async def inspect_on_gpu(
    task: Task, device: Device, compiled: Compiled, dims: Dims, options: InspectionOptions
) -> Inspection:
    """Inspect with Nvidia's tools, and call the kernel at large sizes."""
    if not (task.sizes.large and device.capabilities.measures_time):
        return await device.carry_out(Work.of(inspect_there, task, compiled, dims, options))
    baseline = await compile_baseline(task, device.hardware.target)
    return await device.carry_out(
        Work.of(inspect_all_there, task, compiled, baseline, dims, options)
    )


async def inspect_all_there(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Baseline,
    dims: Dims,
    options: InspectionOptions,
) -> Inspection:
    """Do both, at the same time where the memory has room and nothing is counted.

    What sanitizers find comes first. Raises TaskError where the task's reference is broken.
    """
    begun_s = time.monotonic()
    if options.counters or site.hardware.memory_bytes < ROOMY_BYTES:
        found = await inspect_there(site, task, compiled, dims, options)
        large = await check_large_there(site, task, compiled, baseline)
    else:
        looking = asyncio.create_task(inspect_there(site, task, compiled, dims, options))
        try:
            large = await check_large_there(
                site, task, compiled, baseline, share=SHARE_BESIDE_TOOLS
            )
            found = await looking
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        # Beside each other they may have lacked what each has alone.
        if large.fault is None and large.lacked_memory:
            await site.release_unused()
            large = await check_large_there(site, task, compiled, baseline)
        if not found.is_finished:
            found = await inspect_there(site, task, compiled, dims, options)
    if any(one.verdicts for one in found.sanitized):
        return found
    seconds = {**found.seconds, "all on the GPU": time.monotonic() - begun_s}
    return replace(found, large=large.fault, notes=(*found.notes, *large.notes), seconds=seconds)


async def join_inspections(
    on_gpu: Awaitable[Inspection], watched: Awaitable[WatchedCheck]
) -> Inspection:
    """Await both at the same time. Where both find a fault, the GPU's own comes first.

    Not so a race that racecheck may have made up: the emulated device has the say on that.
    """
    check_task = asyncio.ensure_future(watched)
    try:
        inspection = await on_gpu
        check = await check_task
    finally:
        check_task.cancel()
        await asyncio.gather(check_task, return_exceptions=True)
    return replace(
        inspection,
        emulated=check.fault,
        emulated_clean=check.clean,
        notes=(*inspection.notes, *check.notes),
    )
