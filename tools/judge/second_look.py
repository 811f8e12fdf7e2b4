"""A second look at a kernel that passed on a GPU: the emulated device of that chip executes it too.

Results of a GPU need not show a race, and compute-sanitizer does not see each one: it passed a
kernel that clears shared counters and counts in them by atomics, with no barrier between. The
emulated device watches every access of every block.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cuda_llm.errors import CudaLLMError
from cuda_llm.outcomes import (
    CompileFailed,
    DataRace,
    EmulatorUnsupported,
    IllegalAccess,
    InfraFailed,
    InvalidSync,
    LoadFailed,
    Misaligned,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.counters.inspect import Inspection, Look, inspect_there
from cuda_llm.tools.device import Device
from cuda_llm.tools.devices.emulated import EmulatedDevice
from cuda_llm.tools.judge.baseline import compile_baseline
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.judge.watch import watch_there
from cuda_llm.wording import describe

LONGEST_S = 60.0
"""Of the whole look, all that g++ builds for it included."""


@dataclass(frozen=True, kw_only=True)
class SecondLook:
    """What the emulated device says of a kernel that a GPU has judged."""

    fault: Verdict | None = None
    notes: tuple[str, ...] = ()
    """What it found, or why it says nothing: fit for a person."""


async def look_again(
    task: Task, device: Device, compiled: Compiled, *, nonce: bytes | None = None
) -> SecondLook:
    """Ask the emulated device of the same chip, unless the device saw every access itself."""
    if device.capabilities.sees_races:
        return SecondLook()
    emulated = EmulatedDevice(device.hardware)
    return await look_emulated(task, emulated, compiled.source, compiled.name, nonce=nonce)


async def look_emulated(
    task: Task,
    emulated: Device,
    source: str,
    name: str,
    *,
    nonce: bytes | None = None,
    longest_s: float = LONGEST_S,
) -> SecondLook:
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
        return SecondLook(notes=(f"the emulated device did not finish within {longest_s:g} s",))
    except CudaLLMError as error:
        return _not_run(str(error))
    except Exception as error:
        return _not_run(f"{type(error).__name__}: {error}")
    return amounts_to(verdict)


def amounts_to(verdict: Verdict | None) -> SecondLook:
    """What the verdict of the emulated device means for a kernel that passed on a GPU."""
    match verdict:
        case None:
            said = "the emulated device found nothing: races, accesses, barriers at small sizes"
            return SecondLook(notes=(said,))
        case DataRace() | IllegalAccess() | Misaligned() | UninitialisedRead() | InvalidSync():
            said = f"the emulated device found {verdict.code} at a small size"
            return SecondLook(fault=verdict, notes=(said,))
        case EmulatorUnsupported() | CompileFailed() | LoadFailed() | InfraFailed():
            return _not_run(describe(verdict)[0])
        case _:
            said = f"the emulated device says {verdict.code}, but the GPU's verdict stands"
            return SecondLook(notes=(_line(": ".join((said, *describe(verdict)[:1]))),))


async def look_closer(
    task: Task, device: Device, compiled: Compiled, dims: Mapping[str, int], look: Look
) -> Inspection:
    """What the tools of a GPU see at `dims` and at small sizes, and the emulated device beside."""
    there = device.pinned().carry_out(inspect_there, task, compiled, dims, look)
    return await beside(there, look_again(task, device, compiled))


async def beside(
    inspecting: Awaitable[Inspection], looking: Coroutine[Any, Any, SecondLook]
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
    return await emulated.carry_out(watch_there, task, compiled, baseline, nonce)


def _not_run(why: str) -> SecondLook:
    return SecondLook(notes=(_line(f"not run on the emulated device: {why}"),))


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
