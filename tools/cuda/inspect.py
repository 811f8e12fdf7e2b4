"""Runs NVIDIA's tools on one candidate: counters, sanitizers, disassembly, and a profile of them.

Inspection is too slow for every candidate: it serves the kernel that is about to become the
incumbent, and people. A tool that a machine lacks becomes a note. No other process may use the GPU
meanwhile.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.nvcc import Toolkit, find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.cuda.ncu import NcuResult, ncu_works_confined, run_ncu
from cuda_llm.tools.cuda.sanitizer import sanitize, sanitizer_works_confined
from cuda_llm.tools.cuda.sass import Disassembly, disassemble
from cuda_llm.tools.cuda.solve_driver import driver_command
from cuda_llm.tools.cuda.vendor_tools import NO_LANDLOCK, find_tool, missing_note
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import Inspection, InspectionOptions, SanitizerResult
from cuda_llm.tools.native import cache_folder, pin_entry


async def inspect(
    task: Task, compiled: Compiled, dims: Mapping[str, int], options: InspectionOptions
) -> Inspection:
    """Count one call at `dims`, sanitize calls at small sizes, keep the files in the cache.

    Raises MissingError without nvcc, g++ or a writable cache.
    """
    toolkit = find_toolkit()
    kept = cache_folder("inspected", compiled.key[:2], compiled.key)
    pin_entry(kept)
    begun_s = time.monotonic()
    with private_folder() as folder:
        counted = await _run_ncu(toolkit, task, compiled, dims, folder, options)
        counted_s = time.monotonic() - begun_s
        read, sanitized = await asyncio.gather(
            _run_disassembler(toolkit, compiled, folder, options),
            _run_sanitizers(toolkit, task, compiled, folder, options),
        )
        made = (counted.report, read.listing)
        artefacts = {one.name: Path(shutil.copy(one, kept)) for one in made if one is not None}
    lacking = dict.fromkeys((*counted.missing, *(no for one in sanitized for no in one.missing)))
    notes = [
        counted.note or (_counters_note(counted) if counted.counters else ""),
        read.note,
        *(
            f"SASS of {compiled.kernel_names.get(one.symbol, one.symbol)}: {one}"
            for one in read.facts
        ),
        *_sanitizer_notes(sanitized, toolkit, options),
        *(f"the tools ran without {lack}" for lack in lacking),
    ]
    return Inspection(
        counters=counted.counters,
        sanitized=sanitized,
        sass=read.facts,
        artefacts=artefacts,
        notes=tuple(note for note in notes if note),
        seconds={
            "counters": counted_s,
            "sanitizers": time.monotonic() - begun_s - counted_s,
        },
    )


def small_sizes(task: Task) -> tuple[Mapping[str, int], ...]:
    """Return the edge sizes that move the most and a middling number of bytes."""
    by_bytes = sorted(task.sizes.edge, key=lambda dims: float(evaluate(task.roofline.bytes, dims)))
    picked = [by_bytes[len(by_bytes) // 2], by_bytes[-1]]
    return tuple(picked[:1] if picked[0] == picked[1] else picked)


async def _run_ncu(
    toolkit: Toolkit,
    task: Task,
    compiled: Compiled,
    dims: Mapping[str, int],
    folder: Path,
    options: InspectionOptions,
) -> NcuResult:
    if not options.counters:
        return NcuResult()
    ncu = find_tool("ncu", toolkit)
    if ncu is None:
        return NcuResult(note=missing_note("ncu", "counters"))
    confined = await ncu_works_confined(ncu, toolkit, compiled.target, wall_s=options.wall_s)
    program = driver_command(
        toolkit, task, compiled, dims, folder, seed=_seed(), warm_ups=1, confined=confined
    )
    counted = await run_ncu(ncu, program, folder, wall_s=options.wall_s)
    return (
        counted if confined else replace(counted, missing=_without_landlock(counted.missing, "ncu"))
    )


async def _run_disassembler(
    toolkit: Toolkit, compiled: Compiled, folder: Path, options: InspectionOptions
) -> Disassembly:
    if not options.sass:
        return Disassembly()
    return await disassemble(toolkit, compiled, folder, wall_s=options.wall_s)


async def _run_sanitizers(
    toolkit: Toolkit, task: Task, compiled: Compiled, folder: Path, options: InspectionOptions
) -> tuple[SanitizerResult, ...]:
    sanitizer = find_tool("compute-sanitizer", toolkit)
    if sanitizer is None or not options.sanitizers:
        return ()

    async def run_all(*, confined: bool) -> list[SanitizerResult]:
        runs: list[Coroutine[None, None, SanitizerResult]] = []
        for dims in small_sizes(task):
            program = driver_command(
                toolkit, task, compiled, dims, folder, seed=_seed(), confined=confined
            )
            for tool in options.sanitizers:
                own = folder / f"{tool}-{len(runs)}{'' if confined else '-unconfined'}"
                own.mkdir()
                runs.append(
                    sanitize(sanitizer, tool, program, compiled, own, wall_s=options.wall_s)
                )
        return await asyncio.gather(*runs)

    done = await run_all(confined=True)
    # A trusted kernel is tried only where no tool gave a result: the trial takes a second.
    if any(one.is_finished for one in done) or await sanitizer_works_confined(
        sanitizer, toolkit, compiled.target, wall_s=options.wall_s
    ):
        return tuple(done)
    name, unconfined = "compute-sanitizer", await run_all(confined=False)
    return tuple(replace(one, missing=_without_landlock(one.missing, name)) for one in unconfined)


def _without_landlock(missing: tuple[str, ...], tool: str) -> tuple[str, ...]:
    return (*missing, NO_LANDLOCK.format(tool))


def _seed() -> int:
    return random.SystemRandom().getrandbits(32)


def _counters_note(counted: NcuResult) -> str:
    total_us = sum(one.duration_us for one in counted.counters)
    kernels = len(counted.counters)
    return (
        f"Nsight Compute counted {kernels} kernel{'s' if kernels > 1 else ''}: {total_us:.4g} us "
        "in all, caches flushed before each"
    )


def _sanitizer_notes(
    sanitized: Sequence[SanitizerResult], toolkit: Toolkit, options: InspectionOptions
) -> tuple[str, ...]:
    """Return one note for all tools without findings, and one note for each other tool."""
    if not options.sanitizers:
        return ()
    if not sanitized:
        return (missing_note("compute-sanitizer", "check by sanitizers"),)
    states: dict[str, set[str]] = {}
    for one in sanitized:
        states.setdefault(one.tool, set()).add(one.state)
    clean = [tool for tool, found in states.items() if found == {"clean"}]
    found_nothing = (
        [f"compute-sanitizer found nothing: {', '.join(clean)} at small sizes"] if clean else []
    )
    notes = dict.fromkeys(one.note for one in sanitized if one.note)
    return (*found_nothing, *notes)
