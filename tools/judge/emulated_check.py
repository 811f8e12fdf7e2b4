"""A kernel that passed on a GPU, executed by the emulated device of that chip too.

Results of a GPU need not show a race, and compute-sanitizer does not see each one: it passed a
kernel that clears shared counters and counts in them by atomics, with no barrier between. The
emulated device watches every access of every block.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cuda_llm.errors import CudaLLMError
from cuda_llm.failures import (
    CompileFailed,
    DataRace,
    IllegalAccess,
    InvalidSync,
    LoadFailed,
    Misaligned,
    UninitialisedRead,
)
from cuda_llm.outcomes import EmulatorUnsupported, InfraFailed, Verdict
from cuda_llm.tasks.task import HiddenSizes, Task
from cuda_llm.tools.cuda.inspect import Inspection, InspectionOptions, inspect_there
from cuda_llm.tools.device import Device, Level, Session, Site
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulated.device import EmulatedDevice
from cuda_llm.tools.judge.steps import compile_baseline, compile_source, open_candidate
from cuda_llm.tools.validator.cases import Case, fresh_nonce, generator, plan
from cuda_llm.tools.validator.check_case import Checked, check_case
from cuda_llm.wording import describe

MOST_WATCHED_WORK = 2e7
"""Operations and bytes of a case: the emulated device takes about a tenth of a second for it."""


async def check_there(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled, nonce: bytes | None
) -> Verdict | None:
    """The first verdict that is no pass."""
    secret = fresh_nonce() if nonce is None else nonce
    async with open_candidate(site, task, compiled, baseline) as (session, oracle):
        if not isinstance(session, Session):
            return session
        for number, case in enumerate(watched_cases(task, generator(secret, task.name, "plan", 0))):
            rng = generator(secret, task.name, "case", number, site.arrays)
            result = await check_case(task, session, case, oracle, rng, site.arrays)
            if not isinstance(result, Checked):
                return result
    return None


def watched_cases(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Cases of the edge sizes and of the smallest emulated one, cheap ones first.

    The latter is shaped like those that are timed: a path that only they take is seen, too.
    """
    listed = replace(task, sizes=replace(task.sizes, hidden=HiddenSizes(dims={})))
    cases = plan(listed, rng)
    small = [case for case in cases if case.work <= MOST_WATCHED_WORK] or cases[:1]
    return tuple(replace(case, level=Level.FULL) for case in small)


CHECK_LIMIT_S = 60.0
"""Of the whole look, all that g++ builds for it included."""


@dataclass(frozen=True, kw_only=True)
class EmulatedCheck:
    """What the emulated device says of a kernel that a GPU has judged."""

    fault: Verdict | None = None
    notes: tuple[str, ...] = ()
    """What it found, or why it says nothing: fit for a person."""


async def check_on_emulated(
    task: Task, device: Device, compiled: Compiled, *, nonce: bytes | None = None
) -> EmulatedCheck:
    """Ask the emulated device of the same chip, unless the device saw every access itself."""
    if device.capabilities.sees_races:
        return EmulatedCheck()
    emulated = EmulatedDevice(device.hardware)
    return await check_source(task, emulated, compiled.source, compiled.name, nonce=nonce)


async def check_source(
    task: Task,
    emulated: Device,
    source: str,
    name: str,
    *,
    nonce: bytes | None = None,
    longest_s: float = CHECK_LIMIT_S,
) -> EmulatedCheck:
    """Execute `source` at the small sizes that the task lists, every access watched.

    A fault is what a sanitizer would call one, seen while the kernel ran: a race, an access out of
    bounds or misaligned, a read of what nobody wrote, a barrier misused. Such a kernel is wrong
    whatever a GPU made of it. Everything else may be this device's own limit (what it lacks, how
    slow it is, how it rounds), so that it is a note: the verdict of the GPU stands.

    Never raises: a machine without g++ has no second look, and the first is worth having.
    """
    try:
        async with asyncio.timeout(longest_s):
            verdict = await _execute(task, emulated, source, name, nonce)
    except TimeoutError:
        return EmulatedCheck(notes=(f"the emulated device did not finish within {longest_s:g} s",))
    except CudaLLMError as error:
        return _not_run(str(error))
    except Exception as error:
        return _not_run(f"{type(error).__name__}: {error}")
    return conclude_check(verdict)


def conclude_check(verdict: Verdict | None) -> EmulatedCheck:
    """What the verdict of the emulated device means for a kernel that passed on a GPU."""
    match verdict:
        case None:
            said = "the emulated device found nothing: races, accesses, barriers at small sizes"
            return EmulatedCheck(notes=(said,))
        case DataRace() | IllegalAccess() | Misaligned() | UninitialisedRead() | InvalidSync():
            said = f"the emulated device found {verdict.code} at a small size"
            return EmulatedCheck(fault=verdict, notes=(said,))
        case EmulatorUnsupported() | CompileFailed() | LoadFailed() | InfraFailed():
            return _not_run(describe(verdict)[0])
        case _:
            said = f"the emulated device says {verdict.code}, but the GPU's verdict stands"
            return EmulatedCheck(notes=(_line(": ".join((said, *describe(verdict)[:1]))),))


async def inspect_and_check(
    task: Task, device: Device, compiled: Compiled, dims: Mapping[str, int], look: InspectionOptions
) -> Inspection:
    """What the tools of a GPU see at `dims` and at small sizes, and the emulated device beside."""
    there = device.pinned().carry_out(inspect_there, task, compiled, dims, look)
    return await inspect_beside(there, check_on_emulated(task, device, compiled))


async def inspect_beside(
    inspecting: Awaitable[Inspection], looking: Coroutine[Any, Any, EmulatedCheck]
) -> Inspection:
    """Both at the same time, as one. Where both find a fault, the GPU's own comes first."""
    second = asyncio.create_task(looking)
    try:
        found = await inspecting
        seen = await second
    finally:
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    return replace(found, emulated=seen.fault, notes=(*found.notes, *seen.notes))


async def _execute(
    task: Task, emulated: Device, source: str, name: str, nonce: bytes | None
) -> Verdict | None:
    # A machine with a GPU may never have built these parts, and others wait for this loop.
    await asyncio.to_thread(emulated.prepare)
    compiled = await compile_source(task, emulated, source, name)
    if not isinstance(compiled, Compiled):
        return compiled
    baseline = await compile_baseline(task, emulated.target)
    return await emulated.carry_out(check_there, task, compiled, baseline, nonce)


def _not_run(why: str) -> EmulatedCheck:
    return EmulatedCheck(notes=(_line(f"not run on the emulated device: {why}"),))


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
