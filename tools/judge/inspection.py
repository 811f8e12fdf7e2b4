"""The inspection of a kernel that passed on a GPU, before it becomes the incumbent.

Three checks that are too slow for every candidate: NVIDIA's tools at small sizes, results at sizes
that are never timed, and the emulated device of the chip, which watches every access.
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
"""Name of the group of sizes that only an inspection checks."""
NOT_CHECKED = "not checked"
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
    """The result of calls at the task's large sizes."""

    fault: Verdict | None = None
    notes: tuple[str, ...] = ()
    """Lines for a person: which sizes were checked, or why one could not be."""
    lacked_memory: bool = False
    """With more memory, a size might be checked that was not."""


async def check_large_there(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline, *, share: float = 1.0
) -> LargeCheck:
    """Call the candidate once at each large size that fits, and compare what it wrote.

    A call that takes too long, or finds no memory, is a note: no kernel has to be fast at large
    sizes. `share` is the part of a measurement's memory that is planned with, where other programs
    work meanwhile.
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
    """Check one size. Where a device has no memory for the buffers, give back what is cached and
    check the size once more from its start; return a note where memory still lacks."""
    why = ""
    for make_room in (True, False):
        try:
            return await _check_size(site, task, compiled, baseline, size)
        except Exception as error:
            if not lacks_memory(error):
                raise
            why = describe_error(error)
        # The exception is over, and with it what its frames held.
        if make_room:
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
    """Return the result of a call at a large size that ended so."""
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
    """Inspect a kernel with NVIDIA's tools, and call it at the task's large sizes."""
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
    """Inspect a kernel with NVIDIA's tools and at large sizes: count it alone, then sanitize it and
    call it at large sizes, both at the same time where the GPU has room.

    Where memory lacked beside each other, the part that lacked memory is done alone afterwards. A
    finding of a sanitizer comes before one of a large size. Raises TaskError where the task's
    reference is broken.
    """
    begun_s = time.monotonic()
    counted = Inspection()
    if options.counters and site.capabilities.counters:
        alone = replace(options, sanitizers=(), sass=False)
        counted = await inspect_there(site, task, compiled, dims, alone)
    options = replace(options, counters=False)
    if site.hardware.memory_bytes < ROOMY_BYTES:
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
        if large.fault is None and large.lacked_memory:
            await site.release_unused()
            large = await check_large_there(site, task, compiled, baseline)
        if not found.is_finished:
            found = await inspect_there(site, task, compiled, dims, options)
    found = _with_counters(found, counted)
    if any(one.verdicts for one in found.sanitized):
        return found
    seconds = {**found.seconds, "all on the GPU": time.monotonic() - begun_s}
    return replace(found, large=large.fault, notes=(*found.notes, *large.notes), seconds=seconds)


def _with_counters(found: Inspection, counted: Inspection) -> Inspection:
    parts = {*found.seconds, *counted.seconds}
    return replace(
        found,
        counters=counted.counters,
        artefacts={**counted.artefacts, **found.artefacts},
        notes=tuple(dict.fromkeys((*counted.notes, *found.notes))),
        seconds={
            part: counted.seconds.get(part, 0.0) + found.seconds.get(part, 0.0) for part in parts
        },
    )


async def join_inspections(
    on_gpu: Awaitable[Inspection], watched: Awaitable[WatchedCheck]
) -> Inspection:
    """Await both inspections at the same time, and return what both have found.

    A fault found on the GPU comes before one of the emulated device, but for a doubted race of
    racecheck, which counts only where the emulated device found a fault or could not execute.
    """
    check_task = asyncio.ensure_future(watched)
    try:
        inspection = await on_gpu
        check = await check_task
    finally:
        check_task.cancel()
        await asyncio.gather(check_task, return_exceptions=True)
    return join_check(inspection, check)


def join_check(inspection: Inspection, check: WatchedCheck) -> Inspection:
    """Return an inspection with what the emulated device has found."""
    return replace(
        inspection,
        emulated=check.fault,
        emulated_clean=check.clean,
        notes=(*inspection.notes, *check.notes),
    )
